//! Drivers of a medium, proved by the catalogs in their folders: what `fetch`, `lock` and a build say of them.

use std::process::Command;

use crate::cli::site::{SEAL, Site};
use support::media::{inf, put, run, text};
use support::tree::root;

const DRIVERS: [&str; 4] = ["viostor", "vioscsi", "NetKVM", "vioserial"];

/// A recipe whose medium's drivers have catalogs that the test's own authority signed, without timestamps.
fn site() -> Site {
    let site = Site::new(SEAL);
    let authority = root().join("tests/demo/authority.sh");
    run(text(&authority), &[text(&site.path("ca"))]);
    for driver in DRIVERS {
        let folder = format!("virtio/{driver}/2k22/amd64");
        let at = |kind: &str| format!("{folder}/{driver}.{kind}");
        sign(&site, &at("cat"), &[&at("inf"), &at("sys")]);
    }
    medium(&site);
    let recipe = site.read("recipe.toml");
    let at = recipe.find("[media.virtio]").expect("the medium");
    let signature = "[media.virtio]\nsignature = { kind = \"catalogs\", roots = \"ca/root.pem\", subject = \"CN=winimg demo code signing\", timestamp = \"optional\" }";
    let recipe = recipe[..at].to_owned() + &recipe[at..].replacen("[media.virtio]", signature, 1);
    site.write("recipe.toml", &recipe);
    site
}

