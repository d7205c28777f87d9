//! What publishers sign, and the keys and certificates that a recipe names. The pins are those of the seeds, so that a
//! seed passes the whole way and a change of it fails somewhere on it.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use winimg_base::digest::Digest;
use winimg_trust::authenticode::{self, CertificatePins};
use winimg_trust::sigstore as sigstore_scheme;
use winimg_trust::{FileSubject, SignatureEvidence, SignatureResult, SignatureRule, checksum};
use winimg_trust::{cms as cms_scheme, cosign as cosign_scheme, minisign as minisign_scheme};
use winimg_trust::{openpgp as openpgp_scheme, signify as signify_scheme};

use crate::ground;

/// What the seeds sign.
pub const SIGNED: &[u8] = b"MZ what the publisher signed\r\n";

/// What the seeds' catalogs list.
pub const LISTED: &[u8] = b"[Version]\r\nSignature=\"$WINDOWS NT$\"\r\n";

/// Who signed the seeds of Sigstore, and who vouched for it (crates/trust/tests/sigstore/make.py).
const IDENTITY: &str =
    "https://github.com/example/tools/.github/workflows/release.yml@refs/tags/v1.2.0";
const ISSUER: &str = "https://token.actions.githubusercontent.com";

/// 2036-01-01, within the lives of the seeds' certificates, whenever they were made.
pub fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(2_082_758_400)
}

/// A key or certificate that `WINIMG_FUZZ=seeds` made; empty where the tool for it is missing.
fn key(name: &str) -> Vec<u8> {
    fs::read(ground::made().join("keys").join(name)).unwrap_or_default()
}

fn pins() -> CertificatePins {
    CertificatePins {
        roots: authenticode::parse_certificates(&key("root.pem")).unwrap_or_default(),
        subject: Some("CN=Fuzzed Publisher".into()),
        ..CertificatePins::default()
    }
}

/// Judges a file; a judgement that it is signed has to name the signer.
fn judge(rule: &SignatureRule, file: &[u8], evidence: &SignatureEvidence) -> bool {
    judge_as("kubelet.exe", rule, file, evidence)
}

/// A file of that name, judged.
pub fn judged(
    name: &str,
    rule: &SignatureRule,
    file: &[u8],
    evidence: &SignatureEvidence,
) -> SignatureResult {
    let digest = Digest::sha256_of(file);
    ground::on_file(file, |path: &Path| {
        let subject = FileSubject {
            path,
            name,
            published: name,
            digest: &digest,
        };
        rule.judge(subject, evidence, now())
    })
}

fn judge_as(name: &str, rule: &SignatureRule, file: &[u8], evidence: &SignatureEvidence) -> bool {
    match judged(name, rule, file, evidence) {
        Ok(signer) => {
            assert!(!signer.signer.is_empty() && !signer.pinned_by.is_empty());
            true
        }
        Err(refusal) => {
            ground::say(|| format!("{refusal:?}"));
            assert!(!refusal.problem.fact.is_empty());
            false
        }
    }
}

/// Evidence of [`SIGNED`]: a signature.
fn signature(bytes: &[u8]) -> SignatureEvidence {
    SignatureEvidence {
        signature: Some(bytes.to_vec()),
        ..SignatureEvidence::default()
    }
}

/// That of the seeds' publisher.
pub fn authenticode_rule() -> &'static SignatureRule {
    static RULE: OnceLock<SignatureRule> = OnceLock::new();
    RULE.get_or_init(|| {
        SignatureRule::Authenticode(authenticode::AuthenticodeRule {
            pins: pins(),
            needs_timestamp: false,
            needs_extended: true,
            about: authenticode::PinnedProperties::default(),
        })
    })
}

/// PE, MSI, CAB and PowerShell files; which, their own bytes say, or for a script its name.
pub fn authenticode(bytes: &[u8]) -> bool {
    let kinds: [(&[u8], &str); 3] = [
        (b"MZ", "kubelet.exe"),
        (b"\xd0\xcf", "setup.msi"),
        (b"MSCF", "update.cab"),
    ];
    let kind = kinds.iter().find(|(magic, _)| bytes.starts_with(magic));
    let name = kind.map_or("install.ps1", |(_, name)| name);
    judge_as(
        name,
        authenticode_rule(),
        bytes,
        &SignatureEvidence::default(),
    )
}

/// A catalog beside a file that it lists.
pub fn catalog(bytes: &[u8]) -> bool {
    judge_as("driver.inf", authenticode_rule(), LISTED, &signature(bytes))
}

pub fn certificates(bytes: &[u8]) -> bool {
    authenticode::parse_certificates(bytes).is_ok_and(|all| !all.is_empty())
}

pub fn cms_rule() -> &'static SignatureRule {
    static RULE: OnceLock<SignatureRule> = OnceLock::new();
    RULE.get_or_init(|| SignatureRule::Cms(cms_scheme::CmsRule { pins: pins() }))
}

pub fn cms(bytes: &[u8]) -> bool {
    judge(cms_rule(), SIGNED, &signature(bytes))
}

