//! Files of variables: TOML, or a flat JSON object such as image-builder's.
//!
//! Only reads. A value that would be a secret is masked in everything that is shown of the file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::mask::{mask, mask_lines};
use super::sources::{Sources, read_given_text};
use super::value::{self, Data, Table, Value};
use super::{Root, words};
use winimg_base::diag::Diagnostic;
use winimg_base::text::{Place, Source};

/// The file's entries; complaints go to `problems`.
pub fn read(path: &Path, sources: &mut Sources, problems: &mut Vec<Diagnostic>) -> Table {
    let name = path.display().to_string();
    let text = match read_given_text(path) {
        Ok(text) => text,
        Err(fact) => {
            let fact = format!("cannot read the var file {name}: {fact}");
            problems.push(Diagnostic::error(fact));
            return Table::default();
        }
    };
    let is_json = path
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("json"))
        || text
            .trim_start_matches(['\u{feff}', ' ', '\n', '\r', '\t'])
            .starts_with('{');
    let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
    sources.note(path, Root::Vars(path.to_path_buf()));
    match is_json {
        true => json(&name, text, folder, sources, problems),
        false => toml(&name, text, folder, sources, problems),
    }
}

fn toml(
    name: &str,
    text: String,
    folder: PathBuf,
    sources: &mut Sources,
    problems: &mut Vec<Diagnostic>,
) -> Table {
    let source = Arc::new(Source::new(name, text));
    let (table, broken) = value::parse(&source);
    let mut bytes = source.text.clone().into_bytes();
    if !broken.is_empty() {
        mask_lines(&source.text, &mut bytes);
    }
    for entry in &table.entries {
        if words::is_secret(&entry.key) {
            mask(&mut bytes, entry.value.place.span.clone(), b'1');
        }
    }
    let masked = String::from_utf8(bytes).unwrap_or_default();
    let source = sources.add_file(name, masked, folder, Root::Vars(name.into()));
    let (table, broken) = value::parse(&source);
    problems.extend(broken);
    table
}

/// A flat JSON object.
fn json(
    name: &str,
    text: String,
    folder: PathBuf,
    sources: &mut Sources,
    problems: &mut Vec<Diagnostic>,
) -> Table {
    let text = text.trim_start_matches('\u{feff}').to_string();
    let parsed = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&text);
    let map = match parsed {
        Ok(map) => map,
        Err(error) => {
            problems.push(broken_json(name, &error));
            return Table::default();
        }
    };
    let mut bytes = text.clone().into_bytes();
    for key in map.keys().filter(|k| words::is_secret(k)) {
        let from = json_key(&text, key).end;
        let rest = text[from..].trim_start_matches([':', ' ', '\t']);
        let line = rest.lines().next().unwrap_or_default();
        let from = text.len() - rest.len();
        mask(&mut bytes, from..from + line.len(), b'*');
    }
    let masked = String::from_utf8(bytes).unwrap_or_default();
    let source = sources.add_file(name, masked, folder, Root::Vars(name.into()));
    let mut table = Table::default();
    for (key, json) in map {
        let place = Place::new(&source, json_key(&text, &key));
        let data = match json {
            serde_json::Value::String(text) => Data::String(text),
            serde_json::Value::Bool(flag) => Data::Bool(flag),
            serde_json::Value::Number(number) => Data::String(number.to_string()),
            serde_json::Value::Null => Data::Unknown,
            serde_json::Value::Array(_) => Data::Array(Vec::new()),
            serde_json::Value::Object(_) => Data::Table(Table::default()),
        };
        table.entries.push(value::Entry {
            key,
            key_place: place.clone(),
            value: Value::new(data, place),
        });
    }
    table
}

/// Only the place is reported: the text may hold a secret, and serde_json quotes a value of the wrong type.
fn broken_json(name: &str, error: &serde_json::Error) -> Diagnostic {
    let (line, column) = (error.line(), error.column());
    let why = match error.classify() {
        serde_json::error::Category::Data => "an object is expected".to_string(),
        _ => error
            .to_string()
            .replace(&format!(" at line {line} column {column}"), ""),
    };
    Diagnostic::error(format!("cannot read the var file {name}: {why}"))
        .help(format!("line {line}, column {column}"))
}

/// The key with its quotes. JSON readers let the last of two equal keys win, so the last is found.
fn json_key(text: &str, key: &str) -> std::ops::Range<usize> {
    let quoted = serde_json::Value::from(key).to_string();
    let found = text
        .rmatch_indices(&quoted)
        .find(|(at, _)| text[at + quoted.len()..].trim_start().starts_with(':'));
    found.map_or(0..0, |(at, _)| at..at + quoted.len())
}
