//! in-toto statements about the file.

use super::*;

const CONDA: &str = "https://schemas.conda.org/attestations-publish-1.schema.json";

fn provenance(evidence: &[u8]) -> SignatureResult {
    judge(
        &own(IDENTITY, GITHUB, Some(SLSA)),
        "own/tool.exe",
        &signed_by(evidence),
    )
}

#[test]
fn statements_about_the_file_are_met() {
    let conda = |rule: winimg_trust::SignatureRule, name: &str| {
        let bundle = read(&format!("real/{name}"));
        rendered(&judge(
            &rule,
            "real/signed-package-2.1.0-hb0f4dca_0.conda",
            &signed_by(&bundle),
        ))
    };
    let jsonl = judge(
        &own(
            "release@example.net",
            "https://accounts.example.net",
            Some(SLSA),
        ),
        "own/tool.exe",
        &signed_by(&read("own/release.intoto.jsonl")),
    );
    assert_rendered(&[
        (
            "of GitHub Actions",
            conda(
                public(
                    "https://github.com/prefix-dev/sigstore-example/.github/workflows/action.yaml@refs/heads/main",
                    GITHUB,
                    Some(CONDA),
                ),
                "conda-attestation.sigstore.json",
            ),
            r#"attestation: https://github.com/prefix-dev/sigstore-example/.github/workflows/action.yaml@refs/heads/main
              by identity https://github.com/prefix-dev/sigstore-example/.github/workflows/action.yaml@refs/heads/main of issuer ACTIONS, predicate https://schemas.conda.org/attestations-publish-1.schema.json, Sigstore's public good trust root
              at 2025-09-01T12:13:59Z"#,
        ),
        (
            "of a second generation log, with a timestamp",
            conda(
                staging("jku@goto.fi", "https://github.com/login/oauth", Some(CONDA)),
                "conda-attestation-rekor2.sigstore.json",
            ),
            r#"attestation: jku@goto.fi
              by identity jku@goto.fi of issuer https://github.com/login/oauth, predicate https://schemas.conda.org/attestations-publish-1.schema.json, trust root STAGING
              at 2026-05-26T07:42:21Z"#,
        ),
        (
            "own",
            rendered(&provenance(&read("own/provenance.sigstore.json"))),
            r#"attestation: RELEASE
              by identity RELEASE of issuer ACTIONS, predicate https://slsa.dev/provenance/v1, trust root OWN
              at 2026-03-01T12:00:05Z"#,
        ),
        (
            "by SHA-512 alone",
            rendered(&provenance(&read("own/sha512-only.sigstore.json"))),
            r#"attestation: RELEASE
              by identity RELEASE of issuer ACTIONS, predicate https://slsa.dev/provenance/v1, trust root OWN
              at 2026-03-01T12:00:05Z"#,
        ),
        (
            "one of many",
            rendered(&provenance(&read("own/release.intoto.jsonl"))),
            r#"attestation: RELEASE
              by identity RELEASE of issuer ACTIONS, predicate https://slsa.dev/provenance/v1, trust root OWN
              at 2026-03-01T12:00:05Z"#,
        ),
        (
            "one of many, by another",
            rendered(&jsonl),
            r#"attestation: release@example.net
              by identity release@example.net of issuer https://accounts.example.net, predicate https://slsa.dev/provenance/v1, trust root OWN
              at 2026-03-01T12:00:05Z"#,
        ),
    ]);
}