/// The key of the seeds as text, made into a rule; none where the tool for it is missing.
fn by_key(
    name: &str,
    rule: impl FnOnce(&str) -> Result<SignatureRule, String>,
) -> Option<SignatureRule> {
    rule(&String::from_utf8_lossy(&key(name))).ok()
}

pub fn cosign_rule() -> Option<&'static SignatureRule> {
    static RULE: OnceLock<Option<SignatureRule>> = OnceLock::new();
    let make = |key: &str| cosign_scheme::CosignRule::new(key).map(SignatureRule::Cosign);
    RULE.get_or_init(|| by_key("cosign.pub", make)).as_ref()
}

pub fn minisign_rule() -> Option<&'static SignatureRule> {
    static RULE: OnceLock<Option<SignatureRule>> = OnceLock::new();
    let make = |key: &str| minisign_scheme::MinisignRule::new(key).map(SignatureRule::Minisign);
    RULE.get_or_init(|| by_key("minisign.pub", make)).as_ref()
}

pub fn signify_rule() -> Option<&'static SignatureRule> {
    static RULE: OnceLock<Option<SignatureRule>> = OnceLock::new();
    let make = |key: &str| signify_scheme::SignifyRule::new(key).map(SignatureRule::Signify);
    RULE.get_or_init(|| by_key("signify.pub", make)).as_ref()
}

fn openpgp_pins() -> Option<&'static openpgp_scheme::OpenPgpRule> {
    static RULE: OnceLock<Option<openpgp_scheme::OpenPgpRule>> = OnceLock::new();
    let rule = RULE.get_or_init(|| {
        let fingerprint = String::from_utf8_lossy(&key("openpgp.fingerprint")).into_owned();
        openpgp_scheme::OpenPgpRule::new(&key("openpgp.asc"), &[fingerprint.trim().into()]).ok()
    });
    rule.as_ref()
}

pub fn openpgp_rule() -> Option<&'static SignatureRule> {
    static RULE: OnceLock<Option<SignatureRule>> = OnceLock::new();
    let rule = RULE.get_or_init(|| openpgp_pins().cloned().map(SignatureRule::Openpgp));
    rule.as_ref()
}

/// Whether [`SIGNED`] is signed so.
fn beside(rule: Option<&SignatureRule>, bytes: &[u8]) -> bool {
    rule.is_some_and(|rule| judge(rule, SIGNED, &signature(bytes)))
}

pub fn cosign(bytes: &[u8]) -> bool {
    beside(cosign_rule(), bytes)
}

pub fn minisign(bytes: &[u8]) -> bool {
    beside(minisign_rule(), bytes)
}

pub fn signify(bytes: &[u8]) -> bool {
    beside(signify_rule(), bytes)
}

pub fn openpgp(bytes: &[u8]) -> bool {
    beside(openpgp_rule(), bytes)
}

pub fn signed_text(bytes: &[u8]) -> bool {
    let Some(rule) = openpgp_pins() else {
        return false;
    };
    match openpgp_scheme::signed_text(rule, bytes, now()) {
        Ok((text, _)) => {
            let _ = checksum::find(
                text.as_bytes(),
                checksum::WantedChecksum::Path("/bin/kubelet.exe"),
            );
            true
        }
        Err(_) => false,
    }
}

/// The first byte chooses: a bundle, an attestation, or signature, certificate and log entry apart (lines of lengths).
pub fn sigstore(bytes: &[u8]) -> bool {
    let Some((which, rest)) = bytes.split_first() else {
        return false;
    };
    let attestation = (which % 3 == 1).then_some("https://slsa.dev/provenance/v1");
    let root = key("trusted_root.json");
    let root = (!root.is_empty()).then_some(&root[..]);
    let rule = sigstore_scheme::SigstoreRule::new(IDENTITY, ISSUER, attestation, root);
    let Ok(rule) = rule else { return false };
    let evidence = match which % 3 {
        2 => {
            let mut parts = rest.splitn(3, |b| *b == 0).map(<[u8]>::to_vec);
            SignatureEvidence {
                signature: parts.next(),
                certificate: parts.next(),
                log_entry: parts.next(),
                lists: None,
            }
        }
        _ => signature(rest),
    };
    judge(&SignatureRule::Sigstore(rule), &key("tool.exe"), &evidence)
}

/// Keys, as files that a recipe names; and trust roots.
pub fn keys(bytes: &[u8]) -> bool {
    let Some((which, rest)) = bytes.split_first() else {
        return false;
    };
    let text = String::from_utf8_lossy(rest);
    match which % 5 {
        0 => {
            let fingerprint = String::from_utf8_lossy(&key("openpgp.fingerprint")).into_owned();
            openpgp_scheme::OpenPgpRule::new(rest, &[fingerprint.trim().into()]).is_ok()
        }
        1 => minisign_scheme::MinisignRule::new(&text).is_ok(),
        2 => signify_scheme::SignifyRule::new(&text).is_ok(),
        3 => cosign_scheme::CosignRule::new(&text).is_ok(),
        _ => {
            let (identity, issuer) = ("a@example.com", "https://example.com");
            sigstore_scheme::SigstoreRule::new(identity, issuer, None, Some(rest)).is_ok()
        }
    }
}
