//! What `[vars]` may say of a variable besides its value: `{ default = "…", one_of = […], alias = […], prefix = "…",
//! hint = "…" }`, or `{ required = "what it is, and how to find it" }` in place of a default.
//!
//! Refuses unknown keys and wrong types. Whether a value is one of those allowed is asked in `decide`, where it is known
//! whose value it is.

use super::keys;
use super::value::{Data, Table, Value};
use winimg_base::diag::{Diagnostic, nearest, suggestion};
use winimg_base::text::{Located, Place};

/// A variable as it was declared.
#[derive(Debug, Default)]
pub struct Declaration {
    /// The value where nobody gives another.
    pub default: Option<Value>,
    /// There is no default: what the value is, and how to find it.
    pub required: Option<String>,
    /// The values it may have; empty: any.
    pub one_of: Vec<String>,
    /// Other names by which a value can be given.
    pub aliases: Vec<Located<String>>,
    /// What the value begins with; put before one that does not.
    pub prefix: String,
    /// Said where a value is refused.
    pub hint: Option<String>,
}

impl Declaration {
    /// Reads the table of the variable `name`.
    pub fn read(name: &str, table: &Table, place: &Place, problems: &mut Vec<Diagnostic>) -> Self {
        let mut declaration = Self::default();
        let before = problems.len();
        for entry in &table.entries {
            let value = &entry.value;
            let read = match entry.key.as_str() {
                "default" => {
                    declaration.default = Some(value.clone());
                    Ok(())
                }
                "required" => string(value).map(|text| declaration.required = Some(text.value)),
                "one_of" => strings(value).map(|all| {
                    declaration.one_of = all.into_iter().map(|text| text.value).collect();
                }),
                "alias" => strings(value).map(|all| declaration.aliases = all),
                "prefix" => string(value).map(|text| declaration.prefix = text.value),
                "hint" => string(value).map(|text| declaration.hint = Some(text.value)),
                key => {
                    let fact = format!("unknown key `{key}` in the variable `{name}`");
                    let help = suggestion(key, &keys::of("variable").names(), "its keys");
                    Err(Diagnostic::error(fact).at(&entry.key_place, "").help(help))
                }
            };
            problems.extend(read.err());
        }
        if problems.len() == before {
            problems.extend(declaration.missing(name, place));
        }
        declaration
    }

    /// A variable has a default or is asked for, one of the two.
    fn missing(&self, name: &str, place: &Place) -> Option<Diagnostic> {
        let what = match (&self.default, &self.required) {
            (None, None) => "neither a default nor `required`",
            (Some(_), Some(_)) => "both a default and `required`",
            _ => return None,
        };
        let fact = format!("the variable `{name}` has {what}");
        let help = format!(
            "write `{name} = {{ default = \"…\" }}`, or `{name} = {{ required = \"what it is, and how to find it\" }}`"
        );
        Some(Diagnostic::error(fact).at(place, "").help(help))
    }

    /// Why the variable cannot have this value, said at `place`; nothing when it can.
    pub fn refuse(&self, name: &str, value: &str, place: &Place) -> Option<Diagnostic> {
        if self.one_of.is_empty() || self.one_of.iter().any(|one| one == value) {
            return None;
        }
        let fact = format!("`{name}` cannot be \"{value}\"");
        let quoted: Vec<String> = self.one_of.iter().map(|one| format!("\"{one}\"")).collect();
        let expected = match quoted.as_slice() {
            [one] => format!("expected {one}"),
            all => format!("expected one of {}", all.join(", ")),
        };
        let mut diagnostic = Diagnostic::error(fact).at(place, expected);
        // A number that is not allowed is seldom a slip.
        let word = value.contains(|c: char| c.is_ascii_alphabetic());
        let near = nearest(value, self.one_of.iter().map(String::as_str));
        if let Some(near) = near.filter(|_| word) {
            diagnostic = diagnostic.help(format!("did you mean \"{near}\"?"));
        }
        Some(match &self.hint {
            Some(hint) => diagnostic.help(hint.as_str()),
            None => diagnostic,
        })
    }

    /// The value as the variable has it.
    pub fn complete(&self, value: String) -> String {
        match value.is_empty() || value.starts_with(&self.prefix) {
            true => value,
            false => format!("{}{value}", self.prefix),
        }
    }
}

fn string(value: &Value) -> Result<Located<String>, Diagnostic> {
    match value.as_str() {
        Some(text) => Ok(Located::new(text.into(), value.place.clone())),
        None => Err(wrong(value, "a string")),
    }
}

fn strings(value: &Value) -> Result<Vec<Located<String>>, Diagnostic> {
    match &value.data {
        Data::Array(items) if !items.is_empty() => items.iter().map(string).collect(),
        _ => Err(wrong(value, "a list of strings")),
    }
}

fn wrong(value: &Value, expected: &str) -> Diagnostic {
    let fact = format!("expected {expected}, not {}", value.kind());
    Diagnostic::error(fact).at(&value.place, "")
}

/// A word about a variable.
#[derive(Clone, Debug)]
pub struct Said {
    pub text: String,
    pub origin: String,
    pub place: Place,
    pub level: Level,
    /// Only the recipe's own values may name other variables; what comes from outside is taken as it is.
    pub template: bool,
}

/// Where a word comes from; a later one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The `default` of a declaration.
    Default,
    Include,
    Recipe,
    Environment,
    ImageBuilder,
    VarFile,
    Flag,
}
