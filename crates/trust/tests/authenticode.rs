//! Programs that osslsigncode signed for throw-away authorities, judged: what is taken, and what is
//! refused in which words.

use std::fs;
use std::process::Command;
use std::time::{Duration, SystemTime};

use regex::Regex;
use winimg_trust::authenticode::{self, CertificatePins};
use winimg_trust::uncovered::{UncoveredPlace, UncoveredRange};
use winimg_trust::{FileSubject, RefusalReason, SignatureRule};

use crate::render::{judge, judge_as, rendered, rewrite};
use crate::signed::{NOW, by, certificates, folder, pins, unstamped, without_digests};

fn table(cases: Vec<(&str, SignatureRule)>) -> String {
    let lines = cases.into_iter().map(|(case, rule)| {
        let file = case.split([':', ',']).next().unwrap();
        let judged = judge(&rule, &folder().join(file), None, NOW);
        format!("{case}: {}", rendered(&judged))
    });
    without_digests(&lines.collect::<Vec<_>>().join("\n"))
}

fn digest_of(name: &str) -> Option<[u8; 32]> {
    let der = certificates(name).remove(0);
    let digest = winimg_base::digest::Digest::sha256_of(&der);
    Some(digest.bytes().try_into().unwrap())
}

fn nobody() -> CertificatePins {
    CertificatePins {
        subject: None,
        ..pins()
    }
}

#[test]
fn good_signatures_are_taken() {
    let subject = |text: &str| CertificatePins {
        subject: Some(text.into()),
        ..pins()
    };
    let durable = CertificatePins {
        eku: Some("1.3.6.1.4.1.311.97.368317130.201670760.425010060.754072028".into()),
        ..nobody()
    };
    let exact = CertificatePins {
        issuer: digest_of("ca.pem"),
        leaf: digest_of("leaf.pem"),
        ..subject("CN=Example Corp,O=Example Corp,C=US")
    };
    let either_root = CertificatePins {
        roots: certificates("roots.pem"),
        ..pins()
    };
    let by_der = CertificatePins {
        roots: certificates("root.der"),
        ..pins()
    };
    let other = CertificatePins {
        roots: certificates("other-root.pem"),
        ..pins()
    };
    let rendered = table(vec![
        ("good.exe", by(pins())),
        ("good.exe, whole subject, issuer and leaf", by(exact)),
        (
            "good.exe, subject as openssl writes it",
            by(subject("C = US, O = Example Corp")),
        ),
        ("good.exe, one of two roots", by(either_root)),
        ("good.exe, root as DER", by(by_der)),
        (
            "checksum.exe: the checksum is no part of the digest",
            by(pins()),
        ),
        ("sha384.exe", by(pins())),
        ("sha512.exe", by(pins())),
        ("p256.exe", by(pins())),
        ("p384.exe", by(pins())),
        ("stamped-short.exe: expired since", by(pins())),
        ("legacy.exe: a countersignature", by(pins())),
        (
            "stamped-loose.exe: by an authority whose only EKU is not critical",
            by(pins()),
        ),
        ("unstamped.exe", unstamped(pins())),
        ("stamped-by-other.exe", unstamped(pins())),
        ("durable.exe", by(durable)),
        ("dual.exe: SHA-1, and SHA-256", by(pins())),
        ("dual-good-last.exe: another's, and this", by(pins())),
        ("dual-other.exe: SHA-1 by us, SHA-256 by another", by(other)),
    ]);
    insta::assert_snapshot!(rendered);
}

