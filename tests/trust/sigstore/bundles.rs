//! Bundles with a signature of the file itself.

use super::*;

const WILLIAM: &str = "william@yossarian.net";
const GITHUB_LOGIN: &str = "https://github.com/login/oauth";
/// Of the file whose signature bears another's log entry: CVE-2022-36056.
const CVE: &str = "c87b5b213ab08b32970c106d0c7e4423e67f5449c2fd2d1e9b4ea6cc43b6ee7c";
const BEACON: &str = "https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon/.github/workflows/extremely-dangerous-oidc-beacon.yml@refs/heads/main";

fn own_bundle(name: &str) -> Judged {
    let bundle = read(&format!("own/{name}.sigstore.json"));
    judge(
        &own(IDENTITY, GITHUB, None),
        "own/tool.exe",
        &signed_by(&bundle),
    )
}

fn own_edited(edit: impl FnOnce(&mut Value)) -> Judged {
    let bundle = edited("own/good.sigstore.json", edit);
    judge(
        &own(IDENTITY, GITHUB, None),
        "own/tool.exe",
        &signed_by(&bundle),
    )
}

#[test]
fn bundles_of_every_version_are_met() {
    let cosign = judge(
        &public("w.vollprecht@gmail.com", GITHUB_LOGIN, None),
        "real/cosign-v3-blob.txt",
        &signed_by(&read("real/cosign-v3-blob.sigstore.json")),
    );
    let wheel = judge_digest(
        &public(
            "https://github.com/trailofbits/rfc8785.py/.github/workflows/release.yml@refs/tags/v0.1.2",
            GITHUB,
            None,
        ),
        "c4e92e9ecc828bef2aa7dba1de8ac983511f7532a0df11c770d39099a25cf201",
        &signed_by(&read("real/bundle_v3_github.whl.sigstore")),
    );
    let beacon = judge_digest(
        &public(BEACON, GITHUB, None),
        "a0cfc71271d6e278e57cd332ff957c3f7043fdda354c4cbb190a30d56efa01bf",
        &signed_by(&read("real/v0.1-beacon.sigstore.json")),
    );
    assert_told(&[
        (
            "v0.3, cosign",
            told(&cosign),
            r#"sigstore: w.vollprecht@gmail.com
              by identity w.vollprecht@gmail.com of issuer https://github.com/login/oauth, Sigstore's public good trust root
              at 2025-12-03T18:36:42Z"#,
        ),
        (
            "v0.2, a wheel",
            told(&wheel),
            r#"sigstore: https://github.com/trailofbits/rfc8785.py/.github/workflows/release.yml@refs/tags/v0.1.2
              by identity https://github.com/trailofbits/rfc8785.py/.github/workflows/release.yml@refs/tags/v0.1.2 of issuer ACTIONS, Sigstore's public good trust root
              at 2024-03-19T22:41:16Z"#,
        ),
        (
            "v0.1",
            told(&beacon),
            r#"sigstore: https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon/.github/workflows/extremely-dangerous-oidc-beacon.yml@refs/heads/main
              by identity https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon/.github/workflows/extremely-dangerous-oidc-beacon.yml@refs/heads/main of issuer ACTIONS, Sigstore's public good trust root
              at 2023-07-12T15:56:36Z"#,
        ),
        (
            "own",
            told(&own_bundle("good")),
            r#"sigstore: RELEASE
              by identity RELEASE of issuer ACTIONS, trust root OWN
              at 2026-03-01T12:00:05Z"#,
        ),
    ]);
}

