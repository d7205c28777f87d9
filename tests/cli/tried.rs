//! `winimg try`: what it refuses, and what it says of a clone that did not come up. Clones that come up are in `end_to_end::trial`.

use serde_json::Value;

use crate::cli::furnished;
use crate::cli::site::{SEAL, Site};
use support::media;
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

#[test]
fn the_page_of_the_build_shows_a_later_trial() {
    if !can_make() {
        return;
    }
    let site = furnished::site(&furnished::furnished(), "raw = {}\n");
    site.build(&[]).ended_well();
    assert!(!site.read("out/report.html").contains("<h3>Trials</h3>"));
    let call = [
        "try", "out", "--as", "vsphere", "--settle", "1s", FAKE[0], FAKE[1],
    ];
    let outcome = site.run(&call);
    assert_eq!(outcome.status(), Some(11), "{}", outcome.whole());
    let page = site.read("out/report.html");
    assert!(page.contains("does not come up as vsphere"), "{page}");
    assert!(page.contains("href=\"try/vsphere.html\""), "{page}");
}

/// What fails on this host says nothing of the image, nor does what an earlier trial said of it.
#[test]
fn a_qemu_that_dies_is_this_hosts_failure() {
    if !can_make() {
        return;
    }
    let site = furnished::site(&WindowsDisk::sound(), "raw = {}\n");
    site.write("machine.toml", "[off]\noutcome = \"crashes\"\n");
    std::fs::create_dir(site.path("try")).expect("a folder");
    site.write("try/vsphere.json", "{}");
    let outcome = site.run(&["try", "windows.raw", "--as", "vsphere", FAKE[0], FAKE[1]]);
    assert_eq!(outcome.status(), Some(8), "{}", outcome.whole());
    let said = outcome.stderr();
    assert!(said.contains("QEMU died: signal 6 (SIGABRT)"), "{said}");
    assert!(!site.path("try/vsphere.json").exists());
}

/// All that does not hang on the target is done, and said, once.
#[test]
fn several_targets_share_what_the_image_and_the_host_ask_for() {
    if !can_make() {
        return;
    }
    let site = furnished::site(&WindowsDisk::sound(), "raw = {}\n");
    site.write("machine.toml", "[probe]\nremarks = [\"KVM crawls\"]\n");
    let (raw, packed) = (site.path("windows.raw"), site.path("packed.qcow2"));
    let (from, to) = (media::text(&raw), media::text(&packed));
    media::run("qemu-img", &["convert", "-c", "-O", "qcow2", from, to]);
    let call = [
        "try",
        "packed.qcow2",
        "--as",
        "vsphere",
        "--as",
        "openstack",
        FAKE[0],
        FAKE[1],
    ];
    let outcome = site.run(&call);
    assert_eq!(outcome.status(), Some(11), "{}", outcome.whole());
    let said = outcome.stderr();
    for once in ["KVM crawls", "packed.qcow2: unpacking it"] {
        assert_eq!(said.matches(once).count(), 1, "{once}\n{said}");
    }
    for target in ["vsphere", "openstack"] {
        assert!(site.path(&format!("try/{target}.json")).exists(), "{said}");
    }
}
