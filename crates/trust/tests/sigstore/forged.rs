//! Bundles that a dishonest instance signs, or that were changed after signing.

use super::*;

#[test]
fn what_only_a_dishonest_instance_signs_is_refused() {
    let good = signed_by(&read("own/good.sigstore.json"));
    let public_root = judge(&public(IDENTITY, GITHUB, None), "own/tool.exe", &good);
    assert_rendered(&[
        (
            "no SCT",
            rendered(&own_bundle("no-sct")),
            r#"NotLogged: its certificate has no SCT: no certificate transparency log has seen it"#,
        ),
        (
            "the SCT of another log",
            rendered(&own_bundle("foreign-sct")),
            r#"NotLogged: the SCT in its certificate is from a log that is not in the trust root
              found log 16cc2202e3f10aca058c4870b5604a488a5ce30960d15611ac3be1e82d9fc926 at 2026-03-01T12:00:00Z
              cure if you trust it (another Sigstore instance, or a newer authority or log), set `trusted_root` to its trusted_root.json"#,
        ),
        (
            "the SCT of another certificate",
            rendered(&own_bundle("borrowed-sct")),
            r#"NotLogged: the SCT in its certificate is for a different certificate
              found SCT signature verification failed: Verification error: ECDSA_P256_SHA256 signature invalid"#,
        ),
        (
            "a server's certificate",
            rendered(&own_bundle("tls-server")),
            r#"WrongUse: its certificate is not for signing code
              expected the extended key usage codeSigning"#,
        ),
        (
            "logged by another digest",
            rendered(&own_bundle("p384-logged")),
            r#"Unsupported: its log entry has a digest algorithm that is not supported
              expected SHA2_256
              found SHA2_384"#,
        ),
        (
            "signed after its ten minutes",
            rendered(&own_bundle("expired")),
            r#"Expired: its certificate had expired when it was signed
              expected 2026-03-01T12:00:00Z to 2026-03-01T12:10:00Z
              found 2026-03-01T13:00:00Z"#,
        ),
        (
            "signed before",
            rendered(&own_bundle("too-early")),
            r#"NotYetValid: its certificate was not yet valid when it was signed
              expected 2026-03-01T12:00:00Z to 2026-03-01T12:10:00Z
              found 2026-03-01T11:00:00Z"#,
        ),
        (
            "another log",
            rendered(&own_bundle("foreign-log")),
            r#"NotLogged: its log entry is from a log that is not in the trust root
              expected https://rekor.example.net
              found log a2cb29229666905b8c636ed81b2c033669ff39809b57efeb8c6ec8d2a486e042
              cure if you trust it (another Sigstore instance, or a newer authority or log), set `trusted_root` to its trusted_root.json"#,
        ),
        (
            "another instance",
            rendered(&own_bundle("foreign-root")),
            r#"OtherRoot: its certificate was issued by an authority that is not in the trust root
              expected CN=own fulcio,O=example.net (key d4a1ce352377a38e…)
              found CN=another fulcio,O=example.net (key d7d0662340e7b877…)
              cure if you trust it (another Sigstore instance, or a newer authority or log), set `trusted_root` to its trusted_root.json"#,
        ),
        (
            "an authority of the same name",
            rendered(&own_bundle("impostor")),
            r#"OtherRoot: its certificate was changed after it was issued, or forged in the name of its authority
              expected a signature by CN=own fulcio,O=example.net (key d4a1ce352377a38e…)
              found certificate chain validation failed: InvalidSignatureForPublicKey"#,
        ),
        (
            "our instance for the public good root",
            rendered(&public_root),
            r#"OtherRoot: its certificate was issued by an authority that is not in the trust root
              expected CN=sigstore,O=sigstore.dev (key c8c51d00419a2429…); CN=sigstore-intermediate,O=sigstore.dev (key dfd3e9cf56241196…); CN=sigstore,O=sigstore.dev (key 58c01e5f9145a566…)
              found CN=own fulcio,O=example.net (key d4a1ce352377a38e…)
              cure if you trust it (another Sigstore instance, or a newer authority or log), set `trusted_root` to its trusted_root.json"#,
        ),
    ]);
}

/// The clock of the log, or of this machine, is wrong.
#[test]
fn a_signature_from_the_future_is_refused() {
    let refusal = own_bundle("from-the-future").unwrap_err();
    assert_eq!(refusal.reason, winimg_trust::RefusalReason::NotYetValid);
    assert_eq!(refusal.problem.fact, "its log entry is dated in the future");
    assert_eq!(
        refusal.problem.found.as_deref(),
        Some("2045-02-24T12:00:00Z")
    );
    assert_eq!(refusal.problem.cures, ["check this machine's clock"]);
}

