//! Reading tables by the rows of `keys.toml`: each type checked, each key without a row refused.

mod paths;

use std::cell::Cell;
use std::time::Duration;

use serde::de::value::{Error, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer};

pub use super::context::Context;
use super::keys::{self, Kind, Spec};
use super::value::{Data, Entry, Table, Value};
use super::words;
use winimg_base::diag::{Diagnostic, nearest};
use winimg_base::text::{Located, Place};

/// One table being read.
pub struct Fields<'c> {
    pub cx: &'c Context<'c>,
    pub table: &'c Table,
    /// Words for people: "[machine]", "component `kubelet`", "step `x`".
    pub what: String,
    pub place: Place,
    spec: &'static Spec,
    is_wrong: Cell<bool>,
}

impl<'c> Fields<'c> {
    /// The value as the table of these keys; complains when it is something else, of keys that the table does not have,
    /// and of those that it needs.
    pub fn open(cx: &'c Context<'c>, value: &'c Value, keys: &str) -> Option<Self> {
        Self::called(cx, value, keys, keys::of(keys).title())
    }

    /// The same, under another name in messages.
    pub fn called(cx: &'c Context<'c>, value: &'c Value, keys: &str, what: String) -> Option<Self> {
        let fields = Self::unchecked(cx, value, keys, what)?;
        fields.ask();
        fields.refuse_unknown();
        Some(fields)
    }

    /// The same, of whose keys nothing is said yet.
    pub fn unchecked(
        cx: &'c Context<'c>,
        value: &'c Value,
        keys: &str,
        what: String,
    ) -> Option<Self> {
        match &value.data {
            Data::Table(table) => Some(Self::of(cx, table, keys, what, &value.place)),
            Data::Unknown => None,
            _ => {
                not_a_table(cx, value, &what);
                None
            }
        }
    }

    pub fn of(
        cx: &'c Context<'c>,
        table: &'c Table,
        keys: &str,
        what: String,
        place: &Place,
    ) -> Self {
        Self {
            cx,
            table,
            what,
            place: place.clone(),
            spec: keys::of(keys),
            is_wrong: Cell::new(false),
        }
    }

    /// Whether nothing was wrong with what was read of it until now.
    pub fn is_whole(&self) -> bool {
        !self.is_wrong.get()
    }

    fn complain(&self, fact: impl Into<String>, place: &Place, help: &str) {
        self.is_wrong.set(true);
        self.cx.error(fact, place, "", help);
    }

