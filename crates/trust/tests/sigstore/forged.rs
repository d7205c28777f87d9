//! Bundles that a dishonest instance signs, or that were changed after signing.

use super::*;

#[test]
fn what_only_a_dishonest_instance_signs_is_refused() {
    let good = signed_by(&read("own/good.sigstore.json"));
    let public_root = judge(&public(IDENTITY, GITHUB, None), "own/tool.exe", &good);
    assert_told(&[
        (
            "no SCT",
            told(&own_bundle("no-sct")),
            r#"NotLogged: its certificate carries no SCT: no certificate transparency log has seen it"#,
        ),
        (
            "the SCT of another log",
            told(&own_bundle("foreign-sct")),
            r#"NotLogged: the SCT in its certificate is of a log that the trust root does not name
              found log 16cc2202e3f10aca058c4870b5604a488a5ce30960d15611ac3be1e82d9fc926 at 2026-03-01T12:00:00Z
              cure if that is another Sigstore instance or a newer part of this one, and you trust it: its trusted_root.json as `trusted_root`"#,
        ),
        (
            "the SCT of another certificate",
            told(&own_bundle("borrowed-sct")),
            r#"NotLogged: the SCT in its certificate is of another certificate
              found SCT signature verification failed: Verification error: ECDSA_P256_SHA256 signature invalid"#,
        ),
        (
            "a server's certificate",
            told(&own_bundle("tls-server")),
            r#"WrongUse: its certificate is not for signing code
              expected the extended key usage codeSigning"#,
        ),
        (
            "logged by another digest",
            told(&own_bundle("p384-logged")),
            r#"Unsupported: its log entry knows the file by a digest that winimg does not judge here
              expected SHA2_256
              found SHA2_384"#,
        ),
        (
            "signed after its ten minutes",
            told(&own_bundle("expired")),
            r#"Expired: its certificate had expired when it was signed
              expected 2026-03-01T12:00:00Z to 2026-03-01T12:10:00Z
              found 2026-03-01T13:00:00Z"#,
        ),
        (
            "signed before",
            told(&own_bundle("too-early")),
            r#"NotYetValid: its certificate was not yet valid when it was signed
              expected 2026-03-01T12:00:00Z to 2026-03-01T12:10:00Z
              found 2026-03-01T11:00:00Z"#,
        ),
        (
            "another log",
            told(&own_bundle("foreign-log")),
            r#"NotLogged: its log entry is of a log that the trust root does not name
              expected https://rekor.example.net
              found log a2cb29229666905b8c636ed81b2c033669ff39809b57efeb8c6ec8d2a486e042
              cure if that is another Sigstore instance or a newer part of this one, and you trust it: its trusted_root.json as `trusted_root`"#,
        ),
        (
            "another instance",
            told(&own_bundle("foreign-root")),
            r#"OtherRoot: its certificate comes from an authority that the trust root does not name
              expected CN=own fulcio,O=example.net (key d4a1ce352377a38e…)
              found CN=another fulcio,O=example.net (key d7d0662340e7b877…)
              cure if that is another Sigstore instance or a newer part of this one, and you trust it: its trusted_root.json as `trusted_root`"#,
        ),
        (
            "an authority of the same name",
            told(&own_bundle("impostor")),
            r#"OtherRoot: its certificate was changed after its authority had signed it, or another made it in its name
              expected a signature by CN=own fulcio,O=example.net (key d4a1ce352377a38e…)
              found certificate chain validation failed: InvalidSignatureForPublicKey"#,
        ),
        (
            "our instance for the public good root",
            told(&public_root),
            r#"OtherRoot: its certificate comes from an authority that the trust root does not name
              expected CN=sigstore,O=sigstore.dev (key c8c51d00419a2429…); CN=sigstore-intermediate,O=sigstore.dev (key dfd3e9cf56241196…); CN=sigstore,O=sigstore.dev (key 58c01e5f9145a566…)
              found CN=own fulcio,O=example.net (key d4a1ce352377a38e…)
              cure if that is another Sigstore instance or a newer part of this one, and you trust it: its trusted_root.json as `trusted_root`"#,
        ),
    ]);
}

