//! `.sig` and `.cert`, with the log's answers.

use super::*;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use winimg_trust::SignatureRefusal;

fn loose(signature: &[u8], certificate: Option<&[u8]>, log: Option<&[u8]>) -> SignatureEvidence {
    SignatureEvidence {
        signature: Some(signature.to_vec()),
        certificate: certificate.map(<[u8]>::to_vec),
        log_entry: log.map(<[u8]>::to_vec),
        lists: None,
    }
}

fn refused<T>(result: Result<T, SignatureRefusal>) -> String {
    rendered(&Err(result.err().expect("it is refused")))
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
    assert_rendered(&[(
        "all answers",
        rendered(&whole),
        r#"sigstore: RELEASE
              by identity RELEASE of issuer ACTIONS, trust root OWN
              at 2026-03-01T12:00:05Z"#,
    )]);

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
        rendered(&judge(&rule, "own/tool.exe", &loose(sig, cert, log)))
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
    let other_file = rendered(&judge(
        &rule,
        "own/other.exe",
        &loose(&sig, Some(&cert), Some(&entries)),
    ));
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let older =
        |cert: &str| serde_json::json!({ "base64Signature": text(&sig), "cert": cert }).to_string();
    let good = read("own/good.sigstore.json");
    let key_bundle = of(older("").as_bytes(), None, Some(&entries));
    assert_rendered(&[
        (
            "cosign's own bundle",
            of(older(&text(&cert)).as_bytes(), None, None),
            r#"NotLogged: no transparency log proves that it was made while its certificate was valid
              expected Rekor's entry about this signature
              cure ask its publisher for a bundle made by cosign with --new-bundle-format"#,
        ),
        (
            "cosign's own bundle of a key",
            key_bundle,
            r#"WrongUse: it was made with a key and has no identity
              expected a certificate issued by Fulcio to an identity
              cure if you trust the key, use kind = "cosign", key = "cosign.pub""#,
        ),
        (
            "a bundle for the log",
            refused(sigstore::choose_entry(&entries, &good, &cert)),
            r#"WrongUse: it is a bundle, which contains its log entry
              cure remove `certificate` and `log`"#,
        ),
        (
            "no certificate",
            of(&sig, None, Some(&entries)),
            r#"Missing: its certificate is missing, and it is not a bundle
              cure set `certificate` to the address of the certificate, or `url` to that of a bundle"#,
        ),
        (
            "no log entry",
            of(&sig, Some(&cert), None),
            r#"NotLogged: no transparency log proves that it was made while its certificate was valid
              expected Rekor's entry about this signature
              cure name the log that its publisher uses: log = "https://rekor.sigstore.dev""#,
        ),
        (
            "strangers' entries alone",
            of(&sig, Some(&cert), Some(&read("own/stranger.json"))),
            r#"NotLogged: the log has no entry of this signature by this certificate
              found 1 entry: one by mallory@example.org
              cure download `.sig` and `.cert` again: both must be of the same release"#,
        ),
        (
            "nothing in the log",
            of(&sig, Some(&cert), Some(b"[]")),
            r#"NotLogged: the log has no entry of this signature by this certificate
              found no entry at all
              cure check `log`: its publisher may use a different one"#,
        ),
        (
            "the signature of another file",
            of(other.as_bytes(), Some(&cert), Some(&entries)),
            r#"NotLogged: the log has no entry of this signature by this certificate
              found 3 entries: one by RELEASE, one by mallory@example.org, one by release@example.net
              cure download `.sig` and `.cert` again: both must be of the same release"#,
        ),
        (
            "for another file",
            other_file,
            r#"Changed: it does not match the file
              expected sha256:5cc588c96dc6d14a11a586618606ab9c8db2550d8f3201ab324b0e07adf38e3e
              found sha256:edab92e1ebf16e0c9b3cb2ed01769a1260a41b36a1bff8a799a82a81d1938277"#,
        ),
        (
            "an entry without proof",
            of(&sig, Some(&cert), Some(&unproved)),
            r#"NotLogged: its log entry has no inclusion proof
              expected an inclusion proof with a signed checkpoint
              found only the log's promise
              cure ask its publisher to sign with a transparency log, as `cosign sign-blob --bundle` does"#,
        ),
        (
            "an answer that is cut off",
            of(&sig, Some(&cert), Some(&entries[..500])),
            r#"Malformed: the log's response: it is cut off at line 4, column 423"#,
        ),
        (
            "an answer that is a web page",
            of(&sig, Some(&cert), Some(b"<html>")),
            r#"Malformed: the log's response: it is a web page"#,
        ),
        (
            "an answer that is a number",
            of(&sig, Some(&cert), Some(b"7")),
            r#"Malformed: the log's response contains no entries
              expected a JSON object of entries by their IDs"#,
        ),
        (
            "no signature",
            of(b"hello", Some(&cert), Some(&entries)),
            r#"Malformed: it cannot be read as a signature
              expected base64 of an ECDSA signature, or a Sigstore bundle in JSON
              found a file that starts with `hello`"#,
        ),
        (
            "no certificate in it",
            of(&sig, Some(b"hello"), Some(&entries)),
            r#"Malformed: its certificate cannot be read
              expected one certificate in PEM, or base64 of that
              found a file that starts with `hello`"#,
        ),
        (
            "two certificates",
            of(&sig, Some(&two), Some(&entries)),
            r#"Malformed: the file of its certificate contains more than one PEM block
              expected one certificate in PEM, or base64 of that
              found a file that starts with `-----BEGIN CERTIFICATE----- MIIDKTCCAs+g`"#,
        ),
        (
            "a key in its place",
            of(
                &sig,
                Some(b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"),
                Some(&entries),
            ),
            r#"WrongUse: it was made with a key and has no identity
              expected a certificate issued by Fulcio to an identity
              cure if you trust the key, use kind = "cosign", key = "cosign.pub""#,
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
fn the_log_is_asked_for_the_entry_by_all_that_it_says() {
    let (sig, cert) = (read("own/tool.exe.sig"), read("own/tool.exe.cert"));
    let digest = Digest::sha256_of(&read("own/tool.exe"));
    let asked = sigstore::rekor_entry(&digest, &sig, &cert).unwrap();
    // It is the body of the log's own entry, by whose hash the log finds it.
    let kept = sigstore::choose_entry(&read("own/entries.json"), &sig, &cert).unwrap();
    let kept: Value = serde_json::from_slice(&kept).unwrap();
    let body = kept.as_object().unwrap().values().next().unwrap()["body"].as_str();
    let body = STANDARD.decode(body.unwrap()).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(asked, serde_json::json!({ "entries": [body] }));
    let text = refused(sigstore::rekor_entry(
        &digest,
        &read("own/good.sigstore.json"),
        &cert,
    ));
    assert!(text.starts_with("WrongUse: it is a bundle"), "{text}");
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
    assert_rendered(&[(
        "none",
        refused(sigstore::choose_entry(
            &read("own/stranger.json"),
            &sig,
            &cert,
        )),
        r#"NotLogged: the log has no entry of this signature by this certificate
              found 1 entry: one by mallory@example.org
              cure download `.sig` and `.cert` again: both must be of the same release"#,
    )]);
}
