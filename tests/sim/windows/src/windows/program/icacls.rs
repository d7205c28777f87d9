//! icacls.exe and takeown.exe: who may do what with a file.
//!
//! Whole forms only: `/reset` and `/setowner` stand alone, as Microsoft's syntax has it. A change of a folder reaches
//! what inherits from it. Saved lists (`/save`, `/restore`, `/substitute`), `/findsid`, `/verify` and integrity levels are
//! refused.

mod list;

pub use list::settle;

use super::Arguments;
use super::small::unknown;
use crate::windows::account;
use crate::windows::cmd::pattern_matches;
use crate::windows::error::{FILE_NOT_FOUND, PATH_NOT_FOUND};
use crate::windows::process::Process;
use crate::windows::volume::{Located, list as entries};
use list::{
    Ace, CONTAINER, INHERIT_ONLY, INHERITED, NO_PROPAGATE, OBJECT, inherited, load, sddl, store,
};

enum Change {
    Grant {
        ace: Ace,
        replace: bool,
    },
    /// Of the SID, the entries that grant, those that deny, or both.
    Remove {
        sid: String,
        deny: Option<bool>,
    },
    Inheritance(char),
    Owner(String),
    Reset,
}

struct Fault(u32, String);

pub fn run(p: &mut Process, args: &Arguments) -> u32 {
    let Some((name, options)) = args.list.split_first() else {
        return unknown(p, "icacls", "no name", 87);
    };
    let mut changes = Vec::new();
    let (mut below, mut go_on, mut quiet) = (false, false, false);
    let mut words = options.iter().peekable();
    while let Some(word) = words.next() {
        match word.to_ascii_lowercase().as_str() {
            "/t" => below = true,
            "/c" => go_on = true,
            "/q" => quiet = true,
            "/l" => {}
            verb => {
                let mut operands = Vec::new();
                let many = verb.starts_with("/grant")
                    || verb.starts_with("/deny")
                    || verb.starts_with("/remove");
                while let Some(operand) = words.next_if(|word| {
                    (many || verb == "/setowner" && operands.is_empty()) && !word.starts_with('/')
                }) {
                    operands.push(operand.clone());
                }
                match change(p, verb, &operands) {
                    Ok(found) => changes.extend(found),
                    Err(Fault(code, text)) => {
                        p.complain(&format!("{text}\n"));
                        return code;
                    }
                }
            }
        }
    }
    let alone = |change: &Change| matches!(change, Change::Reset | Change::Owner(_));
    if changes.len() > 1 && changes.iter().any(alone) {
        p.complain("Invalid parameter \"/reset or /setowner with another change\"\n");
        return 87;
    }
    let mut found = pattern_matches(p, name);
    if found.is_empty() {
        let folder = name.rsplit_once('\\').map_or(".", |(folder, _)| folder);
        let error = if name.contains(['*', '?']) {
            p.locate(folder)
                .and_then(|folder| folder.existing())
                .map_or(PATH_NOT_FOUND, |_| FILE_NOT_FOUND)
        } else {
            p.locate(name).map_or_else(|error| error, |at| at.missing())
        };
        p.complain(&format!("{name}: {}\n", error.text()));
        p.print("Successfully processed 0 files; Failed processing 1 files\n");
        return error.0;
    }
    if below {
        let top = found.clone();
        top.iter().for_each(|dir| descend(p, dir, &mut found));
    }
    let (mut done, mut failed, mut code) = (0, 0, 0);
    for file in &found {
        match apply(p, file, &changes) {
            Ok(text) => {
                done += 1;
                if !quiet {
                    p.print(&text);
                }
            }
            Err(why) => {
                p.complain(&format!("{}: {why}\n", file.name));
                failed += 1;
                code = 5;
                if !go_on {
                    break;
                }
            }
        }
    }
    p.print(&format!(
        "Successfully processed {done} files; Failed processing {failed} files\n"
    ));
    code
}

fn descend(p: &Process, dir: &Located, found: &mut Vec<Located>) {
    if dir.is_dir() {
        for (name, _) in entries(&dir.host) {
            if let Ok(child) = p.locate(&format!("{}\\{name}", dir.name.trim_end_matches('\\'))) {
                descend(p, &child, found);
                found.push(child);
            }
        }
    }
}

fn change(p: &Process, verb: &str, operands: &[String]) -> Result<Vec<Change>, Fault> {
    let bad = || Fault(87, format!("Invalid parameter \"{verb}\""));
    let missing = || {
        if operands.is_empty() {
            Err(bad())
        } else {
            Ok(())
        }
    };
    match verb {
        "/grant" | "/grant:r" | "/deny" => {
            missing()?;
            operands
                .iter()
                .map(|text| {
                    entry(p, text, verb == "/deny").map(|ace| Change::Grant {
                        ace,
                        replace: verb == "/grant:r",
                    })
                })
                .collect()
        }
        "/remove" | "/remove:g" | "/remove:d" => {
            missing()?;
            operands
                .iter()
                .map(|name| {
                    let deny = match verb {
                        "/remove:g" => Some(false),
                        "/remove:d" => Some(true),
                        _ => None,
                    };
                    sid(p, name).map(|sid| Change::Remove { sid, deny })
                })
                .collect()
        }
        "/inheritance:e" | "/inheritance:d" | "/inheritance:r" => Ok(vec![Change::Inheritance(
            verb.chars().next_back().unwrap_or('e'),
        )]),
        "/setowner" => {
            missing()?;
            Ok(vec![Change::Owner(sid(p, &operands[0])?)])
        }
        "/reset" => Ok(vec![Change::Reset]),
        _ => Err(bad()),
    }
}

