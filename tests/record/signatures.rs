//! Signatures: keys that are taken and refused, what other people's programs say, and what `winimg verify --key` says.

use std::fs;
use std::path::Path;

use winimg::record::key::RecordKey;
use winimg::record::sign::{SignOptions, Signers};
use winimg::record::{check, writer};
use winimg_base::event::Cancel;
use winimg_base::text::Secret;

use crate::record::judges::{ends_well, judge};
use crate::record::place::Place;
use crate::record::sample::{EPOCH, manifest};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn openssl_and_securesystemslib_take_what_an_ec_key_signed_and_refuse_a_changed_byte() {
    let place = Place::new();
    place.records(&["ec.key"]);
    // As cosign verify-blob does: base64 of DER, over the file.
    place.openssl("base64 -d -A -in manifest.json.sig -out sig.der");
    let verify = |key: &str| {
        let line = format!("dgst -sha256 -verify {key} -signature sig.der manifest.json");
        let words: Vec<&str> = line.split(' ').collect();
        ends_well(place.dir.path(), "openssl", &words)
    };
    assert!(verify("ec.pub"));
    assert!(!verify("other.pub"));
    let (own, other) = (place.path("ec.pub"), place.path("other.pub"));
    let envelope = place.read("provenance.dsse.json");
    assert_eq!(judge("envelope", &envelope, &[&own]), Ok(()));
    judge("envelope", &envelope, &[&other]).unwrap_err();
    // The first character of the payload's base64 stands for the brace.
    let changed = envelope.replacen("\"payload\": \"e", "\"payload\": \"f", 1);
    assert_ne!(changed, envelope);
    judge("envelope", &changed, &[&own]).unwrap_err();
    place.change("manifest.json", "capi-ova", "capi-oga");
    assert!(!verify("ec.pub"));
}

#[test]
fn the_bundle_is_one_for_sigstores_own_reader_and_names_the_key() {
    let place = Place::new();
    place.records(&["ec.key"]);
    let text = place.read("provenance.sigstore.json");
    let bundle = sigstore_types::Bundle::from_json(&text).unwrap();
    assert_eq!(bundle.media_type, sigstore_types::MediaType::Bundle0_3);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let hint = &value["verificationMaterial"]["publicKey"]["hint"];
    assert_eq!(value["dsseEnvelope"]["signatures"][0]["keyid"], "");
    // As Sigstore's clients name a key.
    place.openssl("pkey -pubin -in ec.pub -outform DER -out ec.der");
    let der = fs::read(place.path("ec.der")).unwrap();
    place.openssl("dgst -sha256 -binary -out hash ec.der");
    place.openssl("base64 -A -in hash -out hash.b64");
    assert_eq!(hint, &place.read("hash.b64"), "{}", der.len());
    let payload = &value["dsseEnvelope"]["payload"];
    place.openssl("base64 -A -in provenance.intoto.json -out payload");
    assert_eq!(payload, &place.read("payload"));
}

#[test]
fn minisign_takes_what_a_minisign_key_signed_and_refuses_a_changed_byte() {
    let place = Place::new();
    place.records(&["mini.key"]);
    let verify = |key: &str, file: &str| {
        ends_well(place.dir.path(), "minisign", &["-V", "-p", key, "-m", file])
    };
    for file in ["manifest.json", "provenance.intoto.json"] {
        assert!(verify("mini.pub", file), "{file}");
        assert!(!verify("mini2.pub", file), "{file}");
    }
    let comment = place.read("manifest.json.minisig");
    let comment = comment.lines().nth(2).unwrap();
    assert_eq!(
        comment,
        format!(
            "trusted comment: timestamp:{EPOCH}\tfile:manifest.json\thashed\trecipe:capi-ova@{}",
            manifest().recipe.digest
        )
    );
    place.change("manifest.json.minisig", "recipe:capi", "recipe:ipac");
    assert!(!verify("mini.pub", "manifest.json"));
    place.change("provenance.intoto.json", "capi-ova", "capi-oga");
    assert!(!verify("mini.pub", "provenance.intoto.json"));
}

#[test]
fn keys_that_are_taken() {
    let place = Place::new();
    // What `openssl ecparam -genkey` writes: the parameters first, then SEC 1.
    place.openssl("ecparam -name prime256v1 -genkey -out sec1.key");
    assert!(place.read("sec1.key").contains("EC PARAMETERS"));
    assert!(!place.open(&["sec1.key", "mini.key"]).unwrap().is_empty());
    let environment = SignOptions {
        environment: Some(Secret::new(place.read("ec.key"))),
        ..SignOptions::default()
    };
    assert!(!place.open_with(environment).unwrap().is_empty());
    assert!(place.open(&[]).unwrap().is_empty());
}