/// A catalog that lists these files.
fn sign(site: &Site, to: &str, files: &[&str]) {
    let maker = root().join("crates/trust/tests/catalog.py");
    let path = |name: &str| text(&site.path(name)).to_owned();
    let mut words = vec![text(&maker).to_owned(), path("unsigned.cat")];
    words.extend(files.iter().map(|file| path(file)));
    run(
        "python3",
        &words.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let _ = std::fs::remove_file(site.path(to));
    let (certs, key) = (path("ca/signer.pem"), path("ca/signer.key"));
    let (from, to) = (path("unsigned.cat"), path(to));
    let signing = ["sign", "-h", "sha256", "-certs", &certs, "-key", &key];
    run(
        "osslsigncode",
        &[&signing[..], &["-in", &from, "-out", &to]].concat(),
    );
}

/// The medium of what the folder holds now, and its digest in the recipe.
fn medium(site: &Site) {
    let iso = site.path("virtio-win.iso");
    let old = digest(&iso);
    let words = ["-quiet", "-J", "-R", "-V", "virtio-win", "-o", text(&iso)];
    let root = site.path("virtio");
    run("genisoimage", &[&words[..], &[text(&root)]].concat());
    let recipe = site.read("recipe.toml").replace(&old, &digest(&iso));
    site.write("recipe.toml", &recipe);
}

fn digest(file: &std::path::Path) -> String {
    run("sha256sum", &[text(file)])[..64].to_owned()
}

fn change(site: &Site, file: &str, bytes: &[u8]) {
    put(&site.path("virtio"), file, bytes);
    medium(site);
}

#[test]
fn drivers_that_their_catalogs_list_are_taken_and_recorded() {
    let site = site();
    let fetched = site.run(&["fetch", "recipe.toml", "--json"]).ended_well();
    let said: serde_json::Value = serde_json::from_str(&fetched.stdout()).expect("JSON");
    let inputs = said["inputs"].as_array().expect("inputs");
    let medium = inputs.iter().find(|input| input["name"] == "media.virtio");
    insta::assert_snapshot!(
        serde_json::to_string_pretty(&medium.expect("it")["signers"]).expect("JSON")
    );
    site.run(&["lock", "recipe.toml"]).ended_well();
    assert!(site.read("recipe.lock").contains("NetKVM/2k22/amd64"));
    site.build(&[]).ended_well();
    let manifest: serde_json::Value =
        serde_json::from_str(&site.read("out/manifest.json")).expect("JSON");
    let inputs = manifest["inputs"].as_array().expect("inputs");
    let recorded = inputs.iter().find(|input| input["name"] == "media.virtio");
    let signer = &recorded.expect("it")["signers"][0]["signer"];
    assert_eq!(
        signer,
        "CN=winimg demo code signing,O=winimg demo (no real publisher)"
    );
}

/// Symbols and tools do not go onto the answer disc.
#[test]
fn what_is_not_taken_of_a_folder_needs_no_catalog() {
    let site = site();
    change(&site, "viostor/2k22/amd64/viostor.pdb", b"symbols");
    change(&site, "Balloon/2k22/amd64/balloon.sys", b"another");
    // virtio-win has it in NetKVM's folders: neither the INF nor the catalog names it.
    change(&site, "NetKVM/2k22/amd64/netkvmco.exe", b"MZ a tool");
    site.run(&["fetch", "recipe.toml"]).ended_well();
}

/// What is done to a good site.
type Spoil = fn(&Site);

#[test]
fn what_no_catalog_lists_stops_before_a_machine_starts() {
    let cases: [(&str, Spoil); 6] = [
        ("a changed text", |site| {
            let text = inf("viostor.cat", &["viostor.sys"]) + "; others";
            change(site, "viostor/2k22/amd64/viostor.inf", text.as_bytes());
        }),
        ("two at once", |site| {
            change(site, "viostor/2k22/amd64/viostor.sys", b"others");
            let folder = "virtio/NetKVM/2k22/amd64";
            let text = inf("NetKVM.cat", &["NetKVM.sys", "more.dll"]);
            site.write(&format!("{folder}/NetKVM.inf"), &text);
            let listed = ["inf", "sys"].map(|kind| format!("{folder}/NetKVM.{kind}"));
            let listed = listed.each_ref().map(String::as_str);
            sign(site, &format!("{folder}/NetKVM.cat"), &listed);
            change(site, "NetKVM/2k22/amd64/more.dll", b"not listed");
        }),
        ("a file that the INF names", |site| {
            let driver = site.path("virtio/NetKVM/2k22/amd64/NetKVM.sys");
            std::fs::remove_file(driver).expect("a driver");
            medium(site);
        }),
        ("no catalog", |site| {
            let catalog = site.path("virtio/vioserial/2k22/amd64/vioserial.cat");
            std::fs::remove_file(catalog).expect("a catalog");
            medium(site);
        }),
        ("of a release that is not built from", |site| {
            change(site, "viostor/2k25/amd64/viostor.inf", b"not listed");
        }),
        ("by another publisher", |site| {
            let recipe = site.read("recipe.toml");
            site.write("recipe.toml", &recipe.replace("demo code signing", "other"));
        }),
    ];
    let said = cases.map(|(title, spoil)| {
        let site = site();
        spoil(&site);
        let outcome = site.build(&[]);
        assert!(!site.path("asked.txt").exists(), "a machine was started");
        format!("{title}:\n{}\n", outcome.failure())
    });
    insta::assert_snapshot!(said.concat());
}

#[test]
fn the_policy_of_signatures_asks_for_the_catalogs() {
    let site = Site::new(SEAL);
    let recipe = site.read("recipe.toml");
    let validate = |more: &str| {
        site.write("recipe.toml", &recipe.replacen("\n\n", more, 1));
        let outcome: Command = site.command(&["validate", "recipe.toml"]);
        site.outcome(outcome).stderr()
    };
    let refused = validate("\npolicy = \"signed\"\n\n");
    assert!(
        refused.contains("[media.virtio] has no signature, but the policy requires signatures"),
        "{refused}"
    );
    let named =
        validate("\npolicy = \"signed\"\n\n[unsigned]\n\"media.virtio\" = \"built here\"\n\n");
    assert!(
        named.contains("warning: [media.virtio] is accepted without a signature"),
        "{named}"
    );
    assert!(!named.contains("media.virtio] has no"), "{named}");
}
