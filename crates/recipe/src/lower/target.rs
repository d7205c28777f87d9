//! `target`: the platforms that the image is for, whose rules the recipe is checked against.

use std::collections::BTreeMap;

use crate::Outputs;
use crate::document::value::{TomlData, TomlTable};
use crate::fields::{LoweringContext, TableReader};
use crate::target::{self, LoadedTarget, RecipeTarget};
use winimg_base::text::{Located, Place};

/// Returns the targets that the recipe names, then those with rules about its outputs; and true if
/// all named ones exist.
pub fn read_targets(top: &TableReader<'_>, outputs: Option<&Outputs>) -> (Vec<RecipeTarget>, bool) {
    let written = if top.has("target") {
        top.read_strings("target")
    } else {
        Vec::new()
    };
    let mut aims = all_named(top.cx, &written, &top.place);
    let is_whole = aims.len() == written.len();
    let sources = top.cx.sources;
    for name in target::list_names(sources, &top.place) {
        // A target that is refused is reported only once.
        let is_named = written.iter().any(|one| one.value == name);
        let Some(outputs) = outputs.filter(|_| !is_named) else {
            continue;
        };
        let name = Located::new(name, top.place.clone());
        match target::load_target(&name, sources, &top.place) {
            Ok(found) if found.target.has_rules_for(outputs) => {
                aims.push(take_target(top.cx, found, None))
            }
            Ok(_) => {}
            Err(problem) => top.cx.report(problem),
        }
    }
    (aims, is_whole)
}

/// Loads the targets of these names; reports duplicate and missing ones.
pub fn all_named(
    cx: &LoweringContext<'_>,
    written: &[Located<String>],
    recipe: &Place,
) -> Vec<RecipeTarget> {
    let mut aims: Vec<RecipeTarget> = Vec::new();
    for name in written {
        aims.extend(load_target(cx, name, recipe, &aims));
    }
    aims
}

fn load_target(
    cx: &LoweringContext<'_>,
    name: &Located<String>,
    recipe: &Place,
    before: &[RecipeTarget],
) -> Option<RecipeTarget> {
    let first = before.iter().find(|aim| aim.target.name == name.value);
    if let Some(place) = first.and_then(|aim| aim.named.as_ref()) {
        let fact = format!("duplicate target `{}`", name.value);
        let help = format!("the first one is at {place}");
        cx.error(fact, &name.place, "", &help);
        return None;
    }
    let is_plain = name
        .value
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    if name.value.is_empty() || !is_plain {
        let fact = format!("`{}` is not the name of a target", name.value);
        let help = "write the file's name without `.toml`: `target = [\"mine\"]` is \
                    targets/mine.toml beside the recipe";
        cx.error(fact, &name.place, "", help);
        return None;
    }
    match target::load_target(name, cx.sources, recipe) {
        Ok(found) => Some(take_target(cx, found, Some(name.place.clone()))),
        Err(problem) => {
            cx.report(problem);
            None
        }
    }
}

/// Adds the target's files to those of the recipe, so that a bundle includes them.
fn take_target(
    cx: &LoweringContext<'_>,
    found: LoadedTarget,
    named: Option<Place>,
) -> RecipeTarget {
    for (path, root) in found.files {
        cx.sources.note(&path, root);
    }
    RecipeTarget {
        target: found.target,
        named,
    }
}

/// Returns the places of the keys that a target may have rules about, by dotted path.
pub fn collect_places(tree: &TomlTable) -> BTreeMap<String, Place> {
    let mut all = BTreeMap::new();
    for table in ["media", "machine", "setup", "outputs"] {
        if let Some(TomlData::Table(inner)) = tree.get(table).map(|value| &value.data) {
            lay(table, inner, &mut all);
        }
    }
    all
}

fn lay(path: &str, table: &TomlTable, all: &mut BTreeMap<String, Place>) {
    for entry in &table.entries {
        let path = format!("{path}.{}", entry.key);
        if let TomlData::Table(inner) = &entry.value.data {
            lay(&path, inner, all);
        }
        all.insert(path, entry.key_place.clone());
    }
}
