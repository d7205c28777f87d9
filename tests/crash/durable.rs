//! Names become durable: what is renamed into the store was brought to the disk before, and its folder after.
//!
//! rename(2) and fsync(2): a file's bytes, and the entry in its folder, are on the disk only when each was synced.

use std::path::Path;
use support::tree::this_program_as;

use crate::crash::kill::{log_of, name};
use crate::crash::site::Site;

#[derive(Debug)]
enum Call {
    Rename(String, String),
    Sync(String),
    Make(String),
    Unlink(String),
}

/// The calls in the order in which they began, with whole paths; those that failed are left out.
fn calls(log: &str, folder: &str) -> Vec<Call> {
    let whole = |path: &str| {
        let path = if path.starts_with('/') {
            path.to_string()
        } else {
            format!("{folder}/{path}")
        };
        path.replace("/./", "/")
    };
    let mut calls = Vec::new();
    for line in log.lines() {
        let call = line
            .split_once(' ')
            .map_or("", |(_, rest)| rest.trim_start());
        if call.contains(") = -1 ") {
            continue;
        }
        let Some((name, arguments)) = call.split_once('(') else {
            continue;
        };
        let strings: Vec<String> = arguments
            .split('"')
            .skip(1)
            .step_by(2)
            .map(String::from)
            .collect();
        let path = || {
            let inner = arguments.split_once('<')?.1.split_once('>')?.0;
            Some(inner.to_string())
        };
        match (name, strings.as_slice()) {
            ("rename" | "renameat" | "renameat2", [from, to]) => {
                calls.push(Call::Rename(whole(from), whole(to)));
            }
            ("fsync" | "fdatasync", _) => calls.extend(path().map(Call::Sync)),
            ("mkdir", [made]) => calls.push(Call::Make(whole(made))),
            ("unlink" | "rmdir", [gone]) => calls.push(Call::Unlink(whole(gone))),
            ("unlinkat", [gone]) => {
                let folder = path().unwrap_or_default();
                calls.push(Call::Unlink(format!("{folder}/{gone}")));
            }
            _ => {}
        }
    }
    calls
}

fn synced(calls: &[Call], wanted: &str) -> bool {
    calls
        .iter()
        .any(|c| matches!(c, Call::Sync(p) if p == wanted))
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or(".", |(folder, _)| folder)
}

/// What is not durable, in words.
fn loose(calls: &[Call], cache: &str) -> Vec<String> {
    let mut loose = Vec::new();
    let ours = |path: &str| path.starts_with(cache);
    for (at, call) in calls.iter().enumerate() {
        let (before, after) = calls.split_at(at);
        match call {
            Call::Rename(from, to) if ours(to) && to.contains("/trash/") => {
                let until = after
                    .iter()
                    .position(|c| matches!(c, Call::Unlink(p) if p.starts_with(to.as_str())));
                let until = until.unwrap_or(after.len());
                if !synced(&after[..until], folder(from)) {
                    loose.push(format!("{from} may come back without its bytes"));
                }
            }
            Call::Rename(_, to) if name(Path::new(to)).starts_with('.') => {}
            Call::Rename(from, to) => {
                if !synced(before, from) {
                    loose.push(format!("{to}: its bytes"));
                }
                if !synced(after, folder(to)) {
                    loose.push(format!("{to}: its name"));
                }
            }
            Call::Make(made)
                if ours(made)
                    && !name(Path::new(made)).starts_with('.')
                    && !synced(after, folder(made)) =>
            {
                loose.push(format!("{made}: its name"));
            }
            _ => {}
        }
    }
    loose
}

#[test]
fn every_name_in_the_store_is_durable() {
    let site = Site::new();
    let seals = this_program_as("machines::crash::operations", "seals");
    let cache = site.path("cache");
    let cache = cache.to_str().expect("UTF-8");
    let here = site.path("");
    let here = here.to_str().expect("UTF-8").trim_end_matches('/');
    let mut renamed = 0;
    for (what, command) in [
        ("fetch", site.command(&["fetch", "recipe.toml"])),
        ("lock", site.command(&["lock", "recipe.toml"])),
        ("seal", site.here(seals)),
        (
            "prune",
            site.command(&["cache", "prune", "--max-size", "1B"]),
        ),
    ] {
        let calls = calls(&log_of(&command, &site.path("strace.log")), here);
        let names = calls.iter().filter(|c| matches!(c, Call::Rename(..)));
        renamed += names.count();
        assert_eq!(loose(&calls, cache), [""; 0], "{what}");
    }
    assert!(renamed > 20, "only {renamed} names");
}
