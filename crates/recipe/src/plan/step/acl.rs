//! `acl`: an exact list, through `icacls.exe` (Microsoft: icacls), principals by SID where they have a well-known one.
//!
//! The order never leaves an empty list, so an interrupted step can be repeated: back to what is inherited, then the
//! step's own entries, and only then off with the inherited ones. Whether it is a folder, whose entries are inherited by
//! all below, is looked at in the guest.

use super::super::batch::{self, Script};
use super::super::principal::{ADMINISTRATORS, CREATOR_OWNER, SYSTEM, is_sid, sid_or_name};
use super::super::site::Site;
use super::super::{Planned, check};
use crate::recipe::verb::{Access, Acl, Right};

const ICACLS: &str = r"C:\Windows\System32\icacls.exe";
const TAKEOWN: &str = r"C:\Windows\System32\takeown.exe";

pub(super) fn acl(site: &mut Site<'_>, acl: &Acl) -> Option<()> {
    let path = &acl.path.value;
    let quoted = site.quoted_path(&acl.path)?;
    if path.is_vital() {
        let message = format!("the access list of `{path}` belongs to Windows");
        let help = "give a folder below it, or use `cmd` with icacls.exe";
        site.error_with_help(&acl.path.place, message, "", help);
        return None;
    }
    sound(site, acl)?;
    let mut script = Script::new();
    let folder = format!("{}\\\"", quoted.trim_end_matches('"'));
    script.line(format!(
        "if not exist {quoted} echo {quoted} is not there\n\
         if not exist {quoted} exit /b 1\n\
         set \"below=\"\n\
         if exist {folder} set \"below=(OI)(CI)\""
    ));
    if acl.entries.iter().any(is_creators) {
        script.line(format!(
            "set \"creator=\"\nif exist {folder} set \"creator=(OI)(CI)(IO)\""
        ));
    }
    let reset = match acl.recursive {
        true => format!("{ICACLS} {quoted} /reset /t /q"),
        false => format!("{ICACLS} {quoted} /reset /q"),
    };
    // Who is not on the list and not the owner can't change it; SYSTEM may still take what it owns not.
    script.line(format!(
        "{reset} || ({TAKEOWN} /f {quoted} /a && {reset}) || exit /b 1"
    ));
    for (deny, verb) in [(false, "/grant:r"), (true, "/deny")] {
        let mut words = Vec::new();
        for access in acl.entries.iter().filter(|a| a.deny == deny) {
            words.push(entry(site, access)?);
        }
        if !words.is_empty() {
            let words = words.join(" ");
            script.line(format!("{ICACLS} {quoted} {verb} {words} /q || exit /b 1"));
        }
    }
    if !acl.inherit {
        script.line(format!("{ICACLS} {quoted} /inheritance:r /q || exit /b 1"));
    }
    if let Some(owner) = &acl.owner {
        let owner = site.judged(principal(&owner.value), &owner.place)?;
        let owner = format!("\"{owner}\"");
        script.line(format!(
            "{ICACLS} {quoted} /setowner {owner} /q || exit /b 1"
        ));
    }
    site.put(script);
    site.expect(Planned::Acl(expected(acl)));
    Some(())
}

fn sound(site: &mut Site<'_>, acl: &Acl) -> Option<()> {
    let mut seen: Vec<(bool, String)> = Vec::new();
    for access in &acl.entries {
        let key = (
            access.deny,
            sid_or_name(&access.principal.value).to_lowercase(),
        );
        if seen.contains(&key) {
            let message = format!("`{}` is on the list twice", access.principal.value);
            site.error(&access.principal.place, message, "the same as one before");
            return None;
        }
        seen.push(key);
    }
    let full = acl.entries.iter().any(|access| {
        let sid = sid_or_name(&access.principal.value);
        !access.deny && access.right == Right::Full && (sid == SYSTEM || sid == ADMINISTRATORS)
    });
    if !full && !acl.inherit {
        let message = format!(
            "neither SYSTEM nor Administrators has full access to `{}`",
            acl.path.value
        );
        let help = "services and later steps run as SYSTEM: `grant = { SYSTEM = \"full\", … }`";
        site.warning(&acl.path.place, message, "", help);
    }
    Some(())
}

/// `*S-1-5-18`, or a name.
fn principal(name: &str) -> Result<String, String> {
    let text = sid_or_name(name);
    match is_sid(&text) {
        true => Ok(format!("*{text}")),
        false => batch::literal(&text),
    }
}

/// `"*S-1-5-18:%below%F"`
fn entry(site: &mut Site<'_>, access: &Access) -> Option<String> {
    let name = site.judged(principal(&access.principal.value), &access.principal.place)?;
    let flags = match is_creators(access) {
        true => "creator",
        false => "below",
    };
    let right = match access.right {
        Right::Full => "F",
        Right::Modify => "M",
        Right::ReadExecute => "RX",
        Right::Read => "R",
        Right::Write => "W",
    };
    Some(format!("\"{name}:%{flags}%{right}\""))
}

/// For the account that makes something below, and so for what is below alone.
fn is_creators(access: &Access) -> bool {
    sid_or_name(&access.principal.value) == CREATOR_OWNER
}

fn expected(acl: &Acl) -> check::Acl {
    let entries = acl.entries.iter().map(|access| check::AclEntry {
        principal: sid_or_name(&access.principal.value),
        right: access.right,
        deny: access.deny,
    });
    check::Acl {
        path: acl.path.value.clone(),
        protected: !acl.inherit,
        owner: acl.owner.as_ref().map(|owner| sid_or_name(&owner.value)),
        entries: entries.collect(),
    }
}
