//! The verb `feature`: optional features by their DISM names.

use crate::document::value::{TomlData, TomlValue};
use crate::fields::{LoweringContext, TableReader};
use crate::ops::PlannedCheck;
use crate::ops::batch::BatchScript;
use crate::ops::compiler::{MINUTE, StepCompiler, on_disc};
use crate::ops::programs::{DISM, to_arguments};
use crate::verbs::content::{StepContent, find_folder, read_source};
use crate::verbs::dism::{DISM_LOG, dism_rule, run_dism};
use crate::verbs::items::RecipeItems;
use winimg_base::text::Located;

/// `feature`: optional features by their DISM names.
#[derive(Clone, Debug)]
pub struct FeatureSpec {
    pub names: Vec<Located<String>>,
    pub enabled: bool,
    /// Includes the features that they need.
    pub all: bool,
    /// Parts of the enabled features to disable again before Windows restarts.
    pub without: Vec<Located<String>>,
    /// Source of the files of removed features.
    pub source: Option<StepContent>,
}

pub fn read(
    cx: &LoweringContext<'_>,
    value: &TomlValue,
    items: RecipeItems<'_>,
) -> Option<FeatureSpec> {
    let shorthand = match &value.data {
        TomlData::String(_) => Some(std::slice::from_ref(value)),
        TomlData::Array(items) => Some(items.as_slice()),
        _ => None,
    };
    if let Some(items) = shorthand {
        let names = feature_names(cx, items, value)?;
        return Some(FeatureSpec {
            names,
            enabled: true,
            all: true,
            without: Vec::new(),
            source: None,
        });
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
    let source = read_source(&fields, items);
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
        source: source.ok()?,
    };
    fields.is_whole().then_some(feature)
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

pub fn compile(site: &mut StepCompiler<'_>, feature: &FeatureSpec) -> Option<()> {
    let command = if feature.enabled {
        "/enable-feature"
    } else {
        "/disable-feature"
    };
    let mut arguments = to_arguments(["/online", command]);
    for name in &feature.names {
        arguments.push(format!("/featurename:{}", name.value));
    }
    if feature.enabled && feature.all {
        arguments.push("/all".to_owned());
    }
    arguments.extend(to_arguments(["/norestart", "/quiet"]));
    match feature.without.as_slice() {
        [] => run_dism(site, arguments, feature.source.as_ref())?,
        without => enable_without(site, &arguments, without, feature.source.as_ref())?,
    }
    site.guest_log = Some(DISM_LOG);
    let enabled = feature.names.iter().map(|name| (name, feature.enabled));
    let without = feature.without.iter().map(|name| (name, false));
    for (name, enabled) in enabled.chain(without) {
        site.expect(PlannedCheck::Feature {
            name: name.value.clone(),
            enabled,
        });
    }
    Some(())
}

/// Enables features and disables parts of them before a single restart, so that Windows never
/// starts with those parts (image-builder does the same with Hyper-V's hypervisor).
fn enable_without(
    site: &mut StepCompiler<'_>,
    enable: &[String],
    without: &[Located<String>],
    source: Option<&StepContent>,
) -> Option<()> {
    let mut enable = enable.join(" ");
    if let Some(source) = source {
        let entry = find_folder(site, source, &[])?;
        let entry = site.add_entry(entry);
        enable += &format!(" /source:{} /limitaccess", on_disc(entry, ""));
    }
    let mut disable = to_arguments(["/online", "/disable-feature"]);
    disable.extend(
        without
            .iter()
            .map(|name| format!("/featurename:{}", name.value)),
    );
    disable.extend(to_arguments(["/norestart", "/quiet"]));
    let mut script = BatchScript::from_lines("set restart=");
    for arguments in [enable, disable.join(" ")] {
        script.add_line(format!(
            "{DISM} {arguments}\n\
             set code=%errorlevel%\n\
             if %code%==3010 set restart=1\n\
             if not %code%==0 if not %code%==3010 exit /b %code%"
        ));
    }
    script.add_line("if defined restart exit /b 3010");
    site.put_judged(script, dism_rule(), 60 * MINUTE);
    Some(())
}
