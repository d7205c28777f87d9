//! Access lists of files and folders: the explicit entries, exactly.
//!
//! Source: Microsoft, icacls ("simple rights"), [MS-DTYP] 2.4.4.1 "ACE_HEADER".

use std::collections::BTreeSet;

use winimg_formats::disk::security::{Ace, AceKind};

use super::account::sid;
use super::finding::{Finding, Verdict};
use super::image::Image;
use winimg_recipe::plan::check::{Acl, AclEntry};
use winimg_recipe::recipe::verb::Right;

/// `OBJECT_INHERIT_ACE` and `CONTAINER_INHERIT_ACE`
const ALL_BELOW: u8 = 3;
const CREATOR_OWNER: &str = "S-1-3-0";

pub fn acl(image: &Image<'_>, acl: &Acl) -> Verdict {
    let path = &acl.path;
    let cure = "see the log of the step that sets it, and which later step or program changes it";
    let Some(found) = image.volume.security(path.as_str())? else {
        return Err(Finding::error(format!("{path} is missing")).cure(cure));
    };
    let is_folder = image
        .volume
        .facts(path.as_str())?
        .is_some_and(|f| f.directory);
    let mut expected = BTreeSet::new();
    for entry in &acl.entries {
        let Some(sid) = sid(image, &entry.principal)? else {
            return Err(Finding::unknown(format!(
                "who {} is, and so who may do what with {path}",
                entry.principal
            )));
        };
        expected.insert(wanted(entry, &sid, is_folder));
    }
    let Some(dacl) = &found.dacl else {
        return Err(
            Finding::error(format!("everybody may do everything with {path}"))
                .expected(list(&expected))
                .found("no access list")
                .cure(cure),
        );
    };
    let explicit: BTreeSet<String> = dacl
        .iter()
        .filter(|ace| !ace.inherited())
        .map(describe)
        .collect();
    if explicit != expected {
        return Err(Finding::error(format!("{path} has another access list"))
            .expected(list(&expected))
            .found(list(&explicit))
            .cure(cure));
    }
    if acl.protected && !found.protected {
        return Err(
            Finding::error(format!("{path} inherits access from the folders above"))
                .expected("a protected access list")
                .cure(cure),
        );
    }
    owner(image, acl, found.owner.as_ref().map(ToString::to_string))
}

fn owner(image: &Image<'_>, acl: &Acl, found: Option<String>) -> Verdict {
    let Some(owner) = &acl.owner else {
        return Ok(());
    };
    let Some(expected) = sid(image, owner)? else {
        return Err(Finding::unknown(format!(
            "who {owner} is, and so whether it owns {}",
            acl.path
        )));
    };
    match found {
        Some(found) if found == expected => Ok(()),
        found => Err(Finding::error(format!("{} has another owner", acl.path))
            .expected(format!("{expected} ({owner})"))
            .found(found.unwrap_or_else(|| "none".to_owned()))
            .cure("see the log of the step that sets it")),
    }
}

/// What a right is as a mask. icacls adds SYNCHRONIZE to what it grants, and leaves it out of what it denies but for
/// full access.
fn mask(right: Right, deny: bool) -> u32 {
    const SYNCHRONIZE: u32 = 0x0010_0000;
    let granted = match right {
        Right::Full => 0x001f_01ff,
        Right::Modify => 0x0013_01bf,
        Right::ReadExecute => 0x0012_00a9,
        Right::Read => 0x0012_0089,
        Right::Write => 0x0010_0116,
    };
    match (deny, right) {
        (true, Right::Full) | (false, _) => granted,
        (true, _) => granted & !SYNCHRONIZE,
    }
}

/// On a folder an entry holds for all below it; that of a file's creator holds for nothing else.
fn wanted(entry: &AclEntry, sid: &str, is_folder: bool) -> String {
    let verb = if entry.deny { "deny" } else { "grant" };
    let only_below = if sid == CREATOR_OWNER { 8 } else { 0 };
    let flags = if is_folder { ALL_BELOW | only_below } else { 0 };
    shown(verb, sid, flags, mask(entry.right, entry.deny))
}

fn describe(ace: &Ace) -> String {
    let verb = match ace.kind {
        AceKind::Allow => "grant",
        AceKind::Deny => "deny",
        AceKind::Other(_) => "something else for",
    };
    shown(verb, &ace.sid.to_string(), ace.flags, ace.mask)
}

/// As icacls shows the flags.
fn shown(verb: &str, sid: &str, flags: u8, mask: u32) -> String {
    let mut text = format!("{verb} {sid} ");
    for (flag, name) in [(1, "(OI)"), (2, "(CI)"), (4, "(NP)"), (8, "(IO)")] {
        if flags & flag != 0 {
            text += name;
        }
    }
    format!("{text}{mask:#x}")
}

fn list(entries: &BTreeSet<String>) -> String {
    match entries.is_empty() {
        true => "no entry".to_owned(),
        false => entries.iter().cloned().collect::<Vec<_>>().join(", "),
    }
}
