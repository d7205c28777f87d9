//! The demo on Hyper-V: the same recipe over the stand-in for its PowerShell, whose virtual machines are the stand-in installer in QEMU.

use std::path::Path;
use std::time::{Duration, Instant};
use support::tree::{self, root};

use serde_json::Value;

use crate::end_to_end::demo;
use crate::end_to_end::program::{Build, processes_with};
use crate::hyperv::story;

/// The host. Everything lies in the test's own folder.
const HOST: &str = "state = \"hyperv\"\ntrace = \"trace.txt\"\nguest = \"qemu\"\n";

/// Sessions are refused until Windows is up: how often depends on how fast this machine is.
const REFUSED: &str = "The credential is invalid";

fn prepare(dir: &Path) -> std::ffi::OsString {
    std::fs::write(dir.join("host.toml"), HOST).expect("the host");
    let made = tree::program("fake-powershell");
    assert!(
        made.exists(),
        "cargo build --workspace makes {}",
        made.display()
    );
    let bin = dir.join("bin");
    std::fs::create_dir(&bin).expect("a folder");
    std::os::unix::fs::symlink(made, bin.join("powershell.exe")).expect("a link");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(bin).chain(std::env::split_paths(&path));
    std::env::join_paths(folders).expect("a PATH")
}

/// The machines that the host still has.
fn machines(dir: &Path) -> Vec<String> {
    let text = std::fs::read(dir.join("hyperv/host.json")).expect("the host's state");
    let state: Value = serde_json::from_slice(&text).expect("JSON");
    let vms = state["vms"].as_object().expect("machines");
    vms.keys().cloned().collect()
}

#[test]
#[ignore = "boots QEMU: make end-to-end-hyperv"]
fn demo_on_hyper_v() {
    let dir = tempfile::tempdir_in(root().join("target")).expect("a directory");
    let path = prepare(dir.path());
    let host = dir.path().join("host.toml");
    let output = dir.path().join("out");
    let started = Instant::now();
    let mut build = Build::start_where(
        "recipes/demo.toml",
        &output,
        &dir.path().join("cache"),
        // Nothing installs virtio's drivers on Hyper-V, which the demo's other target starts from.
        &["--hypervisor", "hyperv", "--set", "target=[\"vsphere\"]"],
        &[("PATH", &path), ("FAKE_HYPERV", host.as_os_str())],
    );
    let status = build.end(Duration::from_secs(60 * 60));
    let trace = std::fs::read_to_string(dir.path().join("trace.txt")).unwrap_or_default();
    if status.code() != Some(0) {
        let kept = dir.keep();
        panic!("{}\n{}\n{trace}", kept.display(), build.error());
    }
    println!("the demo on Hyper-V took {} s", started.elapsed().as_secs());
    assert_eq!(machines(dir.path()), Vec::<String>::new());
    let left = processes_with(dir.path().to_str().expect("a UTF-8 path"));
    assert_eq!(left, Vec::<String>::new());
    demo::judge(&output, dir.path());
    insta::assert_snapshot!("the_calls_of_the_demo", calls(&trace, dir.path()));
}

/// The first command once the payload disc is in: the end of a boot from a layer.
const DISC_IS_IN: &str = r"payload.cmd 000'";

/// The build's story, without what depends on how fast this machine is: how often a session was refused and something was
/// asked again, and how many layers were sealed because a minute had passed. The first layer stands for all.
fn calls(trace: &str, dir: &Path) -> String {
    let rendered = story::rendered(trace, dir);
    let mut lines: Vec<&str> = Vec::new();
    for line in rendered.lines() {
        if line.contains(REFUSED) {
            // The call before it stands for itself only when it went well.
            if lines
                .last()
                .is_some_and(|call| call.contains("New-PSSession"))
            {
                lines.pop();
            }
            continue;
        }
        lines.push(line);
        without_repeat(&mut lines);
    }
    one_layer(&lines).join("\n")
}

/// Drops the end when it says once more what stands before it.
fn without_repeat(lines: &mut Vec<&str>) {
    for length in 1..=4 {
        let Some(first) = lines.len().checked_sub(2 * length) else {
            return;
        };
        if lines[first..first + length] == lines[first + length..] {
            lines.truncate(first + length);
        }
    }
}

/// Keeps the first power-off with the boot that follows it, and the last power-off.
fn one_layer<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let mut kept = Vec::new();
    let mut rest = lines;
    let mut is_first = true;
    while let Some(off) = rest.iter().position(|l| l.contains("-ScriptBlock {off}")) {
        let Some(booted) = rest[off..].iter().position(|l| l.contains(DISC_IS_IN)) else {
            break;
        };
        // With the job's being forgotten.
        let end = (off + booted + 2).min(rest.len());
        kept.extend(&rest[..if is_first { end } else { off }]);
        is_first = false;
        rest = &rest[end..];
    }
    kept.extend(rest);
    kept
}
