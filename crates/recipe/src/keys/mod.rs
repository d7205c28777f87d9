//! The keys of every table of a recipe, of a host's configuration file and of a matrix
//! (`keys.toml`, and files beside the code of a verb or signature), with the help for a key that is
//! missing, misspelt or of the wrong type. The JSON Schema, the tables of docs/recipe.md and the
//! tests of diagnostics are generated from the same rows.
//!
//! A key without a row cannot be read: [`Spec::key`] panics.

pub mod names;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::OutputFormat;

/// One table of a recipe.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSpec {
    /// Identifier in rows and in the reader; for a verb's table the verb.
    pub name: String,
    /// Name in messages, if it differs.
    title: Option<String>,
    #[serde(default)]
    pub doc: String,
    /// Several files may each contain a part of it, so that none of them needs all keys.
    #[serde(default)]
    pub is_merged: bool,
    /// `winimg plan` lists the defaults that were used.
    #[serde(default)]
    pub lists_defaults: bool,
    /// Another table whose keys it includes.
    pub with: Option<String>,
    /// In the order of the reference.
    pub keys: Vec<KeySpec>,
}

/// One key of a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeySpec {
    #[serde(rename = "key")]
    pub name: String,
    #[serde(default)]
    pub takes: KeyKind,
    pub doc: String,
    /// The key is required: the cure if it is missing or empty.
    pub needed: Option<String>,
    /// The cure if an optional key is empty.
    help: Option<String>,
    /// The value of an absent key.
    pub default: Option<String>,
    /// Describes the meaning of an absent key, if it is not a single value.
    pub unless_given: Option<String>,
    /// Exactly one of the keys so marked is in the table.
    #[serde(default)]
    pub one_of: bool,
    /// Pattern of its strings or of the names in its table, for the schema; the reader has its own
    /// checks.
    pub pattern: Option<String>,
}

/// Type of a key's value. Every string may contain variables; so may one in place of a size, a
/// word or a number.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyKind {
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
    List(Box<KeyKind>),
    /// A list that is not empty.
    Nonempty(Box<KeyKind>),
    /// Keys chosen by the recipe, with the type of their values.
    Map(Box<KeyKind>),
    /// The table of this name.
    Table(String),
    Either(Vec<KeyKind>),
    /// A signature's table, by its `kind`.
    Signature,
    /// A signature's table, or several; `true` for those of a checksum file.
    Signatures(bool),
}

impl TableSpec {
    /// Returns the name of the table in messages.
    pub fn title(&self) -> String {
        self.title
            .clone()
            .unwrap_or_else(|| format!("`{}`", self.name))
    }

    /// Returns true for a table of a host's configuration file.
    pub fn is_of_host(&self) -> bool {
        self.name == "host" || self.name.starts_with("host.")
    }

    /// Returns true for a table of a matrix file.
    pub fn is_of_matrix(&self) -> bool {
        self.name == "matrix" || self.name.starts_with("matrix.")
    }

    pub fn find(&self, name: &str) -> Option<&KeySpec> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// Returns the row of a key.
    ///
    /// # Panics
    ///
    /// Panics if `keys.toml` has none.
    pub fn key(&self, name: &str) -> &KeySpec {
        let found = self.find(name);
        found.unwrap_or_else(|| panic!("keys.toml has no `{name}` in `{}`", self.name))
    }

    /// Returns the sorted names of its keys.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.keys.iter().map(|key| key.name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// Returns the names of the keys of which exactly one must be present.
    pub fn alternatives(&self) -> impl Iterator<Item = &str> {
        let marked = self.keys.iter().filter(|key| key.one_of);
        marked.map(|key| key.name.as_str())
    }
}

impl KeySpec {
    /// Returns the cure if the key is missing or empty.
    pub fn help(&self) -> &str {
        let help = self.needed.as_ref().or(self.help.as_ref());
        help.map_or("", String::as_str)
    }
}

