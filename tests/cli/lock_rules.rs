//! `[lock]`: signed locks, serials that are kept by each command, and every refusal of another.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use support::complaints::facts;

use serde_json::Value;

use crate::cli::sign::ec_key;
use crate::cli::site::{BUILD, Outcome, SEAL, Site};

const MINISIGN: &str = "\n[lock]\nsignature = { kind = \"minisign\", key = \"lock.pub\" }\n";

/// A minisign key pair in the site's folder.
fn minisign_key(site: &Site, name: &str) {
    let keys = minisign::KeyPair::generate_unencrypted_keypair().expect("keys");
    let public = keys.pk.to_box().expect("a box").to_string();
    site.write(&format!("{name}.pub"), &public);
    let secret = keys.sk.to_box(None).expect("a box").to_string();
    site.write(&format!("{name}.key"), &secret);
}

/// A recipe that asks for a lock signed with `lock.key`.
fn asking() -> Site {
    let site = Site::new(SEAL);
    minisign_key(&site, "lock");
    let recipe = site.read("recipe.toml");
    site.write("recipe.toml", &format!("{recipe}{MINISIGN}"));
    site
}

fn lock(site: &Site) -> Outcome<'_> {
    site.run(&["lock", "recipe.toml"]).ended_well()
}

fn sign<'a>(site: &'a Site, key: &str) -> Outcome<'a> {
    site.run(&["sign", "recipe.lock", "--sign-key", key])
}

fn manifest(site: &Site) -> Value {
    serde_json::from_str(&site.read("out/manifest.json")).expect("JSON")
}

/// The site's own configuration file.
fn configure(site: &Site, text: &str) {
    fs::create_dir_all(site.path(".config/winimg")).expect("a folder");
    site.write(".config/winimg/config.toml", text);
    let path = site.path(".config/winimg/config.toml");
    fs::set_permissions(path, Permissions::from_mode(0o644)).expect("its mode");
}

#[test]
fn a_lock_that_is_asked_to_be_signed_is_obeyed_only_with_its_signature() {
    let site = asking();
    let without = site.run(&["fetch", "recipe.toml"]);
    assert_eq!(without.status(), Some(5), "{}", without.whole());
    insta::assert_snapshot!("without_a_lock", without.failure());
    // It can be looked at before it has one.
    site.run(&["validate", "recipe.toml"]).ended_well();

    let said = lock(&site).stderr();
    assert!(
        said.contains("sign the lock before using it: winimg sign recipe.lock"),
        "{said}"
    );
    for command in [
        &["validate", "recipe.toml"][..],
        &["plan", "recipe.toml"],
        &["fetch", "recipe.toml"],
        &["bundle", "recipe.toml", "--to", "node.tar"],
        &["lock", "recipe.toml"],
        &["lock", "recipe.toml", "--check"],
        &BUILD,
    ] {
        let unsigned = site.run(command);
        assert_eq!(unsigned.status(), Some(5), "{}", unsigned.whole());
    }
    insta::assert_snapshot!("unsigned", site.run(&BUILD).failure());

    let signed = sign(&site, "lock.key").ended_well();
    assert_eq!(signed.stdout(), "recipe.lock.minisig\n");
    site.run(&BUILD).ended_well();
    let signers = &manifest(&site)["recipe"]["lock"]["signers"];
    assert_eq!(signers[0]["scheme"], "minisign", "{signers}");
    let passed = site.run(&[&BUILD[..], &["--no-lock"]].concat());
    assert_eq!(passed.status(), Some(5));
    insta::assert_snapshot!("passed_over", passed.failure());
}

#[test]
fn a_lock_that_was_changed_or_signed_by_another_is_refused() {
    let site = asking();
    lock(&site);
    minisign_key(&site, "other");
    sign(&site, "other.key").ended_well();
    let other = site.run(&["fetch", "recipe.toml"]);
    assert_eq!(other.status(), Some(5));
    let other = other.failure();
    assert!(other.contains("the signature of recipe.lock: "), "{other}");
    assert!(other.contains("key"), "{other}");

    sign(&site, "lock.key").ended_well();
    site.run(&["fetch", "recipe.toml"]).ended_well();
    let signature = site.read("recipe.lock.minisig");
    // Somebody without the key resolves it again: its own digest is right.
    fs::remove_file(site.path("recipe.lock")).expect("the lock");
    site.write("tool.exe", "MZ another tool\n");
    let digest = winimg_base::digest::Digest::sha256_of(b"MZ another tool\n");
    let recipe = site.read("recipe.toml");
    let at = recipe
        .find("url = \"tool.exe\"\nsha256 = \"")
        .expect("the tool");
    let from = at + "url = \"tool.exe\"\nsha256 = \"".len();
    let recipe = format!(
        "{}{}{}",
        &recipe[..from],
        digest.hex(),
        &recipe[from + 64..]
    );
    site.write("recipe.toml", &recipe);
    lock(&site);
    assert!(
        !site.path("recipe.lock.minisig").exists(),
        "a stale signature"
    );
    site.write("recipe.lock.minisig", &signature);
    let changed = site.run(&["fetch", "recipe.toml"]);
    assert_eq!(changed.status(), Some(5));
    insta::assert_snapshot!(changed.failure());
}

