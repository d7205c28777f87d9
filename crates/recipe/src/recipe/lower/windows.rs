//! Verbs that change Windows itself: `exe`, `feature`, `capability`, `driver`, `checkpoint`, `cleanup`.
//! (`update` has a file of its own.)

use super::execution::exit_codes;
use super::files::content;
use super::known::{Known, component};
use crate::recipe::fields::{Context, Fields};
use crate::recipe::value::{Data, Value};
use crate::recipe::verb::{Capability, Cleanup, Driver, Exe, Feature, Program};
use crate::recipe::{Content, Verb};
use winimg_base::diag::Diagnostic;
use winimg_base::text::Located;

pub fn exe(cx: &Context<'_>, value: &Value, known: Known<'_>) -> Option<Verb> {
    let fields = Fields::open(cx, value, "exe")?;
    let program = program(&fields, known);
    let arguments = fields.texts("arguments");
    let directory = fields.guest_path("directory");
    let creates = fields.guest_path("creates");
    let exit_codes = exit_codes(&fields);
    let exe = Exe {
        program: program?,
        arguments,
        directory,
        creates,
        exit_codes: exit_codes?,
    };
    fields.is_whole().then_some(Verb::Exe(exe))
}

/// Exactly one of `component`, `path`, `program`.
fn program(fields: &Fields<'_>, known: Known<'_>) -> Option<Program> {
    let ways = ["component", "path", "program"];
    let given: Vec<&str> = ways.into_iter().filter(|w| fields.has(w)).collect();
    let help = "`component = \"setup\"` for a fetched file, `path = \"files/setup.exe\"` for one beside the recipe, \
                `program = 'C:\\k\\wins.exe'` for one that is in the image already";
    match given.as_slice() {
        [] => {
            let fact = format!("{} has nothing to run", fields.what);
            fields.cx.missing(fact, &fields.place, help);
            None
        }
        ["component"] => component(fields, known).map(|c| Program::Carried(Content::Component(c))),
        ["path"] => {
            let path = fields.local("path")?;
            Some(Program::Carried(Content::Local(path)))
        }
        [_] => fields.guest_path("program").map(Program::InGuest),
        _ => {
            let fact = format!("{} has `{}`", fields.what, given.join("` and `"));
            fields.cx.error(fact, &fields.place, "keep one", help);
            None
        }
    }
}

pub fn feature(cx: &Context<'_>, value: &Value, known: Known<'_>) -> Option<Verb> {
    let short = match &value.data {
        Data::String(_) => Some(std::slice::from_ref(value)),
        Data::Array(items) => Some(items.as_slice()),
        _ => None,
    };
    if let Some(items) = short {
        let names = feature_names(cx, items, value)?;
        return Some(Verb::Feature(Feature {
            names,
            enabled: true,
            all: true,
            without: Vec::new(),
            source: None,
        }));
    }
    let fields = Fields::open(cx, value, "feature")?;
    let list = fields.get("names");
    let names = fields
        .list("names")
        .zip(list)
        .and_then(|(items, list)| feature_names(cx, items, list));
    let without = match fields.list("without").zip(fields.get("without")) {
        Some((items, list)) => feature_names(cx, items, list),
        None => Some(Vec::new()),
    };
    let enabled = fields.is("state", "enabled");
    let all = fields.flag("all");
    let source = source(&fields, known);
    if !enabled && let Some(entry) = fields.first(&["all", "without", "component", "path"]) {
        let fact = format!(
            "`{}` means nothing for a feature that is disabled",
            entry.key
        );
        cx.error(fact, &entry.key_place, "", "leave it out");
        return None;
    }
    let feature = Feature {
        names: names?,
        enabled,
        all,
        without: without?,
        source: source?,
    };
    fields.is_whole().then_some(Verb::Feature(feature))
}

