//! The demo: what it leaves, judged by other programs than winimg.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::winimg::{Build, output_of, root};

const RECIPE: &str = "recipes/demo.toml";

const MINUTES: Duration = Duration::from_secs(60);

fn text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

/// Builds into `output`; the build must end well.
fn built(output: &Path, cache: &Path) -> Build {
    let mut build = Build::start(RECIPE, output, cache, &[]);
    let status = build.end(20 * MINUTES);
    assert_eq!(status.code(), Some(0), "{}", build.error());
    build
}

fn manifest(output: &Path) -> Value {
    let text = std::fs::read_to_string(output.join("manifest.json")).expect("a manifest");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
#[ignore = "boots QEMU: make end-to-end"]
fn the_artifacts_hold_what_the_steps_installed() {
    let dir = tempfile::tempdir_in(root().join("target")).expect("a directory");
    let output = dir.path().join("out");
    built(&output, &dir.path().join("cache"));

    let raw = output.join("demo.raw");
    let vhd = output.join("demo.vhd");
    output_of(
        "qemu-img",
        &["compare", "-f", "raw", "-F", "vpc", text(&raw), text(&vhd)],
    );
    let vhd_bytes = std::fs::metadata(&vhd).expect("the VHD").len();
    assert_eq!((vhd_bytes - 512) % (1 << 20), 0, "Azure takes whole MiB");

    let unpacked = dir.path().join("ova");
    std::fs::create_dir(&unpacked).expect("a directory");
    let members = output_of("tar", &["-tf", text(&output.join("demo.ova"))]);
    assert!(members.starts_with("demo.ovf\n"), "{members}");
    output_of(
        "tar",
        &["-xf", text(&output.join("demo.ova")), "-C", text(&unpacked)],
    );
    output_of("xmllint", &["--noout", text(&unpacked.join("demo.ovf"))]);
    let vmdk = members
        .lines()
        .find(|m| m.ends_with(".vmdk"))
        .expect("a VMDK");
    output_of(
        "qemu-img",
        &[
            "compare",
            "-f",
            "raw",
            "-F",
            "vmdk",
            text(&raw),
            text(&unpacked.join(vmdk)),
        ],
    );

    let import = std::fs::read_to_string(output.join("demo.ami/import-image.json"))
        .expect("the import request");
    let import: Value = serde_json::from_str(&import).expect("JSON");
    assert_eq!(import["Platform"], "Windows");
    assert_eq!(import["BootMode"], "uefi");

    files_are_in_the_disk(&raw, dir.path());
    manifest_says_what_went_in(&output);
    no_password_is_left(&output);
}

/// The NTFS volume, read by ntfs-3g's own tools.
fn files_are_in_the_disk(raw: &Path, dir: &Path) {
    let table = output_of("sgdisk", &["--print", text(raw)]);
    let windows = table.lines().last().expect("a partition");
    let first: u64 = windows
        .split_whitespace()
        .nth(1)
        .and_then(|s| s.parse().ok())
        .expect("its first sector");
    let volume = dir.join("c.ntfs");
    let bytes = first * 512;
    output_of(
        "dd",
        &[
            &format!("if={}", text(raw)),
            &format!("of={}", text(&volume)),
            &format!("skip={bytes}"),
            "iflag=skip_bytes",
            "bs=1M",
            "conv=sparse",
            "status=none",
        ],
    );
    let agent = std::fs::read(root().join("target/standin/components/node-agent.exe"))
        .expect("the component");
    let found = std::process::Command::new("ntfscat")
        .args(["-f", text(&volume), "/k/node-agent.exe"])
        .output()
        .expect("ntfscat");
    assert!(
        found.stdout == agent,
        "C:\\k\\node-agent.exe is not the component, byte for byte"
    );
    for file in [
        "/Program Files/runtime/bin/runtime.exe",
        "/Program Files/runtime/config.toml",
        "/opt/cni/bin/overlay.exe",
        "/Program Files/Demo Node/config-agent.exe",
        "/Windows/System32/Sysprep/Sysprep_succeeded.tag",
    ] {
        output_of("ntfscat", &["-f", text(&volume), file]);
    }
    let left = output_of("ntfsls", &["-f", "-p", "/", text(&volume)]);
    assert!(
        !left.contains("winimg"),
        "winimg's own files are left in the image:\n{left}"
    );
}

fn manifest_says_what_went_in(output: &Path) {
    let manifest = manifest(output);
    let inputs: Vec<&str> = manifest["inputs"]
        .as_array()
        .expect("inputs")
        .iter()
        .filter_map(|input| input["name"].as_str())
        .collect();
    for component in ["node-agent", "runtime", "plugins", "node-configuration"] {
        assert!(
            inputs.contains(&component),
            "{component} is not among {inputs:?}"
        );
    }
    for artifact in manifest["artifacts"].as_array().expect("artifacts") {
        let file = output.join(artifact["file"].as_str().expect("a file"));
        let said = artifact["sha256"]
            .as_str()
            .expect("a digest")
            .trim_start_matches("sha256:");
        // Not sha256sum: Debian 12's takes minutes for the holes of a disk.
        let found = output_of("openssl", &["dgst", "-sha256", "-r", text(&file)]);
        assert!(
            found.starts_with(said),
            "{}: the manifest says {said}",
            file.display()
        );
    }
    let steps = manifest["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 17);
    let packer =
        std::fs::read_to_string(output.join("packer-manifest.json")).expect("Packer's manifest");
    let packer: Value = serde_json::from_str(&packer).expect("JSON");
    assert_eq!(packer["builds"][0]["name"], "demo");
}

/// The answer file's encoded password must be nowhere in what the build leaves.
fn no_password_is_left(output: &Path) {
    let suffix = "QQBkAG0AaQBuAGkAcwB0AHIAYQB0AG8AcgBQAGEAcwBzAHcAbwByAGQA";
    for name in ["manifest.json", "packer-manifest.json", "events.jsonl"] {
        let text =
            std::fs::read_to_string(output.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(!text.contains(suffix), "{name} holds an encoded password");
    }
}

#[test]
#[ignore = "boots QEMU: make end-to-end"]
fn two_builds_at_once_both_end_well() {
    let dir = tempfile::tempdir_in(root().join("target")).expect("a directory");
    let cache = dir.path().join("cache");
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| built(&one, &cache));
        let second = scope.spawn(|| built(&two, &cache));
        first.join().expect("the first build");
        second.join().expect("the second build");
    });
    assert_eq!(
        manifest(&one)["recipe"]["digest"],
        manifest(&two)["recipe"]["digest"]
    );
}
