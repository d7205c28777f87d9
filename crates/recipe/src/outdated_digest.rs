//! Detects a new version next to the digest of an earlier one, if both come from variables.
//!
//! The version in the same file as a digest tells which version the digest belongs to. If a later
//! source changes the version, the digest is outdated. `merge` does the same for versions written
//! into a component itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::document::merge::DIGESTS;
use crate::document::value::{TomlData, TomlEntry, TomlTable, TomlValue};
use crate::vars::declaration::Assignment;
use crate::vars::template::{self, TemplatePart};
use crate::vars::unused::VariableUsage;
use winimg_base::diag::Diagnostic;
use winimg_base::text::SourceText;

/// Returns a warning for each download with such a digest.
pub fn find_outdated_digests(tree: &TomlTable, given: &VariableUsage) -> Vec<Diagnostic> {
    let components = list_entries(tree, "components")
        .map(|entry| (format!("component `{}`", entry.key), &entry.value));
    let media =
        list_entries(tree, "media").map(|entry| (format!("[media.{}]", entry.key), &entry.value));
    components
        .chain(media)
        .filter_map(|(what, value)| check_digest(&what, value.as_table()?, given))
        .collect()
}

fn list_entries<'t>(tree: &'t TomlTable, key: &str) -> impl Iterator<Item = &'t TomlEntry> {
    tree.get(key)
        .and_then(TomlValue::as_table)
        .into_iter()
        .flat_map(|table| &table.entries)
}

fn check_digest(what: &str, table: &TomlTable, given: &VariableUsage) -> Option<Diagnostic> {
    let key = DIGESTS.into_iter().find(|key| table.contains(key))?;
    let digest = table.get(key)?;
    if !matches!(digest.data, TomlData::String(_)) {
        return None;
    }
    let sources = find_sources(digest, given);
    let names = version_names(table, given);
    let found = names
        .iter()
        .find_map(|name| find_change(name, &sources, given));
    let (name, now, was) = found?;
    let fact = format!("`{name}` is {now}, but the {key} of {what} is still that of {was}");
    let given_by = variable_of(digest).map_or(key.to_string(), str::to_string);
    let mut help = format!("set the digest of the new version, too: `{given_by}`");
    let url = table
        .get("url")
        .and_then(TomlValue::as_str)
        .unwrap_or_default();
    let spellings = [was.clone(), was.replace('.', "_"), was.replace('.', "-")];
    if let Some(old) = spellings.iter().find(|old| url.contains(old.as_str())) {
        help.push_str(&format!("; its address still has `{old}`: {url}"));
    }
    let place = find_assignment(&name, given).map(|said| said.place.clone());
    Some(match place {
        Some(place) => Diagnostic::warning(fact).at(&place, "").help(help),
        None => Diagnostic::warning(fact).help(help),
    })
}

/// Returns the variables of the version: all of those in `version`, or those in `url` with such a
/// name.
fn version_names(table: &TomlTable, given: &VariableUsage) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    if let Some(version) = table.get("version") {
        follow(version, given, &mut reached);
        return reached;
    }
    if let Some(url) = table.get("url") {
        follow(url, given, &mut reached);
    }
    reached.retain(|name| name.ends_with("version") || name.ends_with("semver"));
    reached
}

fn follow(value: &TomlValue, given: &VariableUsage, reached: &mut BTreeSet<String>) {
    for name in list_variables(value.template.as_deref()) {
        given.follow(&name, reached);
    }
}

fn list_variables(template: Option<&str>) -> Vec<String> {
    template
        .and_then(|text| template::parse(text).ok())
        .unwrap_or_default()
        .into_iter()
        .filter_map(|part| match part {
            TemplatePart::Name(name) => Some(name),
            TemplatePart::Text(_) => None,
        })
        .collect()
}

/// Returns the variable of a text that consists only of it.
fn variable_of(value: &TomlValue) -> Option<&str> {
    let text = value.template.as_deref()?.trim();
    let name = text.strip_prefix("{{")?.strip_suffix("}}")?.trim();
    (!name.contains(['{', '}'])).then_some(name)
}

/// Returns the files that contain the digest itself.
fn find_sources(digest: &TomlValue, given: &VariableUsage) -> Vec<Arc<SourceText>> {
    let mut reached = BTreeSet::new();
    follow(digest, given, &mut reached);
    if reached.is_empty() {
        return vec![Arc::clone(&digest.place.source)];
    }
    reached
        .iter()
        .filter_map(|name| find_assignment(name, given))
        .filter(|said| list_variables(said.template.then_some(said.text.as_str())).is_empty())
        .map(|said| Arc::clone(&said.place.source))
        .collect()
}

fn find_assignment<'g>(name: &str, given: &'g VariableUsage) -> Option<&'g Assignment> {
    given.said.get(name)?.as_ref()
}

/// Returns the variable, its value, and a different value from a file of `sources`.
fn find_change(
    name: &str,
    sources: &[Arc<SourceText>],
    given: &VariableUsage,
) -> Option<(String, String, String)> {
    let variable = given.aliases.get(name).map_or(name, String::as_str);
    let prefix = given.prefixes.get(variable).map_or("", String::as_str);
    let others = given.aliases.iter().filter(|(_, of)| *of == variable);
    let all = others.map(|(alias, _)| alias.as_str()).chain([variable]);
    let mut words = all.filter_map(|name| given.words.get(name)).flatten();
    let beside = words.rfind(|said| {
        sources
            .iter()
            .any(|source| Arc::ptr_eq(source, &said.place.source))
    })?;
    let now = find_assignment(name, given)?;
    let is = now.text.strip_prefix(prefix).unwrap_or(&now.text);
    let was = beside.text.strip_prefix(prefix).unwrap_or(&beside.text);
    (is != was).then(|| (name.to_string(), is.to_string(), was.to_string()))
}
