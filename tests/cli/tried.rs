//! `winimg try`: what it refuses, and what it says of a clone that did not come up. Clones that come up are in `end_to_end::trial`.

use serde_json::Value;

use crate::cli::furnished;
use crate::cli::site::{SEAL, Site};
use support::windows_disk::{WindowsDisk, can_make};

const FAKE: [&str; 2] = ["--hypervisor", "fake:machine.toml"];

#[test]
fn what_can_not_be_tried_is_refused_before_anything_starts() {
    let site = Site::new(SEAL);
    site.write("image.raw", "");
    site.write("manifest.json", "{}");
    std::fs::create_dir(site.path("empty")).expect("a folder");
    let calls: [&[&str]; 6] = [
        &["try", "nothing.raw", "--as", "vsphere"],
        &["try", "image.raw"],
        &["try", "image.raw", "--as", "vspher"],
        &["try", "empty", "--as", "vsphere"],
        &["try", "manifest.json", "--manifest", "manifest.json"],
        &["build", "recipe.toml", "--try", FAKE[0], FAKE[1]],
    ];
    let mut text = String::new();
    for call in calls {
        let outcome = site.run(call);
        assert_eq!(outcome.status(), Some(2), "{call:?}: {}", outcome.whole());
        text += &format!("winimg {}\n{}\n", call.join(" "), outcome.stderr());
    }
    insta::assert_snapshot!("refused", text);
    assert!(!site.path("try").exists());
}

/// The scripted machine settles and powers off at once, so the image is as it was: Setup has not run.
#[test]
fn a_clone_whose_setup_has_not_ended_is_named_and_the_image_stays() {
    if !can_make() {
        return;
    }
    let site = furnished::site(&WindowsDisk::sound(), "raw = {}\n");
    let before = std::fs::read(site.path("windows.raw")).expect("the image");
    let call = [
        "try",
        "windows.raw",
        "--as",
        "vsphere",
        "--settle",
        "1s",
        FAKE[0],
        FAKE[1],
    ];
    let outcome = site.run(&call);
    assert_eq!(outcome.status(), Some(11), "{}", outcome.whole());
    insta::assert_snapshot!("not_ended", outcome.whole());
    let result: Value = serde_json::from_str(&site.read("try/vsphere.json")).expect("JSON");
    assert_eq!(result["verdict"], "bad");
    assert_eq!(result["clones"].as_array().map(Vec::len), Some(1));
    let page = site.read("try/vsphere.html");
    let verdict = "<h1 class=\"bad\">windows.raw does not come up as vsphere</h1>";
    assert!(page.contains(verdict), "{page}");
    let after = std::fs::read(site.path("windows.raw")).expect("the image");
    assert!(before == after, "the image was written");
    let left: Vec<String> = site.files("try");
    assert!(!left.iter().any(|f| f.contains("qcow2")), "{left:?}");
}
