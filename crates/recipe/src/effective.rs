//! The effective recipe: every value with its origin, and the digest of all of them.

use serde::Serialize;
use serde_json::Value as Json;

use crate::EffectiveValue;
use crate::document::edit::in_path;
use crate::document::value::{TomlData, TomlTable, TomlValue};
use crate::vars::VariableScope;
use crate::vars::template::{self, TemplatePart};
use winimg_base::digest::Digest;
use winimg_base::text::redact_if_url;

/// Lists every value that was written, in the order of the tree, then the defaults.
pub fn list(
    tree: &TomlTable,
    scope: &VariableScope,
    defaults: Vec<EffectiveValue>,
) -> Vec<EffectiveValue> {
    let mut all = Vec::new();
    for entry in &tree.entries {
        // Variables have their own list, with the value that won.
        if entry.key != "vars" {
            flatten(&in_path(&entry.key), &entry.value, scope, &mut all);
        }
    }
    all.extend(defaults);
    all
}

fn flatten(path: &str, value: &TomlValue, scope: &VariableScope, all: &mut Vec<EffectiveValue>) {
    match &value.data {
        TomlData::Table(table) if !table.entries.is_empty() => {
            for entry in &table.entries {
                let path = format!("{path}.{}", in_path(&entry.key));
                flatten(&path, &entry.value, scope, all);
            }
        }
        TomlData::Array(items) if path == "steps" => {
            for (index, item) in items.iter().enumerate() {
                let name = item.as_table().and_then(|t| t.get("name")?.as_str());
                let name = name.map_or(index.to_string(), in_path);
                flatten(&format!("steps.{name}"), item, scope, all);
            }
        }
        TomlData::Array(items) if path == "clone" => {
            for (index, item) in items.iter().enumerate() {
                flatten(&format!("clone.{index}"), item, scope, all);
            }
        }
        _ => all.push(EffectiveValue {
            path: path.into(),
            value: display_value(path, value).to_string(),
            origin: render_origin(value, scope),
        }),
    }
}

/// Renders the origin, `recipe.toml:12:7` or `--set`, with the variables in it and their origins.
fn render_origin(value: &TomlValue, scope: &VariableScope) -> String {
    let source = &value.place.source.name;
    let mut origin = if source.starts_with("--") {
        source.clone()
    } else {
        value.place.to_string()
    };
    if let TomlData::Undecided(all) = &value.data {
        let names: Vec<&str> = all.iter().map(|w| w.name.as_str()).collect();
        return format!("{origin} ({} has no value)", names.join(", "));
    }
    let parts = value
        .template
        .as_deref()
        .and_then(|text| template::parse(text).ok());
    let mut named: Vec<String> = Vec::new();
    for part in parts.unwrap_or_default() {
        if let TemplatePart::Name(name) = part
            && let Some(var) = scope.get(&name)
        {
            let word = format!("{name} from {}", var.origin);
            if !named.contains(&word) {
                named.push(word);
            }
        }
    }
    if !named.is_empty() {
        origin.push_str(&format!(" ({})", named.join(", ")));
    }
    origin
}

/// Converts the value for display: a URL without its query, which may carry a signature, and no
/// product key but the public ones.
fn display_value(path: &str, value: &TomlValue) -> Json {
    match &value.data {
        TomlData::String(text) if path == "media.product_key" && text != "kms" => Json::from("***"),
        TomlData::String(text) => Json::from(redact_if_url(text)),
        _ => to_json(value),
    }
}

pub fn to_json(value: &TomlValue) -> Json {
    match &value.data {
        TomlData::String(text) | TomlData::Float(text) | TomlData::Date(text) => {
            Json::from(text.as_str())
        }
        TomlData::Integer(number) => Json::from(*number),
        TomlData::Bool(flag) => Json::from(*flag),
        TomlData::Array(items) => Json::Array(items.iter().map(to_json).collect()),
        TomlData::Table(table) => table_json(table),
        TomlData::Undecided(_) | TomlData::Unknown => Json::Null,
    }
}

/// Converts a table with sorted keys, so that the order of writing does not matter.
fn table_json(table: &TomlTable) -> Json {
    let mut entries: Vec<_> = table.entries.iter().collect();
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    let pairs = entries
        .into_iter()
        .map(|e| (e.key.clone(), to_json(&e.value)));
    Json::Object(pairs.collect())
}

/// Input of the digest of a recipe.
#[derive(Serialize)]
struct RecipeIdentity<'a> {
    format: u32,
    recipe: Json,
    /// Path as written, and digest of the content.
    key_files: &'a [(String, Digest)],
}

/// Returns the SHA-256 of the tree as canonical JSON, after variable substitution. `[vars]` itself
/// is omitted: a variable counts where it is used. Local files count by name, except keys and
/// certificates: their content decides what is trusted.
pub fn compute_digest(tree: &TomlTable, key_files: &[(String, Digest)]) -> Digest {
    let entries = tree.entries.iter().filter(|e| e.key != "vars").cloned();
    let tree = TomlTable {
        entries: entries.collect(),
    };
    Digest::of_json(&RecipeIdentity {
        format: 2,
        recipe: table_json(&tree),
        key_files,
    })
}