#[test]
fn an_encrypted_minisign_key_opens_with_its_password_alone() {
    let place = Place::new();
    let pair = minisign::KeyPair::generate_encrypted_keypair(Some("right".into())).unwrap();
    fs::write(
        place.path("locked.key"),
        pair.sk.to_box(None).unwrap().to_string(),
    )
    .unwrap();
    fs::write(
        place.path("locked.pub"),
        pair.pk.to_box().unwrap().to_string(),
    )
    .unwrap();
    let open = |password: Option<&str>| {
        place.open_with(SignOptions {
            files: vec![place.path("locked.key")],
            password: password.map(Secret::new),
            ..SignOptions::default()
        })
    };
    let mut rendered = String::new();
    rendered += &open(None).err().unwrap();
    rendered += "\n\n";
    rendered += &open(Some("wrong")).err().unwrap();
    insta::assert_snapshot!(rendered);
    assert!(!open(Some("right")).unwrap().is_empty());
}

#[test]
fn keys_that_are_refused_are_reported_with_their_cure() {
    let place = Place::new();
    place.openssl("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out p384.key");
    place.openssl("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out rsa.key");
    place.openssl("genpkey -algorithm ED25519 -out ed25519.key");
    place.openssl("pkcs8 -topk8 -in ec.key -passout pass:x -out locked.key");
    let cosign = "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\neyJ9\n-----END ENCRYPTED SIGSTORE PRIVATE KEY-----\n";
    fs::write(place.path("cosign.key"), cosign).unwrap();
    fs::write(place.path("empty.key"), "").unwrap();
    let mini = place.read("mini.key");
    fs::write(place.path("cut.key"), &mini[..mini.len() - 20]).unwrap();
    let at = mini.len() - 60;
    let other = if mini.as_bytes()[at] == b'A' {
        "B"
    } else {
        "A"
    };
    let damaged = format!("{}{other}{}", &mini[..at], &mini[at + 1..]);
    fs::write(place.path("damaged.key"), damaged).unwrap();
    let mut rendered = String::new();
    for keys in [
        &["none.key"][..],
        &["empty.key"],
        &["ec.pub"],
        &["mini.pub"],
        &["p384.key"],
        &["rsa.key"],
        &["ed25519.key"],
        &["locked.key"],
        &["cosign.key"],
        &["cut.key"],
        &["damaged.key"],
        &["ec.key", "other.key"],
        &["mini.key", "mini2.key"],
    ] {
        let why = place.open(keys).err().unwrap_or("taken".into());
        rendered += &format!("{}: {why}\n\n", keys.join(" "));
    }
    insta::assert_snapshot!(rendered);
}

fn by_command(place: &Place, command: &str) -> Result<Signers, String> {
    place.open_with(SignOptions {
        command: Some(command.replace("{}", text(place.dir.path()))),
        public_key: Some(place.path("ec.pub")),
        ..SignOptions::default()
    })
}

const SIGNS: &str = "sh -c 'openssl dgst -sha256 -sign {}/ec.key | openssl base64'";

#[test]
fn a_command_signs_what_its_public_key_takes() {
    let place = Place::new();
    place.records(&[]);
    let signers = by_command(&place, SIGNS).unwrap();
    writer::sign_all(place.dir.path(), &signers, EPOCH, &Cancel::default()).unwrap();
    assert_eq!(place.checked("ec.pub"), place_checked());
    judge(
        "envelope",
        &place.read("provenance.dsse.json"),
        &[&place.path("ec.pub")],
    )
    .unwrap();
}

/// Manifest, envelope, two types, two artifacts, three byproducts.
fn place_checked() -> String {
    "9 of 9 checks passed\n".into()
}

#[test]
fn commands_that_do_not_sign_are_reported() {
    let place = Place::new();
    let mut rendered = String::new();
    for command in [
        "",
        "sh -c 'openssl",
        "{}/no-such-program",
        "sh -c 'cat >/dev/null; echo locked out >&2; exit 4'",
        "true",
        "cat",
        "sh -c 'openssl dgst -sha256 -sign {}/other.key | openssl base64'",
        // Signs something else than it was given.
        "sh -c 'echo x | openssl dgst -sha256 -sign {}/ec.key | openssl base64'",
    ] {
        let why = by_command(&place, command).err().unwrap_or("taken".into());
        rendered += &format!("{command}: {why}\n\n");
    }
    let without = place.open_with(SignOptions {
        command: Some("true".into()),
        ..SignOptions::default()
    });
    rendered += &without.err().unwrap();
    insta::assert_snapshot!(rendered);
}

#[test]
fn good_records_hold_by_either_key() {
    let place = Place::new();
    place.records(&["ec.key", "mini.key"]);
    assert_eq!(place.checked("ec.pub"), place_checked());
    assert_eq!(place.checked("mini.pub"), place_checked());
    // The key itself instead of its file.
    let line = place.read("mini.pub");
    let line = line.lines().nth(1).unwrap();
    assert!(matches!(
        RecordKey::parse_argument(line),
        Ok(RecordKey::Minisign(_))
    ));
    assert!(matches!(
        RecordKey::parse_argument(&place.read("ec.pub")),
        Ok(RecordKey::Ecdsa(_))
    ));
}

