//! minisign's own signatures.

use std::sync::OnceLock;
use std::time::SystemTime;

use winimg_trust::minisign::MinisignRule;
use winimg_trust::{RefusalReason, Scheme, SignatureRule as Any, Signer};

use super::workshop::{IS_ANOTHER, Shop, notices_a_change, rendered, shop, survives};

pub fn made() -> &'static Shop {
    static MADE: OnceLock<Shop> = OnceLock::new();
    shop(&MADE, "minisign.sh")
}

/// The 56 characters.
fn key(who: &str) -> String {
    let text = made().text(&format!("{who}.pub"));
    text.lines().last().unwrap().to_string()
}

/// As minisign itself says it in the key's comment.
fn id(who: &str) -> String {
    let text = made().text(&format!("{who}.pub"));
    let line = text.lines().next().unwrap();
    format!("{:0>16}", line.rsplit(' ').next().unwrap())
}

pub fn rule(who: &str) -> Any {
    Any::Minisign(MinisignRule::new(&key(who)).unwrap())
}

fn now() -> SystemTime {
    SystemTime::now()
}

#[test]
fn a_good_file_is_taken_and_its_trusted_comment_reported() {
    let signer = Signer {
        scheme: Scheme::Minisign,
        signer: format!("key {}", id("release")),
        pinned_by: format!("key {}", key("release")),
        signed_at: None,
        remarks: vec!["trusted comment: build 42 file:app.exe".into()],
    };
    for signature in [
        "good.minisig",
        "untrusted.minisig",
        "crlf.minisig",
        "blank.minisig",
    ] {
        let judged = made().judge(&rule("release"), "app.exe", signature, now());
        assert_eq!(judged, Ok(signer.clone()), "{signature}");
    }
    // The signer's own words name no file.
    let judged = made().judge(&rule("release"), "app.exe", "plain.minisig", now());
    assert_eq!(
        judged.unwrap().remarks,
        ["trusted comment: a profile: none"]
    );
    for signature in ["url.minisig", "words.minisig"] {
        let judged = made().judge(&rule("release"), "app.exe", signature, now());
        assert!(judged.is_ok(), "{signature}: {judged:?}");
    }
}

#[test]
fn each_refusal_has_its_sentence() {
    use RefusalReason::{Changed, Malformed, OtherKey, OtherName, Unsupported};
    let other = format!(
        "it was made with a different minisign key | expected: key {} | found: key {}",
        id("release"),
        id("other")
    );
    let legacy = "it is a legacy signature, which covers the file itself instead of its BLAKE2b digest \
                  | cure: sign the file again with minisign 0.10 or newer, or with -H";
    let comment = "the pinned key did not sign its trusted comment: it was changed";
    let named = "its trusted comment, which is signed, names a different file | expected: other.exe | found: app.exe \
                 | cure: keep the publisher's name of the file (`file = \"…\"`), or check what `url` leads to";
    let cases: &[(&str, &str, RefusalReason, &str)] = &[
        ("app.exe", "named.minisig", OtherName, named),
        ("app.exe", "alone.minisig", OtherName, named),
        ("app.exe", "other.minisig", OtherKey, &other),
        ("changed.exe", "good.minisig", Changed, IS_ANOTHER),
        ("short.exe", "good.minisig", Changed, IS_ANOTHER),
        ("app.exe", "second.minisig", Changed, IS_ANOTHER),
        ("second.exe", "good.minisig", Changed, IS_ANOTHER),
        ("app.exe", "comment.minisig", Changed, comment),
        ("app.exe", "legacy.minisig", Unsupported, legacy),
        (
            "app.exe",
            "cut2.minisig",
            Malformed,
            "it is cut off: it has 2 of 4 lines",
        ),
        (
            "app.exe",
            "cut3.minisig",
            Malformed,
            "it is cut off: it has 3 of 4 lines",
        ),
        (
            "app.exe",
            "cutline.minisig",
            Malformed,
            "it is damaged or cut off in line 2",
        ),
        (
            "app.exe",
            "cutseal.minisig",
            Malformed,
            "it is damaged or cut off in line 4",
        ),
        (
            "app.exe",
            "long.minisig",
            Malformed,
            "it has more than 4 lines",
        ),
        (
            "app.exe",
            "signify.minisig",
            Malformed,
            "it is a signify signature | cure: use kind = \"signify\"",
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
    let more: &[(&[u8], &str)] = &[
        (b" \n", "its file is empty"),
        (b"Not Found", "it is not a minisign signature"),
        (b"\xff\xfe\0", "its file is not text"),
        (&[b'a'; (1 << 20) + 1], "its file exceeds 1048576 bytes"),
    ];
    made().refuses_what_is_no_signature(&rule("release"), now(), more);
}

#[test]
fn a_key_is_read_from_a_line_or_a_file_and_else_refused() {
    assert!(MinisignRule::new(&made().text("release.pub")).is_ok());
    assert!(MinisignRule::new(&format!("{}\r\n", key("release"))).is_ok());
    let secret = made().text("release.key");
    let none = "is not a minisign public key, which is a line of 56 characters that starts with RW";
    let cases = [
        (
            secret.as_str(),
            "is a minisign secret key; a recipe needs the public key, minisign.pub",
        ),
        ("", none),
        ("RWQ", none),
        ("<html>", none),
        (&key("release")[..52], none),
    ];
    for (text, fact) in cases {
        assert_eq!(MinisignRule::new(text).unwrap_err(), fact, "{text}");
    }
}

#[test]
fn a_key_is_recorded_by_what_it_is() {
    let recorded = |text: &str| {
        Any::Minisign(MinisignRule::new(text).unwrap())
            .key_content()
            .unwrap()
    };
    let file = recorded(&made().text("release.pub"));
    assert_eq!(file.key, format!("key {}", id("release")));
    for same in [
        key("release"),
        format!("untrusted comment: another one\r\n{}\r\n", key("release")),
    ] {
        assert_eq!(recorded(&same), file);
    }
    assert_ne!(recorded(&key("other")).digest, file.digest);
}

#[test]
fn a_file_that_is_not_the_proved_one_is_refused() {
    notices_a_change(made(), &rule("release"), "app.exe", "good.minisig");
}

#[test]
fn no_part_of_a_signature_and_no_other_byte_is_taken() {
    let text = made().text("good.minisig");
    // The untrusted comment after its first words.
    let comment = 18..text.find('\n').unwrap();
    survives(
        made(),
        &rule("release"),
        "small",
        "small.minisig",
        &[comment],
    );
}
