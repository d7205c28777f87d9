//! `target`: what the image is for, and so what the recipe is judged by.

use std::collections::BTreeMap;

use crate::recipe::Outputs;
use crate::recipe::fields::{Context, Fields};
use crate::recipe::target::{self, Aim, Found};
use crate::recipe::value::{Data, Table};
use winimg_base::text::{Located, Place};

/// The targets that the recipe names, then those with rules about its outputs; and whether all that are named are there.
pub fn targets(top: &Fields<'_>, outputs: Option<&Outputs>) -> (Vec<Aim>, bool) {
    let written = match top.has("target") {
        true => top.strings("target"),
        false => Vec::new(),
    };
    let mut aims = all_named(top.cx, &written, &top.place);
    let is_whole = aims.len() == written.len();
    // A target that is refused says so once.
    let is_named = |name: &String| written.iter().any(|one| one.value == *name);
    let sources = top.cx.sources;
    for name in target::names(sources, &top.place) {
        let Some(outputs) = outputs.filter(|_| !is_named(&name)) else {
            continue;
        };
        let name = Located::new(name, top.place.clone());
        match target::named(&name, sources, &top.place) {
            Ok(found) if found.target.minds(outputs) => aims.push(taken(top.cx, found, None)),
            Ok(_) => {}
            Err(problem) => top.cx.problem(problem),
        }
    }
    (aims, is_whole)
}

/// Those of these names that there are, each once.
pub fn all_named(cx: &Context<'_>, written: &[Located<String>], recipe: &Place) -> Vec<Aim> {
    let mut aims: Vec<Aim> = Vec::new();
    for name in written {
        aims.extend(named(cx, name, recipe, &aims));
    }
    aims
}

fn named(cx: &Context<'_>, name: &Located<String>, recipe: &Place, before: &[Aim]) -> Option<Aim> {
    let first = before.iter().find(|aim| aim.target.name == name.value);
    if let Some(place) = first.and_then(|aim| aim.named.as_ref()) {
        let fact = format!("the target `{}` is named twice", name.value);
        let help = format!("the first is at {place}: write it once");
        cx.error(fact, &name.place, "", &help);
        return None;
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if name.value.is_empty() || !name.value.chars().all(is_plain) {
        let fact = format!("`{}` is no name of a target", name.value);
        let help = "write the file's name without `.toml`: `target = [\"mine\"]` is targets/mine.toml beside the recipe";
        cx.error(fact, &name.place, "", help);
        return None;
    }
    match target::named(name, cx.sources, recipe) {
        Ok(found) => Some(taken(cx, found, Some(name.place.clone()))),
        Err(problem) => {
            cx.problem(problem);
            None
        }
    }
}

/// Its files are files of the recipe: a bundle carries them.
fn taken(cx: &Context<'_>, found: Found, named: Option<Place>) -> Aim {
    for (path, root) in found.files {
        cx.sources.note(&path, root);
    }
    Aim {
        target: found.target,
        named,
    }
}

/// Where the tables that a target may have rules about are written, by dotted path.
pub fn written(tree: &Table) -> BTreeMap<String, Place> {
    let mut all = BTreeMap::new();
    for table in ["media", "machine", "setup", "outputs"] {
        if let Some(Data::Table(inner)) = tree.get(table).map(|value| &value.data) {
            lay(table, inner, &mut all);
        }
    }
    all
}

fn lay(path: &str, table: &Table, all: &mut BTreeMap<String, Place>) {
    for entry in &table.entries {
        let path = format!("{path}.{}", entry.key);
        if let Data::Table(inner) = &entry.value.data {
            lay(&path, inner, all);
        }
        all.insert(path, entry.key_place.clone());
    }
}
