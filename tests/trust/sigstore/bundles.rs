//! Bundles with a signature of the file itself.

use super::*;

const WILLIAM: &str = "william@yossarian.net";
const GITHUB_LOGIN: &str = "https://github.com/login/oauth";
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
        ("v0.3, cosign", told(&cosign), ""),
        ("v0.2, a wheel", told(&wheel), ""),
        ("v0.1", told(&beacon), ""),
        ("own", told(&own_bundle("good")), ""),
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
            "the log's entry is of another signature",
            real(
                "bundle_cve_2022_36056.txt.sigstore",
                WILLIAM,
                GITHUB_LOGIN,
                "c87b5b213ab08b32970c106d0c7e4423e67f5449c2fd2d1e9b4ea6cc43b6ee7c",
            ),
            "",
        ),
        (
            "no checkpoint",
            real(
                "bundle_no_checkpoint.txt.sigstore",
                WILLIAM,
                GITHUB_LOGIN,
                "802dd60ff88333802f2585e73043bd21c348105e1992fe5b3175571e2adee30e",
            ),
            "",
        ),
        (
            "no log entry",
            real(
                "bundle_no_log_entry.txt.sigstore",
                "alex.cameron@trailofbits.com",
                "https://accounts.google.com",
                "9b469fc976227a233073b62725fbc98b549c331419d9ed71cc8b286ef2c6fb9b",
            ),
            "",
        ),
        (
            "no time",
            real(
                "bundle_v3_no_signed_time.txt.sigstore.json",
                WILLIAM,
                GITHUB_LOGIN,
                no_time,
            ),
            "",
        ),
        (
            "another version",
            real(
                "bundle_invalid_version.txt.sigstore",
                WILLIAM,
                GITHUB_LOGIN,
                no_time,
            ),
            "",
        ),
        (
            "no certificate",
            real(
                "bundle_no_cert_v1.txt.sigstore",
                WILLIAM,
                GITHUB_LOGIN,
                no_time,
            ),
            "",
        ),
        (
            "of a key",
            real(
                "managed-key.sigstore.json",
                BEACON,
                GITHUB,
                "a0cfc71271d6e278e57cd332ff957c3f7043fdda354c4cbb190a30d56efa01bf",
            ),
            "",
        ),
        (
            "of a private instance",
            real(
                "othername.sigstore.json",
                "foo!oidc.local",
                "http://oidc.local:8080",
                "bc103b4a84971ef6459b294a2b98568a2bfb72cded09d4acd1e16366a401f95b",
            ),
            "",
        ),
        (
            "an attestation",
            real(
                "conda-attestation.sigstore.json",
                WILLIAM,
                GITHUB_LOGIN,
                no_time,
            ),
            "",
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
        ("an e-mail address", told(&email), ""),
        ("another identity", asked(&branch, GITHUB), ""),
        (
            "another issuer",
            asked(IDENTITY, "https://accounts.google.com"),
            "",
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
        ("no SCT", told(&own_bundle("no-sct")), ""),
        (
            "the SCT of another log",
            told(&own_bundle("foreign-sct")),
            "",
        ),
        (
            "a server's certificate",
            told(&own_bundle("tls-server")),
            "",
        ),
        (
            "signed after its ten minutes",
            told(&own_bundle("expired")),
            "",
        ),
        ("signed before", told(&own_bundle("too-early")), ""),
        ("another log", told(&own_bundle("foreign-log")), ""),
        ("another instance", told(&own_bundle("foreign-root")), ""),
        (
            "an authority of the same name",
            told(&own_bundle("impostor")),
            "",
        ),
        (
            "our instance for the public good root",
            told(&public_root),
            "",
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
            "",
        ),
        ("another file's bundle", told(&own_bundle("other")), ""),
        (
            "a bundle that claims this file",
            told(&own_edited(|v| {
                let signature = other
                    .pointer("/messageSignature/signature")
                    .unwrap()
                    .clone();
                v["messageSignature"]["signature"] = signature;
            })),
            "",
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
            "",
        ),
        (
            "the log entry of another file",
            told(&own_edited(borrowed)),
            "",
        ),
    ]);
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
            "",
        ),
        ("no inclusion proof", told(&removed("inclusionProof")), ""),
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
            "",
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
            "",
        ),
        (
            "no checkpoint",
            told(&own_edited(|v| entry(v, checkpoint, "".into()))),
            "",
        ),
        ("no promise", told(&removed("inclusionPromise")), ""),
        (
            "a later time",
            told(&own_edited(|v| {
                entry(v, "/integratedTime", "1772366500".into())
            })),
            "",
        ),
        (
            "a wrong sibling",
            told(&own_edited(|v| {
                let hashes = v
                    .pointer_mut("/verificationMaterial/tlogEntries/0/inclusionProof/hashes")
                    .unwrap();
                hashes.as_array_mut().unwrap().reverse();
            })),
            "",
        ),
        (
            "another log's checkpoint",
            told(&own_edited(|v| entry(v, checkpoint, foreign))),
            "",
        ),
        (
            "a checkpoint of a larger tree",
            told(&own_edited(|v| {
                entry(v, checkpoint, note.replacen("\n4\n", "\n5\n", 1).into())
            })),
            "",
        ),
        (
            "an index outside of the tree",
            told(&own_edited(|v| {
                entry(v, "/inclusionProof/logIndex", "4".into())
            })),
            "",
        ),
        (
            "another kind of entry",
            told(&own_edited(|v| {
                entry(v, "/kindVersion/kind", "dsse".into())
            })),
            "",
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
            "",
        ),
        ("an empty file", of(b""), ""),
        ("too much", of(&huge), ""),
        ("cut off", of(&good[..good.len() / 2]), ""),
        (
            "a web page",
            of(b"<!DOCTYPE html><title>Not found</title>"),
            "",
        ),
        ("noise", of(b"\x00\x01\x02"), ""),
        ("other JSON", of(b"{\"a\": 1}"), ""),
        (
            "a bundle and more",
            of(&[good.as_slice(), b"{}"].concat()),
            "",
        ),
        (
            "control characters",
            of(b"{\"mediaType\": \"\\u001b[2J\\n\\u0000evil\"}"),
            "",
        ),
        (
            "deep",
            of(&[b"{\"a\":".as_slice(), &vec![b'['; 100_000]].concat()),
            "",
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
        ("good", root(&read("own/trusted_root.json")), ""),
        ("not text", root(b"\xff\xfe"), ""),
        ("cut off", root(&read("own/trusted_root.json")[..300]), ""),
        ("a bundle", root(&read("own/good.sigstore.json")), ""),
        (
            "another file of its maker",
            root(&edited("own/trusted_root.json", |v| {
                v["mediaType"] = "application/json".into()
            })),
            "",
        ),
        ("no CT log", lacking(&["ctlogs"]), ""),
        (
            "nothing",
            lacking(&["ctlogs", "tlogs", "certificateAuthorities"]),
            "",
        ),
        (
            "a broken certificate",
            root(&edited("own/trusted_root.json", |v| {
                *v.pointer_mut("/certificateAuthorities/0/certChain/certificates/0/rawBytes")
                    .unwrap() = "AAAA".into();
            })),
            "",
        ),
        (
            "a broken key",
            root(&edited("own/trusted_root.json", |v| {
                *v.pointer_mut("/tlogs/0/publicKey/rawBytes").unwrap() = "AAAA".into();
            })),
            "",
        ),
    ]);
}
