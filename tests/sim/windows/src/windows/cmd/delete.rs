//! `del` and `rd`.

use std::fs;

use super::Shell;
use super::files::{SYNTAX, each, pattern_matches};
use crate::windows::attribute;
use crate::windows::error::*;
use crate::windows::process::Process;
use crate::windows::volume::{Located, list};

pub(super) fn delete(
    shell: &mut Shell,
    names: &[String],
    has: &dyn Fn(&str) -> bool,
) -> Result<(), String> {
    let (force, quiet, below) = (has("/f"), has("/q"), has("/s"));
    // Without `/a` hidden and system files are not seen.
    let seen = |file: &Located| has("/a") || !attribute::is_hidden(file);
    each(names, |name| {
        let whole = shell.p.locate(name).is_ok_and(|found| found.is_dir());
        let pattern = if whole {
            format!("{name}\\*")
        } else {
            name.to_owned()
        };
        if !quiet && (whole || pattern.ends_with('*')) {
            return Err(format!(
                "{name}, Are you sure (Y/N)? (nobody is there to answer: give /q)"
            ));
        }
        let mut found: Vec<Located> = pattern_matches(&shell.p, &pattern)
            .into_iter()
            .filter(Located::is_file)
            .collect();
        if below {
            found.extend(below_fits(&shell.p, &pattern));
        }
        found.retain(seen);
        if found.is_empty() {
            // A missing file is reported, and is no error.
            let full = shell
                .p
                .locate(name)
                .map_or_else(|_| name.to_owned(), |found| found.name);
            shell.p.complain(&format!("Could Not Find {full}\n"));
            return Ok(());
        }
        each_found(&shell.p, found, |file| remove_file(file, force))
    })
}

fn each_found(
    p: &Process,
    found: Vec<Located>,
    act: impl Fn(&Located) -> Result<(), Win32>,
) -> Result<(), String> {
    for file in found {
        if let Err(error) = act(&file) {
            p.complain(&format!("{}\n{}\n", file.name, error.text()));
            return Err(String::new());
        }
    }
    Ok(())
}

/// The files that fit a pattern in the folders below its own, at any depth.
pub fn below_fits(p: &Process, pattern: &str) -> Vec<Located> {
    let (dir, last) = pattern
        .rfind(['\\', '/'])
        .map_or((".", pattern), |at| (&pattern[..at], &pattern[at + 1..]));
    let Ok(dir) = p.locate(dir) else {
        return Vec::new();
    };
    let subs = list(&dir.host)
        .into_iter()
        .filter(|(_, meta)| meta.is_dir());
    subs.flat_map(|(sub, _)| {
        let path = format!("{}\\{sub}\\{last}", dir.name.trim_end_matches('\\'));
        let mut found: Vec<Located> = pattern_matches(p, &path)
            .into_iter()
            .filter(Located::is_file)
            .collect();
        found.extend(below_fits(p, &path));
        found
    })
    .collect()
}

pub fn remove_file(file: &Located, force: bool) -> Result<(), Win32> {
    if file.read_only {
        return Err(WRITE_PROTECT);
    }
    if !force && attribute::get(&file.host) & attribute::READ_ONLY != 0 {
        return Err(ACCESS_DENIED);
    }
    fs::remove_file(&file.host).map_err(|e| Win32::from_io(&e))
}

/// `rd` reports its failure to `||` but leaves ERRORLEVEL as it was.
pub(super) fn remove(shell: &mut Shell, names: &[String], tree: bool, quiet: bool) {
    shell.code = 0;
    if names.is_empty() {
        shell.p.complain(&format!("{SYNTAX}\n"));
        return shell.fail(1);
    }
    for name in names {
        let removed = shell.p.locate(name).and_then(|found| {
            let found = found.existing()?;
            match () {
                () if found.read_only => Err(WRITE_PROTECT),
                () if !found.is_dir() => Err(DIRECTORY),
                () if tree && !quiet => Err(Win32(1223)),
                () if tree => fs::remove_dir_all(&found.host).map_err(|e| Win32::from_io(&e)),
                () => fs::remove_dir(&found.host).map_err(|e| Win32::from_io(&e)),
            }
        });
        if let Err(error) = removed {
            let message = if error.0 == 1223 {
                format!("{name}, Are you sure (Y/N)? (nobody is there to answer: give /q)")
            } else {
                error.text()
            };
            shell.p.complain(&format!("{message}\n"));
            shell.code = error.0 as i32;
        }
    }
}
