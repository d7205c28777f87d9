//! Verbs that change Windows itself: `exe`, `feature`, `capability`, `driver`, `checkpoint`,
//! `cleanup`. (`update` has a file of its own.)

use super::execution::exit_codes;
use super::files::read_content;
use super::references::{RecipeItems, read_component_name};
use crate::recipe::fields::{LoweringContext, TableReader};
use crate::recipe::value::{TomlData, TomlValue};
use crate::recipe::verb::{
    CapabilitySpec, CleanupSpec, DriverSpec, ExeProgram, ExeSpec, FeatureSpec,
};
use crate::recipe::{StepContent, Verb};
use winimg_base::diag::Diagnostic;
use winimg_base::text::Located;

pub fn read_exe(
    cx: &LoweringContext<'_>,
    value: &TomlValue,
    known: RecipeItems<'_>,
) -> Option<Verb> {
    let fields = TableReader::open(cx, value, "exe")?;
    let program = read_program(&fields, known);
    let arguments = fields.read_texts("arguments");
    let directory = fields.guest_path("directory");
    let creates = fields.guest_path("creates");
    let exit_codes = exit_codes(&fields);
    let exe = ExeSpec {
        program: program?,
        arguments,
        directory,
        creates,
        exit_codes: exit_codes?,
    };
    fields.is_whole().then_some(Verb::Exe(exe))
}

/// Reads exactly one of `component`, `path`, `program`.
fn read_program(fields: &TableReader<'_>, known: RecipeItems<'_>) -> Option<ExeProgram> {
    let ways = ["component", "path", "program"];
    let given: Vec<&str> = ways.into_iter().filter(|w| fields.has(w)).collect();
    let help = "`component = \"setup\"` for a downloaded file, `path = \"files/setup.exe\"` for a \
                file next to the recipe, `program = 'C:\\k\\wins.exe'` for a file in the image";
    match given.as_slice() {
        [] => {
            let fact = format!("{} has nothing to run", fields.what);
            fields.cx.report_missing(fact, &fields.place, help);
            None
        }
        ["component"] => read_component_name(fields, known)
            .map(|c| ExeProgram::Carried(StepContent::Component(c))),
        ["path"] => {
            let path = fields.read_local_path("path")?;
            Some(ExeProgram::Carried(StepContent::Local(path)))
        }
        [_] => fields.guest_path("program").map(ExeProgram::InGuest),
        _ => {
            let given = given.join("` and `");
            let fact = format!("{} has `{given}`; only one is allowed", fields.what);
            fields.cx.error(fact, &fields.place, "keep one", help);
            None
        }
    }
}

pub fn read_feature(
    cx: &LoweringContext<'_>,
    value: &TomlValue,
    known: RecipeItems<'_>,
) -> Option<Verb> {
    let shorthand = match &value.data {
        TomlData::String(_) => Some(std::slice::from_ref(value)),
        TomlData::Array(items) => Some(items.as_slice()),
        _ => None,
    };
    if let Some(items) = shorthand {
        let names = feature_names(cx, items, value)?;
        return Some(Verb::Feature(FeatureSpec {
            names,
            enabled: true,
            all: true,
            without: Vec::new(),
            source: None,
        }));
    }
    let fields = TableReader::open(cx, value, "feature")?;
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
    let source = read_source(&fields, known);
    if !enabled && let Some(entry) = fields.find_first(&["all", "without", "component", "path"]) {
        let fact = format!("`{}` has no effect on a disabled feature", entry.key);
        cx.error(fact, &entry.key_place, "", "remove it");
        return None;
    }
    let feature = FeatureSpec {
        names: names?,
        enabled,
        all,
        without: without?,
        source: source?,
    };
    fields.is_whole().then_some(Verb::Feature(feature))
}

