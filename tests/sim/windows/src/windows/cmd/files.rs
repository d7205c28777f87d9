//! Internal commands of cmd.exe that work on files: their switches, and the short ones themselves.

use std::fs;

use super::copy::{copy, rename, rename_into};
use super::delete::{delete, remove};
use super::dir::directory;
use super::link::link;
use super::{Shell, arguments};
use crate::windows::error::*;
use crate::windows::process::Process;
use crate::windows::volume::{Cwd, Located, fits, list};

/// Switches (lower case, with their slash) and operands (quotes taken off) of an internal command.
fn operands(rest: &str) -> (Vec<String>, Vec<String>) {
    let mut switches = Vec::new();
    let mut names = Vec::new();
    for arg in arguments(rest) {
        // `del /f/q x`: switches may stand together; a path never starts with a slash here.
        if let Some(body) = arg.strip_prefix('/') {
            switches.extend(
                body.to_ascii_lowercase()
                    .split('/')
                    .map(|switch| format!("/{switch}")),
            );
        } else {
            let (name, glued) = arg
                .find(" /")
                .map_or((arg.as_str(), ""), |at| arg.split_at(at));
            names.push(name.replace('"', ""));
            debug_assert!(glued.is_empty() || arg.starts_with('"'));
        }
    }
    (switches, names)
}

pub fn run(shell: &mut Shell, name: &str, rest: &str) {
    let (switches, names) = operands(rest);
    let known: &[&str] = match name {
        "cd" | "chdir" => &["/d"],
        "copy" => &["/b", "/a", "/y", "/-y", "/v", "/z", "/n", "/d", "/l"],
        "del" | "erase" => &["/f", "/q", "/s", "/p", "/a"],
        "dir" => &[
            "/b", "/s", "/a", "/a-d", "/ad", "/a:d", "/a:-d", "/on", "/o:n", "/o", "/-c", "/n",
            "/w",
        ],
        "mklink" => &["/d", "/h", "/j"],
        "move" => &["/y", "/-y"],
        "rd" | "rmdir" => &["/s", "/q"],
        _ => &[],
    };
    if let Some(odd) = switches
        .iter()
        .find(|switch| !known.contains(&switch.as_str()))
    {
        shell.p.complain(&format!(
            "Invalid switch - \"{}\".\n",
            odd.trim_start_matches('/')
        ));
        return shell.fail(1);
    }
    let has = |switch: &str| switches.iter().any(|given| given == switch);
    let done: Result<(), String> = match name {
        "cd" | "chdir" => change(shell, rest, has("/d")),
        "copy" => copy(shell, &names, has("/y"), has("/-y")),
        "del" | "erase" => delete(shell, &names, &has),
        "dir" => directory(shell, &names, &has),
        "md" | "mkdir" => each(&names, |name| make(&shell.p, name)),
        "mklink" => link(&shell.p, &switches, &names),
        "move" => rename_into(shell, &names, has("/y")),
        "rd" | "rmdir" => return remove(shell, &names, has("/s"), has("/q")),
        "ren" | "rename" => rename(shell, &names),
        "type" => each(&names, |name| type_file(&shell.p, name)),
        "pushd" => push(shell, &names),
        "popd" => {
            if let Some(cwd) = shell.pushed.pop() {
                shell.p.cwd = cwd;
                Ok(())
            } else {
                Err(String::new())
            }
        }
        _ => volume(shell),
    };
    match done {
        Ok(()) => shell.fail(0),
        Err(message) => {
            if !message.is_empty() {
                shell.p.complain(&format!("{message}\n"));
            }
            shell.fail(1);
        }
    }
}

pub(super) const SYNTAX: &str = "The syntax of the command is incorrect.";

pub(super) fn each(
    names: &[String],
    mut act: impl FnMut(&str) -> Result<(), String>,
) -> Result<(), String> {
    if names.is_empty() {
        return Err(SYNTAX.into());
    }
    // One that fails does not keep the others from being tried.
    let mut all = Ok(());
    for name in names {
        all = all.and(act(name));
    }
    all
}

