//! Inputs that are not what the recipe says: named before a machine starts.

use crate::cli::site::{SEAL, Site};

/// The recipe with one place changed; the build must not start a machine.
fn refused(change: impl FnOnce(&Site, String) -> String) -> String {
    let site = Site::new(SEAL);
    let recipe = site.read("recipe.toml");
    let changed = change(&site, recipe.clone());
    site.write("recipe.toml", &changed);
    let outcome = site.build(&[]);
    assert!(!site.path("asked.txt").exists(), "a machine was started");
    let left = site.files("out");
    assert!(!left.iter().any(|f| f.contains("winimg-work")), "{left:?}");
    outcome.failure()
}

const NOT_PROVED: &str = "unverified = \"made by the test\"";
const COPY: &str =
    "\n[[steps]]\nname = \"tool\"\ncopy = { component = \"tool\", to = 'C:\\k\\tool.exe' }\n";

fn with_copy(recipe: &str) -> String {
    recipe.replace("\n[[steps]]", &format!("{COPY}\n[[steps]]"))
}

#[test]
fn a_wrong_digest_shows_both_and_the_line() {
    insta::assert_snapshot!(refused(|site, recipe| {
        site.write("tool.exe", "MZ another tool\n");
        with_copy(&recipe)
    }));
}

#[test]
fn several_wrong_inputs_are_reported_at_once() {
    insta::assert_snapshot!(refused(|site, recipe| {
        site.write("tool.exe", "MZ another tool\n");
        let digest = format!("sha256 = \"{}\"", "0".repeat(64));
        with_copy(&recipe.replacen(NOT_PROVED, &digest, 1))
    }));
}

#[test]
fn a_file_that_is_not_there() {
    insta::assert_snapshot!(refused(
        |_, recipe| recipe.replace("windows.iso", "window.iso")
    ));
}

#[test]
fn a_page_in_place_of_a_medium() {
    insta::assert_snapshot!(refused(|site, recipe| {
        site.write(
            "windows.iso",
            "<!DOCTYPE html><html><head><title>Evaluation Center</title></head></html>",
        );
        recipe
    }));
}

#[test]
fn something_else_in_place_of_a_medium() {
    insta::assert_snapshot!(refused(|site, recipe| {
        std::fs::write(site.path("windows.iso"), vec![0; 1 << 20]).expect("a file");
        recipe
    }));
}

#[test]
fn an_image_that_the_medium_does_not_have() {
    insta::assert_snapshot!(refused(|_, recipe| {
        recipe.replace("datacenter-core", "Windows Server 2022 SERVERDATACENTRE")
    }));
}

#[test]
fn a_medium_of_another_kind_in_place_of_virtio_win() {
    insta::assert_snapshot!(refused(
        |_, recipe| recipe.replace("virtio-win.iso", "windows.iso")
    ));
}

#[test]
fn an_input_without_proof_is_warned_about_and_recorded() {
    let site = Site::new(SEAL);
    let outcome = site.build(&[]).ended_well();
    let warning = "[time] warning: media.iso is not verified: made by the test\n";
    // The other one is about the fake machine's disk.
    assert_eq!(outcome.stderr().matches("warning: ").count(), 2);
    assert!(outcome.stderr().contains(warning), "{}", outcome.stderr());
    let manifest: serde_json::Value =
        serde_json::from_str(&site.read("out/manifest.json")).expect("JSON");
    assert_eq!(
        manifest["inputs"][0]["proof"],
        serde_json::json!({"kind": "unverified", "reason": "made by the test"})
    );
    assert_eq!(
        manifest["warnings"],
        serde_json::json!([
            "media.iso is not verified: made by the test",
            "the sealed disk was not checked: --no-verify"
        ])
    );
}