#[test]
fn signatures_of_others_are_refused() {
    let other = CertificatePins {
        roots: certificates("other-root.pem"),
        ..pins()
    };
    let with = |change: fn(&mut CertificatePins)| {
        let mut pins = pins();
        change(&mut pins);
        by(pins)
    };
    let rendered = table(vec![
        ("good.exe, another root", by(other.clone())),
        ("other.exe: another authority, same subject", by(pins())),
        ("forged.exe: a root of the same name", by(pins())),
        ("self.exe: self-signed", by(pins())),
        (
            "good.exe, another subject",
            with(|p| p.subject = Some("CN=Example".into())),
        ),
        (
            "good.exe, a subject that is none",
            with(|p| p.subject = Some("Example Corp".into())),
        ),
        (
            "good.exe, another EKU",
            with(|p| p.eku = Some("1.3.6.1.4.1.311.97.1".into())),
        ),
        (
            "good.exe, another issuer",
            with(|p| p.issuer = Some([7; 32])),
        ),
        ("good.exe, another leaf", with(|p| p.leaf = Some([7; 32]))),
        (
            "good.exe, another subject and leaf",
            with(|p| {
                p.subject = Some("CN=Somebody".into());
                p.leaf = Some([7; 32]);
            }),
        ),
        ("good.exe, a root alone", by(nobody())),
        (
            "good.exe, an EKU that all signers of code have",
            by(CertificatePins {
                eku: Some("1.3.6.1.5.5.7.3.3".into()),
                ..nobody()
            }),
        ),
        ("good.exe, no root", with(|p| p.roots.clear())),
        ("tls.exe", by(pins())),
        ("silent.exe: no EKU", by(pins())),
        ("encipher.exe: may not sign", by(pins())),
        ("ca.exe: an authority signs itself", by(pins())),
        ("below-no-ca.exe: by one who is no authority", by(pins())),
        (
            "below-too-deep.exe: below an authority that may have none below it",
            by(pins()),
        ),
        (
            "below-no-certs.exe: below an authority that may not sign certificates",
            by(pins()),
        ),
        (
            "dual-other.exe: SHA-1 by us, SHA-256 by another",
            by(pins()),
        ),
        ("dual.exe, another root", by(other)),
    ]);
    insta::assert_snapshot!(rendered);
}

#[test]
fn times_and_weak_algorithms_are_refused() {
    let stamps = |name: &str| CertificatePins {
        timestamp_roots: certificates(name),
        ..pins()
    };
    let none = CertificatePins {
        timestamp_roots: Vec::new(),
        ..pins()
    };
    let neither = CertificatePins {
        roots: certificates("other-root.pem"),
        ..none.clone()
    };
    let rendered = table(vec![
        ("good.exe, a root that neither chain ends at", by(neither)),
        ("unstamped.exe", by(pins())),
        ("short.exe, expired", unstamped(pins())),
        ("short.exe, expired, timestamp required", by(pins())),
        ("future.exe", unstamped(pins())),
        (
            "lifetime.exe: its timestamp does not lengthen its life",
            by(pins()),
        ),
        ("stamped-by-other.exe", by(pins())),
        ("stamped-late.exe: after its authority expired", by(pins())),
        (
            "good.exe, another timestamp root",
            by(stamps("other-root.pem")),
        ),
        ("good.exe, timestamps by the root of the signer", by(none)),
        ("legacy-other.exe: another's countersignature", by(pins())),
        ("legacy-sha1.exe", by(pins())),
        ("stamped-too.exe: by one who signs code as well", by(pins())),
        ("stamped-weak.exe: SHA-1 of the signature", by(pins())),
        ("stamped-other.exe: of another signature", by(pins())),
        ("sha1.exe", by(pins())),
        ("md5.exe", unstamped(pins())),
        ("small.exe: RSA of 1024 bits", by(pins())),
        ("old.exe: an authority signed with SHA-1", by(pins())),
    ]);
    insta::assert_snapshot!(rendered);
}

