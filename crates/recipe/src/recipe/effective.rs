//! What the recipe comes to: every value, where it came from, and the digest over all of them.

use serde::Serialize;
use serde_json::Value as Json;

use super::Effective;
use super::put::in_path;
use super::template::{self, Part};
use super::value::{Data, Table, Value};
use super::vars::Scope;
use winimg_base::digest::Digest;
use winimg_base::text::redact_url;

/// Every value that was written, in the order of the tree, then the defaults; later said, later shown.
pub fn list(tree: &Table, scope: &Scope, defaults: Vec<Effective>) -> Vec<Effective> {
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

fn flatten(path: &str, value: &Value, scope: &Scope, all: &mut Vec<Effective>) {
    match &value.data {
        Data::Table(table) if !table.entries.is_empty() => {
            for entry in &table.entries {
                let path = format!("{path}.{}", in_path(&entry.key));
                flatten(&path, &entry.value, scope, all);
            }
        }
        Data::Array(items) if path == "steps" => {
            for (index, item) in items.iter().enumerate() {
                let name = item.as_table().and_then(|t| t.get("name")?.as_str());
                let name = name.map_or(index.to_string(), in_path);
                flatten(&format!("steps.{name}"), item, scope, all);
            }
        }
        Data::Array(items) if path == "clone" => {
            for (index, item) in items.iter().enumerate() {
                flatten(&format!("clone.{index}"), item, scope, all);
            }
        }
        _ => all.push(Effective {
            path: path.into(),
            value: shown(path, value).to_string(),
            origin: origin(value, scope),
        }),
    }
}

/// `recipe.toml:12:7`, `--set`; with the variables in it and who set them.
fn origin(value: &Value, scope: &Scope) -> String {
    let source = &value.place.source.name;
    let mut origin = match source.starts_with("--") {
        true => source.clone(),
        false => value.place.to_string(),
    };
    if let Data::Undecided(all) = &value.data {
        let names: Vec<&str> = all.iter().map(|w| w.name.as_str()).collect();
        return format!("{origin} ({} has no value)", names.join(", "));
    }
    let parts = value
        .template
        .as_deref()
        .and_then(|t| template::parse(t).ok());
    let mut named: Vec<String> = Vec::new();
    for part in parts.unwrap_or_default() {
        if let Part::Name(name) = part
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

/// The value for people's eyes: a URL without its query, which may carry a signature, and no product key but the public
/// ones.
fn shown(path: &str, value: &Value) -> Json {
    match &value.data {
        Data::String(text) if path == "media.product_key" && text != "kms" => Json::from("***"),
        Data::String(text) => Json::from(redact_url(text)),
        _ => to_json(value),
    }
}

pub fn to_json(value: &Value) -> Json {
    match &value.data {
        Data::String(text) | Data::Float(text) | Data::Date(text) => Json::from(text.as_str()),
        Data::Integer(number) => Json::from(*number),
        Data::Bool(flag) => Json::from(*flag),
        Data::Array(items) => Json::Array(items.iter().map(to_json).collect()),
        Data::Table(table) => table_json(table),
        Data::Undecided(_) | Data::Unknown => Json::Null,
    }
}

/// Keys sorted, so that the order of writing does not matter.
fn table_json(table: &Table) -> Json {
    let mut entries: Vec<_> = table.entries.iter().collect();
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    let pairs = entries
        .into_iter()
        .map(|e| (e.key.clone(), to_json(&e.value)));
    Json::Object(pairs.collect())
}

/// What the digest of a recipe is made from.
#[derive(Serialize)]
struct Identity<'a> {
    format: u32,
    recipe: Json,
    /// Path as written, and what the file held.
    key_files: &'a [(String, Digest)],
}

/// SHA-256 over the tree as canonical JSON, after variables. `[vars]` itself is left out: a
/// variable counts where it is used. Local files are named, not read, but for keys and certificates: what they say
/// decides what is trusted.
pub fn digest(tree: &Table, key_files: &[(String, Digest)]) -> Digest {
    let entries = tree.entries.iter().filter(|e| e.key != "vars").cloned();
    let tree = Table {
        entries: entries.collect(),
    };
    Digest::of_json(&Identity {
        format: 2,
        recipe: table_json(&tree),
        key_files,
    })
}
