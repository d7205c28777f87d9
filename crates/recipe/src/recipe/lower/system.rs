//! Verbs about Windows itself: `service`, `environment`, `path`, `msi`.

use std::collections::BTreeMap;

use super::execution::exit_codes;
use super::files::content;
use super::known::Known;
use crate::recipe::fields::{Context, Fields};
use crate::recipe::value::{Data, Value};
use crate::recipe::{Service, ServiceState, Start, Verb};
use winimg_base::text::Located;

/// Seconds; the Windows default of the services console.
const DAY: u32 = 86_400;

pub fn service(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    let fields = Fields::open(cx, value, "`service`")?;
    let name = service_name(&fields);
    let program = fields.guest_path_if_given("program");
    let program_is_right = program.is_some() || !fields.has("program");
    let start = fields.choice(
        "start",
        &[
            ("auto", Start::Auto),
            ("delayed-auto", Start::DelayedAuto),
            ("demand", Start::Demand),
            ("disabled", Start::Disabled),
        ],
    );
    let state = fields.choice(
        "state",
        &[
            ("running", ServiceState::Running),
            ("stopped", ServiceState::Stopped),
            ("absent", ServiceState::Absent),
        ],
    );
    let display_name = fields.text("display_name");
    let description = fields.text("description");
    let arguments = fields.texts("arguments");
    let depends = fields.texts("depends");
    let account = fields.text("account");
    let restart_delays = restart_delays(&fields);
    let failure_reset = fields.duration("failure_reset").map(|d| d.value);
    fields.finish();
    let service = Service {
        name: name?,
        display_name,
        description,
        program,
        arguments,
        start: start.map(|s| s.value),
        depends,
        account,
        restart_delays,
        failure_reset: failure_reset
            .map_or(DAY, |d| u32::try_from(d.as_secs()).unwrap_or(u32::MAX)),
        state: state.map(|s| s.value),
    };
    check_service(&fields, &service);
    program_is_right.then_some(Verb::Service(service))
}

fn service_name(fields: &Fields<'_>) -> Option<Located<String>> {
    let name = fields.needed_string("name", "name the service: `name = \"kubelet\"`")?;
    if name.value.contains(['/', '\\', '"']) || name.value.chars().count() > 256 {
        let fact = format!("a service cannot be called \"{}\"", name.value);
        let help = "no slash, backslash or quote, and at most 256 characters";
        fields.cx.error(fact, &name.place, "", help);
        return None;
    }
    Some(name)
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
    if service.state == Some(ServiceState::Absent) {
        let other = ["program", "start", "arguments"]
            .into_iter()
            .find_map(place);
        if let Some(place) = other {
            let help = "keep `name` and `state` alone, or take `state` out";
            cx.error(
                "a service that is absent has nothing else",
                &place,
                "",
                help,
            );
        }
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
}

pub fn environment(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    let fields = Fields::open(cx, value, "`environment`")?;
    let name = fields.needed_string("name", "name the variable: `name = \"KUBE_NETWORK\"`");
    let name = name.and_then(|name| {
        let (fact, help) = match name.value.as_str() {
            n if n.eq_ignore_ascii_case("path") => (
                "`environment` would replace the whole Path",
                "add folders with `path = { add = ['C:\\k'] }`",
            ),
            n if n.contains(['=', '"']) => ("the variable's name has `=` or `\"` in it", ""),
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
    fields.finish();
    let value = match absent {
        Some(_) => None,
        None => Some(text?.value),
    };
    Some(Verb::Environment { name: name?, value })
}

pub fn path(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    let fields = Fields::open(cx, value, "`path`")?;
    let help = "list the folders: `add = ['C:\\k']`";
    fields.need("add", help);
    let given = fields.strings("add");
    let all = given.len();
    if all == 0 && fields.list("add").is_some_and(<[Value]>::is_empty) {
        cx.error("`path` adds nothing", &fields.place, "", help);
    }
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
    fields.finish();
    (all > 0 && add.len() == all).then_some(Verb::Path { add })
}

pub fn msi(cx: &Context<'_>, value: &Value, known: Known<'_>) -> Option<Verb> {
    let fields = Fields::open(cx, value, "`msi`")?;
    let from = content(&fields, known);
    let properties = properties(&fields);
    let exit_codes = exit_codes(&fields);
    fields.finish();
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
    let Some(table) = fields.table("properties", "`properties`") else {
        return properties;
    };
    for entry in &table.table.entries {
        let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_' || c == '.';
        if !entry.key.chars().all(plain) {
            let fact = format!("`{}` is not a public property", entry.key);
            let help = format!(
                "public properties are upper case: `{}`",
                entry.key.to_uppercase()
            );
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
        properties.insert(entry.key.clone(), text);
    }
    properties
}
