//! Verbs about Windows itself: `service`, `environment`, `path`, `msi`.

use std::collections::BTreeMap;

use super::execution::exit_codes;
use super::files::content;
use super::known::Known;
use super::security::{has_control, nothing_else};
use crate::recipe::fields::{Context, Fields};
use crate::recipe::value::{Data, Value};
use crate::recipe::{Service, ServiceState, Start, Verb};
use winimg_base::text::Located;

pub fn service(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    let fields = Fields::open(cx, value, "service")?;
    let name = service_name(&fields);
    let program = fields.guest_path("program");
    let start = fields.choice("start");
    let state = fields.choice("state");
    let display_name = fields.text("display_name");
    let description = fields.text("description");
    let arguments = fields.texts("arguments");
    let mut depends = fields.strings("depends");
    depends.retain(|name| is_service_name(&fields, name));
    let account = fields.text("account");
    let restart_delays = restart_delays(&fields);
    let failure_reset = fields.duration("failure_reset");
    let service = Service {
        name: name?,
        display_name,
        description,
        program,
        arguments,
        start: start.map(|s| s.value),
        depends: depends.into_iter().map(|name| name.value).collect(),
        account,
        restart_delays,
        failure_reset: u32::try_from(failure_reset?.value.as_secs()).unwrap_or(u32::MAX),
        state: state.map(|s| s.value),
    };
    check_service(&fields, &service);
    fields.is_whole().then_some(Verb::Service(service))
}

pub fn service_name(fields: &Fields<'_>) -> Option<Located<String>> {
    let name = fields.string("name")?;
    is_service_name(fields, &name).then_some(name)
}

fn is_service_name(fields: &Fields<'_>, name: &Located<String>) -> bool {
    let text = &name.value;
    let is_bad = |c: char| "/\\\"".contains(c) || c.is_control();
    if !text.is_empty() && !text.contains(is_bad) && text.chars().count() <= 256 {
        return true;
    }
    let fact = format!("a service cannot be called \"{text}\"");
    let help = "1 to 256 characters, none of them a slash, backslash, quote or control character";
    fields.cx.error(fact, &name.place, "", help);
    false
}

/// `["5s", "10s"]`, in milliseconds.
fn restart_delays(fields: &Fields<'_>) -> Vec<u32> {
    let mut delays = Vec::new();
    for text in fields.strings("restart_delays") {
        let Some(time) = fields.duration_of("restart_delays", text) else {
            continue;
        };
        match u32::try_from(time.value.as_millis()) {
            Ok(delay) => delays.push(delay),
            Err(_) => fields
                .cx
                .error("the delay is too long", &time.place, "", "49 days at most"),
        }
    }
    delays
}

fn check_service(fields: &Fields<'_>, service: &Service) {
    let cx = fields.cx;
    let place = |key: &str| fields.table.entry(key).map(|e| e.key_place.clone());
    let mut given = fields.table.entries.iter().filter(|e| e.key != "name");
    let sets_nothing =
        given.all(|e| matches!(&e.value.data, Data::Array(items) if items.is_empty()));
    if service.state == Some(ServiceState::Absent) {
        nothing_else(fields, "a service");
    } else if sets_nothing {
        let fact = format!("`service` sets nothing of `{}`", service.name.value);
        cx.missing(fact, &fields.place, "give `program`, `start`, `state`, …");
    }
    if service.program.is_none()
        && !fields.has("program")
        && let Some(place) = place("arguments")
    {
        let help = "give the program too: `program = 'C:\\k\\kubelet.exe'`";
        cx.missing("`arguments` without `program`", &place, help);
    }
    if service.restart_delays.is_empty()
        && !fields.has("restart_delays")
        && let Some(place) = place("failure_reset")
    {
        let help = "say what happens after a failure: `restart_delays = [\"5s\", \"10s\"]`";
        cx.missing("`failure_reset` without `restart_delays`", &place, help);
    }
    if service.state == Some(ServiceState::Running)
        && service.start == Some(Start::Disabled)
        && let Some(place) = place("state")
    {
        cx.error("a disabled service cannot be started", &place, "", "");
    }
    if service.account.as_deref().is_some_and(needs_password)
        && let Some(place) = place("account")
    {
        let fact = "this account has a password, which a recipe cannot hold";
        let help = "LocalSystem, `NT SERVICE\\name` and group-managed accounts, `DOMAIN\\name$`, have none";
        cx.error(fact, &place, "", help);
    }
}

