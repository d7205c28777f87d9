//! `copy`, `move` and `ren`, and the copying that xcopy and robocopy share.

use std::fs;

use super::Shell;
use super::files::{SYNTAX, io, pattern_matches, text};
use crate::windows::attribute;
use crate::windows::error::*;
use crate::windows::process::Process;
use crate::windows::volume::{Located, Place, list};

/// What a copy does about the read-only attribute.
#[derive(Clone, Copy)]
pub struct ReadOnly {
    /// It comes along, as with CopyFile. Files of a CD all have it.
    pub keep: bool,
    /// A read-only target is replaced.
    pub replace: bool,
}

/// Copies one file over what may be there.
pub fn copy_file(from: &Located, to: &Located, read_only: ReadOnly) -> Result<(), Win32> {
    if from.host == to.host {
        return Err(Win32(32));
    }
    if read_only.replace && to.is_file() && !to.read_only {
        let bits = attribute::get(&to.host);
        if bits & attribute::READ_ONLY != 0 {
            attribute::set(&to.host, bits & !attribute::READ_ONLY).map_err(|_| ACCESS_DENIED)?;
        }
    }
    let to = to.clone().writable()?;
    // The bytes only: permissions of a CD's files must not come along.
    let copied = fs::File::open(&from.host).and_then(|mut source| {
        let mut target = fs::File::create(&to.host)?;
        std::io::copy(&mut source, &mut target)?;
        target.set_modified(source.metadata()?.modified()?)
    });
    copied.map_err(|e| Win32::from_io(&e))?;
    if read_only.keep && attribute::of(from) & attribute::READ_ONLY != 0 {
        let bits = attribute::get(&to.host) | attribute::READ_ONLY;
        attribute::set(&to.host, bits).map_err(|_| ACCESS_DENIED)?;
    }
    Ok(())
}

/// Copies a directory's files (and, when `deep`, what is below) into another; gives how many files.
pub fn copy_tree(
    p: &Process,
    from: &str,
    to: &str,
    deep: bool,
    empty: bool,
    wanted: &dyn Fn(&str) -> bool,
    read_only: ReadOnly,
) -> Result<usize, Win32> {
    let source = p.locate(from)?.existing()?;
    let mut copied = 0;
    let ready = || -> Result<(), Win32> {
        let target = p.locate(to)?;
        if target.read_only {
            return Err(WRITE_PROTECT);
        }
        fs::create_dir_all(&target.host).map_err(|e| Win32::from_io(&e))
    };
    if empty {
        ready()?;
    }
    for (name, meta) in list(&source.host) {
        let (from, to) = (
            format!("{}\\{name}", from.trim_end_matches(['\\', '/'])),
            format!("{}\\{name}", to.trim_end_matches(['\\', '/'])),
        );
        if meta.is_dir() && deep {
            copied += copy_tree(p, &from, &to, deep, empty, wanted, read_only)?;
        } else if meta.is_file() && wanted(&name) {
            ready()?;
            copy_file(&p.locate(&from)?, &p.locate(&to)?, read_only)?;
            copied += 1;
        }
    }
    Ok(copied)
}

