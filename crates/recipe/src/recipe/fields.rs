//! Reading tables: each key asked for once, each type checked, each key that nobody asked for refused.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Effective;
use super::sources::{OUTSIDE, OUTSIDE_HELP, Sources};
use super::undecided::{self, MissingProof, Undecided};
use super::value::{Data, Table, Value, Wanting};
use super::vars::Scope;
use super::words;
use winimg_base::diag::{Diagnostic, nearest};
use winimg_base::digest::Digest;
use winimg_base::text::{Located, Place};

/// What the whole lowering shares.
pub struct Context<'a> {
    pub sources: &'a Sources,
    pub scope: &'a Scope,
    /// Not all files could be read: what is missing may be there, so nothing is called missing.
    pub incomplete: bool,
    /// `policy = "signed"`: a component without a signature is complained about.
    pub must_be_signed: Cell<bool>,
    /// What is read is a step that is skipped: its local files may be missing.
    pub is_skipped: Cell<bool>,
    /// The components that steps name, skipped ones too.
    pub used: RefCell<BTreeSet<String>>,
    problems: RefCell<Vec<Diagnostic>>,
    defaults: RefCell<Vec<Effective>>,
    key_files: RefCell<Vec<(String, Digest)>>,
    undecided: RefCell<Vec<Undecided>>,
}

impl<'a> Context<'a> {
    pub fn new(sources: &'a Sources, scope: &'a Scope, incomplete: bool) -> Self {
        Self {
            sources,
            scope,
            incomplete,
            must_be_signed: Cell::new(false),
            is_skipped: Cell::new(false),
            used: RefCell::default(),
            problems: RefCell::default(),
            defaults: RefCell::default(),
            key_files: RefCell::default(),
            undecided: RefCell::default(),
        }
    }

    pub fn problem(&self, diagnostic: Diagnostic) {
        self.problems.borrow_mut().push(diagnostic);
    }

    pub fn error(&self, fact: impl Into<String>, place: &Place, label: &str, help: &str) {
        let diagnostic = Diagnostic::error(fact).at(place, label);
        self.problem(match help {
            "" => diagnostic,
            help => diagnostic.help(help),
        });
    }

    /// A complaint about something that is not there; held back while files are unreadable.
    pub fn missing(&self, fact: impl Into<String>, place: &Place, help: &str) {
        if !self.incomplete {
            self.error(fact, place, "", help);
        }
    }

    /// A value nobody gave, for the list of effective values.
    pub fn default(&self, path: impl Into<String>, value: impl ToString) {
        self.defaults.borrow_mut().push(Effective {
            path: path.into(),
            value: value.to_string(),
            origin: "default".into(),
        });
    }

    /// A key file that was read, by its path as it is written: its content is a part of the recipe.
    pub fn key_file(&self, path: &str, digest: Digest) {
        self.key_files.borrow_mut().push((path.into(), digest));
    }

    /// The key files that were read, in an order that does not depend on that of the text.
    pub fn key_files(&self) -> Vec<(String, Digest)> {
        let mut files = self.key_files.borrow().clone();
        files.sort();
        files.dedup();
        files
    }

    /// Nothing proves this input yet.
    pub fn unproved(&self, missing: &MissingProof) {
        let missing = Undecided::Proof(missing.clone());
        self.undecided.borrow_mut().push(missing);
    }

    /// A step names this variable, which has no value.
    pub fn undecided_step(&self, step: &str, variable: Wanting, place: &Place) {
        undecided::add(&mut self.undecided.borrow_mut(), variable, step, place);
    }

    pub fn undecided(&self) -> Vec<Undecided> {
        self.undecided.borrow().clone()
    }

    /// The complaints, the defaults that were taken, and what a person must still decide.
    pub fn into_parts(self) -> (Vec<Diagnostic>, Vec<Effective>, Vec<Undecided>) {
        (
            self.problems.into_inner(),
            self.defaults.into_inner(),
            self.undecided.into_inner(),
        )
    }
}

/// One table being read.
pub struct Fields<'c> {
    pub cx: &'c Context<'c>,
    pub table: &'c Table,
    /// Words for people: "[machine]", "component `kubelet`", "step `x`".
    pub what: String,
    pub place: Place,
    known: RefCell<Vec<&'static str>>,
}

impl<'c> Fields<'c> {
    pub fn of(
        cx: &'c Context<'c>,
        table: &'c Table,
        what: impl Into<String>,
        place: &Place,
    ) -> Self {
        Self {
            cx,
            table,
            what: what.into(),
            place: place.clone(),
            known: RefCell::default(),
        }
    }

