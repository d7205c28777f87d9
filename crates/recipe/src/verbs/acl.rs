//! The verb `acl`: the exact permissions of a file or folder, compiled to `icacls.exe` (Microsoft:
//! icacls), with well-known principals by SID.
//!
//! The list is never empty, so an interrupted step can be repeated: reset to the inherited entries,
//! add the step's entries, and only then remove the inherited ones. The guest determines if the
//! path is a folder, whose entries are inherited by everything below.

use crate::GuestPath;
use crate::document::value::{TomlData, TomlValue};
use crate::fields::{LoweringContext, TableReader, parse_word};
use crate::ops::PlannedCheck;
use crate::ops::batch::{self, BatchScript};
use crate::ops::check::{self, AccessRight};
use crate::ops::compiler::StepCompiler;
use crate::ops::principal::{self, ADMINISTRATORS, CREATOR_OWNER, SYSTEM, sid_or_name};
use winimg_base::text::Located;

/// `acl`: the exact permissions of a file or folder.
#[derive(Clone, Debug)]
pub struct AclSpec {
    pub path: Located<GuestPath>,
    /// Also inherits the entries of parent folders.
    pub inherit: bool,
    pub owner: Option<Located<String>>,
    /// In the order of the recipe.
    pub entries: Vec<AccessRule>,
    /// Everything below keeps only its inherited entries.
    pub recursive: bool,
}

#[derive(Clone, Debug)]
pub struct AccessRule {
    pub principal: Located<String>,
    pub right: AccessRight,
    pub deny: bool,
}

const ICACLS: &str = r"C:\Windows\System32\icacls.exe";

const TAKEOWN: &str = r"C:\Windows\System32\takeown.exe";

/// Reads an ACL. It is exact, so an empty one is refused.
pub fn read(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<AclSpec> {
    let fields = TableReader::open(cx, value, "acl")?;
    let path = fields.guest_path("path");
    let inherit = fields.flag("inherit");
    let owner = fields
        .read_string("owner")
        .filter(|owner| check_principal(&fields, owner));
    let mut entries = read_access(&fields, "grant", false);
    let granted = entries.len();
    entries.extend(read_access(&fields, "deny", true));
    let recursive = fields.flag("recursive");
    if granted == 0 && !inherit && !has_entries(&fields, "grant") {
        let help =
            "write `grant = { SYSTEM = \"full\", Administrators = \"full\" }`, or `inherit = true`";
        let fact = "`acl` grants no access: nothing could open it any more";
        cx.report_missing(fact, &fields.place, help);
        return None;
    }
    Some(AclSpec {
        path: path?,
        inherit,
        owner,
        entries,
        recursive,
    })
}

fn has_entries(fields: &TableReader<'_>, key: &str) -> bool {
    match fields.table.get(key).map(|v| &v.data) {
        Some(TomlData::Table(table)) => !table.entries.is_empty(),
        Some(_) => true,
        None => false,
    }
}

fn read_access(fields: &TableReader<'_>, key: &str, deny: bool) -> Vec<AccessRule> {
    let mut entries = Vec::new();
    for entry in fields.map(key) {
        let name = Located::new(entry.key.clone(), entry.key_place.clone());
        let right = read_right(fields, key, &entry.value);
        if let (true, Some(right)) = (check_principal(fields, &name), right) {
            entries.push(AccessRule {
                principal: name,
                right,
                deny,
            });
        }
    }
    entries
}

/// icacls' simple rights (Microsoft: icacls).
fn read_right(fields: &TableReader<'_>, key: &str, value: &TomlValue) -> Option<AccessRight> {
    let words = fields.allowed_words(key);
    let fact = match &value.data {
        TomlData::String(text) if words.contains(text) => return Some(parse_word(text)),
        TomlData::String(text) => format!("`{key}` cannot be \"{text}\""),
        TomlData::Unknown => return None,
        _ => format!(
            "`{key}` takes a word for each name, not {}",
            value.kind_name()
        ),
    };
    let help = format!("it is one of: {}", words.join(", "));
    fields.cx.error(fact, &value.place, "", &help);
    None
}

/// Checks a principal: a well-known name, a SID, `NT SERVICE\name`, or a local name.
fn check_principal(fields: &TableReader<'_>, name: &Located<String>) -> bool {
    let text = name.value.as_str();
    let fault = if text.is_empty() || text != text.trim() || text.chars().any(char::is_control) {
        "it is empty, or starts or ends with a space"
    } else if text.len() > 2 && text[..2].eq_ignore_ascii_case("S-") && !is_sid(text) {
        "a SID is `S-1-` and numbers separated by hyphens"
    } else if text.contains([
        '"', '/', '[', ']', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>',
    ]) {
        "it contains an invalid character"
    } else if text.contains('\\') && !is_local(text) {
        "the machine is not in a domain during the build"
    } else {
        return true;
    };
    let fact = format!("\"{text}\" is not a valid principal: {fault}");
    let help = "use a well-known name such as Administrators, a SID `S-1-…`, `NT SERVICE\\name`, \
                or a local account";
    fields.cx.error(fact, &name.place, "", help);
    false
}

/// Microsoft: SID components.
fn is_sid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    parts.len() >= 4
        && parts.len() <= 18
        && parts[1] == "1"
        && parts[2..].iter().all(|part| is_sid_number(part))
}

fn is_sid_number(part: &str) -> bool {
    part.parse::<u64>().is_ok_and(|n| n < 1 << 48) && part.chars().all(|c| c.is_ascii_digit())
}

/// Returns true for an authority whose name is not localized, or that winimg knows by SID.
fn is_local(text: &str) -> bool {
    let (authority, name) = text.split_once('\\').unwrap_or_default();
    let known = [
        "NT SERVICE",
        "NT AUTHORITY",
        "BUILTIN",
        "NT VIRTUAL MACHINE",
        "IIS APPPOOL",
    ];
    !name.is_empty()
        && !name.contains('\\')
        && known.iter().any(|k| k.eq_ignore_ascii_case(authority))
}

pub fn compile(site: &mut StepCompiler<'_>, acl: &AclSpec) -> Option<()> {
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
    if principal::is_sid(&text) {
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