    pub fn get(&self, key: &str) -> Option<&'c Value> {
        self.table.get(&self.spec.key(key).name)
    }

    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub fn knows(&self, key: &str) -> bool {
        self.spec.find(key).is_some()
    }

    /// The words that the key takes.
    pub fn words(&self, key: &str) -> &'static [String] {
        self.spec.key(key).takes.words()
    }

    /// The first of the keys that is given.
    pub fn first(&self, keys: &[&str]) -> Option<&'c Entry> {
        let given = keys.iter().find(|key| self.has(key));
        given.and_then(|key| self.table.entry(key))
    }

    /// The table that the key takes, by that table's rows.
    pub fn table(&self, key: &str) -> Option<Self> {
        let value = self.get(key)?;
        let Kind::Table(keys) = &self.spec.key(key).takes else {
            panic!("`{key}` takes no table in keys.toml");
        };
        if !matches!(value.data, Data::Table(_)) && !self.help(key).is_empty() {
            return self.wrong(key, &self.spec.key(key).takes, value);
        }
        Self::open(self.cx, value, keys)
    }

    /// The same; where it is left out, as if `empty` were written.
    pub fn table_or(&self, key: &str, empty: &'c Table) -> Option<Self> {
        if self.has(key) {
            return self.table(key);
        }
        let what = keys::of(key).title();
        Some(Self::of(self.cx, empty, key, what, &self.place))
    }

    /// The entries of a table whose names are the recipe's own.
    pub fn map(&self, key: &str) -> &'c [Entry] {
        match self.get(key).map(|value| (&value.data, value)) {
            Some((Data::Table(table), _)) => &table.entries,
            Some((Data::Unknown, _)) | None => &[],
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

    fn wrong<T>(&self, key: &str, takes: &Kind, value: &Value) -> Option<T> {
        self.is_wrong.set(true);
        if matches!(value.data, Data::Unknown) {
            return None;
        }
        let (words, units) = match takes {
            Kind::Flag => ("true or false", None),
            Kind::Whole | Kind::Integer(..) => ("a whole number", None),
            Kind::List(_) | Kind::Nonempty(_) => ("a list", None),
            Kind::Table(_) => ("a table", None),
            Kind::Size => ("a size such as \"64 GiB\"", Some([" MiB", " GiB"])),
            Kind::Time => ("a time such as \"45m\"", Some(["s", "m"])),
            _ => ("a string", Some(["", ""])),
        };
        let help = match (&value.data, units) {
            (Data::Integer(n), Some(["", _])) => format!("put it in quotes: \"{n}\""),
            (Data::Float(text), Some(["", _])) => format!("put it in quotes: \"{text}\""),
            (Data::Integer(n), Some([small, large])) => {
                format!("say the unit: \"{n}{small}\" or \"{n}{large}\"")
            }
            _ if matches!(takes, Kind::Table(_)) => self.help(key).to_owned(),
            _ => String::new(),
        };
        let fact = format!("`{key}` takes {words}, not {}", value.kind());
        self.cx.error(fact, &value.place, value.kind(), &help);
        None
    }

    /// What is read of a key that is left out.
    fn default(&self, key: &str) -> Option<Located<String>> {
        let row = self.spec.key(key);
        let default = row.default.as_ref()?;
        if self.spec.lists_defaults {
            let shown = match row.takes {
                Kind::Flag | Kind::Whole | Kind::Integer(..) => default.clone(),
                _ => format!("\"{default}\""),
            };
            self.cx.default(format!("{}.{key}", self.spec.name), shown);
        }
        Some(Located::new(default.clone(), self.place.clone()))
    }

    /// A text, or a text with a unit in it; `--set` may have taken it for something else.
    fn text_of(&self, key: &str, takes: &Kind, value: &Value) -> Option<Located<String>> {
        let place = value.place.clone();
        match (&value.data, &value.loose) {
            (Data::String(text), _) => Some(Located::new(text.clone(), place)),
            (_, Some(loose)) => Some(Located::new(loose.clone(), place)),
            _ => self.wrong(key, takes, value),
        }
    }

    /// A string; not empty where the row says so.
    pub fn string(&self, key: &str) -> Option<Located<String>> {
        let row = self.spec.key(key);
        let Some(value) = self.get(key) else {
            return self.default(key);
        };
        let text = self.text_of(key, &row.takes, value)?;
        if row.takes.refuses_empty() && text.value.trim().is_empty() {
            self.complain(format!("`{key}` is empty"), &text.place, row.help());
            return None;
        }
        Some(text)
    }

    /// Whether the text that the key takes is this word, which means something of its own there.
    pub fn string_is(&self, key: &str, word: &str) -> bool {
        let said = self.get(key).map(|value| &value.data);
        matches!(said, Some(Data::String(text)) if text == word)
    }

    /// How to write the key.
    pub fn help(&self, key: &str) -> &'static str {
        self.spec.key(key).help()
    }

    pub fn text(&self, key: &str) -> Option<String> {
        self.string(key).map(|t| t.value)
    }

    /// Complains when the key is absent; `help` shows how to write it.
    pub fn need(&self, key: &str, help: &str) {
        if !self.has(key) {
            let fact = format!("{} has no `{key}`", self.what);
            self.cx.missing(fact, &self.place, help);
        }
    }

    /// Complains of the keys that the table needs and does not have.
    pub fn ask(&self) {
        for key in self.spec.keys.iter().filter(|key| key.needed.is_some()) {
            self.need(&key.name, key.help());
        }
    }

    pub fn boolean(&self, key: &str) -> Option<Located<bool>> {
        let Some(value) = self.get(key) else {
            let default = self.default(key)?;
            return Some(Located::new(default.value == "true", default.place));
        };
        let flag = match &value.data {
            Data::Bool(flag) => Some(*flag),
            Data::String(text) if value.template.is_some() => text.trim().parse().ok(),
            _ => None,
        };
        match flag {
            Some(flag) => Some(Located::new(flag, value.place.clone())),
            None => self.wrong(key, &Kind::Flag, value),
        }
    }

    /// The same; a wrong one counts as left out.
    pub fn flag(&self, key: &str) -> bool {
        let default = || self.spec.key(key).default.as_deref() == Some("true");
        self.boolean(key).map_or_else(default, |flag| flag.value)
    }

    pub fn integer(&self, key: &str) -> Option<Located<i64>> {
        let row = self.spec.key(key);
        let Some(value) = self.get(key) else {
            let default = self.default(key)?;
            return Some(Located::new(default.value.parse().ok()?, default.place));
        };
        let number = self.integer_of(key, value)?;
        if let Kind::Integer(least, most) = row.takes
            && !(least..=most).contains(&number)
        {
            let fact = format!("`{key}` is {number}; it goes from {least} to {most}");
            self.complain(fact, &value.place, "");
            return None;
        }
        Some(Located::new(number, value.place.clone()))
    }

    pub fn integer_of(&self, key: &str, value: &Value) -> Option<i64> {
        let number = match &value.data {
            Data::Integer(number) => Some(*number),
            // Variables are text.
            Data::String(text) if value.template.is_some() => text.trim().parse().ok(),
            _ => None,
        };
        number.or_else(|| self.wrong(key, &Kind::Whole, value))
    }

    /// One of the row's words.
    pub fn word(&self, key: &str) -> Option<Located<&'static str>> {
        let words = self.spec.key(key).takes.words();
        let text = self.string(key)?;
        if let Some(word) = words.iter().find(|word| **word == text.value) {
            return Some(Located::new(word, text.place));
        }
        self.is_wrong.set(true);
        let fact = format!("`{key}` cannot be \"{}\"", text.value);
        let plain = text.value.to_lowercase().replace("reg_", "");
        let mut diagnostic = Diagnostic::error(fact).at(&text.place, "");
        if let Some(near) = nearest(&plain, words.iter().map(String::as_str)) {
            diagnostic = diagnostic.help(format!("did you mean \"{near}\"?"));
        }
        let allowed = diagnostic.help(format!("it is one of: {}", words.join(", ")));
        self.cx.problem(allowed);
        None
    }

    /// What the word means: the variant that serde knows by it.
    pub fn choice<T: DeserializeOwned>(&self, key: &str) -> Option<Located<T>> {
        let word = self.word(key)?;
        Some(Located::new(meant(word.value), word.place))
    }

    /// Whether the key says this word; a wrong one counts as left out.
    pub fn is(&self, key: &str, word: &str) -> bool {
        let said = self.word(key).map(|said| said.value);
        said.or(self.spec.key(key).default.as_deref()) == Some(word)
    }

    pub fn list(&self, key: &str) -> Option<&'c [Value]> {
        let value = self.get(key)?;
        let takes = &self.spec.key(key).takes;
        match &value.data {
            Data::Array(items) if items.is_empty() && matches!(takes, Kind::Nonempty(_)) => {
                let help = match self.help(key) {
                    "" => "leave it out, or name some",
                    help => help,
                };
                self.complain(format!("`{key}` is an empty list"), &value.place, help);
                None
            }
            Data::Array(items) => Some(items),
            _ => self.wrong(key, takes, value),
        }
    }

    pub fn strings(&self, key: &str) -> Vec<Located<String>> {
        let items = self.list(key).unwrap_or_default().iter();
        let texts = items.filter_map(|item| self.text_of(key, &Kind::Text, item));
        texts.collect()
    }

    pub fn texts(&self, key: &str) -> Vec<String> {
        self.strings(key).into_iter().map(|t| t.value).collect()
    }

    /// Bytes, from "64 GiB".
    pub fn size(&self, key: &str) -> Option<Located<u64>> {
        let text = self.string(key)?;
        match super::quantity::size(&text.value) {
            Ok(bytes) => Some(Located::new(bytes, text.place)),
            Err(help) => {
                let fact = format!("`{key}` is not a size: \"{}\"", text.value);
                self.complain(fact, &text.place, &help);
                None
            }
        }
    }

    /// From "45m", "1h30m", "90s".
    pub fn duration(&self, key: &str) -> Option<Located<Duration>> {
        self.duration_of(key, self.string(key)?)
    }

    pub fn duration_of(&self, key: &str, text: Located<String>) -> Option<Located<Duration>> {
        match super::quantity::duration(&text.value) {
            Ok(time) => Some(Located::new(time, text.place)),
            Err(help) => {
                let fact = format!("`{key}` is not a time: \"{}\"", text.value);
                self.complain(fact, &text.place, &help);
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
            let near = nearest(&entry.key, known.iter().copied());
            let is_recipe = !self.spec.is_of_host() && !self.spec.is_of_matrix();
            let strayed = words::of_the_top(&entry.key)
                .filter(|_| is_recipe && has_own_line(&entry.key_place));
            let instead = strayed.or_else(|| keys::instead(&entry.key).map(String::from));
            diagnostic = match (near, instead) {
                (_, Some(instead)) => diagnostic.help(instead),
                (Some(near), _) => diagnostic.help(format!("did you mean `{near}`?")),
                (None, None) if known.is_empty() => diagnostic.help("it has no keys"),
                (None, None) => diagnostic.help(format!("its keys: {}", known.join(", "))),
            };
            self.cx.problem(diagnostic);
        }
    }
}

fn not_a_table(cx: &Context<'_>, value: &Value, what: &str) {
    let fact = format!("{what} takes a table, not {}", value.kind());
    let help = "a table is written `{ key = value }`; an empty one `{}`";
    cx.error(fact, &value.place, value.kind(), help);
}

/// The variant that serde knows by this word.
///
/// # Panics
///
/// When there is none: a row of `keys.toml` has a word that its type does not have.
pub fn meant<T: DeserializeOwned>(word: &str) -> T {
    let word: StrDeserializer<'_, Error> = word.into_deserializer();
    T::deserialize(word).expect("a word that the key's type has too")
}

/// Whether nothing stands before it: a key between braces is meant for its table.
fn has_own_line(key: &Place) -> bool {
    let before = key.source.text.get(..key.span.start).unwrap_or("");
    let line = before.rsplit('\n').next().unwrap_or("");
    line.trim().is_empty()
}
