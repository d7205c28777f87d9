//! Reads tables by the rows of `keys.toml`: checks each type and refuses each key without a row.

mod paths;

use std::cell::Cell;
use std::time::Duration;

use serde::de::value::{Error, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer};

pub use crate::context::{LoweringContext, ReportedError};
use crate::document::value::{TomlData, TomlEntry, TomlTable, TomlValue};
use crate::keys::names;
use crate::keys::{self, KeyKind, TableSpec};
pub use paths::FileRequirement;
use winimg_base::diag::{Diagnostic, find_nearest};
use winimg_base::text::{Located, Place};

/// One table being read.
pub struct TableReader<'c> {
    pub cx: &'c LoweringContext<'c>,
    pub table: &'c TomlTable,
    /// Name in messages: "[machine]", "component `kubelet`", "step `x`".
    pub what: String,
    pub place: Place,
    spec: &'static TableSpec,
    is_wrong: Cell<bool>,
}

impl<'c> TableReader<'c> {
    /// Reads the value as a table with these keys. Complains if it is not a table, and about
    /// unknown and missing keys.
    pub fn open(cx: &'c LoweringContext<'c>, value: &'c TomlValue, keys: &str) -> Option<Self> {
        Self::open_as(cx, value, keys, keys::find_table(keys).title())
    }

    /// Like [`Self::open`], under another name in messages.
    pub fn open_as(
        cx: &'c LoweringContext<'c>,
        value: &'c TomlValue,
        keys: &str,
        what: String,
    ) -> Option<Self> {
        let fields = Self::open_unchecked(cx, value, keys, what)?;
        fields.ask();
        fields.refuse_unknown();
        Some(fields)
    }

    /// Like [`Self::called`], without checking its keys.
    pub fn open_unchecked(
        cx: &'c LoweringContext<'c>,
        value: &'c TomlValue,
        keys: &str,
        what: String,
    ) -> Option<Self> {
        match &value.data {
            TomlData::Table(table) => Some(Self::from_table(cx, table, keys, what, &value.place)),
            TomlData::Unknown => None,
            _ => {
                not_a_table(cx, value, &what);
                None
            }
        }
    }

    pub fn from_table(
        cx: &'c LoweringContext<'c>,
        table: &'c TomlTable,
        keys: &str,
        what: String,
        place: &Place,
    ) -> Self {
        Self {
            cx,
            table,
            what,
            place: place.clone(),
            spec: keys::find_table(keys),
            is_wrong: Cell::new(false),
        }
    }

    /// Returns true if nothing read so far was wrong.
    pub fn is_whole(&self) -> bool {
        !self.is_wrong.get()
    }

    fn report(&self, fact: impl Into<String>, place: &Place, help: &str) {
        self.is_wrong.set(true);
        self.cx.error(fact, place, "", help);
    }

