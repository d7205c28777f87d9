//! Authorities whose certificate policies are critical: taken where nothing else about them is, and
//! refused otherwise.

use winimg_trust::authenticode::CertificatePins;

use crate::render::{judge, rendered};
use crate::signed::{NOW, by, certificates, folder, pins, without_digests};

fn table(names: &[&str]) -> String {
    let lines = names.iter().map(|name| {
        let judged = judge(&by(pins()), &folder().join(name), None, NOW);
        format!("{name}: {}", rendered(&judged))
    });
    without_digests(&lines.collect::<Vec<_>>().join("\n"))
}

#[test]
fn an_authority_with_critical_policies_vouches_for_signers_and_for_timestamps() {
    let rendered = table(&["policed.exe", "stamped-policed.exe"]);
    insta::assert_snapshot!(rendered);
    let authority = certificates("policed.pem").remove(0);
    let issuer = winimg_base::digest::Digest::sha256_of(&authority);
    let through = CertificatePins {
        issuer: Some(issuer.bytes().try_into().unwrap()),
        ..pins()
    };
    let judged = judge(&by(through), &folder().join("policed.exe"), None, NOW);
    assert!(judged.unwrap().pinned_by.contains(&issuer.hex()));
}

#[test]
fn one_with_anything_else_is_refused() {
    let rendered = table(&[
        "policed-tls.exe",
        "policed-strange.exe",
        "policed-bound.exe",
        "policed-names.exe",
        "policed-forged.exe",
        "policed-deep.exe",
        "policed-old.exe",
        "policed-early.exe",
    ]);
    insta::assert_snapshot!(rendered);
    let other = CertificatePins {
        roots: certificates("other-root.pem"),
        ..pins()
    };
    let judged = judge(&by(other), &folder().join("policed.exe"), None, NOW);
    assert!(judged.is_err(), "{judged:?}");
}
