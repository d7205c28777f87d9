//! A TOML tree that keeps the place of every value and key.
//!
//! Knows only TOML's types, not the meaning of keys. Does not use serde derives: untagged and
//! flattened types lose the spans that diagnostics need.

use std::collections::HashMap;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use crate::document::syntax_error;
use winimg_base::diag::Diagnostic;
use winimg_base::text::{Place, SourceText};

/// A value with its place.
#[derive(Clone, Debug)]
pub struct TomlValue {
    pub data: TomlData,
    pub place: Place,
    /// The text before variable substitution, if it has variables.
    pub template: Option<String>,
    /// The place that set the variable at the start of the text: the base of a relative path.
    pub base: Option<Place>,
    /// The text in `--set`, if it was not parsed as a string: `1.36` may be meant as one.
    pub loose: Option<String>,
    /// For a variable: its declaration, if this value was merged over it.
    pub declared: Option<Box<TomlValue>>,
    /// For a variable: the values from earlier files, in order.
    pub earlier: Vec<TomlValue>,
}

#[derive(Clone, Debug)]
pub enum TomlData {
    String(String),
    Integer(i64),
    Float(String),
    Bool(bool),
    Date(String),
    Array(Vec<TomlValue>),
    Table(TomlTable),
    /// A text with variables that have no value.
    /// [`undecided::settle`](crate::undecided::settle) keeps it where that is allowed.
    Undecided(Vec<MissingVariable>),
    /// Has an error that was reported already.
    Unknown,
}

/// Entries in the order of the text.
#[derive(Clone, Debug, Default)]
pub struct TomlTable {
    pub entries: Vec<TomlEntry>,
}

#[derive(Clone, Debug)]
pub struct TomlEntry {
    pub key: String,
    pub key_place: Place,
    pub value: TomlValue,
}

impl TomlValue {
    pub fn new(data: TomlData, place: Place) -> Self {
        Self {
            data,
            place,
            template: None,
            base: None,
            loose: None,
            declared: None,
            earlier: Vec::new(),
        }
    }

    /// Returns the type for messages: "a string".
    pub fn kind_name(&self) -> &'static str {
        match &self.data {
            TomlData::String(_) => "a string",
            TomlData::Integer(_) => "a whole number",
            TomlData::Float(_) => "a number with a fraction",
            TomlData::Bool(_) => "true or false",
            TomlData::Date(_) => "a date or time",
            TomlData::Array(_) => "a list",
            TomlData::Table(_) => "a table",
            TomlData::Undecided(_) => "a variable without a value",
            TomlData::Unknown => "unreadable",
        }
    }

    pub fn as_table(&self) -> Option<&TomlTable> {
        match &self.data {
            TomlData::Table(table) => Some(table),
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match &self.data {
            TomlData::String(text) => Some(text),
            _ => None,
        }
    }

    fn from_toml(value: &DeValue<'_>, place: Place, problems: &mut Vec<Diagnostic>) -> Self {
        let source = Arc::clone(&place.source);
        let data = match value {
            DeValue::String(text) => TomlData::String(text.to_string()),
            DeValue::Integer(number) => {
                match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => TomlData::Integer(number),
                    Err(_) => {
                        problems.push(
                            Diagnostic::error("the number is too large")
                                .at(&place, "does not fit 64 bits"),
                        );
                        TomlData::Unknown
                    }
                }
            }
            DeValue::Float(number) => TomlData::Float(number.as_str().to_string()),
            DeValue::Boolean(flag) => TomlData::Bool(*flag),
            DeValue::Datetime(date) => TomlData::Date(date.to_string()),
            DeValue::Array(items) => TomlData::Array(
                items
                    .iter()
                    .map(|item| {
                        let place = Place::new(&source, item.span());
                        Self::from_toml(item.get_ref(), place, problems)
                    })
                    .collect(),
            ),
            DeValue::Table(table) => {
                TomlData::Table(TomlTable::from_toml(table, &source, problems))
            }
        };
        Self::new(data, place)
    }
}