#[test]
fn real_bundles_that_lack_something_are_refused() {
    let real = |name: &str, identity: &str, issuer: &str, hex: &str| {
        let bundle = read(&format!("real/{name}"));
        told(&judge_digest(
            &public(identity, issuer, None),
            hex,
            &signed_by(&bundle),
        ))
    };
    let no_time = "ca6de99a11d3d38056d838c7dc9a23a11a0c81bcace0d11e8c7aa2f2d0b294b1";
    assert_told(&[
        (
            "of the staging instance",
            real(
                "bundle_cve_2022_36056.txt.sigstore",
                WILLIAM,
                GITHUB_LOGIN,
                CVE,
            ),
            r#"OtherRoot: its certificate comes from an authority that the trust root does not name
              expected CN=sigstore,O=sigstore.dev (key c8c51d00419a2429…); CN=sigstore-intermediate,O=sigstore.dev (key dfd3e9cf56241196…); CN=sigstore,O=sigstore.dev (key 58c01e5f9145a566…)
              found CN=sigstore-intermediate,O=sigstore.dev (key 718630a6147c626f…)
              cure if that is another Sigstore instance, and you trust it: its trusted_root.json as `trusted_root`"#,
        ),
        (
            "the log's entry is of another signature",
            told(&judge_digest(
                &staging(WILLIAM, GITHUB_LOGIN, None),
                CVE,
                &signed_by(&read("real/bundle_cve_2022_36056.txt.sigstore")),
            )),
            r#"NotLogged: its log entry is of another signature
              found certificate in bundle does not match certificate in Rekor entry"#,
        ),
        (
            "no checkpoint",
            real(
                "bundle_no_checkpoint.txt.sigstore",
                WILLIAM,
                GITHUB_LOGIN,
                "802dd60ff88333802f2585e73043bd21c348105e1992fe5b3175571e2adee30e",
            ),
            r#"NotLogged: its inclusion proof has no signed checkpoint
              cure ask its publisher to sign with a transparency log, as `cosign sign-blob --bundle` does"#,
        ),
        (
            "no log entry",
            real(
                "bundle_no_log_entry.txt.sigstore",
                "alex.cameron@trailofbits.com",
                "https://accounts.google.com",
                "9b469fc976227a233073b62725fbc98b549c331419d9ed71cc8b286ef2c6fb9b",
            ),
            r#"NotLogged: the bundle holds no entry of a transparency log
              cure ask its publisher to sign with a transparency log, as `cosign sign-blob --bundle` does"#,
        ),
        (
            "no time",
            real(
                "bundle_v3_no_signed_time.txt.sigstore.json",
                WILLIAM,
                GITHUB_LOGIN,
                no_time,
            ),
            r#"NoTimestamp: nobody whom the trust root names says when it was made
              expected a log entry with time and promise (SET), or an RFC 3161 timestamp"#,
        ),
        (
            "another version",
            real(
                "bundle_invalid_version.txt.sigstore",
                WILLIAM,
                GITHUB_LOGIN,
                no_time,
            ),
            r#"Unsupported: it is a bundle of a kind that winimg does not know
              expected a Sigstore bundle of version 0.1, 0.2 or 0.3
              found mediaType `this is completely wrong`"#,
        ),
        (
            "no certificate",
            real(
                "bundle_no_cert_v1.txt.sigstore",
                WILLIAM,
                GITHUB_LOGIN,
                no_time,
            ),
            r#"Malformed: the bundle holds no certificate"#,
        ),
        (
            "of a key",
            real(
                "managed-key.sigstore.json",
                BEACON,
                GITHUB,
                "a0cfc71271d6e278e57cd332ff957c3f7043fdda354c4cbb190a30d56efa01bf",
            ),
            r#"WrongUse: it was made with a key, and names nobody
              expected a certificate that Fulcio issued to an identity
              cure for a key that you know: kind = "cosign", key = "cosign.pub""#,
        ),
        (
            "of a private instance",
            real(
                "othername.sigstore.json",
                "foo!oidc.local",
                "http://oidc.local:8080",
                "bc103b4a84971ef6459b294a2b98568a2bfb72cded09d4acd1e16366a401f95b",
            ),
            r#"OtherRoot: its certificate comes from an authority that the trust root does not name
              expected CN=sigstore,O=sigstore.dev (key c8c51d00419a2429…); CN=sigstore-intermediate,O=sigstore.dev (key dfd3e9cf56241196…); CN=sigstore,O=sigstore.dev (key 58c01e5f9145a566…)
              found O=Linux Foundation,POSTALCODE=57274,STREET=548 Market St,L=San Francisco,ST=California,C=USA (key 8f0f9be51da5d531…)
              cure if that is another Sigstore instance, and you trust it: its trusted_root.json as `trusted_root`"#,
        ),
        (
            "an attestation",
            real(
                "conda-attestation.sigstore.json",
                WILLIAM,
                GITHUB_LOGIN,
                no_time,
            ),
            r#"WrongUse: it is an attestation, and no signature of the file
              cure write kind = "attestation", with the `predicate` that is wanted"#,
        ),
    ]);
}

