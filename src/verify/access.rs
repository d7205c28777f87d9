//! Access control lists of files and folders: compares all explicit entries.
//!
//! Source: Microsoft, icacls ("simple rights"), [MS-DTYP] 2.4.4.1 "ACE_HEADER".

use std::collections::BTreeSet;

use winimg_formats::disk::security::{Ace, AceKind};

use super::account::resolve_sid;
use super::finding::{Verdict, VerifyFinding};
use super::image::InspectedImage;
use winimg_recipe::plan::check::AccessRight;
use winimg_recipe::plan::check::{AclCheck, AclEntry};

/// `OBJECT_INHERIT_ACE` and `CONTAINER_INHERIT_ACE`
const ALL_BELOW: u8 = 3;
const CREATOR_OWNER: &str = "S-1-3-0";

pub fn check_acl(image: &InspectedImage<'_>, acl: &AclCheck) -> Verdict {
    let path = &acl.path;
    let cure = "check the log of the step that sets it, and find the later step or program that \
                changes it";
    let Some(found) = image.volume.read_security(path.as_str())? else {
        return Err(VerifyFinding::error(format!("{path} is missing")).cure(cure));
    };
    let is_folder = image
        .volume
        .read_file_info(path.as_str())?
        .is_some_and(|f| f.is_directory);
    let mut expected = BTreeSet::new();
    for entry in &acl.entries {
        let Some(sid) = resolve_sid(image, &entry.principal)? else {
            return Err(VerifyFinding::unknown(format!(
                "cannot resolve {}, so the access to {path} is unknown",
                entry.principal
            )));
        };
        expected.insert(describe_expected(entry, &sid, is_folder));
    }
    let Some(dacl) = &found.dacl else {
        return Err(
            VerifyFinding::error(format!("everyone has full access to {path}"))
                .expected(list(&expected))
                .found("no access control list")
                .cure(cure),
        );
    };
    let explicit: BTreeSet<String> = dacl
        .iter()
        .filter(|ace| !ace.is_inherited())
        .map(describe)
        .collect();
    if explicit != expected {
        return Err(
            VerifyFinding::error(format!("{path} has another access control list"))
                .expected(list(&expected))
                .found(list(&explicit))
                .cure(cure),
        );
    }
    if acl.protected && !found.protected {
        return Err(VerifyFinding::error(format!(
            "{path} inherits access from its parent folders"
        ))
        .expected("a protected access control list")
        .cure(cure));
    }
    check_owner(image, acl, found.owner.as_ref().map(ToString::to_string))
}

fn check_owner(image: &InspectedImage<'_>, acl: &AclCheck, found: Option<String>) -> Verdict {
    let Some(owner) = &acl.owner else {
        return Ok(());
    };
    let Some(expected) = resolve_sid(image, owner)? else {
        return Err(VerifyFinding::unknown(format!(
            "cannot resolve {owner}, so its ownership of {} is unknown",
            acl.path
        )));
    };
    match found {
        Some(found) if found == expected => Ok(()),
        found => Err(
            VerifyFinding::error(format!("{} has another owner", acl.path))
                .expected(format!("{expected} ({owner})"))
                .found(found.unwrap_or_else(|| "none".to_owned()))
                .cure("check the log of the step that sets it"),
        ),
    }
}

/// Returns the access mask of a right. icacls adds SYNCHRONIZE to rights that it grants, but not to
/// rights that it denies, except for full access.
fn to_mask(right: AccessRight, deny: bool) -> u32 {
    const SYNCHRONIZE: u32 = 0x0010_0000;
    let granted = match right {
        AccessRight::Full => 0x001f_01ff,
        AccessRight::Modify => 0x0013_01bf,
        AccessRight::ReadExecute => 0x0012_00a9,
        AccessRight::Read => 0x0012_0089,
        AccessRight::Write => 0x0010_0116,
    };
    match (deny, right) {
        (true, AccessRight::Full) | (false, _) => granted,
        (true, _) => granted & !SYNCHRONIZE,
    }
}

/// Describes an expected entry. On a folder it is inherited by everything below; the one of CREATOR
/// OWNER applies only there.
fn describe_expected(entry: &AclEntry, sid: &str, is_folder: bool) -> String {
    let verb = if entry.deny { "deny" } else { "grant" };
    let only_below = if sid == CREATOR_OWNER { 8 } else { 0 };
    let flags = if is_folder { ALL_BELOW | only_below } else { 0 };
    render_entry(verb, sid, flags, to_mask(entry.right, entry.deny))
}

fn describe(ace: &Ace) -> String {
    let verb = match ace.kind {
        AceKind::Allow => "grant",
        AceKind::Deny => "deny",
        AceKind::Other(_) => "something else for",
    };
    render_entry(verb, &ace.sid.to_string(), ace.flags, ace.mask)
}

/// Renders an entry with icacls' flags.
fn render_entry(verb: &str, sid: &str, flags: u8, mask: u32) -> String {
    let mut text = format!("{verb} {sid} ");
    for (flag, name) in [(1, "(OI)"), (2, "(CI)"), (4, "(NP)"), (8, "(IO)")] {
        if flags & flag != 0 {
            text += name;
        }
    }
    format!("{text}{mask:#x}")
}

fn list(entries: &BTreeSet<String>) -> String {
    if entries.is_empty() {
        "no entry".to_owned()
    } else {
        entries.iter().cloned().collect::<Vec<_>>().join(", ")
    }
}
