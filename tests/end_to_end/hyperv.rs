//! The demo on Hyper-V: the same recipe over the stand-in for its PowerShell, whose virtual machines are the stand-in installer in QEMU.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::winimg::{Build, processes_with, root};
use crate::{demo, story};

/// The host. Everything lies in the test's own folder.
const HOST: &str = "state = \"hyperv\"\ntrace = \"trace.txt\"\nguest = \"qemu\"\n";

/// Sessions are refused until Windows is up: how often depends on how fast this machine is.
const REFUSED: &str = "The credential is invalid";

fn prepare(dir: &Path) -> std::ffi::OsString {
    std::fs::write(dir.join("host.toml"), HOST).expect("the host");
    let made = Path::new(env!("CARGO_BIN_EXE_winimg")).with_file_name("fake-powershell");
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
#[ignore = "boots QEMU: make end-to-end"]
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
        &["--hypervisor", "hyperv"],
        &[("PATH", &path), ("FAKE_HYPERV", host.as_os_str())],
    );
    let status = build.end(Duration::from_secs(20 * 60));
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

/// The build's story, without how often a session was refused.
fn calls(trace: &str, dir: &Path) -> String {
    let told = story::told(trace, dir);
    let mut lines: Vec<&str> = Vec::new();
    for line in told.lines() {
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
    }
    lines.join("\n")
}
