//! icacls.exe and takeown.exe: access control lists.
//!
//! Each changed file's list is kept as SDDL in `HKLM\SOFTWARE\winimg-standin\Acl` (value name: the path) and, where C:
//! is a real NTFS volume, also written as its security descriptor (`system.ntfs_acl`). A file without a record has the
//! inherited list of a system drive: SYSTEM and Administrators full control, Users read.

use super::Arguments;
use super::small::unknown;
use crate::windows::account;
use crate::windows::attribute;
use crate::windows::cmd::pattern_matches;
use crate::windows::process::Process;
use crate::windows::registry::sz;
use crate::windows::volume::{Located, list};

const RECORDS: &str = r"HKLM\SOFTWARE\winimg-standin\Acl";
const INHERITED: u8 = 0x10;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Ace {
    deny: bool,
    flags: u8,
    mask: u32,
    sid: String,
}

#[derive(Clone, Debug)]
struct Acl {
    owner: String,
    protected: bool,
    aces: Vec<Ace>,
}

enum Change {
    Grant { ace: Ace, replace: bool },
    Remove(String),
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
    let mut found = pattern_matches(p, name);
    if found.is_empty() {
        let error = p.locate(name).map_or_else(|error| error, |at| at.missing());
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
        for (name, _) in list(&dir.host) {
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
                .map(|name| sid(p, name).map(Change::Remove))
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
                "OI" => flags |= 1,
                "CI" => flags |= 2,
                "NP" => flags |= 4,
                "IO" => flags |= 8,
                "I" => flags |= INHERITED,
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

fn inherited(dir: bool) -> Vec<Ace> {
    let flags = INHERITED | if dir { 3 } else { 0 };
    [
        ("S-1-5-18", 0x1f01ff),
        ("S-1-5-32-544", 0x1f01ff),
        ("S-1-5-32-545", 0x1200a9),
    ]
    .map(|(sid, mask)| Ace {
        deny: false,
        flags,
        mask,
        sid: sid.into(),
    })
    .to_vec()
}

fn load(p: &Process, file: &Located) -> Acl {
    let text = p
        .machine
        .registry()
        .text(RECORDS, &file.name)
        .unwrap_or_default();
    parse(&text).unwrap_or_else(|| Acl {
        owner: "S-1-5-32-544".into(),
        protected: false,
        aces: inherited(file.is_dir()),
    })
}

/// The SDDL that `sddl` writes.
fn parse(text: &str) -> Option<Acl> {
    let (owner, list) = text.strip_prefix("O:")?.split_once("D:")?;
    let start = list.find('(').unwrap_or(list.len());
    let aces = list[start..].split('(').skip(1).map(|ace| {
        let parts: Vec<&str> = ace.trim_end_matches(')').split(';').collect();
        let flags = ["OI", "CI", "NP", "IO", "ID"]
            .iter()
            .enumerate()
            .filter(|(_, name)| parts.get(1).is_some_and(|f| f.contains(**name)));
        Some(Ace {
            deny: parts.first() == Some(&"D"),
            flags: flags.map(|(bit, _)| 1 << bit).sum(),
            mask: u32::from_str_radix(parts.get(2)?.strip_prefix("0x")?, 16).ok()?,
            sid: (*parts.get(5)?).to_owned(),
        })
    });
    Some(Acl {
        owner: owner.to_owned(),
        protected: list[..start].contains('P'),
        aces: aces.collect::<Option<_>>()?,
    })
}

fn sddl(acl: &Acl) -> String {
    let ace = |ace: &Ace| {
        let flags: String = ["OI", "CI", "NP", "IO", "ID"]
            .iter()
            .enumerate()
            .filter(|(bit, _)| ace.flags & 1 << bit != 0)
            .map(|(_, name)| *name)
            .collect();
        format!(
            "({};{flags};0x{:x};;;{})",
            if ace.deny { "D" } else { "A" },
            ace.mask,
            ace.sid
        )
    };
    format!(
        "O:{}D:{}{}",
        acl.owner,
        if acl.protected { "P" } else { "" },
        acl.aces.iter().map(ace).collect::<String>()
    )
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
                let at = if ace.deny {
                    0
                } else {
                    acl.aces
                        .iter()
                        .position(|old| old.flags & INHERITED != 0)
                        .unwrap_or(acl.aces.len())
                };
                acl.aces.insert(
                    at,
                    Ace {
                        flags,
                        ..ace.clone()
                    },
                );
            }
            Change::Remove(sid) => acl
                .aces
                .retain(|old| old.sid != *sid || old.flags & INHERITED != 0),
            Change::Inheritance('r') => {
                acl.protected = true;
                acl.aces.retain(|ace| ace.flags & INHERITED == 0);
            }
            Change::Inheritance('d') => {
                acl.protected = true;
                acl.aces.iter_mut().for_each(|ace| ace.flags &= !INHERITED);
            }
            Change::Inheritance(_) if acl.protected => {
                acl.protected = false;
                acl.aces.extend(inherited(file.is_dir()));
            }
            Change::Inheritance(_) => {}
            Change::Owner(sid) => acl.owner.clone_from(sid),
            Change::Reset => {
                acl = Acl {
                    protected: false,
                    aces: inherited(file.is_dir()),
                    owner: acl.owner,
                }
            }
        }
    }
    p.machine
        .registry()
        .set(RECORDS, &file.name, sz(&sddl(&acl)))?;
    // A plain directory under test takes no NTFS descriptor; the record above is then all there is.
    let _ = attribute::write(&file.host, c"system.ntfs_acl", &descriptor(&acl));
    Ok(format!("processed file: {}\n", file.name))
}

/// The self-relative security descriptor.
fn descriptor(acl: &Acl) -> Vec<u8> {
    let binary = |sid: &str| {
        let parts: Vec<u64> = sid
            .split('-')
            .skip(2)
            .filter_map(|part| part.parse().ok())
            .collect();
        let mut out = vec![1, parts.len().saturating_sub(1) as u8];
        out.extend(&parts.first().unwrap_or(&5).to_be_bytes()[2..]);
        parts
            .iter()
            .skip(1)
            .for_each(|part| out.extend((*part as u32).to_le_bytes()));
        out
    };
    let mut list = Vec::new();
    for ace in &acl.aces {
        let sid = binary(&ace.sid);
        list.extend([u8::from(ace.deny), ace.flags]);
        list.extend((8 + sid.len() as u16).to_le_bytes());
        list.extend(ace.mask.to_le_bytes());
        list.extend(sid);
    }
    let (owner, group) = (binary(&acl.owner), binary("S-1-5-18"));
    let size = 8 + list.len();
    let control: u16 = 0x8004 | if acl.protected { 0x1000 } else { 0x0400 };
    let mut out = vec![1, 0];
    out.extend(control.to_le_bytes());
    let owner_at = 20 + size as u32;
    [owner_at, owner_at + owner.len() as u32, 0, 20]
        .iter()
        .for_each(|at| out.extend(at.to_le_bytes()));
    out.extend([2, 0]);
    out.extend((size as u16).to_le_bytes());
    out.extend((acl.aces.len() as u32).to_le_bytes());
    out.extend(list);
    out.extend(owner);
    out.extend(group);
    out
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
