//! Variable declarations in `[vars]`: `{ default = "…", one_of = […], alias = […], prefix = "…",
//! hint = "…" }`, or `{ required = "what it is, and how to find it" }` instead of a default.
//!
//! Refuses unknown keys and wrong types. `decide` checks that a value is allowed, because it knows
//! the origin of the value.

use crate::document::value::{TomlData, TomlTable, TomlValue};
use crate::keys;
use winimg_base::diag::{Diagnostic, find_nearest, suggest};
use winimg_base::text::{Located, Place};

/// Declaration of a variable.
#[derive(Debug, Default)]
pub struct VariableDeclaration {
    /// The value, unless another one is set.
    pub default: Option<TomlValue>,
    /// Without a default: a description of the value, and how to find it.
    pub required: Option<String>,
    /// Allowed values; empty: any.
    pub one_of: Vec<String>,
    /// Other names by which a value can be given.
    pub aliases: Vec<Located<String>>,
    /// Prefix of the value; added if it is missing.
    pub prefix: String,
    /// Shown when a value is refused.
    pub hint: Option<String>,
}

impl VariableDeclaration {
    /// Reads the table of the variable `name`.
    pub fn read(
        name: &str,
        table: &TomlTable,
        place: &Place,
        problems: &mut Vec<Diagnostic>,
    ) -> Self {
        let mut declaration = Self::default();
        let before = problems.len();
        for entry in &table.entries {
            let value = &entry.value;
            let read = match entry.key.as_str() {
                "default" => {
                    declaration.default = Some(value.clone());
                    Ok(())
                }
                "required" => {
                    expect_string(value).map(|text| declaration.required = Some(text.value))
                }
                "one_of" => expect_strings(value).map(|all| {
                    declaration.one_of = all.into_iter().map(|text| text.value).collect();
                }),
                "alias" => expect_strings(value).map(|all| declaration.aliases = all),
                "prefix" => expect_string(value).map(|text| declaration.prefix = text.value),
                "hint" => expect_string(value).map(|text| declaration.hint = Some(text.value)),
                key => {
                    let fact = format!("unknown key `{key}` in the variable `{name}`");
                    let help = suggest(key, &keys::find_table("variable").names(), "its keys");
                    Err(Diagnostic::error(fact).at(&entry.key_place, "").help(help))
                }
            };
            problems.extend(read.err());
        }
        if problems.len() == before {
            problems.extend(declaration.check_default(name, place));
        }
        declaration
    }

    /// Complains unless the variable has exactly one of `default` and `required`.
    fn check_default(&self, name: &str, place: &Place) -> Option<Diagnostic> {
        let what = match (&self.default, &self.required) {
            (None, None) => "neither a default nor `required`",
            (Some(_), Some(_)) => "both a default and `required`",
            _ => return None,
        };
        let fact = format!("the variable `{name}` has {what}");
        let help = format!(
            "write `{name} = {{ default = \"…\" }}`, or \
             `{name} = {{ required = \"what it is, and how to find it\" }}`"
        );
        Some(Diagnostic::error(fact).at(place, "").help(help))
    }

    /// Explains why the variable cannot have this value; `None` if it can.
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
        // A number that is not allowed is rarely a typo.
        let word = value.contains(|c: char| c.is_ascii_alphabetic());
        let near = find_nearest(value, self.one_of.iter().map(String::as_str));
        if let Some(near) = near.filter(|_| word) {
            diagnostic = diagnostic.help(format!("did you mean \"{near}\"?"));
        }
        Some(match &self.hint {
            Some(hint) => diagnostic.help(hint.as_str()),
            None => diagnostic,
        })
    }

    /// Adds the prefix if it is missing.
    pub fn complete(&self, value: String) -> String {
        if value.is_empty() || value.starts_with(&self.prefix) {
            value
        } else {
            format!("{}{value}", self.prefix)
        }
    }
}

fn expect_string(value: &TomlValue) -> Result<Located<String>, Diagnostic> {
    match value.as_str() {
        Some(text) => Ok(Located::new(text.into(), value.place.clone())),
        None => Err(wrong_type(value, "a string")),
    }
}

fn expect_strings(value: &TomlValue) -> Result<Vec<Located<String>>, Diagnostic> {
    match &value.data {
        TomlData::Array(items) if !items.is_empty() => items.iter().map(expect_string).collect(),
        _ => Err(wrong_type(value, "a list of strings")),
    }
}

fn wrong_type(value: &TomlValue, expected: &str) -> Diagnostic {
    let fact = format!("expected {expected}, not {}", value.kind_name());
    Diagnostic::error(fact).at(&value.place, "")
}

/// A value given to a variable.
#[derive(Clone, Debug)]
pub struct Assignment {
    pub text: String,
    pub origin: String,
    pub place: Place,
    pub level: AssignmentLevel,
    /// Only the recipe's own values may refer to other variables; those from outside are literal.
    pub template: bool,
}

/// Origin of an assignment; a later one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AssignmentLevel {
    /// The `default` of a declaration.
    Default,
    Include,
    Recipe,
    Environment,
    ImageBuilder,
    VarFile,
    Flag,
}
