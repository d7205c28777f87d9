//! Internal commands of cmd.exe that work on files, and the copying that xcopy and robocopy share.

use std::fs;

use super::{Shell, arguments};
use crate::windows::attribute;
use crate::windows::error::*;
use crate::windows::process::Process;
use crate::windows::volume::{Cwd, Located, Place, fits, list};

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
        "del" | "erase" => &["/f", "/q", "/s", "/p"],
        "dir" => &[
            "/b", "/s", "/a", "/a-d", "/ad", "/a:d", "/a:-d", "/on", "/o:n", "/o", "/-c", "/n",
            "/w",
        ],
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
        "del" | "erase" => delete(shell, &names, has("/f"), has("/q"), has("/s")),
        "dir" => directory(shell, &names, &has),
        "md" | "mkdir" => each(&names, |name| make(&shell.p, name)),
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

const SYNTAX: &str = "The syntax of the command is incorrect.";

fn each(names: &[String], mut act: impl FnMut(&str) -> Result<(), String>) -> Result<(), String> {
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

fn text(error: Win32) -> String {
    error.text()
}

fn io(e: std::io::Error) -> String {
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

// ---------------------------------------------------------------------------------------------------------- deleting

fn delete(
    shell: &mut Shell,
    names: &[String],
    force: bool,
    quiet: bool,
    below: bool,
) -> Result<(), String> {
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

fn below_fits(p: &Process, pattern: &str) -> Vec<Located> {
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
fn remove(shell: &mut Shell, names: &[String], tree: bool, quiet: bool) {
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

// ----------------------------------------------------------------------------------------------------------- copying

/// Copies one file over what may be there; the copy has the content and the attributes.
pub fn copy_file(from: &Located, to: &Located) -> Result<(), Win32> {
    let to = to.clone().writable()?;
    if from.host == to.host {
        return Err(Win32(32));
    }
    if to.meta.is_some() && attribute::get(&to.host) & attribute::READ_ONLY != 0 {
        return Err(ACCESS_DENIED);
    }
    // The bytes only: permissions of a CD's files must not come along.
    let copied = fs::File::open(&from.host).and_then(|mut source| {
        let mut target = fs::File::create(&to.host)?;
        std::io::copy(&mut source, &mut target)?;
        target.set_modified(source.metadata()?.modified()?)
    });
    copied.map_err(|e| Win32::from_io(&e))
}

/// Copies a directory's files (and, when `deep`, what is below) into another; gives how many files.
pub fn copy_tree(
    p: &Process,
    from: &str,
    to: &str,
    deep: bool,
    empty: bool,
    wanted: &dyn Fn(&str) -> bool,
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
            copied += copy_tree(p, &from, &to, deep, empty, wanted)?;
        } else if meta.is_file() && wanted(&name) {
            ready()?;
            copy_file(&p.locate(&from)?, &p.locate(&to)?)?;
            copied += 1;
        }
    }
    Ok(copied)
}

fn copy(shell: &mut Shell, names: &[String], yes: bool, ask: bool) -> Result<(), String> {
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
        copy_file(file, &to).map_err(|error| match error.0 {
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

fn rename_into(shell: &mut Shell, names: &[String], yes: bool) -> Result<(), String> {
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

fn rename(shell: &mut Shell, names: &[String]) -> Result<(), String> {
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

// ----------------------------------------------------------------------------------------------------------- listing

fn directory(
    shell: &mut Shell,
    names: &[String],
    has: &dyn Fn(&str) -> bool,
) -> Result<(), String> {
    let p = &shell.p;
    let target = names.first().map_or(".", String::as_str);
    let top = p.locate(target.split(['*', '?']).next().unwrap_or("."));
    if !target.contains(['*', '?']) {
        top.map_err(text)?.existing().map_err(|error| {
            if error == FILE_NOT_FOUND {
                "File Not Found".into()
            } else {
                error.text()
            }
        })?;
    }
    let dir = p.locate(target).is_ok_and(|found| found.is_dir());
    let pattern = if dir {
        format!("{}\\*", target.trim_end_matches(['\\', '/']))
    } else {
        target.to_owned()
    };
    let (dirs_only, files_only) = (has("/ad") || has("/a:d"), has("/a-d") || has("/a:-d"));
    let wanted = |found: &Located| {
        if dirs_only {
            found.is_dir()
        } else {
            !files_only || !found.is_dir()
        }
    };
    let mut found = pattern_matches(p, &pattern);
    if has("/s") {
        let mut queue: Vec<String> = vec![pattern];
        found.clear();
        while let Some(pattern) = queue.pop() {
            found.extend(pattern_matches(p, &pattern));
            let (dir, last) = pattern.rsplit_once('\\').unwrap_or((".", &pattern));
            let subs = p.locate(dir).map(|dir| list(&dir.host)).unwrap_or_default();
            queue.extend(
                subs.iter()
                    .rev()
                    .filter(|(_, m)| m.is_dir())
                    .map(|(sub, _)| format!("{dir}\\{sub}\\{last}")),
            );
        }
    }
    found.retain(wanted);
    for item in &found {
        let line = match (has("/b"), has("/s")) {
            (true, true) => item.name.clone(),
            (true, false) => item.file_name().to_owned(),
            _ if item.is_dir() => format!("    <DIR>          {}", item.file_name()),
            _ => format!(
                "{:>18} {}",
                item.meta.as_ref().map_or(0, |meta| meta.len()),
                item.file_name()
            ),
        };
        p.print(&format!("{line}\n"));
    }
    if found.is_empty() && (!dir || has("/b")) {
        Err("File Not Found".into())
    } else {
        Ok(())
    }
}