/// Windows' own accounts, virtual ones and group-managed ones (`DOMAIN\name$`) have none.
fn needs_password(account: &str) -> bool {
    let lower = account.to_ascii_lowercase();
    let own = [
        "localsystem",
        r"nt authority\system",
        r"nt authority\localservice",
        r"nt authority\networkservice",
    ];
    !(own.contains(&lower.as_str()) || lower.starts_with(r"nt service\") || lower.ends_with('$'))
}

pub fn environment(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    let fields = Fields::open(cx, value, "environment")?;
    let name = fields.string("name");
    let name = name.and_then(|name| {
        let (fact, help) = match name.value.as_str() {
            n if n.eq_ignore_ascii_case("path") => (
                "`environment` would replace the whole Path",
                "add folders with `path = { add = ['C:\\k'] }`",
            ),
            n if n.contains(['=', '"']) || has_control(n) => (
                "the variable's name has `=`, `\"` or a control character in it",
                "",
            ),
            _ => return Some(name),
        };
        cx.error(fact, &name.place, "", help);
        None
    });
    let absent = fields.boolean("absent").filter(|a| a.value);
    if let (Some(_), Some(entry)) = (&absent, fields.table.entry("value")) {
        let fact = "`absent` and `value` exclude each other";
        cx.error(fact, &entry.key_place, "", "keep one of them");
    }
    if absent.is_none() {
        fields.need(
            "value",
            "give its value: `value = \"…\"`; to remove it, `absent = true`",
        );
    }
    let text = fields.string("value");
    if let Some(empty) = text.as_ref().filter(|t| t.value.is_empty()) {
        let fact = "Windows keeps no empty environment variable";
        cx.error(
            fact,
            &empty.place,
            "",
            "to remove it, write `absent = true`",
        );
    }
    if let Some(text) = text.as_ref().filter(|t| t.value.contains('\0')) {
        cx.error("the value holds a NUL, which ends it", &text.place, "", "");
    }
    let value = match absent {
        Some(_) => None,
        None => Some(text?.value),
    };
    Some(Verb::Environment { name: name?, value })
}

pub fn path(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    let fields = Fields::open(cx, value, "path")?;
    let given = fields.strings("add");
    let all = given.len();
    let mut add = Vec::new();
    for folder in given {
        let (fact, help) = if folder.value.contains(';') {
            let fact = "a folder on the Path cannot have `;` in its name";
            (fact, "write one string for each folder")
        } else if folder.value.contains(['=', '!', '^']) {
            let fact = "a folder on the Path cannot have `=`, `!` or `^` in its name";
            (fact, "batch cannot compare them: take another folder")
        } else {
            add.extend(fields.guest_path_of("add", folder));
            continue;
        };
        cx.error(fact, &folder.place, "", help);
    }
    (all > 0 && add.len() == all).then_some(Verb::Path { add })
}

pub fn msi(cx: &Context<'_>, value: &Value, known: Known<'_>) -> Option<Verb> {
    let fields = Fields::open(cx, value, "msi")?;
    let from = content(&fields, known);
    let properties = properties(&fields);
    let exit_codes = exit_codes(&fields);
    Some(Verb::Msi {
        from: from?,
        properties,
        exit_codes: exit_codes?,
    })
}

/// Public properties are upper case; others msiexec ignores in silence (Microsoft: Windows Installer, Public
/// Properties).
fn properties(fields: &Fields<'_>) -> BTreeMap<String, String> {
    let mut properties = BTreeMap::new();
    for entry in fields.map("properties") {
        let head = |c: char| c.is_ascii_uppercase() || c == '_';
        let plain = |c: char| head(c) || c.is_ascii_digit() || c == '.';
        if !entry.key.starts_with(head) || !entry.key.chars().all(plain) {
            let fact = format!("`{}` is not a public property", entry.key);
            let upper = entry.key.to_uppercase();
            let help = match upper == entry.key {
                true => "letters A-Z, digits, `_` and `.`, a letter or `_` first".to_owned(),
                false => format!("public properties are upper case: `{upper}`"),
            };
            fields.cx.error(fact, &entry.key_place, "", &help);
            continue;
        }
        let text = match &entry.value.data {
            Data::String(text) => text.clone(),
            Data::Integer(number) => number.to_string(),
            Data::Unknown => continue,
            _ => {
                let fact = format!("a property takes a string, not {}", entry.value.kind());
                fields
                    .cx
                    .error(fact, &entry.value.place, entry.value.kind(), "");
                continue;
            }
        };
        if has_control(&text) {
            let fact = format!("the value of `{}` holds a control character", entry.key);
            fields.cx.error(fact, &entry.value.place, "", "");
        }
        properties.insert(entry.key.clone(), text);
    }
    properties
}