    pub fn get(&self, key: &str) -> Option<&'c TomlValue> {
        self.table.get(&self.spec.key(key).name)
    }

    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub fn has_row(&self, key: &str) -> bool {
        self.spec.find(key).is_some()
    }

    /// Returns the words that the key accepts.
    pub fn allowed_words(&self, key: &str) -> &'static [String] {
        self.spec.key(key).takes.words()
    }

    /// Returns the first of the keys that is present.
    pub fn find_first(&self, keys: &[&str]) -> Option<&'c TomlEntry> {
        let given = keys.iter().find(|key| self.has(key));
        given.and_then(|key| self.table.find_entry(key))
    }

    /// Reads the table under the key, by that table's rows.
    pub fn read_table(&self, key: &str) -> Option<Self> {
        let value = self.get(key)?;
        let KeyKind::Table(keys) = &self.spec.key(key).takes else {
            panic!("`{key}` takes no table in keys.toml");
        };
        if !matches!(value.data, TomlData::Table(_)) && !self.help(key).is_empty() {
            return self.report_wrong_type(key, &self.spec.key(key).takes, value);
        }
        Self::open(self.cx, value, keys)
    }

    /// Like [`Self::table`]; an absent one is read as `empty`.
    pub fn table_or(&self, key: &str, empty: &'c TomlTable) -> Option<Self> {
        if self.has(key) {
            return self.read_table(key);
        }
        let what = keys::find_table(key).title();
        Some(Self::from_table(self.cx, empty, key, what, &self.place))
    }

    /// Returns the entries of a table whose keys the recipe chooses.
    pub fn map(&self, key: &str) -> &'c [TomlEntry] {
        match self.get(key).map(|value| (&value.data, value)) {
            Some((TomlData::Table(table), _)) => &table.entries,
            Some((TomlData::Unknown, _)) | None => &[],
            Some((_, value)) => {
                let what = match self.spec.name.as_str() {
                    "recipe" | "host" => format!("[{key}]"),
                    _ => format!("`{key}`"),
                };
                self.is_wrong.set(true);
                not_a_table(self.cx, value, &what);
                &[]
            }
        }
    }

    fn report_wrong_type<T>(&self, key: &str, takes: &KeyKind, value: &TomlValue) -> Option<T> {
        self.is_wrong.set(true);
        if matches!(value.data, TomlData::Unknown) {
            return None;
        }
        let (words, units) = match takes {
            KeyKind::Flag => ("true or false", None),
            KeyKind::Whole | KeyKind::Integer(..) => ("a whole number", None),
            KeyKind::List(_) | KeyKind::Nonempty(_) => ("a list", None),
            KeyKind::Table(_) => ("a table", None),
            KeyKind::Size => ("a size such as \"64 GiB\"", Some([" MiB", " GiB"])),
            KeyKind::Time => ("a time such as \"45m\"", Some(["s", "m"])),
            _ => ("a string", Some(["", ""])),
        };
        let help = match (&value.data, units) {
            (TomlData::Integer(n), Some(["", _])) => format!("put it in quotes: \"{n}\""),
            (TomlData::Float(text), Some(["", _])) => format!("put it in quotes: \"{text}\""),
            (TomlData::Integer(n), Some([small, large])) => {
                format!("add a unit: \"{n}{small}\" or \"{n}{large}\"")
            }
            _ if matches!(takes, KeyKind::Table(_)) => self.help(key).to_owned(),
            _ => String::new(),
        };
        let fact = format!("`{key}` takes {words}, not {}", value.kind_name());
        self.cx.error(fact, &value.place, value.kind_name(), &help);
        None
    }

    /// Returns the default of an absent key.
    fn default(&self, key: &str) -> Option<Located<String>> {
        let row = self.spec.key(key);
        let default = row.default.as_ref()?;
        if self.spec.lists_defaults {
            let shown = match row.takes {
                KeyKind::Flag | KeyKind::Whole | KeyKind::Integer(..) => default.clone(),
                _ => format!("\"{default}\""),
            };
            self.cx.default(format!("{}.{key}", self.spec.name), shown);
        }
        Some(Located::new(default.clone(), self.place.clone()))
    }

    /// Reads a string, possibly with a unit; `--set` may have parsed it as another type.
    fn text_of(&self, key: &str, takes: &KeyKind, value: &TomlValue) -> Option<Located<String>> {
        let place = value.place.clone();
        match (&value.data, &value.loose) {
            (TomlData::String(text), _) => Some(Located::new(text.clone(), place)),
            (_, Some(loose)) => Some(Located::new(loose.clone(), place)),
            _ => self.report_wrong_type(key, takes, value),
        }
    }

    /// Reads a string; refuses an empty one if the row says so.
    pub fn read_string(&self, key: &str) -> Option<Located<String>> {
        let row = self.spec.key(key);
        let Some(value) = self.get(key) else {
            return self.default(key);
        };
        let text = self.text_of(key, &row.takes, value)?;
        if row.takes.refuses_empty() && text.value.trim().is_empty() {
            self.report(format!("`{key}` is empty"), &text.place, row.help());
            return None;
        }
        Some(text)
    }

    /// Returns true if the key's text is this word, which has a special meaning there.
    pub fn string_is(&self, key: &str, word: &str) -> bool {
        let said = self.get(key).map(|value| &value.data);
        matches!(said, Some(TomlData::String(text)) if text == word)
    }

    /// Returns the help on writing the key.
    pub fn help(&self, key: &str) -> &'static str {
        self.spec.key(key).help()
    }

    pub fn read_text(&self, key: &str) -> Option<String> {
        self.read_string(key).map(|t| t.value)
    }

    /// Complains if the key is absent; `help` shows how to write it.
    pub fn require(&self, key: &str, help: &str) {
        if !self.has(key) {
            let fact = format!("{} has no `{key}`", self.what);
            self.cx.report_missing(fact, &self.place, help);
        }
    }

    /// Reports missing required keys.
    pub fn ask(&self) {
        for key in self.spec.keys.iter().filter(|key| key.needed.is_some()) {
            self.require(&key.name, key.help());
        }
    }

    pub fn read_bool(&self, key: &str) -> Option<Located<bool>> {
        let Some(value) = self.get(key) else {
            let default = self.default(key)?;
            return Some(Located::new(default.value == "true", default.place));
        };
        let flag = match &value.data {
            TomlData::Bool(flag) => Some(*flag),
            TomlData::String(text) if value.template.is_some() => text.trim().parse().ok(),
            _ => None,
        };
        match flag {
            Some(flag) => Some(Located::new(flag, value.place.clone())),
            None => self.report_wrong_type(key, &KeyKind::Flag, value),
        }
    }

    /// Like [`Self::read_bool`]; a wrong value counts as absent.
    pub fn flag(&self, key: &str) -> bool {
        match self.read_bool(key) {
            Some(flag) => flag.value,
            None => self.spec.key(key).default.as_deref() == Some("true"),
        }
    }

    pub fn read_integer(&self, key: &str) -> Option<Located<i64>> {
        let row = self.spec.key(key);
        let Some(value) = self.get(key) else {
            let default = self.default(key)?;
            return Some(Located::new(default.value.parse().ok()?, default.place));
        };
        let number = self.integer_of(key, value)?;
        if let KeyKind::Integer(least, most) = row.takes
            && !(least..=most).contains(&number)
        {
            let fact = format!("`{key}` is {number}; it must be from {least} to {most}");
            self.report(fact, &value.place, "");
            return None;
        }
        Some(Located::new(number, value.place.clone()))
    }

    pub fn integer_of(&self, key: &str, value: &TomlValue) -> Option<i64> {
        let number = match &value.data {
            TomlData::Integer(number) => Some(*number),
            // Variables are text.
            TomlData::String(text) if value.template.is_some() => text.trim().parse().ok(),
            _ => None,
        };
        number.or_else(|| self.report_wrong_type(key, &KeyKind::Whole, value))
    }

    /// Reads one of the row's words.
    pub fn read_word(&self, key: &str) -> Option<Located<&'static str>> {
        let words = self.spec.key(key).takes.words();
        let text = self.read_string(key)?;
        if let Some(word) = words.iter().find(|word| **word == text.value) {
            return Some(Located::new(word, text.place));
        }
        self.is_wrong.set(true);
        let fact = format!("`{key}` cannot be \"{}\"", text.value);
        let plain = text.value.to_lowercase().replace("reg_", "");
        let mut diagnostic = Diagnostic::error(fact).at(&text.place, "");
        if let Some(near) = find_nearest(&plain, words.iter().map(String::as_str)) {
            diagnostic = diagnostic.help(format!("did you mean \"{near}\"?"));
        }
        let allowed = diagnostic.help(format!("it is one of: {}", words.join(", ")));
        self.cx.report(allowed);
        None
    }

    /// Reads a word and converts it to the variant of that serde name.
    pub fn read_choice<T: DeserializeOwned>(&self, key: &str) -> Option<Located<T>> {
        let word = self.read_word(key)?;
        Some(Located::new(parse_word(word.value), word.place))
    }

    /// Returns true if the key has this word; a wrong one counts as absent.
    pub fn is(&self, key: &str, word: &str) -> bool {
        let said = self.read_word(key).map(|said| said.value);
        said.or(self.spec.key(key).default.as_deref()) == Some(word)
    }

    pub fn list(&self, key: &str) -> Option<&'c [TomlValue]> {
        let value = self.get(key)?;
        let takes = &self.spec.key(key).takes;
        match &value.data {
            TomlData::Array(items) if items.is_empty() && matches!(takes, KeyKind::Nonempty(_)) => {
                let help = match self.help(key) {
                    "" => "omit it, or list at least one",
                    help => help,
                };
                self.report(format!("`{key}` is an empty list"), &value.place, help);
                None
            }
            TomlData::Array(items) => Some(items),
            _ => self.report_wrong_type(key, takes, value),
        }
    }

    pub fn read_strings(&self, key: &str) -> Vec<Located<String>> {
        let items = self.list(key).unwrap_or_default();
        items
            .iter()
            .filter_map(|item| self.text_of(key, &KeyKind::Text, item))
            .collect()
    }

    pub fn read_texts(&self, key: &str) -> Vec<String> {
        self.read_strings(key)
            .into_iter()
            .map(|t| t.value)
            .collect()
    }

    /// Reads a size, such as "64 GiB", in bytes.
    pub fn size(&self, key: &str) -> Option<Located<u64>> {
        let text = self.read_string(key)?;
        match crate::quantity::size(&text.value) {
            Ok(bytes) => Some(Located::new(bytes, text.place)),
            Err(help) => {
                let fact = format!("`{key}` is not a size: \"{}\"", text.value);
                self.report(fact, &text.place, &help);
                None
            }
        }
    }

    /// Reads a duration: "45m", "1h30m", "90s".
    pub fn read_duration(&self, key: &str) -> Option<Located<Duration>> {
        self.duration_of(key, self.read_string(key)?)
    }

    pub fn duration_of(&self, key: &str, text: Located<String>) -> Option<Located<Duration>> {
        match crate::quantity::parse_duration(&text.value) {
            Ok(time) => Some(Located::new(time, text.place)),
            Err(help) => {
                let fact = format!("`{key}` is not a time: \"{}\"", text.value);
                self.report(fact, &text.place, &help);
                None
            }
        }
    }

    /// Refuses every key that has no row.
    pub fn refuse_unknown(&self) {
        let known = self.spec.names();
        for entry in &self.table.entries {
            if self.spec.find(&entry.key).is_some() {
                continue;
            }
            let fact = format!("unknown key `{}` in {}", entry.key, self.what);
            let mut diagnostic = Diagnostic::error(fact).at(&entry.key_place, "");
            let near = find_nearest(&entry.key, known.iter().copied());
            let is_recipe = !self.spec.is_of_host() && !self.spec.is_of_matrix();
            let strayed = names::of_the_top(&entry.key)
                .filter(|_| is_recipe && has_own_line(&entry.key_place));
            let instead =
                strayed.or_else(|| keys::suggest_replacement(&entry.key).map(String::from));
            diagnostic = match (near, instead) {
                (_, Some(instead)) => diagnostic.help(instead),
                (Some(near), _) => diagnostic.help(format!("did you mean `{near}`?")),
                (None, None) if known.is_empty() => diagnostic.help("it has no keys"),
                (None, None) => diagnostic.help(format!("its keys: {}", known.join(", "))),
            };
            self.cx.report(diagnostic);
        }
    }
}

fn not_a_table(cx: &LoweringContext<'_>, value: &TomlValue, what: &str) {
    let fact = format!("{what} takes a table, not {}", value.kind_name());
    let help = "a table is written `{ key = value }`; an empty one `{}`";
    cx.error(fact, &value.place, value.kind_name(), help);
}

/// Returns the variant with this serde name.
///
/// # Panics
///
/// Panics if there is none: a row of `keys.toml` has a word that its type does not have.
pub fn parse_word<T: DeserializeOwned>(word: &str) -> T {
    let word: StrDeserializer<'_, Error> = word.into_deserializer();
    T::deserialize(word).expect("a word that the key's type has too")
}

/// Returns true if the key starts its line: a key between braces is meant for its table.
fn has_own_line(key: &Place) -> bool {
    let before = key.source.text.get(..key.span.start).unwrap_or("");
    let line = before.rsplit('\n').next().unwrap_or("");
    line.trim().is_empty()
}
