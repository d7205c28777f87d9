//! Signed builds: keys from a file, the environment and a command; when a bad one is found; what `verify --key` makes of it.

use serde_json::Value;

use crate::cli::site::{BUILD, Outcome, Site};
use crate::cli::verify::{build as build_verified, can_make, furnished, site as windows_site};
use support::media;

/// A key pair in the site's folder; the private key's text.
pub fn ec_key(site: &Site) -> String {
    let (key, public) = (site.path("ec.key"), site.path("ec.pub"));
    let curve = "ec_paramgen_curve:P-256";
    let out = media::text(&key);
    media::run(
        "openssl",
        &[
            "genpkey",
            "-algorithm",
            "EC",
            "-pkeyopt",
            curve,
            "-out",
            out,
        ],
    );
    let public = media::text(&public);
    media::run("openssl", &["pkey", "-in", out, "-pubout", "-out", public]);
    site.read("ec.key")
}

/// The build on the fake machine with the key's text in the environment.
fn build_with<'a>(site: &'a Site, key: &str, more: &[&str]) -> Outcome<'a> {
    let mut command = site.command(&[&BUILD[..], more].concat());
    command.env("WINIMG_SIGN_KEY", key);
    site.outcome(command)
}

fn signed(site: &Site) -> Vec<String> {
    let names = site.files("out").into_iter();
    let signature = |n: &String| n.ends_with("sig") || n.contains("dsse") || n.contains("sigstore");
    names.filter(signature).collect()
}

#[test]
fn a_build_signs_and_the_key_is_nowhere() {
    let site = Site::new(crate::cli::site::SEAL);
    let key = ec_key(&site);
    let built = build_with(
        &site,
        &key,
        &["--builder-id", "https://ci.example.com/images"],
    );
    let built = built.ended_well();
    assert_eq!(
        signed(&site),
        [
            "manifest.json.sig",
            "provenance.dsse.json",
            "provenance.sigstore.json"
        ]
    );
    for name in signed(&site) {
        assert!(built.stdout().contains(&name), "{}", built.stdout());
    }
    let statement: Value = serde_json::from_str(&site.read("out/provenance.intoto.json")).unwrap();
    assert_eq!(
        statement["predicate"]["runDetails"]["builder"]["id"],
        "https://ci.example.com/images"
    );
    // Any line of the key's base64 would be enough.
    let secret = key.lines().nth(1).expect("base64").as_bytes();
    let mut places = vec![
        ("standard output".to_string(), built.output.stdout.clone()),
        ("standard error".to_string(), built.output.stderr.clone()),
    ];
    for file in site.files("out") {
        let bytes = std::fs::read(site.path("out").join(&file)).expect("the file");
        places.push((file, bytes));
    }
    for (place, bytes) in places {
        assert!(!bytes.windows(secret.len()).any(|w| w == secret), "{place}");
    }
    // The next build is not signed: nothing of this one's may stay beside its records.
    site.build(&[]).ended_well();
    assert_eq!(signed(&site), Vec::<String>::new());
}

#[test]
fn the_same_recipe_twice_gives_the_same_sboms() {
    let site = Site::new(crate::cli::site::SEAL);
    let both = || ["out/sbom.cdx.json", "out/sbom.spdx.json"].map(|name| site.read(name));
    site.build(&[]).ended_well();
    let first = both();
    site.build(&[]).ended_well();
    assert_eq!(both(), first);
    let bom: Value = serde_json::from_str(&first[0]).expect("JSON");
    let components = bom["components"].as_array().expect("components").iter();
    let names: Vec<&str> = components.filter_map(|c| c["bom-ref"].as_str()).collect();
    assert_eq!(names, ["windows", "input:media.iso", "input:media.virtio"]);
    assert_eq!(bom["metadata"]["timestamp"], "2023-11-14T22:13:20Z");
}

#[test]
fn a_key_that_does_not_sign_is_found_before_anything_is_begun() {
    let site = Site::new(crate::cli::site::SEAL);
    ec_key(&site);
    let mut rendered = String::new();
    for more in [
        &["--sign-key", "none.key"][..],
        &["--sign-key", "ec.pub"],
        &["--sign-command", "false", "--sign-public-key", "ec.pub"],
        &["--sign-command", "true"],
        &["--builder-id", "our server"],
    ] {
        let outcome = site.build(more);
        rendered += &format!("{}\n{}\n", more.join(" "), outcome.failure());
        for made in ["out", "cache", "asked.txt"] {
            assert!(!site.path(made).exists(), "{more:?}: {made} was made");
        }
    }
    insta::assert_snapshot!(rendered);
}

#[test]
fn a_command_that_fails_at_the_end_leaves_whole_records_that_are_signed_later() {
    let site = Site::new(crate::cli::site::SEAL);
    ec_key(&site);
    let once = "sh -c 'test ! -e used && touch used && openssl dgst -sha256 -sign ec.key | openssl base64'";
    let outcome = site.build(&["--sign-command", once, "--sign-public-key", "ec.pub"]);
    insta::assert_snapshot!("fails_at_the_end", outcome.failure());
    assert_eq!(signed(&site), Vec::<String>::new());
    let manifest: Value = serde_json::from_str(&site.read("out/manifest.json")).unwrap();
    assert_eq!(manifest["recipe"]["name"], "node");
    let later = site.run(&["sign", "out/manifest.json", "--sign-key", "ec.key"]);
    insta::assert_snapshot!("signed_later", later.ended_well().whole());
    assert_eq!(signed(&site).len(), 3);
    let manifest = site.read("out/manifest.json");
    let other = manifest.replacen("\"node\"", "\"edon\"", 1);
    site.write("out/manifest.json", &other);
    let changed = site.run(&["sign", "out/manifest.json", "--sign-key", "ec.key"]);
    insta::assert_snapshot!("records_that_do_not_agree", changed.whole());
    let none = site.run(&["sign", "out/manifest.json"]);
    insta::assert_snapshot!("nothing_to_sign_with", none.whole());
}

#[test]
fn a_signed_build_holds_by_its_key_until_something_changes() {
    if !can_make() {
        return;
    }
    let site = windows_site(&furnished());
    ec_key(&site);
    build_verified(&site).ended_well();
    site.run(&["sign", "out/manifest.json", "--sign-key", "ec.key"])
        .ended_well();
    let manifest = "out/manifest.json";
    let with_key = site.run(&["verify", manifest, "--key", "ec.pub"]);
    insta::assert_snapshot!("with_key", with_key.ended_well().whole());
    let without = site.run(&["verify", manifest]);
    insta::assert_snapshot!("without_key", without.ended_well().stderr());
    // One image, under another name.
    std::fs::rename(site.path("out/node.vhd"), site.path("copied.vhd")).expect("moved");
    let one = [
        "verify",
        "copied.vhd",
        "--manifest",
        manifest,
        "--key",
        "ec.pub",
    ];
    let one = site.run(&one);
    insta::assert_snapshot!("one_image", one.ended_well().stdout());
    let sealed = [
        "verify",
        "sealed.qcow2",
        "--manifest",
        manifest,
        "--key",
        "ec.pub",
    ];
    let sealed = site.run(&sealed);
    insta::assert_snapshot!("not_an_artifact", sealed.failure());
    let missing = site.run(&["verify", manifest, "--key", "ec.pub"]);
    insta::assert_snapshot!("an_artifact_is_missing", missing.failure());
    let alone = site.run(&["verify", "copied.vhd", "--key", "ec.pub"]);
    insta::assert_snapshot!("a_key_alone", alone.failure());
}