/// Reads names of features for DISM; each of them becomes part of a command line.
fn feature_names(
    cx: &LoweringContext<'_>,
    items: &[TomlValue],
    list: &TomlValue,
) -> Option<Vec<Located<String>>> {
    if items.is_empty() {
        let help = "list the features: `feature = [\"Containers\"]`";
        cx.error("`feature` is an empty list", &list.place, "", help);
    }
    let mut names = Vec::new();
    for item in items {
        let TomlData::String(name) = &item.data else {
            if !matches!(item.data, TomlData::Unknown) {
                let fact = format!("a feature's name is a string, not {}", item.kind_name());
                cx.error(fact, &item.place, item.kind_name(), "");
            }
            continue;
        };
        let is_plain = name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        if name.is_empty() || !is_plain {
            let fact = format!("`{name}` is not the name of a feature");
            let help = "names have letters, digits, `-`, `_` and `.`; list them with \
                        `dism.exe /online /get-features`";
            cx.error(fact, &item.place, "", help);
            continue;
        }
        names.push(Located::new(name.clone(), item.place.clone()));
    }
    (!names.is_empty() && names.len() == items.len()).then_some(names)
}

/// Reads `component` or `path`; the inner `None` if there is neither, the outer `None` after an
/// error.
fn read_source(fields: &TableReader<'_>, known: RecipeItems<'_>) -> Option<Option<StepContent>> {
    match fields.find_first(&["component", "path"]) {
        Some(_) => read_content(fields, known).map(Some),
        None => Some(None),
    }
}

pub fn read_capability(
    cx: &LoweringContext<'_>,
    value: &TomlValue,
    known: RecipeItems<'_>,
) -> Option<Verb> {
    let fields = TableReader::open(cx, value, "capability")?;
    let name = fields.read_string("name").and_then(|name| {
        let is_plain = name
            .value
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.~".contains(c));
        if name.value.matches('~').count() == 4 && is_plain {
            return Some(name);
        }
        let fact = format!("`{}` is not the name of a capability", name.value);
        cx.error(fact, &name.place, "", fields.help("name"));
        None
    });
    let present = fields.is("state", "present");
    let source = read_source(&fields, known);
    if !present && let Some(entry) = fields.find_first(&["component", "path"]) {
        let fact = format!(
            "`{}` has no effect on a capability with `state = \"absent\"`",
            entry.key
        );
        cx.error(fact, &entry.key_place, "", "remove it");
        return None;
    }
    let capability = CapabilitySpec {
        name: name?,
        present,
        source: source?,
    };
    fields.is_whole().then_some(Verb::Capability(capability))
}

pub fn read_driver(
    cx: &LoweringContext<'_>,
    value: &TomlValue,
    known: RecipeItems<'_>,
) -> Option<Verb> {
    let fields = TableReader::open(cx, value, "driver")?;
    let from = read_content(&fields, known);
    let only = fields.read_texts("only");
    let driver = DriverSpec { from: from?, only };
    fields.is_whole().then_some(Verb::Driver(driver))
}

pub fn read_checkpoint(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<Verb> {
    TableReader::open(cx, value, "checkpoint")?;
    Some(Verb::Checkpoint)
}

pub fn cleanup(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<Verb> {
    let fields = TableReader::open(cx, value, "cleanup")?;
    let paths = fields.guest_paths("paths");
    let paths_valid = paths.is_some();
    let cleanup = CleanupSpec {
        component_store: fields.flag("component_store"),
        reset_base: fields.flag("reset_base"),
        temp: fields.flag("temp"),
        update_cache: fields.flag("update_cache"),
        event_logs: fields.flag("event_logs"),
        setup_logs: fields.flag("setup_logs"),
        paths: paths.unwrap_or_default(),
    };
    if cleanup.reset_base && !cleanup.component_store {
        let place = fields.table.find_entry("reset_base").map(|e| &e.key_place);
        let fact = "`reset_base` without `component_store`";
        let help = "add `component_store = true`: `reset_base` is part of that cleanup";
        cx.error(fact, place.unwrap_or(&fields.place), "", help);
        return None;
    }
    let is_empty = paths_valid
        && cleanup.paths.is_empty()
        && ![
            cleanup.component_store,
            cleanup.temp,
            cleanup.update_cache,
            cleanup.event_logs,
            cleanup.setup_logs,
        ]
        .contains(&true);
    // Wrong values and keys have been reported already.
    if is_empty
        && fields
            .table
            .entries
            .iter()
            .all(|e| matches!(e.value.data, TomlData::Bool(_)))
    {
        let diagnostic = Diagnostic::error("`cleanup` has nothing to do")
            .at(&fields.place, "")
            .help(
                "choose what to remove: \
                 `cleanup = { component_store = true, temp = true, update_cache = true }`",
            );
        cx.report(diagnostic);
    }
    (!is_empty && paths_valid).then_some(Verb::Cleanup(cleanup))
}