impl KeyKind {
    /// Returns true if a blank string is refused.
    pub fn refuses_empty(&self) -> bool {
        match self {
            Self::String | Self::GuestPath => true,
            Self::Either(kinds) => kinds.iter().any(Self::refuses_empty),
            _ => false,
        }
    }

    /// Returns the words that it accepts.
    pub fn words(&self) -> &[String] {
        match self {
            Self::Word(words) => words,
            Self::List(kind) | Self::Nonempty(kind) | Self::Map(kind) => kind.words(),
            Self::Either(kinds) => kinds.first().map_or(&[], Self::words),
            _ => &[],
        }
    }

    /// Returns true if it has a header of its own, like `[machine]`.
    pub fn has_header(&self) -> bool {
        match self {
            Self::Table(_) | Self::Map(_) => true,
            Self::List(kind) => kind.has_header(),
            _ => false,
        }
    }
}

/// The files with the keys of verbs, in the order of the reference.
const VERBS: [(&str, &str); 29] = [
    ("copy", include_str!("../verbs/copy.toml")),
    ("extract", include_str!("../verbs/extract.toml")),
    ("file", include_str!("../verbs/file.toml")),
    ("directory", include_str!("../verbs/directory.toml")),
    ("remove", include_str!("../verbs/remove.toml")),
    ("cmd", include_str!("../verbs/cmd.toml")),
    ("powershell", include_str!("../verbs/powershell.toml")),
    ("service", include_str!("../verbs/service.toml")),
    ("registry", include_str!("../verbs/registry.toml")),
    ("environment", include_str!("../verbs/environment.toml")),
    ("path", include_str!("../verbs/path.toml")),
    ("msi", include_str!("../verbs/msi.toml")),
    ("image", include_str!("../verbs/image.toml")),
    ("exe", include_str!("../verbs/exe.toml")),
    ("feature", include_str!("../verbs/feature.toml")),
    ("capability", include_str!("../verbs/capability.toml")),
    ("driver", include_str!("../verbs/driver.toml")),
    ("update", include_str!("../verbs/update.toml")),
    ("cleanup", include_str!("../verbs/cleanup.toml")),
    ("checkpoint", include_str!("../verbs/checkpoint.toml")),
    ("firewall", include_str!("../verbs/firewall.toml")),
    ("user", include_str!("../verbs/user.toml")),
    ("group", include_str!("../verbs/group.toml")),
    ("acl", include_str!("../verbs/acl.toml")),
    ("task", include_str!("../verbs/task.toml")),
    ("defender", include_str!("../verbs/defender.toml")),
    ("reboot", include_str!("../verbs/reboot.toml")),
    ("assert", include_str!("../verbs/assert.toml")),
    ("generalize", include_str!("../verbs/generalize.toml")),
];

/// One file with tables.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyTables {
    table: Vec<TableSpec>,
    /// Words of other tools, with what to write instead. In a value, `{outputs}` is replaced by the
    /// names of all output formats.
    #[serde(default)]
    instead: BTreeMap<String, String>,
}

/// The keys of one verb.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VerbTables {
    step: VerbRow,
    /// The verb's own table, and those that only it uses.
    table: Vec<TableSpec>,
}

/// The verb in the table of a step.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VerbRow {
    takes: KeyKind,
    doc: String,
}

impl VerbRow {
    fn into_key(self, verb: &str) -> KeySpec {
        KeySpec {
            name: verb.to_owned(),
            takes: self.takes,
            doc: self.doc,
            one_of: true,
            needed: None,
            help: None,
            default: None,
            unless_given: None,
            pattern: None,
        }
    }
}