    /// The value as a table; complains when it is something else.
    pub fn open(cx: &'c Context<'c>, value: &'c Value, what: &str) -> Option<Self> {
        match &value.data {
            Data::Table(table) => Some(Self::of(cx, table, what, &value.place)),
            Data::Unknown => None,
            _ => {
                let fact = format!("{what} takes a table, not {}", value.kind());
                let help = "a table is written `{ key = value }`; an empty one `{}`";
                cx.error(fact, &value.place, value.kind(), help);
                None
            }
        }
    }

    pub fn get(&self, key: &'static str) -> Option<&'c Value> {
        self.known.borrow_mut().push(key);
        self.table.get(key)
    }

    pub fn has(&self, key: &str) -> bool {
        self.table.contains(key)
    }

    pub fn table(&self, key: &'static str, what: &str) -> Option<Self> {
        Self::open(self.cx, self.get(key)?, what)
    }

    fn wrong<T>(&self, key: &str, takes: &str, value: &Value) -> Option<T> {
        if !matches!(value.data, Data::Unknown) {
            let fact = format!("`{key}` takes {takes}, not {}", value.kind());
            let help = match &value.data {
                Data::Float(text) if takes.contains("string") => {
                    format!("put it in quotes: \"{text}\"")
                }
                Data::Integer(n) if takes.contains("string") => {
                    format!("put it in quotes: \"{n}\"")
                }
                Data::Integer(n) if takes.contains("size") => {
                    format!("say the unit: \"{n} MiB\" or \"{n} GiB\"")
                }
                Data::Integer(n) if takes.contains("time") => {
                    format!("say the unit: \"{n}s\" or \"{n}m\"")
                }
                _ => String::new(),
            };
            self.cx.error(fact, &value.place, value.kind(), &help);
        }
        None
    }

    pub fn string(&self, key: &'static str) -> Option<Located<String>> {
        let value = self.get(key)?;
        self.text_of(key, value)
    }

    pub fn text_of(&self, key: &str, value: &Value) -> Option<Located<String>> {
        let place = value.place.clone();
        match (&value.data, &value.loose) {
            (Data::String(text), _) => Some(Located::new(text.clone(), place)),
            (_, Some(loose)) => Some(Located::new(loose.clone(), place)),
            _ => self.wrong(key, "a string", value),
        }
    }

    /// Complains when the key is absent; `help` shows how to write it.
    pub fn need(&self, key: &'static str, help: &str) {
        if !self.has(key) {
            let fact = format!("{} has no `{key}`", self.what);
            self.cx.missing(fact, &self.place, help);
        }
    }

    pub fn needed_string(&self, key: &'static str, help: &str) -> Option<Located<String>> {
        self.need(key, help);
        let text = self.string(key)?;
        if text.value.trim().is_empty() {
            let fact = format!("`{key}` is empty");
            self.cx.error(fact, &text.place, "", help);
            return None;
        }
        Some(text)
    }

    pub fn text(&self, key: &'static str) -> Option<String> {
        self.string(key).map(|t| t.value)
    }

    pub fn boolean(&self, key: &'static str) -> Option<Located<bool>> {
        let value = self.get(key)?;
        let flag = match &value.data {
            Data::Bool(flag) => Some(*flag),
            Data::String(text) if value.template.is_some() => text.trim().parse().ok(),
            _ => None,
        };
        match flag {
            Some(flag) => Some(Located::new(flag, value.place.clone())),
            None => self.wrong(key, "true or false", value),
        }
    }

    pub fn integer(&self, key: &'static str, least: i64, most: i64) -> Option<Located<i64>> {
        let value = self.get(key)?;
        let number = self.integer_of(key, value)?;
        if number < least || number > most {
            let fact = format!("`{key}` is {number}; it goes from {least} to {most}");
            self.cx.error(fact, &value.place, "", "");
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
        number.or_else(|| self.wrong(key, "a whole number", value))
    }

    /// One of a few words.
    pub fn choice<T: Copy>(
        &self,
        key: &'static str,
        words: &[(&'static str, T)],
    ) -> Option<Located<T>> {
        let text = self.string(key)?;
        if let Some((_, meant)) = words.iter().find(|(word, _)| *word == text.value) {
            return Some(Located::new(*meant, text.place));
        }
        let allowed: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let fact = format!("`{key}` cannot be \"{}\"", text.value);
        let plain = text.value.to_lowercase().replace("reg_", "");
        let mut diagnostic = Diagnostic::error(fact).at(&text.place, "");
        if let Some(near) = nearest(&plain, allowed.iter().copied()) {
            diagnostic = diagnostic.help(format!("did you mean \"{near}\"?"));
        }
        let allowed = diagnostic.help(format!("it is one of: {}", allowed.join(", ")));
        self.cx.problem(allowed);
        None
    }

    pub fn list(&self, key: &'static str) -> Option<&'c [Value]> {
        let value = self.get(key)?;
        match &value.data {
            Data::Array(items) => Some(items),
            _ => self.wrong(key, "a list", value),
        }
    }

    pub fn strings(&self, key: &'static str) -> Vec<Located<String>> {
        let items = self.list(key).unwrap_or_default().iter();
        items.filter_map(|item| self.text_of(key, item)).collect()
    }

    pub fn texts(&self, key: &'static str) -> Vec<String> {
        self.strings(key).into_iter().map(|t| t.value).collect()
    }

    /// Bytes, from "64 GiB".
    pub fn size(&self, key: &'static str) -> Option<Located<u64>> {
        let text = self.quantity(key, "a size such as \"64 GiB\"")?;
        match super::quantity::size(&text.value) {
            Ok(bytes) => Some(Located::new(bytes, text.place)),
            Err(help) => {
                let fact = format!("`{key}` is not a size: \"{}\"", text.value);
                self.cx.error(fact, &text.place, "", &help);
                None
            }
        }
    }

    /// From "45m", "1h30m", "90s".
    pub fn duration(&self, key: &'static str) -> Option<Located<Duration>> {
        let text = self.quantity(key, "a time such as \"45m\"")?;
        self.duration_of(key, text)
    }

    pub fn duration_of(&self, key: &str, text: Located<String>) -> Option<Located<Duration>> {
        match super::quantity::duration(&text.value) {
            Ok(time) => Some(Located::new(time, text.place)),
            Err(help) => {
                let fact = format!("`{key}` is not a time: \"{}\"", text.value);
                self.cx.error(fact, &text.place, "", &help);
                None
            }
        }
    }

    /// A string with a unit in it: a bare number is refused with words that name the unit's shape.
    fn quantity(&self, key: &'static str, takes: &str) -> Option<Located<String>> {
        let value = self.get(key)?;
        match (&value.data, &value.loose) {
            (Data::String(text), _) => Some(Located::new(text.clone(), value.place.clone())),
            (_, Some(loose)) => Some(Located::new(loose.clone(), value.place.clone())),
            _ => self.wrong(key, takes, value),
        }
    }

    /// A local file or folder, relative to the file that names it; it has to exist, unless its step is skipped.
    pub fn local(&self, key: &'static str) -> Option<Located<PathBuf>> {
        let text = self.needed_string(key, "")?;
        let path = self.beside(key, &text);
        let is_skipped = self.cx.is_skipped.get();
        if self.cx.sources.is_outside(&path) {
            if is_skipped {
                let path = self.cx.sources.input(path);
                return Some(Located::new(path, text.place));
            }
            self.cx.error(OUTSIDE, &text.place, "", OUTSIDE_HELP);
            return None;
        }
        if !is_skipped && !path.exists() {
            let fact = format!("there is no file or folder {}", text.value);
            let help = format!("looked for {}", path.display());
            self.cx.error(fact, &text.place, "", &help);
            return None;
        }
        Some(Located::new(path, text.place))
    }

    /// The file or folder that a key's text names. It becomes one of the files that the recipe is made of.
    pub fn beside(&self, key: &str, text: &Located<String>) -> PathBuf {
        let base = self.table.get(key).and_then(|v| v.base.as_ref());
        let sources = self.cx.sources;
        sources.local(base.unwrap_or(&text.place), &text.value)
    }

    /// The folder that the key's relative path starts from: that of the file that says it, or of whoever set the
    /// variable that it begins with.
    pub fn folder(&self, key: &str, place: &Place) -> &Path {
        let base = self.table.get(key).and_then(|v| v.base.as_ref());
        self.cx.sources.folder(base.unwrap_or(place))
    }

    /// Refuses every key that nobody asked for.
    pub fn finish(&self) {
        self.finish_but(|_| false);
    }

    /// As `finish`, leaving alone the keys that `other` takes care of.
    pub fn finish_but(&self, other: impl Fn(&str) -> bool) {
        let mut known = self.known.borrow().clone();
        known.sort_unstable();
        known.dedup();
        for entry in &self.table.entries {
            if known.contains(&entry.key.as_str()) || other(&entry.key) {
                continue;
            }
            let fact = format!("unknown key `{}` in {}", entry.key, self.what);
            let mut diagnostic = Diagnostic::error(fact).at(&entry.key_place, "");
            let near = nearest(&entry.key, known.iter().copied());
            let strayed = words::of_the_top(&entry.key).filter(|_| has_own_line(&entry.key_place));
            let instead = strayed.or_else(|| words::foreign(&entry.key).map(String::from));
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

/// Whether nothing stands before it: a key between braces is meant for its table.
fn has_own_line(key: &Place) -> bool {
    let before = key.source.text.get(..key.span.start).unwrap_or("");
    let line = before.rsplit('\n').next().unwrap_or("");
    line.trim().is_empty()
}
