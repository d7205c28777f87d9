//! Two images compared: by their manifests, their records of disk usage and their disks.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use support::golden::schema_is_current;
use support::media::text;
use support::windows_disk::{REG_DWORD, WindowsDisk, can_make, dword};
use winimg::diff::{self, DiffSide, collect_facts, compare, generate_schema};
use winimg::record::BuildManifest;
use winimg::usage::DiskUsage;

use crate::export_record::manifest;
use crate::usage::record::{folder, node};

const SCHEMA_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/schemas/diff-1.json");

fn side(name: &str, manifest: &BuildManifest, usage: DiskUsage) -> DiffSide {
    DiffSide {
        name: name.into(),
        manifest: Some(collect_facts(manifest)),
        disk: None,
        usage: Some(usage),
    }
}

/// The same image with one component newer and from nobody, one gone, and a name that is hostile.
fn changed() -> BuildManifest {
    let mut other = manifest();
    other.inputs.pop();
    let input = other.inputs.first_mut().expect("an input");
    input.version = Some("9.9.9\u{1b}[31m\u{202e}".into());
    input.proof = winimg::record::manifest::ManifestProof::Unverified {
        reason: "no publisher".into(),
    };
    other.targets = vec!["<b>\nvsphere".into()];
    other.artifacts[0].size += 1 << 20;
    other.steps.pop();
    other
}

fn grown() -> DiskUsage {
    let mut usage = node();
    usage.root.bytes += 2000 << 20;
    usage.root.folders[1].bytes += 2000 << 20;
    usage.root.folders[1]
        .folders
        .push(folder("docker", 2000, vec![]));
    usage
}

#[test]
fn two_builds_as_text() {
    let a = side("out-a", &manifest(), node());
    let b = side("out-b", &changed(), grown());
    let found = compare(&a, &b);
    insta::assert_snapshot!(diff::render(&found));
    insta::assert_snapshot!(
        "two_builds_as_json",
        serde_json::to_string_pretty(&found).unwrap()
    );
    let validator =
        jsonschema::validator_for(&serde_json::from_str(&generate_schema()).unwrap()).unwrap();
    assert!(validator.is_valid(&serde_json::to_value(&found).unwrap()));
}

#[test]
fn what_one_side_does_not_say_is_not_compared() {
    let a = side("out-a", &manifest(), node());
    let b = DiffSide {
        name: "b.vhd".into(),
        ..DiffSide::default()
    };
    let found = compare(&a, &b);
    assert!(found.is_empty());
    insta::assert_snapshot!(diff::render(&found));
}

/// After a change of the types: `WINIMG_WRITE_SCHEMA=1 cargo test --test winimg diff::`.
#[test]
fn the_schema_in_the_repository_is_current() {
    schema_is_current(SCHEMA_FILE, &generate_schema());
}

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_winimg"))
        .args([&["diff"], arguments].concat())
        .output()
        .expect("winimg");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

fn named(text: &str, folder: &Path) -> String {
    text.replace(&folder.display().to_string(), "DIR")
}

#[test]
fn folders_of_builds_are_compared_by_their_records() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, manifest) in [("a", manifest()), ("b", changed())] {
        let out = folder.path().join(name);
        fs::create_dir(&out).expect("a folder");
        fs::write(out.join("manifest.json"), manifest.to_json()).expect("the manifest");
    }
    let path = |name: &str| folder.path().join(name);
    let (a, b) = (path("a"), path("b"));
    let (status, out, err) = run(&[text(&a), text(&b)]);
    assert_eq!((status, err.as_str()), (Some(12), ""));
    assert!(out.contains("9.9.9"), "{out}");
    assert!(!out.contains('\u{1b}'), "{out}");
    let (status, out, _) = run(&[text(&a), text(&a)]);
    assert_eq!(status, Some(0));
    insta::assert_snapshot!(named(&out, folder.path()));
    let (status, out, _) = run(&["--json", text(&a), text(&b)]);
    assert_eq!(status, Some(12));
    let json: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(json["schema"], "winimg/diff/1");
    let (status, _, err) = run(&[text(&a), text(&path("c"))]);
    assert_eq!(status, Some(2));
    assert_eq!(
        named(&err, folder.path()),
        "error: there is no such file\n  at: DIR/c\n"
    );
}

#[test]
fn two_disks_are_compared_by_their_services_packages_and_folders() {
    if !can_make() {
        return;
    }
    const CBS: &str =
        r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\Packages";
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (a, b) = (path("a.raw"), path("b.raw"));
    let make = |file: &Path, start: u32, package: &str| {
        let mut disk = WindowsDisk::sound();
        let service = r"HKLM\SYSTEM\ControlSet001\Services\kubelet";
        disk.value(service, "Start", REG_DWORD, &dword(start));
        let package = format!(r"{CBS}\{package}");
        disk.value(&package, "CurrentState", REG_DWORD, &dword(112));
        if start == 3 {
            disk.file(r"C:\k\new.bin", &vec![7; 4 << 20]);
        }
        disk.write(file);
    };
    make(&a, 2, "Package_for_RollupFix~1");
    make(&b, 3, "Package_for_RollupFix~2");
    let (status, out, err) = run(&[text(&a), text(&b)]);
    assert_eq!((status, err.as_str()), (Some(12), ""));
    insta::assert_snapshot!(named(&out, folder.path()));
}
