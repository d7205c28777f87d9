//! `winimg verify`, and the same at the end of a build: what it prints, what it ends with, what is left.

use serde_json::{Value, json};
use winimg::usage::DiskUsage;
use winimg_base::digest::Digest;

use crate::cli::furnished;
pub use crate::cli::furnished::furnished;
use crate::cli::site::{Outcome, SEAL, Site};
pub use support::windows_disk::can_make;
use support::windows_disk::{REG_DWORD, WindowsDisk, dword};

pub fn site(disk: &WindowsDisk) -> Site {
    furnished::site(disk, "raw = {}\nvhd = {}\nqcow2 = {}\nova = {}\n")
}

pub fn build(site: &Site) -> Outcome<'_> {
    let fake = "fake:machine.toml";
    site.run(&[
        "build",
        "recipe.toml",
        "--hypervisor",
        fake,
        "--output",
        "out",
    ])
}

/// From the phase on; what comes before is tested elsewhere.
fn since_verify(text: &str) -> String {
    match text.find("[time] verify") {
        Some(at) => text[at..].to_owned(),
        None => format!("nothing was verified:\n{text}"),
    }
}

#[test]
fn a_build_is_verified_and_its_manifest_is_enough_to_do_it_again() {
    if !can_make() {
        return;
    }
    let site = site(&furnished());
    let outcome = build(&site).ended_well();
    insta::assert_snapshot!("built", since_verify(&outcome.stderr()));
    let manifest: Value = serde_json::from_str(&site.read("out/manifest.json")).expect("JSON");
    let expects = serde_json::to_string_pretty(&manifest["steps"]).expect("JSON");
    insta::assert_snapshot!("expects", site.filtered(&expects));
    let usage = DiskUsage::read(&site.path("out/disk-usage.json")).expect("the record");
    assert_eq!(usage.root.folders[0].name, "Windows");
    let last = usage.layers.last().expect("a layer");
    assert_eq!(last.used, usage.used());
    // The recipe and its inputs are not needed.
    for file in ["recipe.toml", "tool.exe"] {
        std::fs::remove_file(site.path(file)).expect("a file");
    }
    let again = site.run(&["verify", "out/manifest.json"]).ended_well();
    insta::assert_snapshot!("again", again.whole());
    let left: Vec<String> = site.files("out");
    assert!(
        !left.iter().any(|f| f.contains("winimg-verify")),
        "{left:?}"
    );
}

#[test]
fn a_folder_is_refused_with_its_manifest() {
    let site = Site::empty();
    site.write("out/demo/manifest.json", "{}");
    let refused = site.run(&["verify", "out/demo"]);
    assert_eq!(refused.status(), Some(2), "{}", refused.whole());
    let error = refused.error();
    assert!(
        error.starts_with("error: out/demo is a folder\n"),
        "{error}"
    );
    let cure = "  cure: pass its manifest: winimg verify out/demo/manifest.json\n";
    assert!(error.ends_with(cure), "{error}");
    let error = site.run(&["verify", "out"]).error();
    let cure = "  cure: pass a disk image, or the manifest.json of a build\n";
    assert!(error.ends_with(cure), "{error}");
}

#[test]
fn a_vma_is_looked_into_as_every_disk_is() {
    if !can_make() {
        return;
    }
    let site = furnished::site(&furnished(), "raw = {}\nvma = {}\n");
    build(&site).ended_well();
    let verified = site.run(&["verify", "out/manifest.json"]).ended_well();
    let said = verified.stdout();
    let of = |name: &str| {
        said.lines()
            .find_map(|l| l.strip_prefix(name))
            .unwrap()
            .to_owned()
    };
    assert_eq!(of("node.vma: "), of("node.raw: "));
    let shown = site.run(&["inspect", "out/node.vma"]).ended_well().stdout();
    assert!(shown.starts_with("format: VMA\n"), "{shown}");
    site.run(&["diff", "out/node.raw", "out/node.vma"])
        .ended_well();
}

#[test]
fn a_build_whose_disk_is_wrong_makes_no_artifact() {
    if !can_make() {
        return;
    }
    let mut disk = furnished();
    disk.file(r"C:\k\tool.exe", b"MZ the fool\n");
    disk.folder(r"C:\winimg");
    let site = site(&disk);
    let outcome = build(&site);
    assert_eq!(outcome.status(), Some(10), "{}", outcome.whole());
    insta::assert_snapshot!("build_fails", since_verify(&outcome.stderr()));
    let made = |f: &String| f.starts_with("node.") || f.ends_with("manifest.json");
    assert!(!site.files("out").iter().any(made));
    let last = site.read("out/events.jsonl");
    let last: Value = serde_json::from_str(last.lines().last().expect("a line")).expect("JSON");
    assert_eq!(
        (&last["kind"], &last["status"]),
        (&"verify".into(), &10.into())
    );
}

