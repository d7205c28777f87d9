//! Signatures and bundles as cosign makes them with a key.

use std::sync::OnceLock;
use std::time::SystemTime;

use winimg_trust::cosign::CosignRule;
use winimg_trust::{RefusalReason, Scheme, SignatureRule as Any, Signer};

use super::workshop::{Shop, rendered, shop, survives};

pub fn made() -> &'static Shop {
    static MADE: OnceLock<Shop> = OnceLock::new();
    shop(&MADE, "cosign.sh")
}

pub fn rule(who: &str) -> Any {
    Any::Cosign(CosignRule::new(&made().text(&format!("{who}.pub"))).unwrap())
}

/// By openssl, not by us.
fn name(who: &str) -> String {
    let output = std::process::Command::new("openssl")
        .args(["pkey", "-pubin", "-outform", "der", "-in"])
        .arg(made().path(&format!("{who}.pub")))
        .output()
        .unwrap();
    winimg_base::digest::Digest::sha256_of(&output.stdout).to_string()
}

fn digest_of(file: &str) -> String {
    winimg_base::digest::Digest::sha256_of(&made().bytes(file)).to_string()
}

fn now() -> SystemTime {
    SystemTime::now()
}

#[test]
fn good_files_are_taken_bare_and_in_bundles() {
    let cases = [
        ("release", "ECDSA P-256", "good.sig"),
        ("release", "ECDSA P-256", "good.sig.der"),
        ("release", "ECDSA P-256", "folded.sig"),
        ("release", "ECDSA P-256", "good.json"),
        ("release", "ECDSA P-256", "nohint.json"),
        // A hint proves nothing and spoils nothing.
        ("release", "ECDSA P-256", "wronghint.json"),
        ("release", "ECDSA P-256", "old.json"),
        ("p384", "ECDSA P-384", "p384.sig"),
        ("p384", "ECDSA P-384", "p384.384.sig"),
        ("p384", "ECDSA P-384", "p384.json"),
        ("rsa", "RSA", "rsa.sig"),
        ("ed", "Ed25519", "ed.sig"),
        ("ed", "Ed25519", "ed.json"),
    ];
    for (who, kind, signature) in cases {
        let signer = Signer {
            scheme: Scheme::Cosign,
            signer: format!("key {}", name(who)),
            pinned_by: format!("key {} ({kind})", name(who)),
            signed_at: None,
            remarks: vec![],
        };
        let judged = made().judge(&rule(who), "app.exe", signature, now());
        assert_eq!(judged, Ok(signer), "{signature}");
    }
}

#[test]
fn each_refusal_has_its_sentence() {
    use RefusalReason::{Changed, Malformed, OtherKey, Unsupported};
    let key = format!("expected: key {} (ECDSA P-256)", name("release"));
    let bare = format!(
        "the pinned key did not sign this file: the file or its signature was changed, or a different key signed it | {key}"
    );
    let hint = made().text("other.json");
    let hint = hint
        .split("\"hint\":\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let other = format!(
        "the pinned key did not sign its bundle | {key} | found: a key with the hint {hint}"
    );
    let liar = format!("the pinned key did not sign its bundle | {key}");
    let file = |found: &str| {
        format!(
            "its bundle is for a different file | expected: {} | found: {}",
            digest_of("app.exe"),
            digest_of(found)
        )
    };
    let cut = "it is neither base64 nor a bundle, or it is cut off";
    let kind = "it is cut off, or not a signature by a key of type ECDSA P-256";
    let keyless = "it was made with a certificate, without a key (keyless) | cure: if keyless signing is \
                   intended, use kind = \"sigstore\" with identity and issuer";
    let attestation = "it is an attestation, not a signature of the file itself | cure: sign the file with \
                       cosign sign-blob --key";
    let cases: &[(&str, &str, RefusalReason, &str)] = &[
        ("app.exe", "other.sig", Changed, &bare),
        ("changed.exe", "good.sig", Changed, &bare),
        ("short.exe", "good.sig", Changed, &bare),
        ("app.exe", "second.sig", Changed, &bare),
        ("app.exe", "sha1.sig", Changed, &bare),
        ("app.exe", "cut.sig", Malformed, kind),
        ("app.exe", "rsa.sig", Malformed, kind),
        ("app.exe", "ed.sig", Malformed, kind),
        ("app.exe", "cutline.sig", Malformed, cut),
        ("changed.exe", "good.json", Changed, &file("changed.exe")),
        ("short.exe", "good.json", Changed, &file("short.exe")),
        ("second.exe", "good.json", Changed, &file("second.exe")),
        ("app.exe", "other.json", OtherKey, &other),
        ("app.exe", "liar.json", OtherKey, &liar),
        ("app.exe", "second.json", OtherKey, &liar),
        (
            "app.exe",
            "sha3.json",
            Malformed,
            "it is not a Sigstore bundle, or it is cut off | found: JSON error: Invalid hash algorithm: SHA3_256 at line 2 column 229",
        ),
        (
            "app.exe",
            "cut.json",
            Malformed,
            "it is not a Sigstore bundle, or it is cut off | found: JSON error: EOF while parsing a string at line 2 column 45",
        ),
        ("app.exe", "keyless.json", OtherKey, keyless),
        ("app.exe", "oldkeyless.json", OtherKey, keyless),
        ("app.exe", "attestation.json", Unsupported, attestation),
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
        (b"Not Found", kind),
        (
            b"{}",
            "it is not a Sigstore bundle, or it is cut off | found: JSON error: missing field `verificationMaterial` at line 1 column 2",
        ),
        (b"404: there is none", cut),
    ];
    made().refuses_what_is_no_signature(&rule("release"), now(), more);
}

#[test]
fn a_key_that_cannot_be_pinned_is_refused_in_words() {
    let none = "is not a public key in PEM, which starts with -----BEGIN PUBLIC KEY-----";
    let cases = [
        (
            made().text("release.key"),
            "is a private key; a recipe needs the public key, cosign.pub",
        ),
        (
            made().text("cert.pem"),
            "is a certificate; cosign's rule needs its public key (openssl x509 -in FILE -noout -pubkey)",
        ),
        (
            made().text("p521.pub"),
            "uses the curve 1.3.132.0.35; cosign's rule supports ECDSA on P-256 or P-384, Ed25519, and RSA from 2048 to 8192 bits",
        ),
        (
            made().text("short.pub"),
            "is an RSA key of 1024 bits; cosign's rule supports ECDSA on P-256 or P-384, Ed25519, and RSA from 2048 to 8192 bits",
        ),
        (String::new(), none),
        ("<html>".into(), none),
    ];
    for (text, fact) in cases {
        assert_eq!(CosignRule::new(&text).unwrap_err(), fact, "{text}");
    }
}

#[test]
fn no_part_of_a_signature_and_no_other_byte_is_taken() {
    survives(made(), &rule("release"), "app.exe", "good.sig", &[]);
    survives(made(), &rule("release"), "app.exe", "good.sig.der", &[]);
}
