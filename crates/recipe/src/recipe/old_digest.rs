//! Another version beside the digest of an earlier one, where both come by way of variables.
//!
//! A file that gives a digest says by the version beside it which one it is of. Another version that is said later leaves the
//! digest behind. `merge` does the same for versions that are written into a component itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::declare::Said;
use super::merge::DIGESTS;
use super::template::{self, Part};
use super::unread::Given;
use super::value::{Data, Table, Value};
use winimg_base::diag::Diagnostic;
use winimg_base::text::{Place, Source};

/// Returns a warning for each download with such a digest.
pub fn complaints(tree: &Table, given: &Given) -> Vec<Diagnostic> {
    let below = |key: &str| tree.get(key).and_then(Value::as_table);
    let components = below("components").into_iter().flat_map(|t| &t.entries);
    let components = components.map(|entry| (format!("component `{}`", entry.key), &entry.value));
    let media = below("media").into_iter().flat_map(|t| &t.entries);
    let media = media.map(|entry| (format!("[media.{}]", entry.key), &entry.value));
    let downloads = components.chain(media);
    let tables = downloads.filter_map(|(what, value)| Some((what, value.as_table()?)));
    tables
        .filter_map(|(what, table)| complaint(&what, table, given))
        .collect()
}

fn complaint(what: &str, table: &Table, given: &Given) -> Option<Diagnostic> {
    let key = DIGESTS.into_iter().find(|key| table.contains(key))?;
    let digest = table.get(key)?;
    if !matches!(digest.data, Data::String(_)) {
        return None;
    }
    let sources = sources(digest, given);
    let names = version_names(table, given);
    let found = names.iter().find_map(|name| changed(name, &sources, given));
    let (name, now, was) = found?;
    let fact = format!("`{name}` is {now}, but the {key} of {what} is still that of {was}");
    let given_by = variable_of(digest).map_or(key.to_string(), str::to_string);
    let mut help = format!("give the digest of this version too: `{given_by}`");
    let url = table.get("url").and_then(Value::as_str).unwrap_or_default();
    let spellings = [was.clone(), was.replace('.', "_"), was.replace('.', "-")];
    if let Some(old) = spellings.iter().find(|old| url.contains(old.as_str())) {
        help.push_str(&format!("; its address still has `{old}`: {url}"));
    }
    let place = winner(&name, given).map(|said| said.place.clone());
    Some(match place {
        Some(place) => Diagnostic::warning(fact).at(&place, "").help(help),
        None => Diagnostic::warning(fact).help(help),
    })
}

/// The variables that say the version: all of those in `version`, or those in `url` that are called so.
fn version_names(table: &Table, given: &Given) -> BTreeSet<String> {
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

fn follow(value: &Value, given: &Given, reached: &mut BTreeSet<String>) {
    for name in named(value.template.as_deref()) {
        given.follow(&name, reached);
    }
}

fn named(template: Option<&str>) -> Vec<String> {
    let parts = template.and_then(|text| template::parse(text).ok());
    let parts = parts.unwrap_or_default().into_iter();
    parts
        .filter_map(|part| match part {
            Part::Name(name) => Some(name),
            Part::Text(_) => None,
        })
        .collect()
}

/// The variable that a text is, where it is no more than that.
fn variable_of(value: &Value) -> Option<&str> {
    let text = value.template.as_deref()?.trim();
    let name = text.strip_prefix("{{")?.strip_suffix("}}")?.trim();
    (!name.contains(['{', '}'])).then_some(name)
}

/// The files that give the digest itself.
fn sources(digest: &Value, given: &Given) -> Vec<Arc<Source>> {
    let mut reached = BTreeSet::new();
    follow(digest, given, &mut reached);
    if reached.is_empty() {
        return vec![Arc::clone(&digest.place.source)];
    }
    let words = reached.iter().filter_map(|name| winner(name, given));
    let literal =
        words.filter(|said| named(said.template.then_some(said.text.as_str())).is_empty());
    literal.map(|said| Arc::clone(&said.place.source)).collect()
}

fn winner<'g>(name: &str, given: &'g Given) -> Option<&'g Said> {
    given.said.get(name)?.as_ref()
}

/// The variable, its value, and the one that a file of `sources` gave it, where that is another.
fn changed(name: &str, sources: &[Arc<Source>], given: &Given) -> Option<(String, String, String)> {
    let variable = given.aliases.get(name).map_or(name, String::as_str);
    let prefix = given.prefixes.get(variable).map_or("", String::as_str);
    let plain = |text: &str| text.strip_prefix(prefix).unwrap_or(text).to_string();
    let is_there = |place: &Place| {
        sources
            .iter()
            .any(|source| Arc::ptr_eq(source, &place.source))
    };
    let others = given.aliases.iter().filter(|(_, of)| *of == variable);
    let all = others.map(|(alias, _)| alias.as_str()).chain([variable]);
    let mut words = all.filter_map(|name| given.words.get(name)).flatten();
    let beside = words.rfind(|said| is_there(&said.place))?;
    let now = winner(name, given)?;
    let (is, was) = (plain(&now.text), plain(&beside.text));
    (is != was).then(|| (name.to_string(), is, was))
}
