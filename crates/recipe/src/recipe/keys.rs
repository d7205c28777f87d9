//! The keys of every table of a recipe, of a host's configuration file and of a matrix (`keys.toml`): what the reader may ask for, and what it says of a key that is
//! missing, misspelt or of the wrong type. The JSON Schema, the tables of docs/recipe.md and the tests of complaints are
//! made of the same rows.
//!
//! A key that has no row cannot be read: [`Spec::key`] refuses it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// One table of a recipe.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// What rows and the reader call it by; that of a verb's table is the verb.
    pub name: String,
    /// What messages call it, where that is not its name.
    title: Option<String>,
    #[serde(default)]
    pub doc: String,
    /// Several files may say a part of it each, so that no single one needs all.
    #[serde(default)]
    pub is_merged: bool,
    /// `winimg plan` lists the defaults that were taken.
    #[serde(default)]
    pub lists_defaults: bool,
    /// Another table whose keys it has too.
    pub with: Option<String>,
    /// In the order of the reference.
    pub keys: Vec<Key>,
}

/// One key of a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    #[serde(rename = "key")]
    pub name: String,
    #[serde(default)]
    pub takes: Kind,
    pub doc: String,
    /// A table without it is refused, with this cure. It is also the cure for an empty one.
    pub needed: Option<String>,
    /// The cure for an empty one that not every table needs.
    help: Option<String>,
    /// What is read where the key is left out.
    pub default: Option<String>,
    /// In words, what is meant where the key is left out, when that is no single value.
    pub unless_given: Option<String>,
    /// Exactly one of the keys so marked is in the table.
    #[serde(default)]
    pub one_of: bool,
    /// What its texts, or the names in its table, have to look like; the reader says it in its own words.
    pub pattern: Option<String>,
}

/// What a key takes. Every text may name variables, and so may what stands for a text: a size, a word, a number.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Not empty.
    #[default]
    String,
    Text,
    Flag,
    /// A whole number.
    Whole,
    /// A whole number from the first to the second, both included.
    Integer(i64, i64),
    /// `64 GiB`
    Size,
    /// `1h30m`
    Time,
    /// One of these.
    Word(Vec<String>),
    /// Absolute, `C:\…`
    GuestPath,
    /// A text, or a list of its lines.
    Lines,
    Anything,
    List(Box<Kind>),
    /// A list that is not empty.
    Nonempty(Box<Kind>),
    /// Names of the recipe's own, and what each takes.
    Map(Box<Kind>),
    /// The table of this name.
    Table(String),
    Either(Vec<Kind>),
    /// A signature's table, by its `kind`.
    Signature,
    /// A signature's table, or several; `true` for those of a checksum file.
    Signatures(bool),
}

impl Spec {
    /// What messages call the table.
    pub fn title(&self) -> String {
        self.title
            .clone()
            .unwrap_or_else(|| format!("`{}`", self.name))
    }

    /// Whether it is of a host's configuration file, and of no recipe.
    pub fn is_of_host(&self) -> bool {
        self.name == "host" || self.name.starts_with("host.")
    }

    /// Whether it is of a matrix's file, and of no recipe.
    pub fn is_of_matrix(&self) -> bool {
        self.name == "matrix" || self.name.starts_with("matrix.")
    }

    pub fn find(&self, name: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// The row of a key that the reader asks for.
    ///
    /// # Panics
    ///
    /// When `keys.toml` has none.
    pub fn key(&self, name: &str) -> &Key {
        let found = self.find(name);
        found.unwrap_or_else(|| panic!("keys.toml has no `{name}` in `{}`", self.name))
    }

    /// Sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.keys.iter().map(|key| key.name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// The names of the keys of which exactly one is given.
    pub fn alternatives(&self) -> impl Iterator<Item = &str> {
        let marked = self.keys.iter().filter(|key| key.one_of);
        marked.map(|key| key.name.as_str())
    }
}

impl Key {
    /// The cure for one that is missing or empty.
    pub fn help(&self) -> &str {
        let help = self.needed.as_ref().or(self.help.as_ref());
        help.map_or("", String::as_str)
    }
}

impl Kind {
    /// Whether a text of blanks says nothing here.
    pub fn refuses_empty(&self) -> bool {
        match self {
            Self::String | Self::GuestPath => true,
            Self::Either(kinds) => kinds.iter().any(Self::refuses_empty),
            _ => false,
        }
    }

    /// The words that it takes.
    pub fn words(&self) -> &[String] {
        match self {
            Self::Word(words) => words,
            Self::List(kind) | Self::Nonempty(kind) | Self::Map(kind) => kind.words(),
            Self::Either(kinds) => kinds.first().map_or(&[], Self::words),
            _ => &[],
        }
    }

    /// Whether it is written under a header of its own, `[machine]`.
    pub fn has_header(&self) -> bool {
        match self {
            Self::Table(_) | Self::Map(_) => true,
            Self::List(kind) => kind.has_header(),
            _ => false,
        }
    }
}

#[derive(Deserialize)]
struct File {
    table: Vec<Spec>,
    instead: BTreeMap<String, String>,
}

static FILE: LazyLock<File> =
    LazyLock::new(|| toml::from_str(include_str!("keys.toml")).expect("keys.toml"));

static SPECS: LazyLock<BTreeMap<String, Spec>> = LazyLock::new(|| {
    let all = FILE.table.iter().cloned();
    let mut all: BTreeMap<String, Spec> = all.map(|spec| (spec.name.clone(), spec)).collect();
    let names: Vec<String> = all.keys().cloned().collect();
    for name in names {
        let shared = all[&name].with.as_ref().map(|with| all[with].keys.clone());
        if let (Some(mut keys), Some(spec)) = (shared, all.get_mut(&name)) {
            keys.append(&mut spec.keys);
            spec.keys = keys;
        }
    }
    all
});

/// The keys of the table of this name.
///
/// # Panics
///
/// When `keys.toml` has no such table.
pub fn of(table: &str) -> &'static Spec {
    let found = SPECS.get(table);
    found.unwrap_or_else(|| panic!("keys.toml has no table `{table}`"))
}

/// What to write instead of another tool's word.
pub fn instead(word: &str) -> Option<&'static str> {
    FILE.instead.get(word).map(String::as_str)
}

/// All tables.
pub fn all() -> impl Iterator<Item = &'static Spec> {
    SPECS.values()
}

/// What a step can do: the keys of which it has one.
pub fn verbs() -> Vec<&'static str> {
    of("step").alternatives().collect()
}
