//! What is no bundle at all, and trust roots that could prove nothing.

use super::*;

#[test]
fn what_is_no_bundle_is_refused() {
    let rule = own(IDENTITY, GITHUB, None);
    let good = read("own/good.sigstore.json");
    let of = |bytes: &[u8]| rendered(&judge(&rule, "own/tool.exe", &signed_by(bytes)));
    let huge = vec![b' '; sigstore::MAX_EVIDENCE_SIZE + 1];
    assert_rendered(&[
        (
            "nothing",
            rendered(&judge(&rule, "own/tool.exe", &SignatureEvidence::default())),
            r#"Missing: there is none"#,
        ),
        (
            "an empty file",
            of(b""),
            r#"Malformed: it is an empty file"#,
        ),
        (
            "too much",
            of(&huge),
            r#"Malformed: it exceeds the maximum size
              expected at most 8388608 bytes
              found 8388609 bytes"#,
        ),
        (
            "cut off",
            of(&good[..good.len() / 2]),
            r#"Malformed: it is cut off at line 33, column 344
              cure download it again"#,
        ),
        (
            "a web page",
            of(b"<!DOCTYPE html><title>Not found</title>"),
            r#"Malformed: it is a web page
              cure check the `url` of the signature"#,
        ),
        (
            "noise",
            of(b"\x00\x01\x02"),
            r#"Malformed: it cannot be read as a signature
              expected base64 of an ECDSA signature, or a Sigstore bundle in JSON
              found a file that starts with the bytes 000102"#,
        ),
        (
            "other JSON",
            of(b"{\"a\": 1}"),
            r#"Malformed: it is not a Sigstore bundle
              expected `verificationMaterial` with a certificate and a log entry"#,
        ),
        (
            "a bundle and more",
            of(&[good.as_slice(), b"{}"].concat()),
            r#"Malformed: it is not JSON at line 48, column 1
              expected a Sigstore bundle
              found trailing characters at line 48 column 1"#,
        ),
        (
            "control characters",
            of(b"{\"mediaType\": \"\\u001b[2J\\n\\u0000evil\"}"),
            r#"Unsupported: its bundle version is not supported
              expected a Sigstore bundle of version 0.1, 0.2 or 0.3
              found mediaType ` [2J  evil`"#,
        ),
        (
            "deep",
            of(&[b"{\"a\":".as_slice(), &vec![b'['; 100_000]].concat()),
            r#"Malformed: it is not JSON at line 1, column 132
              expected a Sigstore bundle
              found recursion limit exceeded at line 1 column 132"#,
        ),
    ]);
    // With a byte order mark it is what it was.
    let marked = [b"\xef\xbb\xbf".as_slice(), &good].concat();
    assert_eq!(
        scheme_of(&judge(&rule, "own/tool.exe", &signed_by(&marked))),
        Some(Scheme::Sigstore)
    );
}

#[test]
fn a_trust_root_that_could_prove_nothing_is_a_complaint() {
    let root = |bytes: &[u8]| match sigstore::SigstoreRule::new(IDENTITY, GITHUB, None, Some(bytes))
    {
        Ok(_) => "taken".to_string(),
        Err(e) => format!("the trust root {e}"),
    };
    let lacking = |fields: &[&str]| {
        root(&edited("own/trusted_root.json", |v| {
            for field in fields {
                v[*field] = Value::Array(Vec::new());
            }
        }))
    };
    assert_rendered(&[
        ("good", root(&read("own/trusted_root.json")), r#"taken"#),
        (
            "not text",
            root(b"\xff\xfe"),
            r#"the trust root is not text in UTF-8"#,
        ),
        (
            "cut off",
            root(&read("own/trusted_root.json")[..300]),
            r#"the trust root is not a trusted_root.json: failed to parse JSON: EOF while parsing a string at line 8 column 114"#,
        ),
        (
            "a bundle",
            root(&read("own/good.sigstore.json")),
            r#"the trust root is not a trusted_root.json: its media type is `application/vnd.dev.sigstore.bundle.v0.3+json`, not `application/vnd.dev.sigstore.trustedroot…`"#,
        ),
        (
            "another file of its maker",
            root(&edited("own/trusted_root.json", |v| {
                v["mediaType"] = "application/json".into()
            })),
            r#"the trust root is not a trusted_root.json: its media type is `application/json`, not `application/vnd.dev.sigstore.trustedroot…`"#,
        ),
        (
            "no CT log",
            lacking(&["ctlogs"]),
            r#"the trust root has no certificate transparency log (ctlogs), so it cannot verify any signature"#,
        ),
        (
            "nothing",
            lacking(&["ctlogs", "tlogs", "certificateAuthorities"]),
            r#"the trust root has no certificate authority (Fulcio), no certificate transparency log (ctlogs), no transparency log (Rekor), so it cannot verify any signature"#,
        ),
        (
            "a broken certificate",
            root(&edited("own/trusted_root.json", |v| {
                *v.pointer_mut("/certificateAuthorities/0/certChain/certificates/0/rawBytes")
                    .unwrap() = "AAAA".into();
            })),
            r#"the trust root cannot be used: invalid trusted certificate: TrailingData(SignedData)"#,
        ),
        (
            "a broken key",
            root(&edited("own/trusted_root.json", |v| {
                *v.pointer_mut("/tlogs/0/publicKey/rawBytes").unwrap() = "AAAA".into();
            })),
            r#"the trust root cannot be used: Crypto error: Invalid key: Invalid SPKI: ASN.1 error: unknown/unsupported ASN.1 DER tag: 0x00"#,
        ),
    ]);
}