pub(super) fn text(error: Win32) -> String {
    error.text()
}

pub(super) fn io(e: std::io::Error) -> String {
    Win32::from_io(&e).text()
}

/// What a path with or without wildcards in its last name finds.
pub fn pattern_matches(p: &Process, path: &str) -> Vec<Located> {
    if !path.contains(['*', '?']) {
        // `x\` and `x\.` name a directory only.
        let dir_only = path.ends_with(['\\', '/']);
        return p
            .locate(path)
            .ok()
            .filter(|found| found.meta.is_some() && (!dir_only || found.is_dir()))
            .into_iter()
            .collect();
    }
    let (dir, pattern) = match path.rfind(['\\', '/', ':']) {
        Some(at) => (&path[..=at], &path[at + 1..]),
        None => (".", path),
    };
    let Ok(dir) = p.locate(dir) else {
        return Vec::new();
    };
    list(&dir.host)
        .into_iter()
        .filter(|(name, _)| fits(pattern, name))
        .map(|(name, meta)| Located {
            name: format!("{}\\{name}", dir.name.trim_end_matches('\\')),
            host: dir.host.join(&name),
            meta: Some(meta),
            orphan: false,
            read_only: dir.read_only,
        })
        .collect()
}

fn change(shell: &mut Shell, rest: &str, drive: bool) -> Result<(), String> {
    let path = rest.trim_start_matches([' ', '\t']);
    let path = path
        .strip_prefix("/d")
        .or(path.strip_prefix("/D"))
        .unwrap_or(path)
        .trim()
        .replace('"', "");
    if path.is_empty() {
        shell.p.print(&format!("{}\n", shell.p.cwd.0));
        return Ok(());
    }
    let found = shell.p.locate(&path).map_err(text)?;
    if found.meta.is_none() {
        return Err(PATH_NOT_FOUND.text());
    }
    if !found.is_dir() {
        return Err(DIRECTORY.text());
    }
    // Without /d another drive's directory changes, not the drive; only roots are kept for those, so nothing does.
    if drive || found.name.starts_with(&shell.p.cwd.0[..1]) {
        shell.p.cwd = Cwd(found.name);
    }
    Ok(())
}

fn push(shell: &mut Shell, names: &[String]) -> Result<(), String> {
    let Some(name) = names.first() else {
        return Ok(());
    };
    let found = shell.p.locate(name).map_err(text)?;
    if !found.is_dir() {
        return Err(PATH_NOT_FOUND.text());
    }
    shell
        .pushed
        .push(std::mem::replace(&mut shell.p.cwd, Cwd(found.name)));
    Ok(())
}

fn volume(shell: &mut Shell) -> Result<(), String> {
    let letter = &shell.p.cwd.0[..1];
    shell.p.print(&format!(
        " Volume in drive {letter} has no label.\n Volume Serial Number is 5A4D-0001\n"
    ));
    Ok(())
}

/// Makes a directory and those above it.
pub fn make(p: &Process, name: &str) -> Result<(), String> {
    let found = p.locate(name).map_err(text)?;
    if found.meta.is_some() {
        return Err(format!("A subdirectory or file {name} already exists."));
    }
    if found.read_only {
        return Err(WRITE_PROTECT.text());
    }
    fs::create_dir_all(&found.host).map_err(io)
}

fn type_file(p: &Process, name: &str) -> Result<(), String> {
    let found = pattern_matches(p, name);
    if found.is_empty() {
        return Err(p
            .locate(name)
            .map_or_else(text, |found| found.missing().text()));
    }
    for file in found {
        if file.is_dir() {
            return Err(ACCESS_DENIED.text());
        }
        let bytes = fs::read(&file.host).map_err(io)?;
        let mut out = p
            .out
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        out.write_all(&bytes).map_err(io)?;
    }
    Ok(())
}
