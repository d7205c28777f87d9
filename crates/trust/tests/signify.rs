//! OpenBSD's signify's own signatures.

use std::sync::OnceLock;
use std::time::SystemTime;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use winimg_trust::signify::SignifyRule;
use winimg_trust::{RefusalReason, Scheme, SignatureRule as Any, Signer};

use super::workshop::{IS_ANOTHER, Shop, notices_a_change, rendered, shop, survives};

pub fn made() -> &'static Shop {
    static MADE: OnceLock<Shop> = OnceLock::new();
    shop(&MADE, "signify.sh")
}

fn key(who: &str) -> String {
    let text = made().text(&format!("{who}.pub"));
    text.lines().last().unwrap().to_string()
}

fn number(who: &str) -> String {
    hex::encode(&BASE64_STANDARD.decode(key(who)).unwrap()[2..10])
}

pub fn rule(who: &str) -> Any {
    Any::Signify(SignifyRule::new(&key(who)).unwrap())
}

fn now() -> SystemTime {
    SystemTime::now()
}

#[test]
fn a_good_file_is_taken() {
    let signer = Signer {
        scheme: Scheme::Signify,
        signer: format!("key number {}", number("release")),
        pinned_by: format!("key {}", key("release")),
        signed_at: None,
        remarks: vec![],
    };
    let judged = made().judge(&rule("release"), "app.exe", "good.sig", now());
    assert_eq!(judged, Ok(signer));
}

#[test]
fn each_refusal_has_its_sentence() {
    use RefusalReason::{Changed, Malformed, OtherKey, Unsupported};
    let other = format!(
        "it was made with a different signify key | expected: key number {} | found: key number {}",
        number("release"),
        number("other")
    );
    let embedded =
        "it has an embedded message (signify -e) instead of being detached | cure: sign without -e";
    let huge = "signify signs the whole file, which must fit into memory, but this file exceeds 256 MiB \
                | cure: use a signed checksum file, and name it with `checksum_url`";
    let cases: &[(&str, &str, RefusalReason, &str)] = &[
        ("app.exe", "other.sig", OtherKey, &other),
        ("changed.exe", "good.sig", Changed, IS_ANOTHER),
        ("short.exe", "good.sig", Changed, IS_ANOTHER),
        ("app.exe", "second.sig", Changed, IS_ANOTHER),
        ("second.exe", "good.sig", Changed, IS_ANOTHER),
        ("text", "embedded.sig", Unsupported, embedded),
        ("huge.iso", "good.sig", Unsupported, huge),
        (
            "app.exe",
            "cut.sig",
            Malformed,
            "it is damaged or cut off in line 2",
        ),
        (
            "app.exe",
            "cut1.sig",
            Malformed,
            "it is not a signify signature, or it is cut off",
        ),
        (
            "app.exe",
            "minisign.sig",
            Malformed,
            "it is a minisign signature | cure: use kind = \"minisign\"",
        ),
    ];
    for (file, signature, reason, words) in cases {
        let judged = made().judge(&rule("release"), file, signature, now());
        assert_eq!(
            rendered(judged),
            (*reason, words.to_string()),
            "{file} {signature}"
        );
    }
    let more: &[(&[u8], &str)] = &[(
        b"Not\nFound",
        "it is not a signify signature, or it is cut off",
    )];
    made().refuses_what_is_no_signature(&rule("release"), now(), more);
}

#[test]
fn a_key_is_read_from_a_line_or_a_file_and_else_refused() {
    assert!(SignifyRule::new(&made().text("release.pub")).is_ok());
    let secret = made().text("release.sec");
    let none = "is not a signify public key, which is a line of 56 characters that starts with RW";
    let cases = [
        (
            secret.as_str(),
            "is a signify secret key; a recipe needs the public key, KEY.pub",
        ),
        ("", none),
        ("RWQ", none),
        (&key("release")[..52], none),
    ];
    for (text, fact) in cases {
        assert_eq!(SignifyRule::new(text).unwrap_err(), fact, "{text}");
    }
}

#[test]
fn a_file_that_is_not_the_proved_one_is_refused() {
    notices_a_change(made(), &rule("release"), "app.exe", "good.sig");
}

#[test]
fn no_part_of_a_signature_and_no_other_byte_is_taken() {
    let text = made().text("small.sig");
    let comment = 18..text.find('\n').unwrap();
    survives(made(), &rule("release"), "small", "small.sig", &[comment]);
}
