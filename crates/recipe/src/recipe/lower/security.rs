//! Verbs about who may do what: `acl`, `defender`; and what the verbs about things that may be absent share.

use crate::recipe::Verb;
use crate::recipe::fields::{Context, Fields};
use crate::recipe::value::{Data, Value};
use crate::recipe::verb::{Access, Acl, Defender, Right};
use winimg_base::text::Located;

pub fn has_control(text: &str) -> bool {
    text.chars().any(char::is_control)
}

/// `state = "present" | "absent"`
pub fn present(fields: &Fields<'_>) -> bool {
    let state = fields.choice("state", &[("present", true), ("absent", false)]);
    state.is_none_or(|s| s.value)
}

/// Complains about the first of the keys that something absent has all the same.
pub fn nothing_else(fields: &Fields<'_>, what: &str, keys: &[&str]) {
    if let Some(entry) = keys.iter().find_map(|key| fields.table.entry(key)) {
        let fact = format!("{what} that is absent has no `{}`", entry.key);
        let help = "keep `name` and `state` alone, or take `state` out";
        fields.cx.error(fact, &entry.key_place, "", help);
    }
}

/// An exact list, so one that nobody is on is refused.
pub fn acl(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    let fields = Fields::open(cx, value, "`acl`")?;
    let path = fields.guest_path("path", "say of what: `path = 'C:\\etc\\kubernetes'`");
    let inherit = fields.boolean("inherit");
    let owner = fields.needed_if_given("owner");
    let owner = owner.filter(|o| principal(&fields, o));
    let mut entries = access(&fields, "grant", false);
    let granted = entries.len();
    entries.extend(access(&fields, "deny", true));
    let recursive = fields.boolean("recursive");
    fields.finish();
    let inherit = inherit.is_some_and(|i| i.value);
    if granted == 0 && !inherit && !has_entries(&fields, "grant") {
        let help =
            "write `grant = { SYSTEM = \"full\", Administrators = \"full\" }`, or `inherit = true`";
        let fact = "`acl` grants nothing: nobody could open it any more";
        cx.missing(fact, &fields.place, help);
        return None;
    }
    Some(Verb::Acl(Acl {
        path: path?,
        inherit,
        owner,
        entries,
        recursive: recursive.is_some_and(|r| r.value),
    }))
}

fn has_entries(fields: &Fields<'_>, key: &str) -> bool {
    match fields.table.get(key).map(|v| &v.data) {
        Some(Data::Table(table)) => !table.entries.is_empty(),
        Some(_) => true,
        None => false,
    }
}

fn access(fields: &Fields<'_>, key: &'static str, deny: bool) -> Vec<Access> {
    let what = format!("`{key}`");
    let Some(table) = fields.table(key, &what) else {
        return Vec::new();
    };
    let mut entries = Vec::new();
    for entry in &table.table.entries {
        let name = Located::new(entry.key.clone(), entry.key_place.clone());
        let right = right(&table, key, &entry.value);
        if let (true, Some(right)) = (principal(fields, &name), right) {
            entries.push(Access {
                principal: name,
                right,
                deny,
            });
        }
    }
    entries
}

/// icacls' simple rights (Microsoft: icacls).
const RIGHTS: [(&str, Right); 5] = [
    ("full", Right::Full),
    ("modify", Right::Modify),
    ("read-execute", Right::ReadExecute),
    ("read", Right::Read),
    ("write", Right::Write),
];

fn right(fields: &Fields<'_>, key: &str, value: &Value) -> Option<Right> {
    let fact = match &value.data {
        Data::String(text) => match RIGHTS.iter().find(|(word, _)| word == text) {
            Some((_, right)) => return Some(*right),
            None => format!("`{key}` cannot give \"{text}\""),
        },
        Data::Unknown => return None,
        _ => format!("`{key}` takes a word for each name, not {}", value.kind()),
    };
    let help = "it is one of: full, modify, read-execute, read, write";
    fields.cx.error(fact, &value.place, "", help);
    None
}

/// A well-known name, a SID, `NT SERVICE\name`, or a local name.
fn principal(fields: &Fields<'_>, name: &Located<String>) -> bool {
    let text = name.value.as_str();
    let fault = if text.is_empty() || text != text.trim() || has_control(text) {
        "it is empty or has a blank at its end"
    } else if text.len() > 2 && text[..2].eq_ignore_ascii_case("S-") && !is_sid(text) {
        "a SID is `S-1-` and numbers with hyphens between them"
    } else if text.contains([
        '"', '/', '[', ']', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>',
    ]) {
        "a name has no such character"
    } else if text.contains('\\') && !is_local(text) {
        "the machine is in no domain while it is built"
    } else {
        return true;
    };
    let fact = format!("\"{text}\" names nobody: {fault}");
    let help = "a well-known name such as Administrators, a SID `S-1-…`, `NT SERVICE\\name`, or a local account";
    fields.cx.error(fact, &name.place, "", help);
    false
}

/// Microsoft: SID components.
fn is_sid(text: &str) -> bool {
    let number = |part: &str| {
        part.parse::<u64>().is_ok_and(|n| n < 1 << 48) && part.chars().all(|c| c.is_ascii_digit())
    };
    let parts: Vec<&str> = text.split('-').collect();
    parts.len() >= 4 && parts.len() <= 18 && parts[1] == "1" && parts[2..].iter().all(|p| number(p))
}

/// The authorities whose names are the same in every language, or that winimg knows by SID.
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

/// Everything may be given; nothing at all is a mistake.
pub fn defender(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    let fields = Fields::open(cx, value, "`defender`")?;
    let exclude_processes = fields.guest_paths("exclude_processes");
    let exclude_paths = fields.guest_paths("exclude_paths");
    let exclude_extensions = extensions(&fields);
    let real_time = fields.boolean("real_time").map(|r| r.value);
    fields.finish();
    if fields.table.entries.is_empty() {
        let help = "write `exclude_processes = ['C:\\k\\kubelet.exe']`";
        cx.missing("`defender` says nothing", &fields.place, help);
        return None;
    }
    Some(Verb::Defender(Defender {
        exclude_processes: exclude_processes?,
        exclude_paths: exclude_paths?,
        exclude_extensions,
        real_time,
    }))
}

fn extensions(fields: &Fields<'_>) -> Vec<String> {
    let mut extensions = Vec::new();
    for text in fields.strings("exclude_extensions") {
        let plain = text.value.trim_start_matches('.');
        let word = |c: char| c.is_ascii_alphanumeric() || "_-~$".contains(c);
        if plain.is_empty() || !plain.chars().all(word) {
            let fact = format!("\"{}\" is no file extension", text.value);
            fields.cx.error(fact, &text.place, "", "write `\"vhdx\"`");
            continue;
        }
        extensions.push(plain.to_owned());
    }
    extensions
}
