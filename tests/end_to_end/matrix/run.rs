//! Builds and tries one row as a user would, and asks each that can know whether it is the row's combination.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::{Row, recipe};
use crate::end_to_end::program::{Build, is, output_of, processes_with};
use crate::end_to_end::trial::differ;
use crate::end_to_end::trusted;
use support::tree::{self, root};

/// Much longer than a row takes on a machine without virtualisation.
const LIMIT: Duration = Duration::from_secs(40 * 60);

/// The recipe holds what `winimg validate` judges without a medium.
pub fn validate(recipe: &Path) {
    let recipe = recipe.to_str().expect("UTF-8");
    let winimg = tree::winimg();
    let winimg = winimg.to_str().expect("UTF-8");
    // The authority of the stand-in's drivers is made with its media, which are not needed here.
    let roots = "roots=microsoft-root-2010";
    output_of(winimg, &["validate", recipe, "--var", roots]);
}

/// Its folder is kept where something is wrong, `target/matrix/NAME`.
pub fn row(row: &Row) {
    let folder = root().join("target/matrix").join(row.name());
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let recipe = recipe::written(row, &folder);
    let output = folder.join("out");
    // A firmware that trusts the stand-in's key.
    let config = row.trusted.then(|| trusted::firmware(&folder));
    let config = config
        .iter()
        .map(|config| ("XDG_CONFIG_HOME", config.as_os_str()));
    let mut build = Build::start_where(
        recipe.to_str().expect("UTF-8"),
        &output,
        &folder.join("cache"),
        &["--no-lock", "--layers", "none", "--try", "--settle", "15s"],
        &config.collect::<Vec<_>>(),
    );
    build.wait_for("Setup runs", LIMIT, |event| {
        is(event, "phase_started", "phase", "install")
    });
    let machine = machine_of(&output);
    let status = build.end(LIMIT);
    assert_eq!(status.code(), Some(0), "{}: {}", row.name(), build.error());

    built_on(row, &machine);
    let manifest = read(&output.join("manifest.json"));
    installed(row, &manifest["windows"]);
    verified(&output);
    partitioned(row, &output, &manifest);
    tried(row, &read(&output.join(format!("try/{}.json", row.target))));
    fs::remove_dir_all(&folder).expect("the folder goes");
}

/// The command line of the machine that works in this folder. It starts within a minute.
fn machine_of(output: &Path) -> String {
    let word = output.to_str().expect("UTF-8");
    for _ in 0..600 {
        let mut lines = processes_with(word).into_iter();
        if let Some(line) = lines.find(|line| line.contains("qemu-system")) {
            return line;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("no machine was started");
}

fn built_on(row: &Row, machine: &str) {
    let uefi = machine.contains("if=pflash");
    assert_eq!(uefi, row.firmware == "uefi", "{machine}");
    let device = match row.disk_bus {
        "virtio" => "-device virtio-blk-pci,",
        "nvme" => "-device nvme,",
        _ => "-device ide-hd,",
    };
    assert!(machine.contains(device), "{machine}");
    assert_eq!(machine.contains("-tpmdev"), row.trusted, "{machine}");
}

fn read(file: &Path) -> Value {
    let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    serde_json::from_str(&text).expect("JSON")
}

fn installed(row: &Row, windows: &Value) {
    assert_eq!(windows["release"], row.release, "{windows:#}");
    let image = row.image.replace('-', "").to_uppercase();
    let image = format!("Windows Server {} SERVER{image}", row.release);
    assert_eq!(windows["image"], image.as_str(), "{windows:#}");
    let edition = windows["edition"].as_str().expect("an edition");
    assert_eq!(
        edition.ends_with("Eval"),
        row.is_evaluation(),
        "{windows:#}"
    );
}

/// By itself once more: that no build judges its own work alone.
fn verified(output: &Path) {
    let done = Command::new(tree::winimg())
        .arg("verify")
        .arg(output.join("manifest.json"))
        .output()
        .expect("winimg starts");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
}

/// BIOS starts from MBR, UEFI from GPT.
fn partitioned(row: &Row, output: &Path, manifest: &Value) {
    let artifact = &manifest["artifacts"][0]["file"];
    let artifact = output.join(artifact.as_str().expect("an artifact"));
    let winimg = tree::winimg();
    let (winimg, file) = (winimg.to_str(), artifact.to_str());
    let found = output_of(
        winimg.expect("UTF-8"),
        &["inspect", "--json", file.expect("UTF-8")],
    );
    let found: Value = serde_json::from_str(&found).expect("JSON");
    let style = if row.firmware == "uefi" { "gpt" } else { "mbr" };
    assert_eq!(found["table"]["style"], style, "{found:#}");
}

/// Two clones that differ, on the target's hardware. What their registries say was judged with them.
fn tried(row: &Row, trial: &Value) {
    assert_eq!(trial["verdict"], "good", "{trial:#}");
    assert_eq!(trial["target"], row.target, "{trial:#}");
    assert_eq!(trial["hardware"]["firmware"], row.firmware, "{trial:#}");
    let controller = match row.target {
        "hyperv-gen1" => "ide",
        // Hyper-V's own bus is not QEMU's.
        "azure" | "hyperv-gen2" | "vagrant" | "wmco-byoh" => "ahci",
        "openstack" | "kubevirt" => "virtio-blk",
        "proxmox" | "nutanix" => "virtio-scsi",
        _ => "nvme",
    };
    assert_eq!(trial["hardware"]["controller"], controller, "{trial:#}");
    let clones = trial["clones"].as_array().expect("clones");
    assert_eq!(clones.len(), 2, "{trial:#}");
    for machine in clones.iter().map(|clone| &clone["state"]["hardware"]) {
        assert_eq!(machine["tpm"], row.trusted, "{trial:#}");
        let secure = machine["secure_boot"] == true;
        assert_eq!(secure, row.trusted, "{trial:#}");
    }
    differ(trial, &["machine-sid", "machine-guid"]);
}
