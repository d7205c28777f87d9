//! An access control list as icacls changes it: what a file has, what it inherits, and how it is kept.
//!
//! Each changed file's list is kept as SDDL in `HKLM\SOFTWARE\winimg-standin\Acl` (value name: the path) and, where C:
//! is a real NTFS volume, also written as its security descriptor (`system.ntfs_acl`). A file without a record has what
//! it inherits from the folder above; the root of the drive gives SYSTEM and Administrators full control, Users read.

use crate::windows::account::binary;
use crate::windows::attribute;
use crate::windows::process::Process;
use crate::windows::registry::sz;
use crate::windows::volume::{Located, list};

const RECORDS: &str = r"HKLM\SOFTWARE\winimg-standin\Acl";
pub const OBJECT: u8 = 1;
pub const CONTAINER: u8 = 2;
pub const NO_PROPAGATE: u8 = 4;
pub const INHERIT_ONLY: u8 = 8;
pub const INHERITED: u8 = 0x10;
const FLAGS: [&str; 5] = ["OI", "CI", "NP", "IO", "ID"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ace {
    pub deny: bool,
    pub flags: u8,
    pub mask: u32,
    pub sid: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    pub owner: String,
    pub protected: bool,
    pub aces: Vec<Ace>,
}

impl Acl {
    /// The entries of the file itself, those that deny first, then what it inherits.
    pub fn order(&mut self) {
        self.aces
            .sort_by_key(|ace| (ace.flags & INHERITED != 0, !ace.deny));
    }

    pub fn drop_inherited(&mut self) {
        self.aces.retain(|ace| ace.flags & INHERITED == 0);
    }
}

/// The list of a file: its record, or what it inherits.
pub fn load(p: &Process, file: &Located) -> Acl {
    let text = p.machine.registry().text(RECORDS, &file.name);
    text.and_then(|text| parse(&text)).unwrap_or_else(|| Acl {
        owner: "S-1-5-32-544".into(),
        protected: false,
        aces: inherited(p, file),
    })
}

/// What the folder above passes on to a file or folder.
pub fn inherited(p: &Process, file: &Located) -> Vec<Ace> {
    let above = file
        .name
        .rsplit_once('\\')
        .filter(|(above, name)| !above.is_empty() && !name.is_empty())
        .and_then(|(above, _)| p.locate(&format!("{above}\\")).ok());
    let parent = match above {
        Some(parent) => load(p, &parent).aces,
        None => root(),
    };
    parent
        .iter()
        .filter_map(|ace| passed_on(ace, file.is_dir()))
        .collect()
}

/// The root of a drive; also what it would get from above, had it anything above.
fn root() -> Vec<Ace> {
    [
        ("S-1-5-18", 0x1f01ff),
        ("S-1-5-32-544", 0x1f01ff),
        ("S-1-5-32-545", 0x1200a9),
    ]
    .map(|(sid, mask)| Ace {
        deny: false,
        flags: OBJECT | CONTAINER,
        mask,
        sid: sid.into(),
    })
    .to_vec()
}

fn passed_on(ace: &Ace, to_folder: bool) -> Option<Ace> {
    let passes = ace.flags & (OBJECT | CONTAINER);
    let once = ace.flags & NO_PROPAGATE != 0;
    let flags = match (to_folder, passes & CONTAINER != 0, passes & OBJECT != 0) {
        (false, _, true) => 0,
        (true, true, _) if once => 0,
        (true, true, _) => passes,
        // A folder only carries on what is meant for files.
        (true, false, true) if !once => OBJECT | INHERIT_ONLY,
        _ => return None,
    };
    Some(Ace {
        flags: flags | INHERITED,
        ..ace.clone()
    })
}

/// Keeps a file's list, and gives what lies below a folder what it inherits now.
pub fn store(p: &Process, file: &Located, acl: &Acl) -> Result<(), String> {
    p.machine
        .registry()
        .set(RECORDS, &file.name, sz(&sddl(acl)))?;
    // A plain directory under test takes no NTFS descriptor; the record above is then all there is.
    let _ = attribute::write(&file.host, c"system.ntfs_acl", &descriptor(acl));
    propagate(p, file)
}

/// Gives files that were made since what their folders pass on: Windows does that when it makes them.
pub fn settle(p: &Process) -> Result<(), String> {
    let changed: Vec<String> = p
        .machine
        .registry()
        .key(RECORDS)
        .map(|key| key.values.iter().map(|value| value.name.clone()).collect())
        .unwrap_or_default();
    for path in changed {
        if let Ok(folder) = p.locate(&path)
            && folder.meta.is_some()
        {
            propagate(p, &folder)?;
        }
    }
    Ok(())
}

fn propagate(p: &Process, folder: &Located) -> Result<(), String> {
    if !folder.is_dir() {
        return Ok(());
    }
    for (name, _) in list(&folder.host) {
        let path = format!("{}\\{name}", folder.name.trim_end_matches('\\'));
        let Ok(child) = p.locate(&path) else { continue };
        let mut acl = load(p, &child);
        if acl.protected {
            continue;
        }
        acl.drop_inherited();
        acl.aces.extend(inherited(p, &child));
        let recorded = p.machine.registry().text(RECORDS, &child.name).is_some();
        if recorded {
            p.machine
                .registry()
                .set(RECORDS, &child.name, sz(&sddl(&acl)))?;
        }
        let _ = attribute::write(&child.host, c"system.ntfs_acl", &descriptor(&acl));
        propagate(p, &child)?;
    }
    Ok(())
}

/// The SDDL that `sddl` writes.
fn parse(text: &str) -> Option<Acl> {
    let (owner, list) = text.strip_prefix("O:")?.split_once("D:")?;
    let start = list.find('(').unwrap_or(list.len());
    let aces = list[start..].split('(').skip(1).map(|ace| {
        let parts: Vec<&str> = ace.trim_end_matches(')').split(';').collect();
        let flags = FLAGS
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

pub fn sddl(acl: &Acl) -> String {
    let ace = |ace: &Ace| {
        let flags: String = FLAGS
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

/// The self-relative security descriptor.
fn descriptor(acl: &Acl) -> Vec<u8> {
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
