//! Verbs about Windows itself: `service`, `environment`, `path`, `msi`.

use std::collections::BTreeMap;

use super::execution::exit_codes;
use super::files::read_content;
use super::references::RecipeItems;
use super::security::{has_control, nothing_else};
use crate::recipe::fields::{LoweringContext, TableReader};
use crate::recipe::value::{TomlData, TomlValue};
use crate::recipe::{ServiceSpec, ServiceStartMode, ServiceState, Verb};
use winimg_base::text::Located;

pub fn read_service(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<Verb> {
    let fields = TableReader::open(cx, value, "service")?;
    let name = service_name(&fields);
    let program = fields.guest_path("program");
    let start = fields.read_choice("start");
    let state = fields.read_choice("state");
    let display_name = fields.read_text("display_name");
    let description = fields.read_text("description");
    let arguments = fields.read_texts("arguments");
    let mut depends = fields.read_strings("depends");
    depends.retain(|name| is_service_name(&fields, name));
    let account = fields.read_text("account");
    let restart_delays = restart_delays(&fields);
    let failure_reset = fields.read_duration("failure_reset");
    let service = ServiceSpec {
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

pub fn service_name(fields: &TableReader<'_>) -> Option<Located<String>> {
    let name = fields.read_string("name")?;
    is_service_name(fields, &name).then_some(name)
}

fn is_service_name(fields: &TableReader<'_>, name: &Located<String>) -> bool {
    let text = &name.value;
    let has_bad = text.contains(|c: char| "/\\\"".contains(c) || c.is_control());
    if !text.is_empty() && !has_bad && text.chars().count() <= 256 {
        return true;
    }
    let fact = format!("a service cannot be named \"{text}\"");
    let help = "use 1 to 256 characters, without slashes, backslashes, quotes and control \
                characters";
    fields.cx.error(fact, &name.place, "", help);
    false
}

/// Reads delays such as `["5s", "10s"]`, in milliseconds.
fn restart_delays(fields: &TableReader<'_>) -> Vec<u32> {
    let mut delays = Vec::new();
    for text in fields.read_strings("restart_delays") {
        let Some(time) = fields.duration_of("restart_delays", text) else {
            continue;
        };
        match u32::try_from(time.value.as_millis()) {
            Ok(delay) => delays.push(delay),
            Err(_) => fields.cx.error(
                "the delay is too long",
                &time.place,
                "",
                "the maximum is 49 days",
            ),
        }
    }
    delays
}

fn check_service(fields: &TableReader<'_>, service: &ServiceSpec) {
    let cx = fields.cx;
    let table = fields.table;
    let mut given = fields.table.entries.iter().filter(|e| e.key != "name");
    let sets_nothing =
        given.all(|e| matches!(&e.value.data, TomlData::Array(items) if items.is_empty()));
    if service.state == Some(ServiceState::Absent) {
        nothing_else(fields, "a service");
    } else if sets_nothing {
        let fact = format!("`service` does not change `{}`", service.name.value);
        cx.report_missing(fact, &fields.place, "add `program`, `start`, `state`, …");
    }
    if service.program.is_none()
        && !fields.has("program")
        && let Some(entry) = table.find_entry("arguments")
    {
        let help = "add the program: `program = 'C:\\k\\kubelet.exe'`";
        cx.report_missing("`arguments` without `program`", &entry.key_place, help);
    }
    if service.restart_delays.is_empty()
        && !fields.has("restart_delays")
        && let Some(entry) = table.find_entry("failure_reset")
    {
        let fact = "`failure_reset` without `restart_delays`";
        let help = "set what happens after a failure: `restart_delays = [\"5s\", \"10s\"]`";
        cx.report_missing(fact, &entry.key_place, help);
    }
    if service.state == Some(ServiceState::Running)
        && service.start == Some(ServiceStartMode::Disabled)
        && let Some(entry) = table.find_entry("state")
    {
        let fact = "a disabled service cannot be started";
        cx.error(fact, &entry.key_place, "", "");
    }
    if service.account.as_deref().is_some_and(needs_password)
        && let Some(entry) = table.find_entry("account")
    {
        let fact = "this account needs a password, which a recipe cannot contain";
        let help = "use an account without one: LocalSystem, `NT SERVICE\\name`, or a \
                    group-managed account, `DOMAIN\\name$`";
        cx.error(fact, &entry.key_place, "", help);
    }
}

/// Returns false for Windows' own accounts, virtual ones and group-managed ones (`DOMAIN\name$`).
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

pub fn read_environment(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<Verb> {
    let fields = TableReader::open(cx, value, "environment")?;
    let name = fields
        .read_string("name")
        .and_then(|name| variable_name(&fields, name));
    let absent = fields.read_bool("absent").filter(|a| a.value);
    if let (Some(_), Some(entry)) = (&absent, fields.table.find_entry("value")) {
        let fact = "`absent` and `value` exclude each other";
        cx.error(fact, &entry.key_place, "", "keep one of them");
    }
    if absent.is_none() {
        fields.require(
            "value",
            "set its value: `value = \"…\"`; to remove it, `absent = true`",
        );
    }
    let text = fields.read_string("value");
    if let Some(empty) = text.as_ref().filter(|t| t.value.is_empty()) {
        let fact = "Windows has no empty environment variables";
        cx.error(
            fact,
            &empty.place,
            "",
            "to remove it, write `absent = true`",
        );
    }
    if let Some(text) = text.as_ref().filter(|t| t.value.contains('\0')) {
        cx.error("the value contains a NUL character", &text.place, "", "");
    }
    let value = match absent {
        Some(_) => None,
        None => Some(text?.value),
    };
    Some(Verb::Environment { name: name?, value })
}

fn variable_name(fields: &TableReader<'_>, name: Located<String>) -> Option<Located<String>> {
    let text = name.value.as_str();
    let (fact, help) = if text.eq_ignore_ascii_case("path") {
        (
            "`environment` would replace the whole Path",
            "add folders with `path = { add = ['C:\\k'] }`",
        )
    } else if text.contains(['=', '"']) || has_control(text) {
        (
            "the variable's name contains `=`, `\"` or a control character",
            "",
        )
    } else {
        return Some(name);
    };
    fields.cx.error(fact, &name.place, "", help);
    None
}

pub fn read_path(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<Verb> {
    let fields = TableReader::open(cx, value, "path")?;
    let given = fields.read_strings("add");
    let all = given.len();
    let mut add = Vec::new();
    for folder in given {
        let (fact, help) = if folder.value.contains(';') {
            let fact = "a folder on the Path cannot have `;` in its name";
            (fact, "write one string per folder")
        } else if folder.value.contains(['=', '!', '^']) {
            let fact = "a folder on the Path cannot have `=`, `!` or `^` in its name";
            (fact, "batch files cannot compare them: use another folder")
        } else {
            add.extend(fields.guest_path_of("add", folder));
            continue;
        };
        cx.error(fact, &folder.place, "", help);
    }
    (all > 0 && add.len() == all).then_some(Verb::Path { add })
}

pub fn read_msi(
    cx: &LoweringContext<'_>,
    value: &TomlValue,
    known: RecipeItems<'_>,
) -> Option<Verb> {
    let fields = TableReader::open(cx, value, "msi")?;
    let from = read_content(&fields, known);
    let properties = read_properties(&fields);
    let exit_codes = exit_codes(&fields);
    Some(Verb::Msi {
        from: from?,
        properties,
        exit_codes: exit_codes?,
    })
}

/// Reads public properties, which are upper case; msiexec silently ignores others (Microsoft:
/// Windows Installer, Public Properties).
fn read_properties(fields: &TableReader<'_>) -> BTreeMap<String, String> {
    let mut properties = BTreeMap::new();
    for entry in fields.map("properties") {
        if !is_public_property(&entry.key) {
            let fact = format!("`{}` is not a public property", entry.key);
            let upper = entry.key.to_uppercase();
            let help = if upper == entry.key {
                "use letters A-Z, digits, `_` and `.`, a letter or `_` first".to_owned()
            } else {
                format!("public properties are upper case: `{upper}`")
            };
            fields.cx.error(fact, &entry.key_place, "", &help);
            continue;
        }
        let text = match &entry.value.data {
            TomlData::String(text) => text.clone(),
            TomlData::Integer(number) => number.to_string(),
            TomlData::Unknown => continue,
            _ => {
                let fact = format!("a property takes a string, not {}", entry.value.kind_name());
                fields
                    .cx
                    .error(fact, &entry.value.place, entry.value.kind_name(), "");
                continue;
            }
        };
        if has_control(&text) {
            let fact = format!("the value of `{}` contains a control character", entry.key);
            fields.cx.error(fact, &entry.value.place, "", "");
        }
        properties.insert(entry.key.clone(), text);
    }
    properties
}

fn is_public_property(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || "_.".contains(c))
}
