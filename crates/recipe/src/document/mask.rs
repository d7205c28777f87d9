//! Overwrites secrets in the text of a recipe or a matrix byte for byte, so that no message can
//! show them.

use std::sync::Arc;

use crate::document::value::{self, TomlData, TomlTable, TomlValue};
use crate::keys::names;
use winimg_base::text::SourceText;

/// Masks the values of secret-looking `[vars]`, passwords of users, and user names in URLs.
pub fn mask_secrets(name: &str, text: String) -> String {
    let (table, mut bytes) = parse(name, text);
    let vars = table.get("vars").and_then(TomlValue::as_table);
    for entry in vars.iter().flat_map(|t| &t.entries) {
        if names::is_secret(&entry.key) {
            mask_value(&entry.value, &mut bytes);
        }
    }
    for password in user_passwords(&table) {
        mask_value(password, &mut bytes);
    }
    mask_urls(&table, &mut bytes);
    String::from_utf8(bytes).unwrap_or_default()
}

/// Masks the values of secret-looking variables in a matrix, entries of `secrets` that are not
/// names, and user names in URLs.
pub fn mask_matrix(name: &str, text: String) -> String {
    let (table, mut bytes) = parse(name, text);
    for entry in &table.entries {
        match (entry.key.as_str(), entry.value.as_table()) {
            ("pipeline", Some(pipeline)) => mask_pipeline(pipeline, &mut bytes),
            _ => mask_named(&entry.value, &mut bytes),
        }
    }
    mask_urls(&table, &mut bytes);
    String::from_utf8(bytes).unwrap_or_default()
}

/// Parses the text. Returns the table, and the bytes to overwrite: secret-looking lines are already
/// masked in them if the syntax is broken.
fn parse(name: &str, text: String) -> (TomlTable, Vec<u8>) {
    let source = Arc::new(SourceText::new(name, text));
    let (table, broken) = value::parse(&source);
    let mut bytes = source.text.clone().into_bytes();
    if !broken.is_empty() {
        mask_lines(&source.text, &mut bytes);
    }
    (table, bytes)
}

/// Masks every value whose key looks like a secret.
fn mask_named(value: &TomlValue, bytes: &mut [u8]) {
    match &value.data {
        TomlData::Array(items) => items.iter().for_each(|item| mask_named(item, bytes)),
        TomlData::Table(table) => {
            for entry in &table.entries {
                if names::is_secret(&entry.key) && !is_open(&entry.value) {
                    mask_value(&entry.value, bytes);
                } else {
                    mask_named(&entry.value, bytes);
                }
            }
        }
        _ => {}
    }
}

/// Masks entries of `secrets` that are not names: they may be the secrets themselves.
fn mask_pipeline(table: &TomlTable, bytes: &mut [u8]) {
    for entry in &table.entries {
        match &entry.value.data {
            TomlData::Table(inner) => mask_pipeline(inner, bytes),
            TomlData::Array(items) if entry.key == "secrets" => {
                for item in items {
                    let name = item.as_str();
                    if !name.is_some_and(names::is_environment_variable) {
                        mask_value(item, bytes);
                    }
                }
            }
            TomlData::String(_) if entry.key == "secrets" => mask_value(&entry.value, bytes),
            _ => {}
        }
    }
}

/// Masks everything before an `@` in an address, also in comments and broken lines.
pub fn mask_users(text: String) -> String {
    let mut bytes = text.clone().into_bytes();
    for (at, scheme) in text.match_indices("://") {
        let start = at + scheme.len();
        let word = text[start..].split(['"', '\'', '\r', '\n']).next();
        if let Some(end) = word.and_then(|word| word.rfind('@')) {
            mask(&mut bytes, start..start + end, b'*');
        }
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// Masks lines that look like secrets; for texts with broken syntax.
pub fn mask_lines(text: &str, bytes: &mut [u8]) {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if let Some((key, value)) = line.split_once('=')
            && names::is_secret(key.trim().trim_matches(['"', '\'']))
        {
            let value = start + line.len() - value.trim_start().len();
            mask(bytes, value..start + line.len(), b'*');
        }
        start += line.len();
    }
}

fn mask_urls(table: &TomlTable, bytes: &mut [u8]) {
    for entry in &table.entries {
        mask_urls_in(&entry.key, &entry.value, bytes);
    }
}

fn mask_urls_in(key: &str, value: &TomlValue, bytes: &mut [u8]) {
    match &value.data {
        TomlData::Table(inner) => mask_urls(inner, bytes),
        TomlData::Array(items) => items.iter().for_each(|item| mask_urls_in(key, item, bytes)),
        TomlData::String(_) if holds_url(key) => {
            let place = &value.place;
            let text = place.source.text.get(place.span.clone()).unwrap_or("");
            if let Some(user) = user_in_url(text) {
                let start = place.span.start;
                mask(bytes, start + user.start..start + user.end, b'*');
            }
        }
        _ => {}
    }
}

/// Returns true if a key's value is an address.
pub fn holds_url(key: &str) -> bool {
    key.ends_with("url") || ["certificate", "log", "catalog", "remote"].contains(&key)
}

/// Finds the user name and password in a URL.
pub fn user_in_url(text: &str) -> Option<std::ops::Range<usize>> {
    let start = text.find("://")? + 3;
    let host = text[start..].split(['/', '?', '#']).next()?;
    let end = start + host.rfind('@')?;
    Some(start..end)
}

fn mask_value(value: &TomlValue, bytes: &mut [u8]) {
    match &value.data {
        TomlData::Array(items) => items.iter().for_each(|v| mask_value(v, bytes)),
        TomlData::Table(table) => table
            .entries
            .iter()
            .for_each(|e| mask_value(&e.value, bytes)),
        TomlData::String(_) => mask(bytes, value.place.span.clone(), b'*'),
        _ => mask(bytes, value.place.span.clone(), b'1'),
    }
}

/// Overwrites all but quotes and line ends.
pub fn mask(bytes: &mut [u8], span: std::ops::Range<usize>, with: u8) {
    for byte in bytes.get_mut(span).into_iter().flatten() {
        if !matches!(byte, b'"' | b'\'' | b'\r' | b'\n') {
            *byte = with;
        }
    }
}

/// Finds the passwords of users, in steps and clone checks, that are neither random nor publicly
/// known. They are refused later on.
fn user_passwords(table: &TomlTable) -> Vec<&TomlValue> {
    ["steps", "clone"]
        .into_iter()
        .filter_map(|key| table.get(key))
        .flat_map(|list| match &list.data {
            TomlData::Array(tables) => tables.as_slice(),
            _ => &[],
        })
        .filter_map(|table| table.as_table()?.get("user"))
        .filter_map(|user| user.as_table()?.get("password"))
        .filter(|value| !is_open(value))
        .collect()
}

/// Returns true for a password that is random or publicly known.
fn is_open(value: &TomlValue) -> bool {
    match &value.data {
        TomlData::String(text) => text == "random" || text.starts_with("published:"),
        _ => false,
    }
}
