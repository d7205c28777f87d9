//! Keyless Sigstore: real bundles by the public good instance, and those of an instance of our own
//! that signs what no honest one would (`sigstore/make.py`).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use support::tree;

use serde_json::Value;
use winimg_base::digest::Digest;
use winimg_trust::{self, FileSubject, Scheme, SignatureEvidence, SignatureResult, sigstore};

mod attestations;
mod bundles;
mod damage;
mod forged;
mod loose;
mod proof;
mod shape;

pub const IDENTITY: &str =
    "https://github.com/example/tools/.github/workflows/release.yml@refs/tags/v1.2.0";
pub const GITHUB: &str = "https://token.actions.githubusercontent.com";
pub const SLSA: &str = "https://slsa.dev/provenance/v1";

fn path(name: &str) -> PathBuf {
    tree::root()
        .join(Path::new(file!()).with_extension(""))
        .join(name)
}

pub fn read(name: &str) -> Vec<u8> {
    fs::read(path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// A bundle with something in it changed.
fn edited(name: &str, edit: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut value: Value = serde_json::from_slice(&read(name)).unwrap();
    let before = value.clone();
    edit(&mut value);
    assert_ne!(value, before, "the edit of {name} changes nothing");
    serde_json::to_vec(&value).unwrap()
}

/// A rule of our own instance.
pub fn own(identity: &str, issuer: &str, predicate: Option<&str>) -> winimg_trust::SignatureRule {
    let root = read("own/trusted_root.json");
    winimg_trust::SignatureRule::Sigstore(
        sigstore::SigstoreRule::new(identity, issuer, predicate, Some(&root)).unwrap(),
    )
}

/// A rule of Sigstore's staging instance, whose authorities bear the names of the public good
/// one's.
fn staging(identity: &str, issuer: &str, predicate: Option<&str>) -> winimg_trust::SignatureRule {
    let root = sigstore_trust_root::SIGSTORE_STAGING_TRUSTED_ROOT.as_bytes();
    winimg_trust::SignatureRule::Sigstore(
        sigstore::SigstoreRule::new(identity, issuer, predicate, Some(root)).unwrap(),
    )
}

/// A rule of the public good instance.
fn public(identity: &str, issuer: &str, predicate: Option<&str>) -> winimg_trust::SignatureRule {
    winimg_trust::SignatureRule::Sigstore(
        sigstore::SigstoreRule::new(identity, issuer, predicate, None).unwrap(),
    )
}

fn signed_by(signature: &[u8]) -> SignatureEvidence {
    SignatureEvidence {
        signature: Some(signature.to_vec()),
        ..SignatureEvidence::default()
    }
}

/// Judges a file of the fixtures.
fn judge(
    rule: &winimg_trust::SignatureRule,
    file: &str,
    evidence: &SignatureEvidence,
) -> SignatureResult {
    let path = path(file);
    let digest = Digest::sha256_of(&fs::read(&path).unwrap());
    let name = path.file_name().unwrap().to_str().unwrap();
    let subject = FileSubject {
        path: &path,
        name,
        published: name,
        digest: &digest,
    };
    rule.judge(subject, evidence, SystemTime::now())
}

/// Judges our own tool by a bundle of ours.
fn own_bundle(name: &str) -> SignatureResult {
    let bundle = read(&format!("own/{name}.sigstore.json"));
    judge(
        &own(IDENTITY, GITHUB, None),
        "own/tool.exe",
        &signed_by(&bundle),
    )
}

/// Judges it by the good bundle with something changed.
fn own_edited(edit: impl FnOnce(&mut Value)) -> SignatureResult {
    let bundle = edited("own/good.sigstore.json", edit);
    judge(
        &own(IDENTITY, GITHUB, None),
        "own/tool.exe",
        &signed_by(&bundle),
    )
}

/// Judges bytes that are not at hand, by their digest.
fn judge_digest(
    rule: &winimg_trust::SignatureRule,
    hex: &str,
    evidence: &SignatureEvidence,
) -> SignatureResult {
    let digest = Digest::from_hex(hex).unwrap();
    let subject = FileSubject {
        path: Path::new("/nowhere"),
        name: "file",
        published: "file",
        digest: &digest,
    };
    rule.judge(subject, evidence, SystemTime::now())
}

/// All of a judgement, as text. What stands in every rule goes by a short name.
fn rendered(judged: &SignatureResult) -> String {
    let root = Digest::sha256_of(&read("own/trusted_root.json")).to_string();
    let staging = sigstore_trust_root::SIGSTORE_STAGING_TRUSTED_ROOT.as_bytes();
    let staging = Digest::sha256_of(staging).to_string();
    let text = in_full(judged).replace(&staging, "STAGING");
    text.replace(&root, "OWN")
        .replace(IDENTITY, "RELEASE")
        .replace(GITHUB, "ACTIONS")
}

fn in_full(judged: &SignatureResult) -> String {
    match judged {
        Ok(signer) => {
            let mut text = format!("{}: {}", signer.scheme, signer.signer);
            text.push_str(&format!("\n  by {}", signer.pinned_by));
            text.push_str(&format!(
                "\n  at {}",
                signer.signed_at.as_deref().unwrap_or("?")
            ));
            for remark in &signer.remarks {
                text.push_str(&format!("\n  remark {remark}"));
            }
            text
        }
        Err(refusal) => {
            let mut text = format!("{:?}: {}", refusal.reason, refusal.problem.fact);
            let parts = [
                ("expected", &refusal.problem.expected),
                ("found", &refusal.problem.found),
                ("cure", &refusal.problem.cures.first().cloned()),
            ];
            for (name, part) in parts {
                if let Some(part) = part {
                    text.push_str(&format!("\n  {name} {part}"));
                }
            }
            text
        }
    }
}

/// Compares whole texts; all that differ are told at once.
#[track_caller]
fn assert_rendered(cases: &[(&str, String, &str)]) {
    let mut wrong = String::new();
    for (name, rendered, expected) in cases {
        let expected = expected.trim().replace("\n            ", "\n");
        if *rendered != expected {
            wrong.push_str(&format!(
                "--- {name}\n{rendered}\n=== expected\n{expected}\n\n"
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

fn scheme_of(judged: &SignatureResult) -> Option<Scheme> {
    judged.as_ref().ok().map(|signer| signer.scheme)
}