impl TomlTable {
    pub fn get(&self, key: &str) -> Option<&TomlValue> {
        self.find_entry(key).map(|e| &e.value)
    }

    pub fn find_entry(&self, key: &str) -> Option<&TomlEntry> {
        self.entries.iter().find(|e| e.key == key)
    }

    /// Indexes the entries by key, for many look-ups in a large table.
    pub fn by_key(&self) -> HashMap<&str, &TomlEntry> {
        self.entries
            .iter()
            // The first of equal keys wins, as for `entry`.
            .rev()
            .map(|entry| (entry.key.as_str(), entry))
            .collect()
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut TomlValue> {
        let entry = self.entries.iter_mut().find(|e| e.key == key);
        entry.map(|e| &mut e.value)
    }

    pub fn contains(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub fn remove(&mut self, key: &str) -> Option<TomlEntry> {
        let at = self.entries.iter().position(|e| e.key == key)?;
        Some(self.entries.remove(at))
    }

    fn from_toml(
        table: &DeTable<'_>,
        source: &Arc<SourceText>,
        problems: &mut Vec<Diagnostic>,
    ) -> Self {
        let mut entries: Vec<TomlEntry> = table
            .iter()
            .map(|(key, value)| TomlEntry {
                key: key.get_ref().to_string(),
                key_place: Place::new(source, key.span()),
                value: TomlValue::from_toml(
                    value.get_ref(),
                    Place::new(source, value.span()),
                    problems,
                ),
            })
            .collect();
        entries.sort_by_key(|e| e.key_place.span.start);
        Self { entries }
    }
}

/// Parses a whole file. Recovers from syntax errors; reports at most one per line.
pub fn parse(source: &Arc<SourceText>) -> (TomlTable, Vec<Diagnostic>) {
    let (document, errors) = DeTable::parse_recoverable(&source.text);
    let mut problems = Vec::new();
    let mut lines = Vec::new();
    for error in &errors {
        let span = error.span().unwrap_or(0..0);
        let place = Place::new(source, span);
        let (line, _) = place.line_column();
        if !lines.contains(&line) {
            lines.push(line);
            problems.push(syntax_error::explain_error(error.message(), &place));
        }
    }
    let table = TomlTable::from_toml(document.get_ref(), source, &mut problems);
    (table, problems)
}

/// Parses a value of `--set`; `None` if it is not TOML and therefore a string.
pub fn parse_value(text: &str, offset: usize, source: &Arc<SourceText>) -> Option<TomlValue> {
    let parsed = DeValue::parse(text).ok()?;
    let mut ignored = Vec::new();
    let place = Place::new(source, offset..offset + text.len());
    let mut value = TomlValue::from_toml(parsed.get_ref(), place, &mut ignored);
    shift(&mut value, offset);
    value.place = Place::new(source, offset..offset + text.len());
    if !matches!(
        value.data,
        TomlData::Table(_) | TomlData::Array(_) | TomlData::String(_)
    ) {
        value.loose = Some(text.trim().to_string());
    }
    Some(value)
}

/// Shifts the places of a value that was parsed from the middle of a text.
fn shift(value: &mut TomlValue, offset: usize) {
    match &mut value.data {
        TomlData::Array(items) => {
            for item in items {
                shift_place(&mut item.place, offset);
                shift(item, offset);
            }
        }
        TomlData::Table(table) => {
            for entry in &mut table.entries {
                shift_place(&mut entry.key_place, offset);
                shift_place(&mut entry.value.place, offset);
                shift(&mut entry.value, offset);
            }
        }
        _ => {}
    }
}

fn shift_place(place: &mut Place, offset: usize) {
    place.span = place.span.start + offset..place.span.end + offset;
}

/// A variable declared with `required` that has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingVariable {
    pub name: String,
    /// Description from its declaration: one sentence without a full stop.
    pub why: String,
}
