//! Makes what the fuzzer starts from, below `target/fuzz`: small good files of every kind, from the tests' own generators
//! and from the tools that make such files.
//!
//! A kind whose tool is not on this machine is left out, and said so. Every seed whose name does not begin with
//! `refused` is one that its target understands; those that are not are named, since a fuzzer that stops at the door finds nothing.

mod disks;
mod files;
mod signed;

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use support::skip;
use winimg_fuzz::{TARGETS, ground, target};

/// Makes them, unless they are newer than this program.
pub fn make() {
    let made = ground::made();
    let stamp = made.join("seeds.stamp");
    let own = std::env::current_exe().and_then(fs::metadata);
    let own = own
        .and_then(|m| m.modified())
        .unwrap_or_else(|_| SystemTime::now());
    if fs::metadata(&stamp)
        .and_then(|m| m.modified())
        .is_ok_and(|at| at >= own)
    {
        return;
    }
    for folder in ["seeds", "bases", "keys"] {
        let _ = fs::remove_dir_all(made.join(folder));
        fs::create_dir_all(made.join(folder)).expect("a folder below target");
    }
    let lines: String = TARGETS
        .iter()
        .map(|t| format!("{} {}\n", t.name, t.longest))
        .collect();
    fs::write(made.join("targets"), lines).expect("the list of targets");

    let scratch = tempfile::tempdir().expect("a temporary folder");
    files::make();
    disks::make(scratch.path());
    signed::make(scratch.path());
    check();
    fs::write(stamp, "").expect("the stamp");
}

/// Keeps a seed of a target.
fn seed(name: &str, called: &str, bytes: &[u8]) {
    assert!(target(name).is_some(), "there is no target {name}");
    let folder = ground::made().join("seeds").join(name);
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join(called), bytes).expect("a seed");
}

/// Keeps a large image of which inputs change bytes.
fn base(called: &str, file: &Path) {
    fs::copy(file, ground::made().join("bases").join(called)).expect("a base");
}

fn key(called: &str, bytes: &[u8]) {
    fs::write(ground::made().join("keys").join(called), bytes).expect("a key");
}

/// Names every seed that its target does not understand, and every target without a seed that it does.
fn check() {
    for target in TARGETS {
        let folder = ground::made().join("seeds").join(target.name);
        let (mut good, mut bad) = (0, Vec::new());
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let bytes = fs::read(entry.path()).expect("a seed");
            let name = entry.file_name().to_string_lossy().into_owned();
            assert!(
                bytes.len() <= target.longest,
                "{} is longer than {} tries",
                entry.path().display(),
                target.name
            );
            if (target.run)(&bytes) {
                good += 1
            } else if name.starts_with("refused") {
            } else {
                bad.push(name)
            }
        }
        bad.sort();
        if good == 0 {
            skip::skipped(format!(
                "{} has no seed that it understands {bad:?}",
                target.name
            ));
        } else if !bad.is_empty() {
            eprintln!("{}: seeds that are not understood: {bad:?}", target.name);
        }
    }
}