#[test]
fn who_signed_and_who_vouched_is_compared_exactly() {
    let bundle = signed_by(&read("own/good.sigstore.json"));
    let asked = |identity: &str, issuer: &str| {
        told(&judge(
            &own(identity, issuer, None),
            "own/tool.exe",
            &bundle,
        ))
    };
    let branch = IDENTITY.replace("refs/tags/v1.2.0", "refs/heads/main");
    let email = signed_by(&read("own/email.sigstore.json"));
    let email = judge(
        &own("release@example.net", "https://accounts.example.net", None),
        "own/tool.exe",
        &email,
    );
    assert_told(&[
        (
            "an e-mail address",
            told(&email),
            r#"sigstore: release@example.net
              by identity release@example.net of issuer https://accounts.example.net, trust root OWN
              at 2026-03-01T12:00:05Z"#,
        ),
        (
            "another identity",
            asked(&branch, GITHUB),
            r#"OtherIdentity: its certificate was issued to another identity
              expected https://github.com/example/tools/.github/workflows/release.yml@refs/heads/main of issuer ACTIONS
              found RELEASE of issuer ACTIONS"#,
        ),
        (
            "another issuer",
            asked(IDENTITY, "https://accounts.google.com"),
            r#"OtherIssuer: its identity was vouched for by another issuer
              expected https://accounts.google.com
              found ACTIONS"#,
        ),
    ]);
    // Neither patterns nor prefixes nor another case.
    for identity in [
        "",
        "*",
        ".*",
        &IDENTITY[..IDENTITY.len() - 1],
        &IDENTITY.to_uppercase(),
        &format!("{IDENTITY} "),
    ] {
        let text = asked(identity, GITHUB);
        assert!(text.starts_with("OtherIdentity: "), "`{identity}`: {text}");
    }
    for issuer in [
        "",
        "*",
        ".*",
        "https://token.actions.githubusercontent.com/",
    ] {
        let text = asked(IDENTITY, issuer);
        assert!(text.starts_with("OtherIssuer: "), "`{issuer}`: {text}");
    }
}

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
              found log 16cc2202e3f10aca058c4870b5604a488a5ce30960d15611ac3be1e82d9fc926 at 2026-03-01T12:00:00Z"#,
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
              found log a2cb29229666905b8c636ed81b2c033669ff39809b57efeb8c6ec8d2a486e042"#,
        ),
        (
            "another instance",
            told(&own_bundle("foreign-root")),
            r#"OtherRoot: its certificate comes from an authority that the trust root does not name
              expected CN=own fulcio,O=example.net (key d4a1ce352377a38e…)
              found CN=another fulcio,O=example.net (key d7d0662340e7b877…)
              cure if that is another Sigstore instance, and you trust it: its trusted_root.json as `trusted_root`"#,
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
              cure if that is another Sigstore instance, and you trust it: its trusted_root.json as `trusted_root`"#,
        ),
    ]);
}