pub(super) fn copy(
    shell: &mut Shell,
    names: &[String],
    yes: bool,
    ask: bool,
) -> Result<(), String> {
    let p = &shell.p;
    let joined = names
        .join("\0")
        .replace("\0+\0", "+")
        .replace("+\0", "+")
        .replace("\0+", "+");
    let names: Vec<&str> = joined.split('\0').filter(|name| !name.is_empty()).collect();
    let (source, target) = match names[..] {
        [source] => (source, "."),
        [source, target] => (source, target),
        _ => return Err(SYNTAX.into()),
    };
    // Inside a batch file nobody is asked before a file is replaced.
    let replace = (yes || !shell.frames.is_empty()) && !ask;
    if source.contains('+') {
        return concatenate(p, source, target, replace);
    }
    let found = pattern_matches(p, source);
    let found: Vec<Located> = match found.first() {
        Some(dir) if found.len() == 1 && dir.is_dir() => {
            pattern_matches(p, &format!("{source}\\*"))
        }
        _ => found,
    };
    let found: Vec<Located> = found.into_iter().filter(Located::is_file).collect();
    if found.is_empty() {
        return Err(p
            .locate(source.trim_end_matches('*'))
            .map_or_else(text, |at| at.missing().text()));
    }
    for file in &found {
        let to = match p.place(target).map_err(text)? {
            Place::File(to) if to.is_dir() || target.ends_with(['\\', '/']) => p
                .locate(&format!(
                    "{}\\{}",
                    target.trim_end_matches(['\\', '/']),
                    file.file_name()
                ))
                .map_err(text)?,
            Place::File(to) => *to,
            Place::Null | Place::Serial => continue,
        };
        if to.is_file() && !replace {
            return Err(format!(
                "Overwrite {}? (Yes/No/All): (nobody is there to answer: give /y)",
                to.name
            ));
        }
        copy_file(
            file,
            &to,
            ReadOnly {
                keep: true,
                replace: false,
            },
        )
        .map_err(|error| match error.0 {
            32 => "The file cannot be copied onto itself.".into(),
            _ => error.text(),
        })?;
    }
    p.print(&format!("        {} file(s) copied.\n", found.len()));
    Ok(())
}

fn concatenate(p: &Process, source: &str, target: &str, replace: bool) -> Result<(), String> {
    let mut bytes = Vec::new();
    for name in source.split('+') {
        let found = p
            .locate(name.trim())
            .and_then(Located::existing)
            .map_err(text)?;
        bytes.extend(fs::read(&found.host).map_err(io)?);
    }
    let to = p.locate(target).and_then(Located::writable).map_err(text)?;
    if to.meta.is_some() && !replace {
        return Err(format!(
            "Overwrite {}? (Yes/No/All): (nobody is there to answer: give /y)",
            to.name
        ));
    }
    fs::write(&to.host, bytes).map_err(io)?;
    p.print("        1 file(s) copied.\n");
    Ok(())
}

pub(super) fn rename_into(shell: &mut Shell, names: &[String], yes: bool) -> Result<(), String> {
    let [source, target] = names else {
        return Err(SYNTAX.into());
    };
    let p = &shell.p;
    let found = pattern_matches(p, source);
    if found.is_empty() {
        return Err(p.locate(source).map_or_else(text, |at| at.missing().text()));
    }
    for from in &found {
        let mut to = p.locate(target).map_err(text)?;
        if to.is_dir() {
            to = p
                .locate(&format!("{target}\\{}", from.file_name()))
                .map_err(text)?;
        }
        if to.is_file() && !yes && shell.frames.is_empty() {
            return Err(format!(
                "Overwrite {}? (Yes/No/All): (nobody is there to answer: give /y)",
                to.name
            ));
        }
        if from.read_only {
            return Err(WRITE_PROTECT.text());
        }
        let to = to.writable().map_err(text)?;
        fs::rename(&from.host, &to.host).map_err(io)?;
    }
    p.print(&format!("        {} file(s) moved.\n", found.len()));
    Ok(())
}

pub(super) fn rename(shell: &mut Shell, names: &[String]) -> Result<(), String> {
    let [source, target] = names else {
        return Err(SYNTAX.into());
    };
    if target.contains(['\\', '/', ':', '*', '?']) || source.contains(['*', '?']) {
        return Err(SYNTAX.into());
    }
    let from = shell
        .p
        .locate(source)
        .and_then(Located::existing)
        .map_err(text)?;
    let dir = from.name.rsplit_once('\\').map_or("", |(dir, _)| dir);
    let to = shell.p.locate(&format!("{dir}\\{target}")).map_err(text)?;
    if from.read_only {
        return Err(WRITE_PROTECT.text());
    }
    if to.meta.is_some() && to.host != from.host {
        return Err("A duplicate file name exists, or the file\ncannot be found.".into());
    }
    fs::rename(&from.host, from.host.with_file_name(target)).map_err(io)
}
