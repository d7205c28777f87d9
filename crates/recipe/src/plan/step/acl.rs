//! Compiles `acl` to `icacls.exe` (Microsoft: icacls): an exact list, with well-known principals by
//! SID.
//!
//! The list is never empty, so an interrupted step can be repeated: reset to the inherited entries,
//! add the step's entries, and only then remove the inherited ones. The guest determines if the
//! path is a folder, whose entries are inherited by everything below.

use super::super::batch::{self, BatchScript};
use super::super::principal::{ADMINISTRATORS, CREATOR_OWNER, SYSTEM, is_sid, sid_or_name};
use super::super::step_compiler::StepCompiler;
use super::super::{PlannedCheck, check};
use crate::recipe::verb::{AccessRight, AccessRule, AclSpec};

const ICACLS: &str = r"C:\Windows\System32\icacls.exe";
const TAKEOWN: &str = r"C:\Windows\System32\takeown.exe";

pub(super) fn compile_acl(site: &mut StepCompiler<'_>, acl: &AclSpec) -> Option<()> {
    let path = &acl.path.value;
    let quoted = site.quoted_path(&acl.path)?;
    if path.is_vital() {
        let message = format!("the access list of `{path}` belongs to Windows");
        let help = "name a folder below it, or use `cmd` with icacls.exe";
        site.error_with_help(&acl.path.place, message, "", help);
        return None;
    }
    check_acl(site, acl)?;
    let mut script = BatchScript::new();
    let folder = format!("{}\\\"", quoted.trim_end_matches('"'));
    script.add_line(format!(
        "if not exist {quoted} echo {quoted} is not there\n\
         if not exist {quoted} exit /b 1\n\
         set \"below=\"\n\
         if exist {folder} set \"below=(OI)(CI)\""
    ));
    if acl.entries.iter().any(is_creators) {
        script.add_line(format!(
            "set \"creator=\"\nif exist {folder} set \"creator=(OI)(CI)(IO)\""
        ));
    }
    let reset = if acl.recursive {
        format!("{ICACLS} {quoted} /reset /t /q")
    } else {
        format!("{ICACLS} {quoted} /reset /q")
    };
    // Only principals on the list and the owner can change it, but SYSTEM can still take ownership.
    script.add_line(format!(
        "{reset} || ({TAKEOWN} /f {quoted} /a && {reset}) || exit /b 1"
    ));
    for (deny, verb) in [(false, "/grant:r"), (true, "/deny")] {
        let mut words = Vec::new();
        for access in acl.entries.iter().filter(|a| a.deny == deny) {
            words.push(render_entry(site, access)?);
        }
        if !words.is_empty() {
            let words = words.join(" ");
            script.add_line(format!("{ICACLS} {quoted} {verb} {words} /q || exit /b 1"));
        }
    }
    if !acl.inherit {
        script.add_line(format!("{ICACLS} {quoted} /inheritance:r /q || exit /b 1"));
    }
    if let Some(owner) = &acl.owner {
        let owner = site.report_error(render_principal(&owner.value), &owner.place)?;
        let owner = format!("\"{owner}\"");
        script.add_line(format!(
            "{ICACLS} {quoted} /setowner {owner} /q || exit /b 1"
        ));
    }
    site.put(script);
    site.expect(PlannedCheck::Acl(build_check(acl)));
    Some(())
}

fn check_acl(site: &mut StepCompiler<'_>, acl: &AclSpec) -> Option<()> {
    let mut seen: Vec<(bool, String)> = Vec::new();
    for access in &acl.entries {
        let key = (
            access.deny,
            sid_or_name(&access.principal.value).to_lowercase(),
        );
        if seen.contains(&key) {
            let message = format!("`{}` is on the list twice", access.principal.value);
            site.error(&access.principal.place, message, "same as an earlier entry");
            return None;
        }
        seen.push(key);
    }
    let full = acl.entries.iter().any(|access| {
        let sid = sid_or_name(&access.principal.value);
        !access.deny
            && access.right == AccessRight::Full
            && (sid == SYSTEM || sid == ADMINISTRATORS)
    });
    if !full && !acl.inherit {
        let message = format!(
            "neither SYSTEM nor Administrators has full access to `{}`",
            acl.path.value
        );
        let help = "services and later steps run as SYSTEM: `grant = { SYSTEM = \"full\", … }`";
        site.warn(&acl.path.place, message, "", help);
    }
    Some(())
}

/// Renders a principal for icacls: `*S-1-5-18`, or a name.
fn render_principal(name: &str) -> Result<String, String> {
    let text = sid_or_name(name);
    if is_sid(&text) {
        Ok(format!("*{text}"))
    } else {
        batch::escape(&text)
    }
}

/// Renders an entry for icacls: `"*S-1-5-18:%below%F"`.
fn render_entry(site: &mut StepCompiler<'_>, access: &AccessRule) -> Option<String> {
    let name = site.report_error(
        render_principal(&access.principal.value),
        &access.principal.place,
    )?;
    let flags = if is_creators(access) {
        "creator"
    } else {
        "below"
    };
    let right = match access.right {
        AccessRight::Full => "F",
        AccessRight::Modify => "M",
        AccessRight::ReadExecute => "RX",
        AccessRight::Read => "R",
        AccessRight::Write => "W",
    };
    Some(format!("\"{name}:%{flags}%{right}\""))
}

/// Returns true for `CREATOR OWNER`, whose entry applies only to objects below.
fn is_creators(access: &AccessRule) -> bool {
    sid_or_name(&access.principal.value) == CREATOR_OWNER
}

fn build_check(acl: &AclSpec) -> check::AclCheck {
    let entries = acl.entries.iter().map(|access| check::AclEntry {
        principal: sid_or_name(&access.principal.value),
        right: access.right,
        deny: access.deny,
    });
    check::AclCheck {
        path: acl.path.value.clone(),
        protected: !acl.inherit,
        owner: acl.owner.as_ref().map(|owner| sid_or_name(&owner.value)),
        entries: entries.collect(),
    }
}