#[test]
fn tampered_files_are_refused() {
    let cases = [
        "plain.exe: never signed",
        "stripped.exe: signed once",
        "flipped.exe",
        "flipped-signature.exe",
        "cut.exe",
        "cut-program.exe",
        "appended.exe",
        "listed.exe: appended, and the directory says so",
        "padded.exe: within the only entry",
        "zero-padded.exe: more zeros than alignment needs",
        "second.exe: an entry of a foreign type",
        "foreign.exe: no signature in the table",
        "cut-entry.exe: longer than the table",
        "cut-der.exe",
        "transplanted.exe: another program's signature",
        "tagged.exe: a payload in an unsigned attribute",
        "tagged-nested.exe: in one of the signature nested in it",
        "tagged-unread.exe: in place of a nested signature",
        "tagged-stamp.exe: in one of its timestamp",
        "tagged-other.exe: in place of a second timestamp",
        "tagged-kind.exe: in a second timestamp of another kind",
        "tagged-long.exe: in a second timestamp",
        "tagged-large.exe: a second timestamp that is longer than any",
        "tagged-data.exe: in a nested signature of another kind",
        "tagged-counter.exe: in one of its countersignature",
        "gap.exe: bytes between sections",
        "overlap.exe",
        "no-headers.exe: headers of no length",
        "long-headers.exe: headers that go into the first section",
        "endless-headers.exe: headers that go beyond the file",
        "few-directories.exe: no entry for a certificate table",
        "other-width.exe: 64 bits that say they are 32",
        "short-optional.exe: an optional header that ends before its checksum",
        "no-optional.exe",
        "many-sections.exe",
        "beyond.exe: a table beyond the file",
        "endless-table.exe",
        "section-in-headers.exe",
        "endless-section.exe",
        "dos.exe",
        "text.txt",
    ];
    let cases = cases.into_iter().map(|case| (case, by(pins()))).collect();
    // A token's serial number is of any length, and moves what comes after it.
    let moved =
        Regex::new("0x1[0-9a-f]{3}|[0-9]+ bytes (at least|at offset|more at)|[0-9]{4} bytes")
            .unwrap();
    let rendered = table(cases);
    let at = Regex::new("[0-9]+ bytes at offset 0x[0-9a-f]+ of the signature").unwrap();
    let rendered = at.replace_all(&rendered, "<…> of the signature");
    let rendered = moved.replace_all(&rendered, "<…> $1");
    insta::assert_snapshot!(rendered);
}

/// The file that a path leads to may be another one than was hashed.
#[test]
fn another_file_than_the_proved_one_is_refused() {
    let proved = winimg_base::digest::Digest::sha256_of(b"what was proved");
    let file = folder().join("good.exe");
    let judged = judge_as(&by(pins()), &file, None, &proved, NOW);
    let found = winimg_base::digest::Digest::sha256_of(&fs::read(&file).unwrap());
    assert_eq!(
        rendered(&judged),
        format!(
            "refused, Changed: the file changed while it was verified\n  expected: {proved}\n  found: {found}"
        )
    );
}

/// Every byte that is signed or decides about the signature, changed, and every length that the
/// file could be cut to.
#[test]
fn no_change_is_taken_and_none_panics() {
    let good = fs::read(folder().join("good.exe")).unwrap();
    let number = |at: usize| u32::from_le_bytes(good[at..at + 4].try_into().unwrap()) as usize;
    let optional = number(0x3c) + 24;
    let table = number(optional + 144);
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("good.exe");
    let rule = by(pins());
    let mut taken = Vec::new();
    for at in (0..table).step_by(16).chain(table..good.len()) {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        rewrite(&file, &bytes);
        if judge(&rule, &file, None, NOW).is_ok() {
            taken.push(at);
        }
        if at % 16 != 0 {
            continue;
        }
        bytes.truncate(at);
        rewrite(&file, &bytes);
        assert!(judge(&rule, &file, None, NOW).is_err(), "cut at {at:#x}");
    }
    rewrite(&file, &good);
    let SignatureRule::Authenticode(own) = &rule else {
        unreachable!("it is one of Authenticode");
    };
    let digest = winimg_base::digest::Digest::sha256_of(&good);
    let subject = FileSubject {
        path: &file,
        name: "good.exe",
        published: "good.exe",
        digest: &digest,
    };
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
    let places = authenticode::list_uncovered(own, subject, now).unwrap();
    // The signature stands behind the table's head.
    let begins = |place: &UncoveredRange| {
        if place.place.is_in_signature() {
            table + 8
        } else {
            0
        }
    };
    let open: Vec<_> = places
        .iter()
        .filter(|open| open.place != UncoveredPlace::Signature)
        .map(|open| {
            let by = begins(open);
            open.range.start as usize + by..open.range.end as usize + by
        })
        .collect();
    taken.retain(|at| !open.iter().any(|range| range.contains(at)));
    assert!(taken.is_empty(), "changes at {taken:#x?} are not seen");
}

