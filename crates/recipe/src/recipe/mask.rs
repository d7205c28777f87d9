//! Secrets in the text of a recipe or a matrix, overwritten byte for byte, so that no complaint can show them.

use std::sync::Arc;

use super::value::{self, Data, Table, Value};
use super::words;
use winimg_base::text::Source;

/// The text with the values of `[vars]` that would be secrets, users' passwords, and the user names in URLs, overwritten byte for byte,
/// so that no complaint about that file can show them.
pub fn mask_secrets(name: &str, text: String) -> String {
    let (table, mut bytes) = parse(name, text);
    let vars = table.get("vars").and_then(Value::as_table);
    for entry in vars.iter().flat_map(|t| &t.entries) {
        if words::is_secret(&entry.key) {
            mask_value(&entry.value, &mut bytes);
        }
    }
    for password in user_passwords(&table) {
        mask_value(password, &mut bytes);
    }
    mask_urls(&table, &mut bytes);
    String::from_utf8(bytes).unwrap_or_default()
}

/// The text of a matrix with the values of variables that would be secrets, what stands among the names of secrets and is none,
/// and the user names in URLs overwritten in the same way.
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

/// What was read, and the bytes to overwrite: those of lines that could not be read are overwritten already.
fn parse(name: &str, text: String) -> (Table, Vec<u8>) {
    let source = Arc::new(Source::new(name, text));
    let (table, broken) = value::parse(&source);
    let mut bytes = source.text.clone().into_bytes();
    if !broken.is_empty() {
        mask_lines(&source.text, &mut bytes);
    }
    (table, bytes)
}

/// Whatever is called as a secret would be.
fn mask_named(value: &Value, bytes: &mut [u8]) {
    match &value.data {
        Data::Array(items) => items.iter().for_each(|item| mask_named(item, bytes)),
        Data::Table(table) => {
            for entry in &table.entries {
                match words::is_secret(&entry.key) && !is_open(&entry.value) {
                    true => mask_value(&entry.value, bytes),
                    false => mask_named(&entry.value, bytes),
                }
            }
        }
        _ => {}
    }
}

/// `secrets` takes names: what is written there instead may be the secret itself.
fn mask_pipeline(table: &Table, bytes: &mut [u8]) {
    for entry in &table.entries {
        match &entry.value.data {
            Data::Table(inner) => mask_pipeline(inner, bytes),
            Data::Array(items) if entry.key == "secrets" => {
                let is_name = |item: &&Value| matches!(&item.data, Data::String(text) if words::is_environment_variable(text));
                let others = items.iter().filter(|item| !is_name(item));
                others.for_each(|item| mask_value(item, bytes));
            }
            Data::String(_) if entry.key == "secrets" => mask_value(&entry.value, bytes),
            _ => {}
        }
    }
}

/// The text with all that stands before an `@` in an address overwritten, comments and broken lines included.
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

/// Where the syntax is broken, the lines that look as if they gave a secret a value.
pub fn mask_lines(text: &str, bytes: &mut [u8]) {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if let Some((key, value)) = line.split_once('=')
            && words::is_secret(key.trim().trim_matches(['"', '\'']))
        {
            let value = start + line.len() - value.trim_start().len();
            mask(bytes, value..start + line.len(), b'*');
        }
        start += line.len();
    }
}

fn mask_urls(table: &Table, bytes: &mut [u8]) {
    for entry in &table.entries {
        mask_urls_in(&entry.key, &entry.value, bytes);
    }
}

fn mask_urls_in(key: &str, value: &Value, bytes: &mut [u8]) {
    match &value.data {
        Data::Table(inner) => mask_urls(inner, bytes),
        Data::Array(items) => items.iter().for_each(|item| mask_urls_in(key, item, bytes)),
        Data::String(_) if holds_url(key) => {
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

/// Whether a key's value is an address.
pub fn holds_url(key: &str) -> bool {
    key.ends_with("url") || ["certificate", "log", "catalog", "remote"].contains(&key)
}

/// Where the user name and password of a URL stand.
pub fn user_in_url(text: &str) -> Option<std::ops::Range<usize>> {
    let start = text.find("://")? + 3;
    let host = text[start..].split(['/', '?', '#']).next()?;
    let end = start + host.rfind('@')?;
    Some(start..end)
}

fn mask_value(value: &Value, bytes: &mut [u8]) {
    match &value.data {
        Data::Array(items) => items.iter().for_each(|v| mask_value(v, bytes)),
        Data::Table(table) => table
            .entries
            .iter()
            .for_each(|e| mask_value(&e.value, bytes)),
        Data::String(_) => mask(bytes, value.place.span.clone(), b'*'),
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

/// What `user` has in steps, and in clone checks, which take none, for a password that is neither made in the guest nor known to everybody: refused later on.
fn user_passwords(table: &Table) -> Vec<&Value> {
    let lists = ["steps", "clone"]
        .into_iter()
        .filter_map(|key| table.get(key));
    let tables = lists.flat_map(|list| match &list.data {
        Data::Array(tables) => tables.as_slice(),
        _ => &[],
    });
    let users = tables.filter_map(|table| table.as_table()?.get("user"));
    let given = users.filter_map(|user| user.as_table()?.get("password"));
    given.filter(|value| !is_open(value)).collect()
}

/// A password that is made in the guest, or known to everybody.
fn is_open(value: &Value) -> bool {
    match &value.data {
        Data::String(text) => text == "random" || text.starts_with("published:"),
        _ => false,
    }
}
