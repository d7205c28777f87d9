//! xcopy.exe.

use std::fs;

use super::Arguments;
use super::small::unknown;
use crate::windows::cmd::{ReadOnly, copy_file, copy_tree, pattern_matches};
use crate::windows::error::Win32;
use crate::windows::process::Process;
use crate::windows::volume::{Located, fits, list};

/// "Invalid number of parameters", a missing source, an invalid drive: xcopy's initialization error.
const XCOPY_INIT: u32 = 4;

pub fn xcopy(p: &mut Process, args: &Arguments) -> u32 {
    let (mut names, mut flags) = (Vec::new(), String::new());
    for arg in &args.list {
        match arg.strip_prefix('/').map(str::to_ascii_lowercase) {
            None => names.push(arg.as_str()),
            Some(switches) => {
                for switch in switches.split('/') {
                    match switch {
                        "e" | "s" | "i" | "y" | "q" | "h" | "r" | "k" | "f" | "v" | "z" | "b"
                        | "j" | "c" | "g" | "-y" => flags.push_str(switch),
                        odd => return unknown(p, "xcopy", &format!("/{odd}"), XCOPY_INIT),
                    }
                }
            }
        }
    }
    let (source, target) = match names[..] {
        [source] => (source, "."),
        [source, target] => (source, target),
        _ => return unknown(p, "xcopy", "Invalid number of parameters", XCOPY_INIT),
    };
    let has = |letter: char| flags.contains(letter);
    let found = pattern_matches(p, source);
    let Some(first) = found.first() else {
        p.complain(&format!("File not found - {source}\n0 File(s) copied\n"));
        return XCOPY_INIT;
    };
    let tree = found.len() == 1 && first.is_dir();
    let to = match p.locate(target) {
        Ok(to) => to,
        Err(error) => return unknown(p, "xcopy", &error.text(), XCOPY_INIT),
    };
    let into = to.is_dir()
        || target.ends_with(['\\', '/'])
        || (has('i') && (tree || source.contains(['*', '?'])));
    if !into && to.meta.is_none() {
        p.complain(&format!("Does {target} specify a file name\nor directory name on the target\n(F = file, D = directory)? (nobody is there to answer)\n"));
        return 2;
    }
    let deep = has('s') || has('e');
    let read_only = ReadOnly {
        keep: has('k'),
        replace: has('r'),
    };
    let copied = if tree || source.contains(['*', '?']) {
        let (dir, pattern) = if tree {
            (source, "*")
        } else {
            source.rsplit_once(['\\', '/']).unwrap_or((".", source))
        };
        if !has('y') && clashes(p, dir, target, pattern, deep) {
            p.complain("Overwrite (Yes/No/All)? (nobody is there to answer: give /y)\n");
            return 2;
        }
        let wanted = |name: &str| fits(pattern, name);
        copy_tree(p, dir, target, deep, has('e'), &wanted, read_only)
    } else {
        single(p, first, target, into, has('y'), read_only)
    };
    match copied {
        Ok(0) if !has('e') => {
            p.print("0 File(s) copied\n");
            1
        }
        Ok(count) => {
            p.print(&format!("{count} File(s) copied\n"));
            0
        }
        Err(Win32(2)) => 2,
        Err(error) => {
            p.complain(&format!("{}\n", error.text()));
            if error == crate::windows::error::DISK_FULL
                || error == crate::windows::error::WRITE_PROTECT
            {
                5
            } else {
                XCOPY_INIT
            }
        }
    }
}

fn single(
    p: &Process,
    from: &Located,
    target: &str,
    into: bool,
    yes: bool,
    read_only: ReadOnly,
) -> Result<usize, Win32> {
    let path = if into {
        format!(
            "{}\\{}",
            target.trim_end_matches(['\\', '/']),
            from.file_name()
        )
    } else {
        target.to_owned()
    };
    let to = p.locate(&path)?;
    if to.is_file() && !yes {
        p.complain(&format!(
            "Overwrite {} (Yes/No/All)? (nobody is there to answer: give /y)\n",
            to.name
        ));
        return Err(Win32(2));
    }
    if let (true, Some(dir)) = (to.orphan || to.meta.is_none(), to.host.parent()) {
        fs::create_dir_all(dir).map_err(|e| Win32::from_io(&e))?;
    }
    copy_file(from, &p.locate(&path)?, read_only).map(|()| 1)
}

fn clashes(p: &Process, from: &str, to: &str, pattern: &str, deep: bool) -> bool {
    let (Ok(source), Ok(target)) = (p.locate(from), p.locate(to)) else {
        return false;
    };
    list(&source.host).into_iter().any(|(name, meta)| {
        let (from, to) = (
            format!("{}\\{name}", source.name.trim_end_matches('\\')),
            format!("{}\\{name}", target.name.trim_end_matches('\\')),
        );
        if meta.is_dir() {
            deep && clashes(p, &from, &to, pattern, deep)
        } else {
            fits(pattern, &name) && p.locate(&to).is_ok_and(|to| to.is_file())
        }
    })
}