/// What winimg takes, the field's own tool takes, too; and what it refuses for its bytes, that tool
/// shall not have signed.
#[test]
fn osslsigncode_agrees_about_the_good_ones() {
    for name in ["good", "sha384", "p256", "dual", "stamped-short", "legacy"] {
        let judged = Command::new("osslsigncode")
            .current_dir(folder())
            .args([
                "verify",
                "-ignore-crl",
                "-ignore-cdp",
                "-CAfile",
                "root.pem",
            ])
            .args(["-TSA-CAfile", "tsa-root.pem", "-in", &format!("{name}.exe")])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&judged.stdout);
        assert!(judged.status.success(), "{name}: {text}");
        let rule = by(pins());
        let file = folder().join(format!("{name}.exe"));
        assert!(judge(&rule, &file, None, NOW).is_ok(), "{name}");
    }
}

#[test]
fn the_present_counts_without_a_timestamp() {
    let short = folder().join("short.exe");
    let rule = unstamped(pins());
    let reason = |now: u64| judge(&rule, &short, None, now).map_err(|r| r.reason);
    assert_eq!(
        reason(1_767_225_599).unwrap_err(),
        RefusalReason::NotYetValid
    );
    assert!(reason(1_767_312_000).is_ok());
    assert_eq!(reason(1_768_000_000).unwrap_err(), RefusalReason::Expired);
}

#[test]
fn files_without_certificates_are_told_apart() {
    let rendered = |bytes: &[u8]| authenticode::parse_certificates(bytes).unwrap_err();
    let pem = fs::read_to_string(folder().join("root.pem")).unwrap();
    let cut = pem.replace("-----END CERTIFICATE-----", "");
    let twice = format!("{pem}-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n");
    let garbled = pem.replacen("MII", "M?I", 1);
    let all = [
        rendered(b""),
        rendered(b"CN=Example Corp"),
        rendered(b"\x30\x00"),
        rendered(cut.as_bytes()),
        rendered(twice.as_bytes()),
        rendered(garbled.as_bytes()),
    ];
    let rendered = all.join("\n");
    insta::assert_snapshot!(rendered);
}

/// What a person is shown before there is any pin.
#[test]
fn the_signers_that_a_file_carries_are_named_and_vouched_for_by_nobody() {
    let mut found = String::new();
    for name in [
        "good.exe",
        "dual.exe",
        "sha1.exe",
        "plain.exe",
        "another-signed.exe",
        "sums",
    ] {
        let path = folder().join(name);
        let digest = winimg_base::digest::Digest::sha256_of(&fs::read(&path).unwrap());
        let words = match authenticode::list_signatures(&path, name, &digest) {
            Ok(all) => format!("{all:?}"),
            Err(refusal) => format!("{:?}: {}", refusal.reason, refusal.problem.fact),
        };
        found += &format!("{name}: {words}\n");
    }
    insta::assert_snapshot!(found);
    // After the signature was made.
    let mut bytes = fs::read(folder().join("good.exe")).unwrap();
    bytes[0x200] ^= 1;
    let changed = tempfile::tempdir().unwrap();
    let path = changed.path().join("changed.exe");
    fs::write(&path, &bytes).unwrap();
    let digest = winimg_base::digest::Digest::sha256_of(&bytes);
    let refusal = authenticode::list_signatures(&path, "changed.exe", &digest).unwrap_err();
    assert_eq!(refusal.reason, RefusalReason::Changed);
}