#[test]
fn keys_to_verify_with_that_are_none() {
    let place = Place::new();
    fs::write(place.path("text"), "no key\n").unwrap();
    let mut rendered = String::new();
    for name in ["ec.key", "mini.key", "text", "none.pub"] {
        let path = place.path(name);
        let why = RecordKey::parse_argument(text(&path))
            .unwrap_err()
            .to_string();
        rendered += &format!("{}\n\n", why.replace(text(place.dir.path()), "/site"));
    }
    insta::assert_snapshot!(rendered);
}

type Damage = (&'static str, &'static str, fn(&Place));

const DAMAGES: &[Damage] = &[
    ("the manifest is no JSON any more", "ec.pub", |p| {
        p.change("manifest.json", "{", "")
    }),
    ("the manifest is gone", "mini.pub", |p| {
        p.remove("manifest.json")
    }),
    ("the manifest says another version", "ec.pub", |p| {
        p.change("manifest.json", "1.36.1", "1.36.2")
    }),
    ("the same, by minisign", "mini.pub", |p| {
        p.change("manifest.json", "1.36.1", "1.36.2")
    }),
    ("another key", "other.pub", |_| {}),
    ("another key, by minisign", "mini2.pub", |_| {}),
    ("the manifest's signature is gone", "ec.pub", |p| {
        p.remove("manifest.json.sig")
    }),
    ("the same, by minisign", "mini.pub", |p| {
        p.remove("manifest.json.minisig")
    }),
    ("the manifest's signature is no signature", "ec.pub", |p| {
        fs::write(p.path("manifest.json.sig"), "???").unwrap()
    }),
    ("the same, by minisign", "mini.pub", |p| {
        fs::write(p.path("manifest.json.minisig"), "???").unwrap()
    }),
    ("the trusted comment was changed", "mini.pub", |p| {
        p.change("manifest.json.minisig", "recipe:capi", "recipe:ipac")
    }),
    ("the bundle is gone", "ec.pub", |p| {
        p.remove("provenance.sigstore.json")
    }),
    ("the bundle is no JSON", "ec.pub", |p| {
        p.change("provenance.sigstore.json", "{", "")
    }),
    ("the bundle's payload was changed", "ec.pub", |p| {
        p.change(
            "provenance.sigstore.json",
            "\"payload\": \"e",
            "\"payload\": \"f",
        );
    }),
    ("the payload is of another type", "ec.pub", |p| {
        p.change("provenance.sigstore.json", "vnd.in-toto+json", "json");
    }),
    (
        "the statement beside the bundle says something else",
        "ec.pub",
        |p| {
            p.change("provenance.intoto.json", "capi-ova", "capi-oga");
        },
    ),
    ("the same, by minisign", "mini.pub", |p| {
        p.change("provenance.intoto.json", "capi-ova", "capi-oga")
    }),
    ("the statement is gone", "mini.pub", |p| {
        p.remove("provenance.intoto.json")
    }),
    (
        "the envelope beside the bundle says something else",
        "ec.pub",
        |p| {
            p.change(
                "provenance.dsse.json",
                "\"payload\": \"e",
                "\"payload\": \"f",
            );
        },
    ),
    ("an SBOM was changed", "ec.pub", |p| {
        p.change("sbom.cdx.json", "Apache-2.0", "MIT")
    }),
    ("an SBOM is gone", "mini.pub", |p| {
        p.remove("sbom.spdx.json")
    }),
    // The key's owner signed a manifest that is not the one of the provenance.
    (
        "an artifact was put into the manifest, and that signed",
        "ec.pub",
        |p| {
            let from = crate::record::sample::sha256("the OVA");
            p.change("manifest.json", &from, &"00".repeat(32));
            let cancel = Cancel::default();
            writer::sign_all(p.dir.path(), &p.open(&["ec.key"]).unwrap(), EPOCH, &cancel).unwrap();
        },
    ),
];

#[test]
fn each_damage_has_its_own_sentence() {
    let mut rendered = String::new();
    let place = Place::new();
    for (name, key, damage) in DAMAGES {
        place.records(&["ec.key", "mini.key"]);
        damage(&place);
        rendered += &format!("{name}\n{}\n", place.checked(key));
    }
    for (hidden, pattern) in [
        ("[key]", r"key [0-9A-Za-z+/]{43}="),
        ("sha256:[digest]", r"sha256:[0-9a-f]{64}"),
    ] {
        let pattern = regex::Regex::new(pattern).unwrap();
        rendered = pattern.replace_all(&rendered, hidden).into_owned();
    }
    insta::assert_snapshot!(rendered);
}

#[test]
fn an_earlier_signature_does_not_stay_beside_new_records() {
    let place = Place::new();
    place.records(&["ec.key", "mini.key"]);
    let signers = place.open(&["mini.key"]).unwrap();
    writer::sign_all(place.dir.path(), &signers, EPOCH, &Cancel::default()).unwrap();
    let names: Vec<String> = check::find_signatures(&place.path("manifest.json"))
        .iter()
        .map(|p| p.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(
        names,
        ["manifest.json.minisig", "provenance.intoto.json.minisig"]
    );
}