/// Names as DISM knows them; what stands in them goes into a command line of its own.
fn feature_names(cx: &Context<'_>, items: &[Value], list: &Value) -> Option<Vec<Located<String>>> {
    if items.is_empty() {
        let help = "name the features: `feature = [\"Containers\"]`";
        cx.error("`feature` names no feature", &list.place, "", help);
    }
    let mut names = Vec::new();
    for item in items {
        let Data::String(name) = &item.data else {
            if !matches!(item.data, Data::Unknown) {
                let fact = format!("a feature's name is a string, not {}", item.kind());
                cx.error(fact, &item.place, item.kind(), "");
            }
            continue;
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || !name.chars().all(plain) {
            let fact = format!("`{name}` is no name of a feature");
            let help = "DISM's names have letters, digits, `-`, `_` and `.`: `dism.exe /online /get-features` lists them";
            cx.error(fact, &item.place, "", help);
            continue;
        }
        names.push(Located::new(name.clone(), item.place.clone()));
    }
    (!names.is_empty() && names.len() == items.len()).then_some(names)
}

/// `component` or `path`, or neither; `None` when what is given is wrong.
fn source(fields: &Fields<'_>, known: Known<'_>) -> Option<Option<Content>> {
    match fields.first(&["component", "path"]) {
        Some(_) => content(fields, known).map(Some),
        None => Some(None),
    }
}

pub fn capability(cx: &Context<'_>, value: &Value, known: Known<'_>) -> Option<Verb> {
    let fields = Fields::open(cx, value, "capability")?;
    let name = fields.string("name").and_then(|name| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
        if name.value.matches('~').count() == 4 && name.value.chars().all(plain) {
            return Some(name);
        }
        let fact = format!("`{}` is no name of a capability", name.value);
        cx.error(fact, &name.place, "", fields.help("name"));
        None
    });
    let present = fields.is("state", "present");
    let source = source(&fields, known);
    if !present && let Some(entry) = fields.first(&["component", "path"]) {
        let fact = "a capability that is to be absent needs no files";
        cx.error(fact, &entry.key_place, "", "leave it out");
        return None;
    }
    let capability = Capability {
        name: name?,
        present,
        source: source?,
    };
    fields.is_whole().then_some(Verb::Capability(capability))
}

pub fn driver(cx: &Context<'_>, value: &Value, known: Known<'_>) -> Option<Verb> {
    let fields = Fields::open(cx, value, "driver")?;
    let from = content(&fields, known);
    let only = fields.texts("only");
    let driver = Driver { from: from?, only };
    fields.is_whole().then_some(Verb::Driver(driver))
}

pub fn checkpoint(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    Fields::open(cx, value, "checkpoint")?;
    Some(Verb::Checkpoint)
}

pub fn cleanup(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    let fields = Fields::open(cx, value, "cleanup")?;
    let paths = fields.guest_paths("paths");
    let paths_are_right = paths.is_some();
    let cleanup = Cleanup {
        component_store: fields.flag("component_store"),
        reset_base: fields.flag("reset_base"),
        temp: fields.flag("temp"),
        update_cache: fields.flag("update_cache"),
        event_logs: fields.flag("event_logs"),
        setup_logs: fields.flag("setup_logs"),
        paths: paths.unwrap_or_default(),
    };
    if cleanup.reset_base && !cleanup.component_store {
        let place = fields.table.entry("reset_base").map(|e| &e.key_place);
        let fact = "`reset_base` without `component_store`";
        let help = "write `component_store = true` too: it is a part of that cleanup";
        cx.error(fact, place.unwrap_or(&fields.place), "", help);
        return None;
    }
    let nothing = paths_are_right
        && cleanup.paths.is_empty()
        && ![
            cleanup.component_store,
            cleanup.temp,
            cleanup.update_cache,
            cleanup.event_logs,
            cleanup.setup_logs,
        ]
        .contains(&true);
    // A wrong value or key has been complained about already.
    if nothing
        && fields
            .table
            .entries
            .iter()
            .all(|e| matches!(e.value.data, Data::Bool(_)))
    {
        let diagnostic = Diagnostic::error("`cleanup` has nothing to do")
            .at(&fields.place, "")
            .help("say what goes: `cleanup = { component_store = true, temp = true, update_cache = true }`");
        cx.problem(diagnostic);
    }
    (!nothing && paths_are_right).then_some(Verb::Cleanup(cleanup))
}
