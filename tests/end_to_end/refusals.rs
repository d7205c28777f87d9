//! A Setup that stops at a screen is a failed Setup, named within a minute, not a timeout.

use std::time::{Duration, Instant};

use crate::winimg::{Build, root};

const MINUTES: Duration = Duration::from_secs(60);

/// Builds with an answer file that Windows refuses; the lint is told to let it pass.
fn refused(name: &str) {
    let dir = tempfile::tempdir_in(root().join("target")).expect("a directory");
    let answer_file = root().join(format!("tests/answers/{name}.xml"));
    let set = format!("setup.answer_file={}", answer_file.display());
    let output = dir.path().join("out");
    let started = Instant::now();
    let mut build = Build::start(
        &output,
        &dir.path().join("cache"),
        &["--set", &set, "--set", "setup.lint=warn"],
    );
    let status = build.end(5 * MINUTES);
    let error = build.error();
    assert_eq!(status.code(), Some(6), "{name}: {error}");
    assert!(
        error.contains("Windows Setup stopped at a screen"),
        "{name}: {error}"
    );
    assert!(!error.contains("timed out"), "{name}: {error}");
    let screens = output.join("failure/screens");
    let pictures = std::fs::read_dir(&screens)
        .map(|d| d.count())
        .unwrap_or_default();
    assert!(
        pictures > 0,
        "{name}: no picture of the screen in {}",
        screens.display()
    );
    eprintln!(
        "{name}: reported {:.0} s after the start\n{error}",
        started.elapsed().as_secs_f64()
    );
}

#[test]
#[ignore = "boots QEMU: make end-to-end"]
fn a_missing_image_is_a_failed_setup() {
    refused("missing-image");
}

#[test]
#[ignore = "boots QEMU: make end-to-end"]
fn an_empty_product_key_is_a_failed_setup() {
    refused("empty-key");
}

#[test]
#[ignore = "boots QEMU: make end-to-end"]
fn a_wrong_disk_layout_is_a_failed_setup() {
    refused("wrong-layout");
}
