//! Var files: TOML, or a flat JSON object such as image-builder's.
//!
//! Only reads. Masks secret-looking values in the text that messages may show.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::PathRoot;
use crate::document::mask::{mask, mask_lines};
use crate::document::sources::{RecipeSources, read_given_text};
use crate::document::value::{self, TomlData, TomlTable, TomlValue};
use crate::keys::names;
use winimg_base::diag::Diagnostic;
use winimg_base::text::{Place, SourceText};

/// Reads the file's entries.
pub fn read(path: &Path, sources: &mut RecipeSources, problems: &mut Vec<Diagnostic>) -> TomlTable {
    let name = path.display().to_string();
    let text = match read_given_text(path) {
        Ok(text) => text,
        Err(fact) => {
            let fact = format!("cannot read the var file {name}: {fact}");
            problems.push(Diagnostic::error(fact));
            return TomlTable::default();
        }
    };
    let is_json = path
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("json"))
        || text
            .trim_start_matches(['\u{feff}', ' ', '\n', '\r', '\t'])
            .starts_with('{');
    let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
    sources.note(path, PathRoot::Vars(path.to_path_buf()));
    if is_json {
        read_json(&name, text, folder, sources, problems)
    } else {
        read_toml(&name, text, folder, sources, problems)
    }
}

fn read_toml(
    name: &str,
    text: String,
    folder: PathBuf,
    sources: &mut RecipeSources,
    problems: &mut Vec<Diagnostic>,
) -> TomlTable {
    let source = Arc::new(SourceText::new(name, text));
    let (table, broken) = value::parse(&source);
    let mut bytes = source.text.clone().into_bytes();
    if !broken.is_empty() {
        mask_lines(&source.text, &mut bytes);
    }
    for entry in &table.entries {
        if names::is_secret(&entry.key) {
            mask(&mut bytes, entry.value.place.span.clone(), b'1');
        }
    }
    let masked = String::from_utf8(bytes).unwrap_or_default();
    let source = sources.add_file(name, masked, folder, PathRoot::Vars(name.into()));
    let (table, broken) = value::parse(&source);
    problems.extend(broken);
    table
}

/// Reads a flat JSON object.
fn read_json(
    name: &str,
    text: String,
    folder: PathBuf,
    sources: &mut RecipeSources,
    problems: &mut Vec<Diagnostic>,
) -> TomlTable {
    let text = text.trim_start_matches('\u{feff}').to_string();
    let parsed = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&text);
    let map = match parsed {
        Ok(map) => map,
        Err(error) => {
            problems.push(broken_json(name, &error));
            return TomlTable::default();
        }
    };
    let mut bytes = text.clone().into_bytes();
    for key in map.keys().filter(|k| names::is_secret(k)) {
        let from = json_key(&text, key).end;
        let rest = text[from..].trim_start_matches([':', ' ', '\t']);
        let line = rest.lines().next().unwrap_or_default();
        let from = text.len() - rest.len();
        mask(&mut bytes, from..from + line.len(), b'*');
    }
    let masked = String::from_utf8(bytes).unwrap_or_default();
    let source = sources.add_file(name, masked, folder, PathRoot::Vars(name.into()));
    let mut table = TomlTable::default();
    for (key, json) in map {
        let place = Place::new(&source, json_key(&text, &key));
        let data = match json {
            serde_json::Value::String(text) => TomlData::String(text),
            serde_json::Value::Bool(flag) => TomlData::Bool(flag),
            serde_json::Value::Number(number) => TomlData::String(number.to_string()),
            serde_json::Value::Null => TomlData::Unknown,
            serde_json::Value::Array(_) => TomlData::Array(Vec::new()),
            serde_json::Value::Object(_) => TomlData::Table(TomlTable::default()),
        };
        table.entries.push(value::TomlEntry {
            key,
            key_place: place.clone(),
            value: TomlValue::new(data, place),
        });
    }
    table
}

/// Makes an error with only the place: the text may contain a secret, and serde_json quotes values
/// of the wrong type.
fn broken_json(name: &str, error: &serde_json::Error) -> Diagnostic {
    let (line, column) = (error.line(), error.column());
    let why = match error.classify() {
        serde_json::error::Category::Data => "expected an object".to_string(),
        _ => error
            .to_string()
            .replace(&format!(" at line {line} column {column}"), ""),
    };
    Diagnostic::error(format!("cannot read the var file {name}: {why}"))
        .help(format!("line {line}, column {column}"))
}

/// Finds the key with its quotes. JSON parsers keep the last of equal keys, so the last one is
/// returned.
fn json_key(text: &str, key: &str) -> std::ops::Range<usize> {
    let quoted = serde_json::Value::from(key).to_string();
    let found = text
        .rmatch_indices(&quoted)
        .find(|(at, _)| text[at + quoted.len()..].trim_start().starts_with(':'));
    found.map_or(0..0, |(at, _)| at..at + quoted.len())
}