#[test]
fn a_host_asks_for_an_ec_key_with_bundles_and_finished_images_too() {
    let site = Site::new(SEAL);
    ec_key(&site);
    lock(&site);
    sign(&site, "ec.key").ended_well();
    site.run(&["bundle", "recipe.toml", "--to", "signed.tar"])
        .ended_well();
    site.run(&BUILD).ended_well();
    configure(
        &site,
        "[lock]\nsignature = { kind = \"cosign\", key = \"../../ec.pub\" }\n",
    );
    // The manifest of a build that asked for no signature names no signer.
    let earlier = site.run(&["verify", "out/manifest.json"]);
    assert_eq!(earlier.status(), Some(10), "{}", earlier.whole());
    let said = earlier.whole();
    assert!(
        said.contains("the image was not built with a signed lock"),
        "{said}"
    );

    site.run(&["fetch", "recipe.toml"]).ended_well();
    site.run(&["fetch", "signed.tar"]).ended_well();
    fs::remove_file(site.path("recipe.lock.sig")).expect("the signature");
    let unsigned = site.run(&["fetch", "recipe.toml"]);
    assert_eq!(unsigned.status(), Some(5), "{}", unsigned.whole());
    configure(&site, "");
    site.run(&["bundle", "recipe.toml", "--to", "unsigned.tar"])
        .ended_well();
    configure(
        &site,
        "[lock]\nsignature = { kind = \"cosign\", key = \"../../ec.pub\" }\n",
    );
    let bundle = site.run(&["fetch", "unsigned.tar"]);
    assert_eq!(bundle.status(), Some(5), "{}", bundle.whole());
}

#[test]
fn an_older_lock_is_refused_after_a_fetch_by_the_image_that_is_there_and_by_the_rule() {
    let site = Site::new(SEAL);
    lock(&site);
    let first = site.read("recipe.lock");
    let recipe = site.read("recipe.toml");
    let newer = recipe.replace("version = \"1.2.0\"", "version = \"1.2.1\"");
    site.write("recipe.toml", &newer);
    lock(&site);
    let second = site.read("recipe.lock");
    site.run(&["fetch", "recipe.toml"]).ended_well();

    site.write("recipe.toml", &recipe);
    site.write("recipe.lock", &first);
    let after_fetch = site.run(&["fetch", "recipe.toml"]);
    assert_eq!(after_fetch.status(), Some(2));
    insta::assert_snapshot!("after_a_fetch", after_fetch.failure());
    let to = ["bundle", "recipe.toml", "--to", "node.tar"];
    assert_eq!(site.run(&to).status(), Some(2));
    site.run(&["fetch", "recipe.toml", "--allow-rollback"])
        .ended_well();

    // Another cache knows nothing, and the image that is about to be replaced does.
    site.write("recipe.toml", &newer);
    site.write("recipe.lock", &second);
    site.run(&BUILD).ended_well();
    site.write("recipe.toml", &recipe);
    site.write("recipe.lock", &first);
    fs::remove_dir_all(site.path("cache")).expect("the cache");
    let built = site.run(&BUILD);
    assert_eq!(built.status(), Some(2), "{}", built.whole());
    let said = built.failure();
    assert!(
        said.contains("recipe.lock is older than a lock already used here for `node`"),
        "{said}"
    );

    // With neither cache nor image the rule alone is left, and no flag lifts it.
    fs::remove_dir_all(site.path("cache")).expect("the cache");
    fs::remove_dir_all(site.path("out")).expect("the image");
    site.run(&["fetch", "recipe.toml"]).ended_well();
    fs::remove_dir_all(site.path("cache")).expect("the cache");
    site.write("recipe.toml", &format!("{recipe}\n[lock]\nserial = 2\n"));
    let below = site.run(&["fetch", "recipe.toml", "--allow-rollback"]);
    assert_eq!(below.status(), Some(2));
    insta::assert_snapshot!("below_the_rule", below.failure());
}

#[test]
fn what_is_no_signature_of_a_lock_is_complained_about_at_its_line() {
    let site = Site::new(SEAL);
    let recipe = site.read("recipe.toml");
    let more = r#"
[lock]
serial = 0
signature = [
  { kind = "authenticode", roots = "digicert-g4", subject = "CN=Example Corp" },
  { any = [{ kind = "minisign", key = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3", url = "https://example.com/recipe.lock.minisig" }] },
]
"#;
    site.write("recipe.toml", &format!("{recipe}{more}"));
    let outcome = site.run(&["validate", "recipe.toml"]);
    assert_eq!(outcome.status(), Some(2));
    insta::assert_snapshot!(facts(&outcome.whole()));
}
