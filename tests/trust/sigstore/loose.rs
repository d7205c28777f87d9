//! `.sig` and `.cert`, with the log's answers.

use super::*;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use winimg::trust::Refusal;

fn loose(signature: &[u8], certificate: Option<&[u8]>, log: Option<&[u8]>) -> Evidence {
    Evidence {
        signature: Some(signature.to_vec()),
        certificate: certificate.map(<[u8]>::to_vec),
        log_entry: log.map(<[u8]>::to_vec),
    }
}

fn refused<T>(result: Result<T, Refusal>) -> String {
    told(&Err(result.err().expect("it is refused")))
}

#[test]
fn signature_certificate_and_entry_are_one_proof() {
    let rule = own(IDENTITY, GITHUB, None);
    let (sig, cert, pem) = (
        read("own/tool.exe.sig"),
        read("own/tool.exe.cert"),
        read("own/tool.exe.pem"),
    );
    let entries = read("own/entries.json");
    let whole = judge(
        &rule,
        "own/tool.exe",
        &loose(&sig, Some(&cert), Some(&entries)),
    );
    assert_told(&[("all answers", told(&whole), "")]);

    // The same however it is wrapped: PEM, DER, line ends, several answers one after another.
    let der = STANDARD.decode(&sig).unwrap();
    let lines = [sig.as_slice(), b"\r\n"].concat();
    let answers: Vec<Value> = serde_json::from_slice(&entries).unwrap();
    let stream = answers
        .iter()
        .map(Value::to_string)
        .collect::<Vec<_>>()
        .join("\n");
    for evidence in [
        loose(&sig, Some(&pem), Some(&entries)),
        loose(&der, Some(&cert), Some(&entries)),
        loose(&lines, Some(&cert), Some(&entries)),
        loose(&sig, Some(&cert), Some(stream.as_bytes())),
    ] {
        assert_eq!(judge(&rule, "own/tool.exe", &evidence), whole);
    }
    // And in cosign's own bundle, which has no proof of the log in itself.
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let older = serde_json::json!({ "base64Signature": text(&sig), "cert": text(&cert), "rekorBundle": {} }).to_string();
    assert_eq!(
        judge(
            &rule,
            "own/tool.exe",
            &loose(older.as_bytes(), None, Some(&entries))
        ),
        whole
    );
}

#[test]
fn loose_parts_that_do_not_belong_together_are_refused() {
    let rule = own(IDENTITY, GITHUB, None);
    let (sig, cert) = (read("own/tool.exe.sig"), read("own/tool.exe.cert"));
    let entries = read("own/entries.json");
    let of = |sig: &[u8], cert: Option<&[u8]>, log: Option<&[u8]>| {
        told(&judge(&rule, "own/tool.exe", &loose(sig, cert, log)))
    };
    let two = [read("own/tool.exe.pem"), read("own/tool.exe.pem")].concat();
    let other: Value = serde_json::from_slice(&read("own/other.sigstore.json")).unwrap();
    let other = other["messageSignature"]["signature"].as_str().unwrap();
    let unproved = edited("own/entries.json", |v| {
        for (_, entry) in v[1].as_object_mut().unwrap() {
            entry["verification"]
                .as_object_mut()
                .unwrap()
                .remove("inclusionProof");
        }
    });
    let other_file = told(&judge(
        &rule,
        "own/other.exe",
        &loose(&sig, Some(&cert), Some(&entries)),
    ));
    assert_told(&[
        ("no certificate", of(&sig, None, Some(&entries)), ""),
        ("no log entry", of(&sig, Some(&cert), None), ""),
        (
            "strangers' entries alone",
            of(&sig, Some(&cert), Some(&read("own/stranger.json"))),
            "",
        ),
        ("nothing in the log", of(&sig, Some(&cert), Some(b"[]")), ""),
        (
            "the signature of another file",
            of(other.as_bytes(), Some(&cert), Some(&entries)),
            "",
        ),
        ("for another file", other_file, ""),
        (
            "an entry without proof",
            of(&sig, Some(&cert), Some(&unproved)),
            "",
        ),
        (
            "an answer that is cut off",
            of(&sig, Some(&cert), Some(&entries[..500])),
            "",
        ),
        (
            "an answer that is a web page",
            of(&sig, Some(&cert), Some(b"<html>")),
            "",
        ),
        (
            "an answer that is a number",
            of(&sig, Some(&cert), Some(b"7")),
            "",
        ),
        (
            "no signature",
            of(b"hello", Some(&cert), Some(&entries)),
            "",
        ),
        (
            "no certificate in it",
            of(&sig, Some(b"hello"), Some(&entries)),
            "",
        ),
        ("two certificates", of(&sig, Some(&two), Some(&entries)), ""),
        (
            "a key in its place",
            of(
                &sig,
                Some(b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"),
                Some(&entries),
            ),
            "",
        ),
    ]);
}

#[test]
fn the_log_is_asked_by_digest_and_answers_with_ids() {
    let digest = Digest::sha256_of(&read("own/tool.exe"));
    assert_eq!(
        sigstore::rekor_query(&digest).to_string(),
        format!(r#"{{"hash":"sha256:{}"}}"#, digest.hex())
    );
    let (short, long) = ("a".repeat(64), "0".repeat(80));
    let answer = format!(r#"["{short}","{long}"]"#);
    assert_eq!(
        sigstore::entry_ids(answer.as_bytes()).unwrap(),
        [short, long]
    );
    assert_eq!(sigstore::entry_ids(b"[]").unwrap(), Vec::<String>::new());
    let path = format!(r#"["../../{}"]"#, "a".repeat(58));
    let many = format!(
        "[{}]",
        vec![format!("\"{}\"", "a".repeat(64)); 1001].join(",")
    );
    for answer in [path.as_str(), &many, "{}", "[7]", r#"["x"]"#, "", "<html>"] {
        let text = refused(sigstore::entry_ids(answer.as_bytes()));
        assert!(text.starts_with("Malformed: "), "{text}");
    }
}

#[test]
fn the_entry_in_hand_is_kept_and_no_other() {
    let (sig, cert) = (read("own/tool.exe.sig"), read("own/tool.exe.cert"));
    let answers: Vec<Value> = serde_json::from_slice(&read("own/entries.json")).unwrap();
    let kept = sigstore::choose_entry(&read("own/entries.json"), &sig, &cert).unwrap();
    let kept: Value = serde_json::from_slice(&kept).unwrap();
    assert_eq!(kept, answers[1]);
    // What is kept is enough.
    let evidence = loose(&sig, Some(&cert), Some(kept.to_string().as_bytes()));
    let judged = judge(&own(IDENTITY, GITHUB, None), "own/tool.exe", &evidence);
    assert_eq!(scheme_of(&judged), Some(Scheme::Sigstore));
    // One with a proof goes before one without, whatever its place.
    let mut bare = answers[1].clone();
    for (_, entry) in bare.as_object_mut().unwrap() {
        entry.as_object_mut().unwrap().remove("verification");
        entry["integratedTime"] = 1.into();
    }
    let both = Value::Array(vec![bare, answers[1].clone()]).to_string();
    let kept = sigstore::choose_entry(both.as_bytes(), &sig, &cert).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&kept).unwrap(), answers[1]);
    assert_told(&[(
        "none",
        refused(sigstore::choose_entry(
            &read("own/stranger.json"),
            &sig,
            &cert,
        )),
        "",
    )]);
}
