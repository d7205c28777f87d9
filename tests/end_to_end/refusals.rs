//! A Setup that stops at a screen is a failed Setup, named within a minute, not a timeout.

use std::time::{Duration, Instant};

use crate::end_to_end::SMALL;
use crate::end_to_end::program::Build;
use support::tree::root;

const MINUTES: Duration = Duration::from_secs(60);

/// Builds with winimg's own answer file after `change`, which Windows refuses; the lint only warns.
fn refused(name: &str, change: &[(&str, &str)]) {
    let dir = tempfile::tempdir_in(root().join("target")).expect("a directory");
    let mut xml =
        std::fs::read_to_string(root().join("unattend/autounattend.xml")).expect("the template");
    for (from, to) in change {
        assert!(xml.contains(from), "the template has no {from}");
        xml = xml.replace(from, to);
    }
    let answer_file = dir.path().join(format!("{name}.xml"));
    std::fs::write(&answer_file, xml).expect("the answer file is written");
    let set = format!("setup.answer_file={}", answer_file.display());
    let output = dir.path().join("out");
    let started = Instant::now();
    let mut build = Build::start(
        SMALL,
        &output,
        &dir.path().join("cache"),
        &["--set", &set, "--set", "setup.lint=warn"],
    );
    let status = build.end(30 * MINUTES);
    let error = build.error();
    eprintln!(
        "{name}: reported {:.0} s after the start\n{error}",
        started.elapsed().as_secs_f64()
    );
    assert_eq!(status.code(), Some(6), "{name}: {error}");
    assert!(
        error.contains("Windows Setup stopped")
            || error.contains("Windows Setup is waiting for input"),
        "{name}: {error}"
    );
    assert!(
        still_for(build.failed()["found"].as_str().unwrap_or_default()) < 60,
        "{name}: it took a minute or more to see it: {error}"
    );
    let screen = output.join("failure/screens/stopped.png");
    assert!(
        error.contains(&screen.display().to_string()),
        "{name}: {error}"
    );
    let picture = std::fs::read(&screen).expect("the picture");
    assert!(
        picture.starts_with(b"\x89PNG"),
        "{name}: {} is no picture",
        screen.display()
    );
}

/// The seconds of "no activity since …, for N s, …".
fn still_for(found: &str) -> u64 {
    let after = found.split(", for ").nth(1);
    let seconds = after.and_then(|rest| rest.split(" s").next());
    seconds
        .and_then(|seconds| seconds.parse().ok())
        .unwrap_or_else(|| panic!("for how long nothing moved: {found}"))
}

#[test]
#[ignore = "boots QEMU: make end-to-end"]
fn a_wrong_disk_layout_is_a_failed_setup() {
    // The partitions of a BIOS machine under UEFI.
    refused("wrong-layout", &[("{{#if uefi}}", "{{#if bios}}")]);
}

mod nightly {
    use super::refused;

    #[test]
    #[ignore = "boots QEMU: make end-to-end-nightly"]
    fn a_missing_image_is_a_failed_setup() {
        refused(
            "missing-image",
            &[("<Value>{{image_name}}</Value>", "<Value>Windows 95</Value>")],
        );
    }

    #[test]
    #[ignore = "boots QEMU: make end-to-end-nightly"]
    fn an_empty_product_key_is_a_failed_setup() {
        refused("empty-key", &[("<ProductKey>", "<ProductKey><Key></Key>")]);
    }
}