fn sid(p: &Process, name: &str) -> Result<String, Fault> {
    let found = account::sid(&p.machine.registry(), name);
    found.ok_or_else(|| {
        Fault(
            1332,
            format!("{name}: No mapping between account names and security IDs was done."),
        )
    })
}

/// `ACCOUNT:rights`, `*S-1-…:(OI)(CI)F`.
fn entry(p: &Process, text: &str, deny: bool) -> Result<Ace, Fault> {
    let bad = || Fault(87, format!("Invalid parameter \"{text}\""));
    let (name, rights) = text.rsplit_once(':').ok_or_else(bad)?;
    let (mut flags, mut mask, mut rest) = (0, 0, rights);
    while let Some(group) = rest.strip_prefix('(') {
        let (inside, after) = group.split_once(')').ok_or_else(bad)?;
        rest = after;
        for word in inside.split(',') {
            match word.to_ascii_uppercase().as_str() {
                "OI" => flags |= OBJECT,
                "CI" => flags |= CONTAINER,
                "NP" => flags |= NO_PROPAGATE,
                "IO" => flags |= INHERIT_ONLY,
                right => mask |= bits(right).ok_or_else(bad)?,
            }
        }
    }
    for word in rest.split(',').filter(|word| !word.is_empty()) {
        mask |= bits(&word.to_ascii_uppercase()).ok_or_else(bad)?;
    }
    if mask == 0 {
        return Err(bad());
    }
    Ok(Ace {
        deny,
        flags,
        mask,
        sid: sid(p, name)?,
    })
}

fn bits(right: &str) -> Option<u32> {
    Some(match right {
        "F" | "GA" => 0x1f01ff,
        "M" => 0x1301bf,
        "RX" => 0x1200a9,
        "R" | "GR" => 0x120089,
        "W" | "GW" => 0x100116,
        "GE" => 0x1200a0,
        "D" | "DE" => 0x110000,
        "RC" => 0x20000,
        "WDAC" => 0x40000,
        "WO" => 0x80000,
        "S" => 0x100000,
        "AS" => 0x1000000,
        "MA" => 0x2000000,
        "RD" => 1,
        "WD" => 2,
        "AD" => 4,
        "REA" => 8,
        "WEA" => 0x10,
        "X" => 0x20,
        "DC" => 0x40,
        "RA" => 0x80,
        "WA" => 0x100,
        _ => return None,
    })
}

fn apply(p: &Process, file: &Located, changes: &[Change]) -> Result<String, String> {
    let mut acl = load(p, file);
    if changes.is_empty() {
        return Ok(format!("{} {}\n\n", file.name, sddl(&acl)));
    }
    if file.read_only {
        return Err("The media is write protected.".into());
    }
    for change in changes {
        match change {
            Change::Grant { ace, replace } => {
                if *replace {
                    acl.aces
                        .retain(|old| old.sid != ace.sid || old.deny || old.flags & INHERITED != 0);
                }
                // Only a directory passes entries on.
                let flags = if file.is_dir() { ace.flags } else { 0 };
                let new = Ace {
                    flags,
                    ..ace.clone()
                };
                if !acl.aces.contains(&new) {
                    acl.aces.push(new);
                }
            }
            Change::Remove { sid, deny } => acl.aces.retain(|old| {
                old.sid != *sid
                    || old.flags & INHERITED != 0
                    || deny.is_some_and(|deny| deny != old.deny)
            }),
            Change::Inheritance('r') => {
                acl.protected = true;
                acl.drop_inherited();
            }
            Change::Inheritance('d') => {
                acl.protected = true;
                acl.aces.iter_mut().for_each(|ace| ace.flags &= !INHERITED);
            }
            Change::Inheritance(_) if acl.protected => {
                acl.protected = false;
                acl.aces.extend(inherited(p, file));
            }
            Change::Inheritance(_) => {}
            Change::Owner(sid) => acl.owner.clone_from(sid),
            Change::Reset => {
                acl.protected = false;
                acl.aces = inherited(p, file);
            }
        }
        acl.order();
    }
    store(p, file, &acl)?;
    Ok(format!("processed file: {}\n", file.name))
}

pub fn takeown(p: &mut Process, args: &Arguments) -> u32 {
    let (mut file, mut below, mut owner) = (None, false, "S-1-5-18");
    let mut words = args.list.iter();
    while let Some(word) = words.next() {
        match word.to_ascii_lowercase().as_str() {
            "/f" => file = words.next(),
            "/r" => below = true,
            "/a" => owner = "S-1-5-32-544",
            "/skipsl" => {}
            "/d" => drop(words.next()),
            _ => return unknown(p, "takeown", word, 1),
        }
    }
    let Some(file) = file else {
        return unknown(p, "takeown", "no /f", 1);
    };
    let mut found = pattern_matches(p, file);
    if found.is_empty() {
        p.complain("ERROR: The system cannot find the file specified.\n");
        return 1;
    }
    if below {
        let top = found.clone();
        top.iter().for_each(|dir| descend(p, dir, &mut found));
    }
    for file in &found {
        if let Err(why) = apply(p, file, &[Change::Owner(owner.into())]) {
            p.complain(&format!("ERROR: {why}\n"));
            return 1;
        }
        p.print(&format!(
            "\nSUCCESS: The file (or folder): \"{}\" now owned by the administrators group.\n",
            file.name
        ));
    }
    0
}
