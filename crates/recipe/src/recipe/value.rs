//! A TOML tree in which every value and every key keeps its place.
//!
//! Knows TOML's types only; what a key means is decided in `lower`. Nothing here is derived from serde: untagged
//! and flattened types lose the spans that a complaint needs.

use std::collections::HashMap;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::slip;
use winimg_base::diag::Diagnostic;
use winimg_base::text::{Place, Source};

/// A value as written.
#[derive(Clone, Debug)]
pub struct Value {
    pub data: Data,
    pub place: Place,
    /// The text before variables were filled in, when it named any.
    pub template: Option<String>,
    /// Where the variable got its value that the text begins with: a relative path starts from there.
    pub base: Option<Place>,
    /// The text given to `--set` when TOML read something else than a string in it: `1.36` may be meant as one.
    pub loose: Option<String>,
    /// Of a variable: the table that declares it, where this value was laid over it.
    pub declared: Option<Box<Value>>,
    /// Of a variable: the values that earlier files gave it, the first one first.
    pub earlier: Vec<Value>,
}

#[derive(Clone, Debug)]
pub enum Data {
    String(String),
    Integer(i64),
    Float(String),
    Bool(bool),
    Date(String),
    Array(Vec<Value>),
    Table(Table),
    /// A text that names variables without a value. [`undecided::settle`](super::undecided::settle) leaves it where it can be.
    Undecided(Vec<Wanting>),
    /// Already complained about; whoever reads it stays silent.
    Unknown,
}

/// Entries in the order of the text.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub key: String,
    pub key_place: Place,
    pub value: Value,
}

impl Value {
    pub fn new(data: Data, place: Place) -> Self {
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

    /// Words for people: "a string".
    pub fn kind(&self) -> &'static str {
        match &self.data {
            Data::String(_) => "a string",
            Data::Integer(_) => "a whole number",
            Data::Float(_) => "a number with a fraction",
            Data::Bool(_) => "true or false",
            Data::Date(_) => "a date or time",
            Data::Array(_) => "a list",
            Data::Table(_) => "a table",
            Data::Undecided(_) => "a variable without a value",
            Data::Unknown => "unreadable",
        }
    }

    pub fn as_table(&self) -> Option<&Table> {
        match &self.data {
            Data::Table(table) => Some(table),
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match &self.data {
            Data::String(text) => Some(text),
            _ => None,
        }
    }

    fn from_toml(value: &DeValue<'_>, place: Place, problems: &mut Vec<Diagnostic>) -> Self {
        let source = Arc::clone(&place.source);
        let data = match value {
            DeValue::String(text) => Data::String(text.to_string()),
            DeValue::Integer(number) => {
                match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => Data::Integer(number),
                    Err(_) => {
                        problems.push(
                            Diagnostic::error("the number is too large")
                                .at(&place, "does not fit 64 bits"),
                        );
                        Data::Unknown
                    }
                }
            }
            DeValue::Float(number) => Data::Float(number.as_str().to_string()),
            DeValue::Boolean(flag) => Data::Bool(*flag),
            DeValue::Datetime(date) => Data::Date(date.to_string()),
            DeValue::Array(items) => Data::Array(
                items
                    .iter()
                    .map(|item| {
                        let place = Place::new(&source, item.span());
                        Self::from_toml(item.get_ref(), place, problems)
                    })
                    .collect(),
            ),
            DeValue::Table(table) => Data::Table(Table::from_toml(table, &source, problems)),
        };
        Self::new(data, place)
    }
}

impl Table {
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entry(key).map(|e| &e.value)
    }

    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.key == key)
    }

    /// The entries by their keys, for many look-ups in a large table.
    pub fn by_key(&self) -> HashMap<&str, &Entry> {
        // Of two equal keys the first one counts, as for `entry`.
        let entries = self.entries.iter().rev();
        entries.map(|entry| (entry.key.as_str(), entry)).collect()
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let entry = self.entries.iter_mut().find(|e| e.key == key);
        entry.map(|e| &mut e.value)
    }

    pub fn contains(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub fn remove(&mut self, key: &str) -> Option<Entry> {
        let at = self.entries.iter().position(|e| e.key == key)?;
        Some(self.entries.remove(at))
    }

    fn from_toml(
        table: &DeTable<'_>,
        source: &Arc<Source>,
        problems: &mut Vec<Diagnostic>,
    ) -> Self {
        let mut entries: Vec<Entry> = table
            .iter()
            .map(|(key, value)| Entry {
                key: key.get_ref().to_string(),
                key_place: Place::new(source, key.span()),
                value: Value::from_toml(
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

/// Reads a whole file. A syntax error does not stop the reading: what could be read comes back with the complaints,
/// at most one a line.
pub fn parse(source: &Arc<Source>) -> (Table, Vec<Diagnostic>) {
    let (document, errors) = DeTable::parse_recoverable(&source.text);
    let mut problems = Vec::new();
    let mut lines = Vec::new();
    for error in &errors {
        let span = error.span().unwrap_or(0..0);
        let place = Place::new(source, span);
        let (line, _) = place.line_column();
        if !lines.contains(&line) {
            lines.push(line);
            problems.push(slip::complaint(error.message(), &place));
        }
    }
    let table = Table::from_toml(document.get_ref(), source, &mut problems);
    (table, problems)
}

/// Reads one value, as given to `--set`; `None` when it is not TOML, and then it is meant as a string.
pub fn parse_value(text: &str, offset: usize, source: &Arc<Source>) -> Option<Value> {
    let parsed = DeValue::parse(text).ok()?;
    let mut ignored = Vec::new();
    let place = Place::new(source, offset..offset + text.len());
    let mut value = Value::from_toml(parsed.get_ref(), place, &mut ignored);
    shift(&mut value, offset);
    value.place = Place::new(source, offset..offset + text.len());
    if !matches!(
        value.data,
        Data::Table(_) | Data::Array(_) | Data::String(_)
    ) {
        value.loose = Some(text.trim().to_string());
    }
    Some(value)
}

/// Moves the places of a value that was read from the middle of a text.
fn shift(value: &mut Value, offset: usize) {
    let moved = |place: &mut Place| {
        place.span = place.span.start + offset..place.span.end + offset;
    };
    match &mut value.data {
        Data::Array(items) => {
            for item in items {
                moved(&mut item.place);
                shift(item, offset);
            }
        }
        Data::Table(table) => {
            for entry in &mut table.entries {
                moved(&mut entry.key_place);
                moved(&mut entry.value.place);
                shift(&mut entry.value, offset);
            }
        }
        _ => {}
    }
}

/// A variable that is declared with `required`, and has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanting {
    pub name: String,
    /// What it is and where to find it, as its pack says: one sentence without a full stop.
    pub why: String,
}
