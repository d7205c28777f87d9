//! Bundles with a signature of the file itself: those that are met, and real ones that lack
//! something.

use super::*;

const WILLIAM: &str = "william@yossarian.net";
const GITHUB_LOGIN: &str = "https://github.com/login/oauth";
/// Of the file whose signature bears another's log entry: CVE-2022-36056.
const CVE: &str = "c87b5b213ab08b32970c106d0c7e4423e67f5449c2fd2d1e9b4ea6cc43b6ee7c";
const BEACON: &str = "https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon/.github/workflows/extremely-dangerous-oidc-beacon.yml@refs/heads/main";

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
    assert_rendered(&[
        (
            "v0.3, cosign",
            rendered(&cosign),
            r#"sigstore: w.vollprecht@gmail.com
              by identity w.vollprecht@gmail.com of issuer https://github.com/login/oauth, Sigstore's public good trust root
              at 2025-12-03T18:36:42Z"#,
        ),
        (
            "v0.2, a wheel",
            rendered(&wheel),
            r#"sigstore: https://github.com/trailofbits/rfc8785.py/.github/workflows/release.yml@refs/tags/v0.1.2
              by identity https://github.com/trailofbits/rfc8785.py/.github/workflows/release.yml@refs/tags/v0.1.2 of issuer ACTIONS, Sigstore's public good trust root
              at 2024-03-19T22:41:16Z"#,
        ),
        (
            "v0.1",
            rendered(&beacon),
            r#"sigstore: https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon/.github/workflows/extremely-dangerous-oidc-beacon.yml@refs/heads/main
              by identity https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon/.github/workflows/extremely-dangerous-oidc-beacon.yml@refs/heads/main of issuer ACTIONS, Sigstore's public good trust root
              at 2023-07-12T15:56:36Z"#,
        ),
        (
            "of a larger key, with a longer digest",
            rendered(&own_bundle("p384")),
            r#"sigstore: RELEASE
              by identity RELEASE of issuer ACTIONS, trust root OWN
              at 2026-03-01T12:00:05Z"#,
        ),
        (
            "own",
            rendered(&own_bundle("good")),
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
        rendered(&judge_digest(
            &public(identity, issuer, None),
            hex,
            &signed_by(&bundle),
        ))
    };
    let no_time = "ca6de99a11d3d38056d838c7dc9a23a11a0c81bcace0d11e8c7aa2f2d0b294b1";
    assert_rendered(&[
        (
            "of the staging instance",
            real(
                "bundle_cve_2022_36056.txt.sigstore",
                WILLIAM,
                GITHUB_LOGIN,
                CVE,
            ),
            r#"OtherRoot: its certificate was issued by an authority that is not in the trust root
              expected CN=sigstore,O=sigstore.dev (key c8c51d00419a2429…); CN=sigstore-intermediate,O=sigstore.dev (key dfd3e9cf56241196…); CN=sigstore,O=sigstore.dev (key 58c01e5f9145a566…)
              found CN=sigstore-intermediate,O=sigstore.dev (key 718630a6147c626f…)
              cure if you trust it (another Sigstore instance, or a newer authority or log), set `trusted_root` to its trusted_root.json"#,
        ),
        (
            "the log's entry is of another signature",
            rendered(&judge_digest(
                &staging(WILLIAM, GITHUB_LOGIN, None),
                CVE,
                &signed_by(&read("real/bundle_cve_2022_36056.txt.sigstore")),
            )),
            r#"NotLogged: its log entry is for a different signature
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
            r#"NotLogged: the bundle contains no transparency log entry
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
            r#"NoTimestamp: it has no timestamp from an authority or log in the trust root
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
            r#"Unsupported: its bundle version is not supported
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
            r#"Malformed: the bundle contains no certificate"#,
        ),
        (
            "of a key",
            real(
                "managed-key.sigstore.json",
                BEACON,
                GITHUB,
                "a0cfc71271d6e278e57cd332ff957c3f7043fdda354c4cbb190a30d56efa01bf",
            ),
            r#"WrongUse: it was made with a key and has no identity
              expected a certificate issued by Fulcio to an identity
              cure if you trust the key, use kind = "cosign", key = "cosign.pub""#,
        ),
        (
            "of a private instance",
            real(
                "othername.sigstore.json",
                "foo!oidc.local",
                "http://oidc.local:8080",
                "bc103b4a84971ef6459b294a2b98568a2bfb72cded09d4acd1e16366a401f95b",
            ),
            r#"OtherRoot: its certificate was issued by an authority that is not in the trust root
              expected CN=sigstore,O=sigstore.dev (key c8c51d00419a2429…); CN=sigstore-intermediate,O=sigstore.dev (key dfd3e9cf56241196…); CN=sigstore,O=sigstore.dev (key 58c01e5f9145a566…)
              found O=Linux Foundation,POSTALCODE=57274,STREET=548 Market St,L=San Francisco,ST=California,C=USA (key 8f0f9be51da5d531…)
              cure if you trust it (another Sigstore instance, or a newer authority or log), set `trusted_root` to its trusted_root.json"#,
        ),
        (
            "an attestation",
            real(
                "conda-attestation.sigstore.json",
                WILLIAM,
                GITHUB_LOGIN,
                no_time,
            ),
            r#"WrongUse: it is an attestation, not a signature of the file
              cure use kind = "attestation" with the wanted `predicate`"#,
        ),
    ]);
}

/// A reusable workflow is the same identity for whoever calls it.
#[test]
fn the_repository_that_ran_the_workflow_counts_where_it_is_named() {
    let root = read("own/trusted_root.json");
    let of = |repository: &str, name: &str| {
        let rule = sigstore::SigstoreRule::new(IDENTITY, GITHUB, None, Some(&root)).unwrap();
        let rule = winimg_trust::SignatureRule::Sigstore(rule.of_repository(repository));
        let bundle = read(&format!("own/{name}.sigstore.json"));
        rendered(&judge(&rule, "own/tool.exe", &signed_by(&bundle)))
    };
    assert_rendered(&[
        (
            "its own",
            of("example/tools", "good"),
            r#"sigstore: RELEASE
              by identity RELEASE of issuer ACTIONS, repository example/tools, trust root OWN
              at 2026-03-01T12:00:05Z"#,
        ),
        (
            "another",
            of("example/others", "good"),
            r#"OtherIdentity: its workflow was run by a different repository
              expected https://github.com/example/others
              found https://github.com/example/tools"#,
        ),
        (
            "called by another",
            of("example/tools", "called"),
            r#"OtherIdentity: its workflow was run by a different repository
              expected https://github.com/example/tools
              found https://github.com/mallory/tools"#,
        ),
        (
            "nobody's",
            of("example/tools", "no-source"),
            r#"OtherIdentity: its workflow was run by a different repository
              expected https://github.com/example/tools
              found a certificate without a source repository"#,
        ),
        (
            "called, and none is named",
            rendered(&own_bundle("called")),
            r#"sigstore: RELEASE
              by identity RELEASE of issuer ACTIONS, trust root OWN
              at 2026-03-01T12:00:05Z
              remark the workflow was called by https://github.com/mallory/tools; any repository can call it"#,
        ),
        (
            "nobody's, and none is named",
            rendered(&own_bundle("no-source")),
            r#"sigstore: RELEASE
              by identity RELEASE of issuer ACTIONS, trust root OWN
              at 2026-03-01T12:00:05Z"#,
        ),
    ]);
}

#[test]
fn who_signed_and_who_vouched_is_compared_exactly() {
    let bundle = signed_by(&read("own/good.sigstore.json"));
    let asked = |identity: &str, issuer: &str| {
        rendered(&judge(
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
    assert_rendered(&[
        (
            "an e-mail address",
            rendered(&email),
            r#"sigstore: release@example.net
              by identity release@example.net of issuer https://accounts.example.net, trust root OWN
              at 2026-03-01T12:00:05Z"#,
        ),
        (
            "a user name",
            rendered(&own_bundle("user-name")),
            r#"OtherIdentity: its certificate was issued to a different identity
              expected RELEASE of issuer ACTIONS
              found the user name jo!example.net (otherName 1.3.6.1.4.1.57264.1.7) of issuer ACTIONS"#,
        ),
        (
            "another identity",
            asked(&branch, GITHUB),
            r#"OtherIdentity: its certificate was issued to a different identity
              expected https://github.com/example/tools/.github/workflows/release.yml@refs/heads/main of issuer ACTIONS
              found RELEASE of issuer ACTIONS"#,
        ),
        (
            "another issuer",
            asked(IDENTITY, "https://accounts.google.com"),
            r#"OtherIssuer: its identity was vouched for by a different issuer
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