/// The clock of the log, or of this machine, is wrong.
#[test]
fn a_signature_from_the_future_is_refused() {
    let refusal = own_bundle("from-the-future").unwrap_err();
    assert_eq!(refusal.reason, winimg::trust::Reason::NotYetValid);
    assert_eq!(refusal.fact, "the log saw it in the future");
    assert_eq!(refusal.found.as_deref(), Some("2045-02-24T12:00:00Z"));
    assert_eq!(refusal.cure.as_deref(), Some("set this machine's clock"));
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
        told(&judge(&trust::Rule::Sigstore(rule), "own/tool.exe", &good))
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
              found log afc27ee6856ad8974a83ea3341cada616c845d97e033ac7b18483fbace3e33ab at 2026-03-01T12:00:00Z"#,
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

#[test]
fn a_damaged_proof_of_the_log_is_refused() {
    let entry = |v: &mut Value, path: &str, new: Value| {
        *v.pointer_mut(&format!("/verificationMaterial/tlogEntries/0{path}"))
            .unwrap() = new;
    };
    let checkpoint = "/inclusionProof/checkpoint/envelope";
    let good: Value = serde_json::from_slice(&read("own/good.sigstore.json")).unwrap();
    let note = good
        .pointer(&format!("/verificationMaterial/tlogEntries/0{checkpoint}"))
        .unwrap()
        .as_str()
        .unwrap()
        .to_string();
    let foreign: Value = serde_json::from_slice(&read("own/foreign-log.sigstore.json")).unwrap();
    let foreign = foreign
        .pointer(&format!("/verificationMaterial/tlogEntries/0{checkpoint}"))
        .unwrap()
        .clone();
    let removed = |what: &'static str| {
        own_edited(|v| {
            v.pointer_mut("/verificationMaterial/tlogEntries/0")
                .unwrap()
                .as_object_mut()
                .unwrap()
                .remove(what);
        })
    };
    assert_told(&[
        (
            "no entry",
            told(&own_edited(|v| entries(v, Vec::new()))),
            r#"NotLogged: the bundle holds no entry of a transparency log
              cure ask its publisher to sign with a transparency log, as `cosign sign-blob --bundle` does"#,
        ),
        (
            "no inclusion proof",
            told(&removed("inclusionProof")),
            r#"NotLogged: its log entry has no inclusion proof
              expected an inclusion proof with a signed checkpoint
              found the log's promise alone
              cure ask its publisher to sign with a transparency log, as `cosign sign-blob --bundle` does"#,
        ),
        (
            "no proof, bundle v0.1",
            told(&own_edited(|v| {
                v["mediaType"] = "application/vnd.dev.sigstore.bundle+json;version=0.1".into();
                v.pointer_mut("/verificationMaterial/tlogEntries/0")
                    .unwrap()
                    .as_object_mut()
                    .unwrap()
                    .remove("inclusionProof");
            })),
            r#"NotLogged: its log entry has no inclusion proof
              expected an inclusion proof with a signed checkpoint
              found the log's promise alone
              cure ask its publisher to sign with a transparency log, as `cosign sign-blob --bundle` does"#,
        ),
        (
            "a second entry without proof",
            told(&own_edited(|v| {
                let first = v
                    .pointer("/verificationMaterial/tlogEntries/0")
                    .unwrap()
                    .clone();
                let mut second = first.clone();
                second.as_object_mut().unwrap().remove("inclusionProof");
                entries(v, vec![first, second]);
            })),
            r#"NotLogged: its log entry has no inclusion proof
              expected an inclusion proof with a signed checkpoint
              found the log's promise alone
              cure ask its publisher to sign with a transparency log, as `cosign sign-blob --bundle` does"#,
        ),
        (
            "no checkpoint",
            told(&own_edited(|v| entry(v, checkpoint, "".into()))),
            r#"NotLogged: its inclusion proof has no signed checkpoint
              cure ask its publisher to sign with a transparency log, as `cosign sign-blob --bundle` does"#,
        ),
        (
            "no promise",
            told(&removed("inclusionPromise")),
            r#"NoTimestamp: nobody whom the trust root names says when it was made
              expected a log entry with time and promise (SET), or an RFC 3161 timestamp"#,
        ),
        (
            "a later time",
            told(&own_edited(|v| {
                entry(v, "/integratedTime", "1772366500".into())
            })),
            r#"NotLogged: the log's promise does not fit the entry: its time, its place or its content is another
              found SET verification failed: Verification error: ECDSA_P256_SHA256 signature invalid"#,
        ),
        (
            "a wrong sibling",
            told(&own_edited(|v| {
                let hashes = v
                    .pointer_mut("/verificationMaterial/tlogEntries/0/inclusionProof/hashes")
                    .unwrap();
                hashes.as_array_mut().unwrap().reverse();
            })),
            r#"NotLogged: the log's inclusion proof does not lead to the log's root
              found inclusion proof verification failed: root hash mismatch: expected d8b07ec35165f778a73b539b53e3b532e0c6b521a598006734b25806815f605b, computed 7fb9406d4225becd69ae1d9dbc71aee1c6dd3d0c99ddad42c2f48e573dd6684f"#,
        ),
        (
            "another log's checkpoint",
            told(&own_edited(|v| entry(v, checkpoint, foreign))),
            r#"NotLogged: the checkpoint is not signed by the log, or is of another tree
              found No matching Rekor key found for checkpoint signature"#,
        ),
        (
            "a checkpoint of a larger tree",
            told(&own_edited(|v| {
                entry(v, checkpoint, note.replacen("\n4\n", "\n5\n", 1).into())
            })),
            r#"NotLogged: the checkpoint is not signed by the log, or is of another tree
              found No valid Rekor signature found on checkpoint"#,
        ),
        (
            "an index outside of the tree",
            told(&own_edited(|v| {
                entry(v, "/inclusionProof/logIndex", "4".into())
            })),
            r#"NotLogged: its inclusion proof contradicts its checkpoint
              found log index 4 out of range for tree size 4"#,
        ),
        (
            "another kind of entry",
            told(&own_edited(|v| {
                entry(v, "/kindVersion/kind", "dsse".into())
            })),
            r#"Unsupported: it is made in a way that winimg cannot judge
              found Rekor entry dsse/0.0.1 is incompatible with a message signature"#,
        ),
    ]);
}