/// The files with the tables. Those of a feature are beside its code.
const DOCUMENTS: [&str; 11] = [
    include_str!("keys.toml"),
    include_str!("../lower/signature/openpgp.toml"),
    include_str!("../lower/signature/minisign.toml"),
    include_str!("../lower/signature/signify.toml"),
    include_str!("../lower/signature/cosign.toml"),
    include_str!("../lower/signature/sigstore.toml"),
    include_str!("../lower/signature/attestation.toml"),
    include_str!("../lower/signature/chain.toml"),
    include_str!("../lower/signature/authenticode.toml"),
    include_str!("../lower/signature/cms.toml"),
    include_str!("../lower/signature/kinds.toml"),
];

/// The content of all files.
struct AllKeys {
    tables: BTreeMap<String, TableSpec>,
    instead: BTreeMap<String, String>,
}

static KEYS: LazyLock<AllKeys> = LazyLock::new(|| {
    let (mut tables, mut instead) = (Vec::new(), BTreeMap::new());
    for document in DOCUMENTS {
        let part: KeyTables = toml::from_str(document).expect("a file of tables");
        tables.extend(part.table);
        instead.extend(part.instead);
    }
    for text in instead.values_mut() {
        *text = text.replace("{outputs}", &OutputFormat::list());
    }
    fill_in_kinds(&mut tables);
    AllKeys {
        tables: add_verbs(tables),
        instead,
    }
});

/// Fills in the kinds of the table `signature`: those of all tables `signature.NAME`, in the order
/// of [`DOCUMENTS`].
fn fill_in_kinds(tables: &mut [TableSpec]) {
    let kinds: Vec<String> = tables
        .iter()
        .filter(|spec| spec.name.starts_with("signature."))
        .filter_map(|spec| spec.find("kind"))
        .flat_map(|kind| kind.takes.words().to_vec())
        .collect();
    let signature = tables.iter_mut().find(|spec| spec.name == "signature");
    let row = signature.and_then(|spec| spec.keys.iter_mut().find(|key| key.name == "kind"));
    if let Some(row) = row {
        let listed = kinds.join(", ");
        row.needed.get_or_insert_default().push_str(&listed);
        row.takes = KeyKind::Word(kinds);
    }
}

/// Adds the tables of the verbs, and the shared keys of tables that include others.
fn add_verbs(mut tables: Vec<TableSpec>) -> BTreeMap<String, TableSpec> {
    let mut verbs = Vec::new();
    for (verb, text) in VERBS {
        let mut file: VerbTables =
            toml::from_str(text).unwrap_or_else(|why| panic!("the keys of `{verb}`: {why}"));
        tables.append(&mut file.table);
        verbs.push(file.step.into_key(verb));
    }
    let mut all: BTreeMap<String, TableSpec> = tables
        .into_iter()
        .map(|spec| (spec.name.clone(), spec))
        .collect();
    if let Some(step) = all.get_mut("step") {
        step.keys.append(&mut verbs);
    }
    let names: Vec<String> = all.keys().cloned().collect();
    for name in names {
        let shared = all[&name].with.as_ref().map(|with| all[with].keys.clone());
        if let (Some(mut keys), Some(spec)) = (shared, all.get_mut(&name)) {
            keys.append(&mut spec.keys);
            spec.keys = keys;
        }
    }
    all
}

/// Returns the table of this name.
///
/// # Panics
///
/// Panics if `keys.toml` has no such table.
pub fn find_table(table: &str) -> &'static TableSpec {
    let found = KEYS.tables.get(table);
    found.unwrap_or_else(|| panic!("keys.toml has no table `{table}`"))
}

/// Suggests the replacement for another tool's word.
pub fn suggest_replacement(word: &str) -> Option<&'static str> {
    KEYS.instead.get(word).map(String::as_str)
}

/// Lists all tables.
pub fn list_tables() -> impl Iterator<Item = &'static TableSpec> {
    KEYS.tables.values()
}

/// Lists the verbs: the keys of which a step has exactly one.
pub fn list_verbs() -> Vec<&'static str> {
    find_table("step").alternatives().collect()
}
