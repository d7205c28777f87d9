//! The log's proof in a bundle, damaged in every part.

use super::*;

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
    assert_rendered(&[
        (
            "no entry",
            rendered(&own_edited(|v| entries(v, Vec::new()))),
            r#"NotLogged: the bundle contains no transparency log entry
              cure ask its publisher to sign with a transparency log, as `cosign sign-blob --bundle` does"#,
        ),
        (
            "no inclusion proof",
            rendered(&removed("inclusionProof")),
            r#"NotLogged: its log entry has no inclusion proof
              expected an inclusion proof with a signed checkpoint
              found only the log's promise
              cure ask its publisher to sign with a transparency log, as `cosign sign-blob --bundle` does"#,
        ),
        (
            "no proof, bundle v0.1",
            rendered(&own_edited(|v| {
                v["mediaType"] = "application/vnd.dev.sigstore.bundle+json;version=0.1".into();
                let material = v["verificationMaterial"].as_object_mut().unwrap();
                let certificate = material.remove("certificate").unwrap();
                let chain = serde_json::json!({ "certificates": [certificate] });
                material.insert("x509CertificateChain".into(), chain);
                v.pointer_mut("/verificationMaterial/tlogEntries/0")
                    .unwrap()
                    .as_object_mut()
                    .unwrap()
                    .remove("inclusionProof");
            })),
            r#"NotLogged: its log entry has no inclusion proof
              expected an inclusion proof with a signed checkpoint
              found only the log's promise
              cure ask its publisher to sign with a transparency log, as `cosign sign-blob --bundle` does"#,
        ),
        (
            "a second entry without proof",
            rendered(&own_edited(|v| {
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
              found only the log's promise
              cure ask its publisher to sign with a transparency log, as `cosign sign-blob --bundle` does"#,
        ),
        (
            "no checkpoint",
            rendered(&own_edited(|v| entry(v, checkpoint, "".into()))),
            r#"NotLogged: its inclusion proof has no signed checkpoint
              cure ask its publisher to sign with a transparency log, as `cosign sign-blob --bundle` does"#,
        ),
        (
            "no promise",
            rendered(&removed("inclusionPromise")),
            r#"NoTimestamp: it has no timestamp from an authority or log in the trust root
              expected a log entry with time and promise (SET), or an RFC 3161 timestamp"#,
        ),
        (
            "a later time",
            rendered(&own_edited(|v| {
                entry(v, "/integratedTime", "1772366500".into())
            })),
            r#"NotLogged: the log's promise does not match the entry's time, index or content
              found SET verification failed: Verification error: ECDSA_P256_SHA256 signature invalid"#,
        ),
        (
            "a wrong sibling",
            rendered(&own_edited(|v| {
                let hashes = v
                    .pointer_mut("/verificationMaterial/tlogEntries/0/inclusionProof/hashes")
                    .unwrap();
                hashes.as_array_mut().unwrap().reverse();
            })),
            r#"NotLogged: the log's inclusion proof does not match the log's root
              found inclusion proof verification failed: root hash mismatch: expected 06d512e25bffaabe7b5e8660041851d0c947c5cb25df1bd8e7caeb13b7d06954, computed 26d0d435472009af757990a415f88f5c551a4ee1a8c64de37b7466cce687f7c9"#,
        ),
        (
            "another log's checkpoint",
            rendered(&own_edited(|v| entry(v, checkpoint, foreign))),
            r#"NotLogged: the checkpoint is not signed by the log, or is for a different tree
              found No matching Rekor key found for checkpoint signature"#,
        ),
        (
            "a checkpoint of a larger tree",
            rendered(&own_edited(|v| {
                entry(v, checkpoint, note.replacen("\n4\n", "\n5\n", 1).into())
            })),
            r#"NotLogged: the checkpoint is not signed by the log, or is for a different tree
              found No valid Rekor signature found on checkpoint"#,
        ),
        (
            "an index outside of the tree",
            rendered(&own_edited(|v| {
                entry(v, "/inclusionProof/logIndex", "4".into())
            })),
            r#"NotLogged: its inclusion proof contradicts its checkpoint
              found log index 4 out of range for tree size 4"#,
        ),
        (
            "another kind of entry",
            rendered(&own_edited(|v| {
                entry(v, "/kindVersion/kind", "dsse".into())
            })),
            r#"Unsupported: its form is not supported
              found Rekor entry dsse/0.0.1 is incompatible with a message signature"#,
        ),
    ]);
}

fn entries(bundle: &mut Value, entries: Vec<Value>) {
    bundle["verificationMaterial"]["tlogEntries"] = Value::Array(entries);
}
