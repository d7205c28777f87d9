//! A command that dies at a chosen system call.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output};

/// Everything by which bytes and names reach a disk.
pub const CALLS: [&str; 15] = [
    "write",
    "pwrite64",
    "rename",
    "renameat",
    "renameat2",
    "fsync",
    "fdatasync",
    "unlink",
    "unlinkat",
    "rmdir",
    "mkdir",
    "ftruncate",
    "fchmod",
    "utimensat",
    "copy_file_range",
];

/// The same command under strace.
fn traced(command: &Command, options: &[&str], log: &Path) -> Command {
    let mut traced = Command::new("strace");
    traced
        .args(["-f", "-qq", "-o"])
        .arg(log)
        .args(options)
        .arg(command.get_program())
        .args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        traced.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => traced.env(name, value),
            None => traced.env_remove(name),
        };
    }
    traced
}

/// The calls of an undisturbed run, as strace writes them, with the paths of descriptors.
pub fn log_of(command: &Command, file: &Path) -> String {
    let calls = format!("trace={}", CALLS.join(","));
    let output = traced(command, &["-y", "-s", "0", "-e", &calls], file).output();
    let output = output.expect("tests/install-packages.sh installs strace");
    assert!(output.status.success(), "{}", said(&output));
    fs::read_to_string(file).expect("a log")
}

/// How often a thread makes each call, at most.
pub fn counts(log: &str) -> BTreeMap<&'static str, usize> {
    let mut by_thread: BTreeMap<(&str, &'static str), usize> = BTreeMap::new();
    for line in log.lines() {
        let Some((thread, rest)) = line.split_once(' ') else {
            continue;
        };
        let name = rest.trim_start().split('(').next().unwrap_or_default();
        let call = CALLS.iter().find(|call| **call == name);
        if let Some(call) = call {
            *by_thread.entry((thread, call)).or_default() += 1;
        }
    }
    let mut most = BTreeMap::new();
    for ((_, call), count) in by_thread {
        let before: &mut usize = most.entry(call).or_default();
        *before = count.max(*before);
    }
    most
}

/// Runs the command and kills it when a thread of it makes the call for the `number`th time, before the call has an
/// effect. Whether that came.
pub fn killed(command: &Command, call: &str, number: usize) -> bool {
    let trace = format!("trace={call}");
    let inject = format!("inject={call}:signal=KILL:when={number}");
    let null = Path::new("/dev/null");
    let output = traced(command, &["-e", &trace, "-e", &inject], null).output();
    let output = output.expect("strace starts");
    match output.status.signal() {
        Some(9) => true,
        _ => {
            assert!(
                output.status.success(),
                "{call} {number}: {}",
                said(&output)
            );
            false
        }
    }
}

pub fn said(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Which of `count` calls are tried: all of few, some of many, the first and the last among them.
pub fn spread(count: usize, at_most: usize) -> Vec<usize> {
    if count <= at_most {
        return (1..=count).collect();
    }
    let step = |n: usize| 1 + n * (count - 1) / (at_most - 1);
    (0..at_most).map(step).collect()
}

pub fn name(path: &Path) -> String {
    path.file_name()
        .unwrap_or(OsStr::new(""))
        .to_string_lossy()
        .into_owned()
}
