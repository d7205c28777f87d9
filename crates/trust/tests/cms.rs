//! Detached signatures by `openssl cms`, judged.

use winimg_trust::authenticode::CertificatePins;

use crate::render::{judge, judge_as, rendered, rewrite};
use crate::signed::{NOW, certificates, detached, folder, pins, without_digests};

/// `case` begins with the signature's name; the signed file is `sums` unless another is given.
fn table(cases: &[(&str, &str)], pins: &CertificatePins) -> String {
    let lines = cases.iter().map(|(case, file)| {
        let beside = folder().join(case.split([':', ',']).next().unwrap());
        let rule = detached(pins.clone());
        let judged = judge(&rule, &folder().join(file), Some(&beside), NOW);
        format!("{case}: {}", rendered(&judged))
    });
    without_digests(&lines.collect::<Vec<_>>().join("\n"))
}

#[test]
fn good_signatures_are_taken() {
    let cases = [
        "sums.p7s",
        "pem.p7s: as PEM",
        "keyid.p7s: the signer by his key identifier",
        "p256-sums.p7s",
        "sha512-sums.p7s",
        "pss.p7s",
        "streamed.p7s: in BER, as `openssl cms -stream` writes it",
        "streamed-pem.p7s: the same as PEM",
        "ber.p7s: a length that is said at its end",
        "ber-signer.p7s: lengths that are said at their ends, as far as the signer",
        "mail.p7s",
        "silent.p7s: for any use",
        "stamped.p7s: expired since",
        "stamped-other.p7s: another's timestamp, which nobody needs",
    ];
    let cases: Vec<_> = cases.into_iter().map(|case| (case, "sums")).collect();
    let rendered = table(&cases, &pins());
    insta::assert_snapshot!(rendered);
}

#[test]
fn others_are_refused() {
    let sums = [
        "short-sums.p7s: expired",
        "future-sums.p7s",
        "tls-sums.p7s",
        "other-sums.p7s: another authority, same subject",
        "self-sums.p7s",
        "noattr.p7s",
        "attached.p7s",
        "sha1-sums.p7s",
        "nocerts.p7s",
        "two.p7s: two signers",
        "typed.p7s: of something else than a file",
        "mixed.p7s: hashed by SHA-256, signed over SHA-512",
        "twice.p7s: two digests",
        "undigested.p7s",
        "streamed-changed.p7s: in BER, with another content",
        "ber-pieces.p7s: with a content that was not signed",
        "ber-attributes.p7s: signed attributes that are not DER",
        "ber-cut.p7s: a length that is said nowhere",
        "cut.p7s",
        "tail.p7s",
        "empty.p7s",
        "plain.exe: no signature at all",
        "root.pem: a certificate",
    ];
    let mut cases: Vec<_> = sums.into_iter().map(|case| (case, "sums")).collect();
    cases.push(("sums.p7s, a changed file", "changed"));
    let mut all = table(&cases, &pins());
    let other = CertificatePins {
        roots: certificates("other-root.pem"),
        ..pins()
    };
    all += "\n";
    all += &table(&[("sums.p7s, another root", "sums")], &other);
    let rule = detached(pins());
    let none = judge(&rule, &folder().join("sums"), None, NOW);
    all += &format!("\nno file: {}", rendered(&none));
    insta::assert_snapshot!(all);
}

/// The file that a path leads to may be another one than was hashed.
#[test]
fn another_file_than_the_proved_one_is_refused() {
    let proved = winimg_base::digest::Digest::sha256_of(b"what was proved");
    let file = folder().join("sums");
    let beside = folder().join("sums.p7s");
    let judged = judge_as(&detached(pins()), &file, Some(&beside), &proved, NOW);
    let found = winimg_base::digest::Digest::sha256_of(&std::fs::read(&file).unwrap());
    assert_eq!(
        rendered(&judged),
        format!(
            "refused, Changed: the file changed while it was verified\n  expected: {proved}\n  found: {found}"
        )
    );
}

#[test]
fn no_change_is_taken_and_none_panics() {
    let good = std::fs::read(folder().join("keyid.p7s")).unwrap();
    let place = tempfile::tempdir().unwrap();
    let beside = place.path().join("sums.p7s");
    let rule = detached(pins());
    let mut taken = Vec::new();
    for at in 0..good.len() {
        for bytes in [flipped(&good, at), good[..at].to_vec()] {
            rewrite(&beside, &bytes);
            let judged = judge(&rule, &folder().join("sums"), Some(&beside), NOW);
            if judged.is_ok() {
                taken.push(at);
            }
        }
    }
    // Version numbers and the list of algorithms in front say nothing that is not said again where
    // it counts.
    taken.retain(|at| *at > 0x40);
    assert!(taken.is_empty(), "changes at {taken:?} are not seen");
}

fn flipped(good: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = good.to_vec();
    bytes[at] ^= 1 << (at % 8);
    bytes
}
