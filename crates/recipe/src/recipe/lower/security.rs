//! Security verbs: `acl`, `defender`; and helpers for verbs about things that may be absent.

use crate::recipe::Verb;
use crate::recipe::fields::{LoweringContext, TableReader, parse_word};
use crate::recipe::value::{TomlData, TomlValue};
use crate::recipe::verb::{AccessRight, AccessRule, AclSpec, DefenderSpec};
use winimg_base::text::Located;

pub fn has_control(text: &str) -> bool {
    text.chars().any(char::is_control)
}

/// Complains about the first key besides `name` and `state` of something absent.
pub fn nothing_else(fields: &TableReader<'_>, what: &str) {
    let other = fields
        .table
        .entries
        .iter()
        .find(|entry| !["name", "state"].contains(&&*entry.key) && fields.has_row(&entry.key));
    if let Some(entry) = other {
        let fact = format!("{what} that is absent cannot have `{}`", entry.key);
        let help = "keep only `name` and `state`, or remove `state`";
        fields.cx.error(fact, &entry.key_place, "", help);
    }
}

/// Reads an ACL. It is exact, so an empty one is refused.
pub fn read_acl(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<Verb> {
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
    Some(Verb::Acl(AclSpec {
        path: path?,
        inherit,
        owner,
        entries,
        recursive,
    }))
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
    let fault = if text.is_empty() || text != text.trim() || has_control(text) {
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

/// Reads `defender`: every key is optional, but an empty table is an error.
pub fn read_defender(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<Verb> {
    let fields = TableReader::open(cx, value, "defender")?;
    let exclude_processes = fields.guest_paths("exclude_processes");
    let exclude_paths = fields.guest_paths("exclude_paths");
    let exclude_extensions = read_extensions(&fields);
    let real_time = fields.read_bool("real_time").map(|r| r.value);
    if fields.table.entries.is_empty() {
        let help = "write `exclude_processes = ['C:\\k\\kubelet.exe']`";
        cx.report_missing("`defender` is empty", &fields.place, help);
        return None;
    }
    Some(Verb::Defender(DefenderSpec {
        exclude_processes: exclude_processes?,
        exclude_paths: exclude_paths?,
        exclude_extensions,
        real_time,
    }))
}

fn read_extensions(fields: &TableReader<'_>) -> Vec<String> {
    let mut extensions = Vec::new();
    for text in fields.read_strings("exclude_extensions") {
        let plain = text.value.trim_start_matches('.');
        let is_word = plain
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-~$".contains(c));
        if plain.is_empty() || !is_word {
            let fact = format!("\"{}\" is not a file extension", text.value);
            fields.cx.error(fact, &text.place, "", "write `\"vhdx\"`");
            continue;
        }
        extensions.push(plain.to_owned());
    }
    extensions
}
