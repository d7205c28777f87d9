//! in-toto statements about the file.

use super::*;

const CONDA: &str = "https://schemas.conda.org/attestations-publish-1.schema.json";

fn provenance(evidence: &[u8]) -> Judged {
    judge(
        &own(IDENTITY, GITHUB, Some(SLSA)),
        "own/tool.exe",
        &signed_by(evidence),
    )
}

#[test]
fn statements_about_the_file_are_met() {
    let conda = |identity: &str, issuer: &str, name: &str| {
        let rule = public(identity, issuer, Some(CONDA));
        let bundle = read(&format!("real/{name}"));
        told(&judge(
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
    assert_told(&[
        (
            "of GitHub Actions",
            conda(
                "https://github.com/prefix-dev/sigstore-example/.github/workflows/action.yaml@refs/heads/main",
                GITHUB,
                "conda-attestation.sigstore.json",
            ),
            "",
        ),
        (
            "of a second generation log, with a timestamp",
            conda(
                "jku@goto.fi",
                "https://github.com/login/oauth",
                "conda-attestation-rekor2.sigstore.json",
            ),
            "",
        ),
        (
            "own",
            told(&provenance(&read("own/provenance.sigstore.json"))),
            "",
        ),
        (
            "by SHA-512 alone",
            told(&provenance(&read("own/sha512-only.sigstore.json"))),
            "",
        ),
        (
            "one of many",
            told(&provenance(&read("own/release.intoto.jsonl"))),
            "",
        ),
        ("one of many, by another", told(&jsonl), ""),
    ]);
}

#[test]
fn statements_that_say_something_else_are_refused() {
    let of = |name: &str| told(&provenance(&read(&format!("own/{name}"))));
    let real = |name: &str| told(&provenance(&read(&format!("real/{name}"))));
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
    assert_told(&[
        ("another predicate", of("other-predicate.sigstore.json"), ""),
        ("an older build", of("older.sigstore.json"), ""),
        ("other files", of("archive-only.sigstore.json"), ""),
        ("another identity", of("by-another.sigstore.json"), ""),
        ("another identity of several", told(&stranger), ""),
        ("another file", told(&other_file), ""),
        (
            "another kind of statement",
            of("strange-type.sigstore.json"),
            "",
        ),
        ("a signature of the file", of("good.sigstore.json"), ""),
        ("two signatures", told(&provenance(&two)), ""),
        ("no signature", told(&provenance(&none)), ""),
        ("two real signatures", real("dsse-2sigs.sigstore.json"), ""),
        ("a changed payload", told(&provenance(&payload)), ""),
        ("other JSON", told(&provenance(b"{}\n[]\n")), ""),
        (
            "cut off",
            told(&provenance(&whole[..whole.len() - 100])),
            "",
        ),
        (
            "a package",
            real("sigstore.js@2.0.0-provenance.sigstore.json"),
            "",
        ),
    ]);
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
    assert_told(&[("private", told(&judged), "")]);
}