/// The clock of the log, or of this machine, is wrong.
#[test]
fn a_signature_from_the_future_is_refused() {
    let refusal = own_bundle("from-the-future").unwrap_err();
    assert_eq!(refusal.reason, winimg_trust::Reason::NotYetValid);
    assert_eq!(refusal.problem.fact, "the log saw it in the future");
    assert_eq!(
        refusal.problem.found.as_deref(),
        Some("2045-02-24T12:00:00Z")
    );
    assert_eq!(refusal.problem.cures, ["set this machine's clock"]);
}

/// Authorities and logs count only for what was made while they were in force.
#[test]
fn a_trust_root_whose_parts_had_ended_proves_nothing() {
    let ended = |part: &str| {
        let root = edited("own/trusted_root.json", |v| {
            *v.pointer_mut(part).unwrap() = serde_json::json!({ "start": "2026-01-01T00:00:00Z", "end": "2026-02-01T00:00:00Z" });
        });
        let rule = sigstore::Rule::new(IDENTITY, GITHUB, None, Some(&root)).unwrap();
        let good = signed_by(&read("own/good.sigstore.json"));
        told(&judge(
            &winimg_trust::Rule::Sigstore(rule),
            "own/tool.exe",
            &good,
        ))
    };
    assert_told(&[
        (
            "the authority",
            ended("/certificateAuthorities/0/validFor"),
            r#"OtherRoot: no authority of the trust root was in force when it was signed
              found signed at 2026-03-01T12:00:05Z"#,
        ),
        (
            "the log",
            ended("/tlogs/0/publicKey/validFor"),
            r#"NotLogged: its log entry was made when the log was not in force
              found 2026-03-01T12:00:05Z"#,
        ),
        (
            "the certificate log",
            ended("/ctlogs/0/publicKey/validFor"),
            r#"NotLogged: the SCT in its certificate was made when its log was not in force
              found log afc27ee6856ad8974a83ea3341cada616c845d97e033ac7b18483fbace3e33ab at 2026-03-01T12:00:00Z
              cure if that is another Sigstore instance or a newer part of this one, and you trust it: its trusted_root.json as `trusted_root`"#,
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
    assert_told(&[
        (
            "another file",
            told(&judge(&rule, "own/other.exe", &good)),
            r#"Changed: it is of other bytes
              expected sha256:5cc588c96dc6d14a11a586618606ab9c8db2550d8f3201ab324b0e07adf38e3e
              found sha256:edab92e1ebf16e0c9b3cb2ed01769a1260a41b36a1bff8a799a82a81d1938277"#,
        ),
        (
            "another file's bundle",
            told(&own_bundle("other")),
            r#"Changed: it is of other bytes
              expected sha256:edab92e1ebf16e0c9b3cb2ed01769a1260a41b36a1bff8a799a82a81d1938277
              found sha256:5cc588c96dc6d14a11a586618606ab9c8db2550d8f3201ab324b0e07adf38e3e"#,
        ),
        (
            "a bundle that claims this file",
            told(&own_edited(|v| {
                let signature = other
                    .pointer("/messageSignature/signature")
                    .unwrap()
                    .clone();
                v["messageSignature"]["signature"] = signature;
            })),
            r#"Changed: its signature does not fit what is signed: the signature or the bundle around it was changed"#,
        ),
        (
            "without its own word about the file",
            told(&judge(
                &rule,
                "own/other.exe",
                &signed_by(&edited("own/good.sigstore.json", |v| {
                    v["messageSignature"]
                        .as_object_mut()
                        .unwrap()
                        .remove("messageDigest");
                })),
            )),
            r#"Changed: its signature does not fit what is signed
              expected sha256:5cc588c96dc6d14a11a586618606ab9c8db2550d8f3201ab324b0e07adf38e3e
              found sha256:edab92e1ebf16e0c9b3cb2ed01769a1260a41b36a1bff8a799a82a81d1938277"#,
        ),
        (
            "the log entry of another file",
            told(&own_edited(borrowed)),
            r#"NotLogged: its log entry is of other bytes
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
    assert_told(&[(
        "another tag",
        told(&changed),
        r#"OtherRoot: its certificate was changed after its authority had signed it, or another made it in its name
              expected a signature by CN=own fulcio,O=example.net (key d4a1ce352377a38e…)
              found certificate chain validation failed: InvalidSignatureForPublicKey"#,
    )]);
}