/// Authorities and logs count only for what was made while they were in force.
#[test]
fn a_trust_root_whose_parts_had_ended_proves_nothing() {
    let ended = |part: &str| {
        let root = edited("own/trusted_root.json", |v| {
            *v.pointer_mut(part).unwrap() = serde_json::json!({ "start": "2026-01-01T00:00:00Z", "end": "2026-02-01T00:00:00Z" });
        });
        let rule = sigstore::SigstoreRule::new(IDENTITY, GITHUB, None, Some(&root)).unwrap();
        let good = signed_by(&read("own/good.sigstore.json"));
        rendered(&judge(
            &winimg_trust::SignatureRule::Sigstore(rule),
            "own/tool.exe",
            &good,
        ))
    };
    assert_rendered(&[
        (
            "the authority",
            ended("/certificateAuthorities/0/validFor"),
            r#"OtherRoot: no authority of the trust root was valid when it was signed
              found signed at 2026-03-01T12:00:05Z"#,
        ),
        (
            "the log",
            ended("/tlogs/0/publicKey/validFor"),
            r#"NotLogged: its log entry was made when the log was not valid
              found 2026-03-01T12:00:05Z"#,
        ),
        (
            "the certificate log",
            ended("/ctlogs/0/publicKey/validFor"),
            r#"NotLogged: the SCT in its certificate was made when its log was not valid
              found log afc27ee6856ad8974a83ea3341cada616c845d97e033ac7b18483fbace3e33ab at 2026-03-01T12:00:00Z
              cure if you trust it (another Sigstore instance, or a newer authority or log), set `trusted_root` to its trusted_root.json"#,
        ),
    ]);
}

#[test]
fn bundles_of_other_bytes_are_refused() {
    let rule = own(IDENTITY, GITHUB, None);
    let good = signed_by(&read("own/good.sigstore.json"));
    let entry = "/verificationMaterial/tlogEntries/0";
    let other: Value = serde_json::from_slice(&read("own/other.sigstore.json")).unwrap();
    let borrowed =
        |v: &mut Value| *v.pointer_mut(entry).unwrap() = other.pointer(entry).unwrap().clone();
    assert_rendered(&[
        (
            "another file",
            rendered(&judge(&rule, "own/other.exe", &good)),
            r#"Changed: it does not match the file
              expected sha256:5cc588c96dc6d14a11a586618606ab9c8db2550d8f3201ab324b0e07adf38e3e
              found sha256:edab92e1ebf16e0c9b3cb2ed01769a1260a41b36a1bff8a799a82a81d1938277"#,
        ),
        (
            "another file's bundle",
            rendered(&own_bundle("other")),
            r#"Changed: it does not match the file
              expected sha256:edab92e1ebf16e0c9b3cb2ed01769a1260a41b36a1bff8a799a82a81d1938277
              found sha256:5cc588c96dc6d14a11a586618606ab9c8db2550d8f3201ab324b0e07adf38e3e"#,
        ),
        (
            "a bundle that claims this file",
            rendered(&own_edited(|v| {
                let signature = other
                    .pointer("/messageSignature/signature")
                    .unwrap()
                    .clone();
                v["messageSignature"]["signature"] = signature;
            })),
            r#"Changed: its signature does not match the signed content: the signature or the bundle around it was changed"#,
        ),
        (
            "without its own word about the file",
            rendered(&judge(
                &rule,
                "own/other.exe",
                &signed_by(&edited("own/good.sigstore.json", |v| {
                    v["messageSignature"]
                        .as_object_mut()
                        .unwrap()
                        .remove("messageDigest");
                })),
            )),
            r#"Changed: its signature does not match the signed content
              expected sha256:5cc588c96dc6d14a11a586618606ab9c8db2550d8f3201ab324b0e07adf38e3e
              found sha256:edab92e1ebf16e0c9b3cb2ed01769a1260a41b36a1bff8a799a82a81d1938277"#,
        ),
        (
            "the log entry of another file",
            rendered(&own_edited(borrowed)),
            r#"NotLogged: its log entry is for a different file
              expected sha256:5cc588c96dc6d14a11a586618606ab9c8db2550d8f3201ab324b0e07adf38e3e
              found sha256:edab92e1ebf16e0c9b3cb2ed01769a1260a41b36a1bff8a799a82a81d1938277"#,
        ),
    ]);
}

/// The tag in the certificate is another: what a thief of the signature would write.
#[test]
fn a_changed_certificate_is_refused() {
    use base64::Engine;
    let engine = base64::engine::general_purpose::STANDARD;
    let at = "/verificationMaterial/certificate/rawBytes";
    let changed = own_edited(|v| {
        let der = engine
            .decode(v.pointer(at).unwrap().as_str().unwrap())
            .unwrap();
        let tag = der.windows(6).position(|w| w == b"v1.2.0").unwrap();
        let mut der = der.clone();
        der[tag + 3] = b'3';
        *v.pointer_mut(at).unwrap() = engine.encode(der).into();
    });
    assert_rendered(&[(
        "another tag",
        rendered(&changed),
        r#"OtherRoot: its certificate was changed after it was issued, or forged in the name of its authority
              expected a signature by CN=own fulcio,O=example.net (key d4a1ce352377a38e…)
              found certificate chain validation failed: InvalidSignatureForPublicKey"#,
    )]);
}