#[test]
fn statements_that_say_something_else_are_refused() {
    let of = |name: &str| rendered(&provenance(&read(&format!("own/{name}"))));
    let real = |name: &str| rendered(&provenance(&read(&format!("real/{name}"))));
    let stranger = judge(
        &own("nobody@example.net", GITHUB, Some(SLSA)),
        "own/tool.exe",
        &signed_by(&read("own/release.intoto.jsonl")),
    );
    let other_file = judge(
        &own(IDENTITY, GITHUB, Some(SLSA)),
        "own/other.exe",
        &signed_by(&read("own/release.intoto.jsonl")),
    );
    let two = edited("own/provenance.sigstore.json", |v| {
        let signatures = v
            .pointer_mut("/dsseEnvelope/signatures")
            .unwrap()
            .as_array_mut()
            .unwrap();
        let first = signatures[0].clone();
        signatures.push(first);
    });
    let none = edited("own/provenance.sigstore.json", |v| {
        v["dsseEnvelope"]["signatures"] = Value::Array(Vec::new())
    });
    let payload = edited("own/provenance.sigstore.json", |v| {
        let other: Value = serde_json::from_slice(&read("own/sha512-only.sigstore.json")).unwrap();
        v["dsseEnvelope"]["payload"] = other["dsseEnvelope"]["payload"].clone();
    });
    let whole = read("own/release.intoto.jsonl");
    assert_rendered(&[
        (
            "another predicate",
            of("other-predicate.sigstore.json"),
            r#"Missing: no attestation of this file has the wanted predicate
              expected predicate https://slsa.dev/provenance/v1
              found https://spdx.dev/Document"#,
        ),
        (
            "an older build",
            of("older.sigstore.json"),
            r#"Changed: it attests a different version of tool.exe
              expected sha256:440083ec854a179d344e1ce5edbd5f2ef02d8d87f91bfd9bdea2d62e2065c310
              found sha256:5cc588c96dc6d14a11a586618606ab9c8db2550d8f3201ab324b0e07adf38e3e
              cure use the attestations of this release as `url`"#,
        ),
        (
            "other files",
            of("archive-only.sigstore.json"),
            r#"OtherName: it attests other files
              expected tool.exe sha256:5cc588c96dc6d14a11a586618606ab9c8db2550d8f3201ab324b0e07adf38e3e
              found tools.zip sha256:9e691d5adacf0e102f203100842ffaba4e2a7dfe3dbd536827d3c0db8c7e88f1"#,
        ),
        (
            "another identity",
            of("by-another.sigstore.json"),
            r#"OtherIdentity: its certificate was issued to a different identity
              expected RELEASE of issuer ACTIONS
              found release@example.net of issuer https://accounts.example.net"#,
        ),
        (
            "another identity of several",
            rendered(&stranger),
            r#"OtherIdentity: none of the 2 attestations of this file is valid; the first: its certificate was issued to a different identity
              expected nobody@example.net of issuer ACTIONS
              found release@example.net of issuer https://accounts.example.net"#,
        ),
        (
            "another file",
            rendered(&other_file),
            r#"OtherName: it attests other files
              expected other.exe sha256:edab92e1ebf16e0c9b3cb2ed01769a1260a41b36a1bff8a799a82a81d1938277
              found tools.zip sha256:9e691d5adacf0e102f203100842ffaba4e2a7dfe3dbd536827d3c0db8c7e88f1, tool.exe sha256:5cc588c96dc6d14a11a586618606ab9c8db2550d8f3201ab324b0e07adf38e3e"#,
        ),
        (
            "another kind of statement",
            of("strange-type.sigstore.json"),
            r#"Malformed: the statement in its envelope cannot be read
              expected _type `https://in-toto.io/Statement/v1`
              found _type `https://example.net/Statement`"#,
        ),
        (
            "a signature of the file",
            of("good.sigstore.json"),
            r#"WrongUse: it is a signature of a file, not an attestation
              cure use kind = "sigstore""#,
        ),
        (
            "two signatures",
            rendered(&provenance(&two)),
            r#"Malformed: its envelope does not contain exactly one signature
              expected 1 signature
              found 2 signatures"#,
        ),
        (
            "no signature",
            rendered(&provenance(&none)),
            r#"Malformed: its envelope does not contain exactly one signature
              expected 1 signature
              found 0 signatures"#,
        ),
        (
            "two real signatures",
            real("dsse-2sigs.sigstore.json"),
            r#"OtherName: it attests other files
              expected tool.exe sha256:5cc588c96dc6d14a11a586618606ab9c8db2550d8f3201ab324b0e07adf38e3e
              found slsa-provenance-0.0.7.tgz sha512:bbfd372fc9beeb777fe35d05bb10c0c70a9733d366a75fed7dd18866c7391de3ee7e88ba74dd47abf3e15c845e547fcf0e5c3da80854c751554224d3a6d4e55f"#,
        ),
        (
            "a changed payload",
            rendered(&provenance(&payload)),
            r#"Changed: its statement or signature was changed after signing"#,
        ),
        (
            "other JSON",
            rendered(&provenance(b"{}\n[]\n")),
            r#"Missing: the file contains no attestation
              expected Sigstore bundles with an in-toto statement in a DSSE envelope"#,
        ),
        (
            "cut off",
            rendered(&provenance(&whole[..whole.len() - 100])),
            r#"Malformed: it is cut off at line 4, column 5458
              cure download it again"#,
        ),
        (
            "a package",
            real("sigstore.js@2.0.0-provenance.sigstore.json"),
            r#"OtherName: it attests other files
              expected tool.exe sha256:5cc588c96dc6d14a11a586618606ab9c8db2550d8f3201ab324b0e07adf38e3e
              found pkg:npm/sigstore@2.0.0 sha512:46d4e2f74c4877316640000a6fdf8a8b59f1e0847667973e9859f774dd31b8f1e0937813b777fb66a2ac67d50540fe34640966eee9fc2ccca387082b4c85cd3c"#,
        ),
    ]);
}

/// By SHA-512 the statement fits what is read; but that is not the file that was asked about.
#[test]
fn a_file_that_changes_meanwhile_is_refused() {
    let path = path("own/tool.exe");
    let digest = Digest::sha256_of(b"what it was");
    let subject = FileSubject {
        path: &path,
        name: "tool.exe",
        published: "tool.exe",
        digest: &digest,
    };
    let evidence = signed_by(&read("own/sha512-only.sigstore.json"));
    let rule = own(IDENTITY, GITHUB, Some(SLSA));
    let judged = rule.judge(subject, &evidence, SystemTime::now());
    assert_rendered(&[(
        "changed",
        rendered(&judged),
        r#"Changed: the file changed while it was verified
              expected sha256:2b13fd2db31019cd4513e1cdf07b7b6254270714760159c34ee470ada61498b1
              found sha256:5cc588c96dc6d14a11a586618606ab9c8db2550d8f3201ab324b0e07adf38e3e"#,
    )]);
}

#[test]
fn an_attestation_without_a_log_is_refused() {
    // GitHub's instance for private repositories: timestamps, and no log.
    let rule = public(
        "https://dotcom.releases.github.com",
        "",
        Some("https://in-toto.io/attestation/release/v0.2"),
    );
    let judged = judge_digest(
        &rule,
        "76f1fe8593bf227cca2c089e3c16dc95014a8d3e89c5dd220530469ca043c428",
        &signed_by(&read("real/github-private-attestation.sigstore.json")),
    );
    assert_rendered(&[(
        "private",
        rendered(&judged),
        r#"NotLogged: the bundle contains no transparency log entry
              cure ask its publisher to sign with a transparency log, as `cosign sign-blob --bundle` does"#,
    )]);
}