fn entries(bundle: &mut Value, entries: Vec<Value>) {
    bundle["verificationMaterial"]["tlogEntries"] = Value::Array(entries);
}

#[test]
fn what_is_no_bundle_is_refused() {
    let rule = own(IDENTITY, GITHUB, None);
    let good = read("own/good.sigstore.json");
    let of = |bytes: &[u8]| told(&judge(&rule, "own/tool.exe", &signed_by(bytes)));
    let huge = vec![b' '; sigstore::LIMIT + 1];
    assert_told(&[
        (
            "nothing",
            told(&judge(&rule, "own/tool.exe", &Evidence::default())),
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
            r#"Malformed: it is longer than any of its kind
              expected 8388608 bytes at most
              found 8388609 bytes"#,
        ),
        (
            "cut off",
            of(&good[..good.len() / 2]),
            r#"Malformed: it is cut off at line 33, column 320
              cure fetch it again"#,
        ),
        (
            "a web page",
            of(b"<!DOCTYPE html><title>Not found</title>"),
            r#"Malformed: a web page came in its place
              cure check the `url` of the signature"#,
        ),
        (
            "noise",
            of(b"\x00\x01\x02"),
            r#"Malformed: it cannot be read as a signature
              expected base64 of an ECDSA signature, or a Sigstore bundle in JSON
              found a file that begins with the bytes 000102"#,
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
            r#"Unsupported: it is a bundle of a kind that winimg does not know
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
    let root = |bytes: &[u8]| match sigstore::Rule::new(IDENTITY, GITHUB, None, Some(bytes)) {
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
    assert_told(&[
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
            r#"the trust root is not a trusted_root.json: its media type is `application/vnd.dev.sigstore.bundle.v0.3+json`, and not `application/vnd.dev.sigstore.trustedroot…`"#,
        ),
        (
            "another file of its maker",
            root(&edited("own/trusted_root.json", |v| {
                v["mediaType"] = "application/json".into()
            })),
            r#"the trust root is not a trusted_root.json: its media type is `application/json`, and not `application/vnd.dev.sigstore.trustedroot…`"#,
        ),
        (
            "no CT log",
            lacking(&["ctlogs"]),
            r#"the trust root names no certificate transparency log (ctlogs): no signature could be proved by it"#,
        ),
        (
            "nothing",
            lacking(&["ctlogs", "tlogs", "certificateAuthorities"]),
            r#"the trust root names no certificate authority (Fulcio), no certificate transparency log (ctlogs), no transparency log (Rekor): no signature could be proved by it"#,
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