#[test]
fn artifacts_that_changed_or_went_are_reported() {
    if !can_make() {
        return;
    }
    let site = site(&furnished());
    build(&site).ended_well();
    std::fs::remove_file(site.path("out/node.ova")).expect("a file");
    let mut vhd = std::fs::read(site.path("out/node.vhd")).expect("the VHD");
    vhd[5000] ^= 1;
    std::fs::write(site.path("out/node.vhd"), vhd).expect("the VHD");
    let outcome = site.run(&["verify", "out/manifest.json"]);
    assert_eq!(outcome.status(), Some(10));
    let size = regex::Regex::new(r"\d+ bytes").expect("a pattern");
    let whole = outcome.whole();
    insta::assert_snapshot!("changed", size.replace_all(&whole, "[size]"));
}

#[test]
fn a_manifest_speaks_of_its_own_folder_and_of_something() {
    if !can_make() {
        return;
    }
    let site = site(&furnished());
    build(&site).ended_well();
    let text = site.read("out/manifest.json");
    let mut manifest: Value = serde_json::from_str(&text).expect("JSON");
    let digest = |file: &str| Digest::sha256_of(site.read(file).as_bytes()).hex();
    site.write("secret.txt", "of this host alone\n");
    let secret = site.path("secret.txt").display().to_string();
    let mut rendered = |artifacts: Value| {
        manifest["artifacts"] = artifacts;
        site.write("out/manifest.json", &manifest.to_string());
        let outcome = site.run(&["verify", "out/manifest.json"]);
        assert_eq!(outcome.status(), Some(10), "{}", outcome.whole());
        let whole = outcome.whole();
        assert!(!whole.contains(&digest("secret.txt")), "{whole}");
        whole
    };
    let none = rendered(json!([]));
    assert!(none.contains("the manifest lists no artifacts"), "{none}");
    #[cfg(unix)]
    std::os::unix::fs::symlink(&secret, site.path("out/link.txt")).expect("a link");
    let listed: Value = serde_json::from_str(&text).expect("JSON");
    for file in [secret.as_str(), "../secret.txt", "link.txt"] {
        if cfg!(windows) && file == "link.txt" {
            continue;
        }
        let mut artifact = listed["artifacts"][0].clone();
        artifact["file"] = json!(file);
        let outside = rendered(json!([artifact]));
        let fact = "is not in the manifest's folder";
        assert!(outside.contains(fact), "{file}: {outside}");
    }
}

#[test]
fn an_image_alone_is_judged_by_what_holds_for_all() {
    if !can_make() {
        return;
    }
    let mut disk = furnished();
    disk.file(r"C:\ProgramData\ssh\ssh_host_ed25519_key", b"x");
    disk.file(r"C:\unattend.xml", b"<unattend/>");
    let site = site(&disk);
    let alone = site.run(&["verify", "windows.raw"]);
    let json = site.run(&["--log-format", "json", "verify", "windows.raw"]);
    let mut text = alone.whole();
    for line in json.stderr().lines() {
        let mut event: Value = serde_json::from_str(line).expect("JSON");
        event["time"] = "[moment]".into();
        text += &format!("{event}\n");
    }
    insta::assert_snapshot!("alone", text);
}

#[test]
fn what_is_no_image_is_said_so() {
    let site = Site::new(SEAL);
    site.write("schema.json", "{\"schema\": \"winimg/manifest/9\"}");
    let mut said = String::new();
    for arguments in [
        &["verify", "nothing.raw"][..],
        &["verify", "schema.json"],
        &["verify", "schema.json", "--manifest", "schema.json"],
        &["verify", "sealed.qcow2"],
        &["verify", "tool.exe"],
    ] {
        let outcome = site.run(arguments);
        said += &format!("=== {}\n{}", arguments.join(" "), outcome.whole());
    }
    insta::assert_snapshot!("refused", said);
}

const LAB: &str = r#"
schema = 1
name = "lab"
title = "Our lab"
[hardware]
firmware = ["uefi", "bios"]
controller = "virtio-scsi"
nic = "virtio"
tpm = "optional"
secure_boot = "optional"
source = "wiki: lab machines"
[metadata]
by = "none"
agent = "none"
source = "wiki: lab machines"
"#;

#[test]
fn a_targets_boot_driver_is_judged_in_a_build_and_with_its_manifest() {
    if !can_make() {
        return;
    }
    let for_lab = |disk: &WindowsDisk| {
        let site = site(disk);
        let recipe = site.read("recipe.toml");
        site.write("recipe.toml", &format!("target = [\"lab\"]\n{recipe}"));
        std::fs::create_dir(site.path("targets")).expect("a folder");
        site.write("targets/lab.toml", LAB);
        site
    };
    let mut disk = furnished();
    let lacks = for_lab(&disk);
    let failed = build(&lacks);
    assert_eq!(failed.status(), Some(10), "{}", failed.whole());
    insta::assert_snapshot!("no_boot_driver", failed.failure());

    let service = r"HKLM\SYSTEM\ControlSet001\Services\vioscsi";
    disk.value(service, "Start", REG_DWORD, &dword(0));
    disk.file(r"C:\Windows\System32\drivers\vioscsi.sys", b"MZ");
    let site = for_lab(&disk);
    build(&site).ended_well();
    let verify = || site.run(&["verify", "out/node.raw", "--manifest", "out/manifest.json"]);
    let known = verify().ended_well().whole();
    std::fs::remove_file(site.path("targets/lab.toml")).expect("a file");
    let unknown = verify().ended_well().whole();
    insta::assert_snapshot!("for_a_target", format!("{known}{unknown}"));
}
