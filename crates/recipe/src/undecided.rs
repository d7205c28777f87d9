//! Missing values that a user must decide: the proof of a download, and a variable of a step.
//!
//! `validate` and `plan` accept these and list them. Commands that download for a build refuse such
//! a recipe; `winimg pin` finds the proofs. Any other missing value is an error.

use std::collections::BTreeSet;

use crate::InputId;
use crate::document::merge::DIGESTS;
use crate::document::value::MissingVariable;
use crate::document::value::{TomlData, TomlEntry, TomlTable, TomlValue};
use crate::vars::find_name_place;
use winimg_base::diag::Diagnostic;
use winimg_base::digest::Algorithm;
use winimg_base::text::Place;

/// A missing value that a user must decide before a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndecidedValue {
    Proof(MissingProof),
    /// Steps or clone checks use a variable that has no value, so their content is unknown.
    Variable {
        variable: MissingVariable,
        /// Names of the steps; empty if only clone checks use it.
        steps: Vec<String>,
        /// The first use.
        place: Place,
    },
}

/// An input without a proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingProof {
    pub input: InputId,
    pub algorithm: Algorithm,
    /// The variable of the digest; without one the digest belongs in the input's own table.
    pub variable: Option<MissingVariable>,
    /// The digest's place, or that of the URL if there is no digest.
    pub place: Place,
    /// One sentence that explains why there is no proof.
    pub fact: String,
    /// True if only members of the archive are signed.
    pub has_signed_members: bool,
}

impl MissingVariable {
    /// Makes an error about a use of it; `more` is another way to set it.
    pub fn to_error(&self, place: &Place, more: Option<&str>) -> Diagnostic {
        let name = &self.name;
        let set =
            format!("set it: --var {name}=…, WINIMG_VAR_{name}, or {name} = \"…\" under [vars]");
        let said = Diagnostic::error(format!("the variable `{name}` has no value"))
            .at(&find_name_place(place, name), "used here")
            .help(format!("it is {}", self.why))
            .help(set);
        match more {
            Some(more) => said.help(more),
            None => said,
        }
    }
}

impl UndecidedValue {
    /// Makes an error, for commands that need the value.
    pub fn to_error(&self) -> Diagnostic {
        const PIN: &str = "or run `winimg pin`: it downloads the file and writes its digest";
        match self {
            Self::Variable {
                variable, place, ..
            } => variable.to_error(place, None),
            Self::Proof(MissingProof {
                variable: Some(variable),
                place,
                ..
            }) => variable.to_error(place, Some(PIN)),
            Self::Proof(MissingProof {
                place,
                fact,
                has_signed_members: true,
                ..
            }) => Diagnostic::error(fact.as_str())
                .at(place, "")
                .help("also write `sha256 = \"…\"`")
                .help(PIN),
            Self::Proof(MissingProof { place, fact, .. }) => Diagnostic::error(fact.as_str())
                .at(place, "any content would be accepted")
                .help("write `sha256 = \"…\"` (or `sha512`, or `checksum_url = \"https://…\"`)")
                .help("or describe its signature in a table `signature`")
                .help("or write why there is none: `unverified = \"reason\"`")
                .help(PIN),
        }
    }
}

/// Makes errors of all missing values. Variables in `asked` were reported before; the others are
/// reported once.
pub fn to_errors(all: &[UndecidedValue], asked: &BTreeSet<String>) -> Vec<Diagnostic> {
    let mut asked = asked.clone();
    all.iter()
        .filter(|one| match one {
            UndecidedValue::Variable { variable, .. }
            | UndecidedValue::Proof(MissingProof {
                variable: Some(variable),
                ..
            }) => asked.insert(variable.name.clone()),
            UndecidedValue::Proof(_) => true,
        })
        .map(UndecidedValue::to_error)
        .collect()
}

/// Adds a variable that a step, or without a name a clone check, needs. A variable is listed once,
/// with all its steps.
pub fn add(all: &mut Vec<UndecidedValue>, needed: MissingVariable, step: Option<&str>, at: &Place) {
    for one in all.iter_mut() {
        match one {
            UndecidedValue::Variable {
                variable, steps, ..
            } if *variable == needed => {
                steps.extend(step.map(Into::into));
                return;
            }
            _ => {}
        }
    }
    all.push(UndecidedValue::Variable {
        place: find_name_place(at, &needed.name),
        variable: needed,
        steps: step.map(Into::into).into_iter().collect(),
    });
}

/// Finds the variables without a value inside a value, each once, with the place of its first use.
pub fn find_undecided(value: &TomlValue) -> Vec<(MissingVariable, Place)> {
    let mut found = Vec::new();
    collect(value, &mut found);
    found
}

fn collect(value: &TomlValue, found: &mut Vec<(MissingVariable, Place)>) {
    match &value.data {
        TomlData::Undecided(all) => {
            for wanting in all {
                if !found.iter().any(|(known, _)| known == wanting) {
                    found.push((wanting.clone(), value.place.clone()));
                }
            }
        }
        TomlData::Array(items) => items.iter().for_each(|item| collect(item, found)),
        TomlData::Table(table) => {
            let values = table.entries.iter().map(|entry| &entry.value);
            values.for_each(|value| collect(value, found));
        }
        _ => {}
    }
}

/// Keeps values undecided where that is allowed: digests of downloads, and the content of steps and
/// clone checks. Reports variables without a value everywhere else, and returns their names.
pub fn require_values(tree: &mut TomlTable, problems: &mut Vec<Diagnostic>) -> BTreeSet<String> {
    let mut asked = RequiredVariables {
        names: BTreeSet::new(),
        problems,
    };
    for entry in &mut tree.entries {
        let is_media = entry.key == "media";
        match (entry.key.as_str(), &mut entry.value.data) {
            // Resolved before.
            ("vars", _) => {}
            ("steps", TomlData::Array(steps)) => {
                steps.iter_mut().for_each(|s| require_step(s, &mut asked))
            }
            ("clone", TomlData::Array(checks)) => {
                let checks = checks.iter_mut();
                checks.for_each(|check| of_known(check, &["why", "targets"], &mut asked));
            }
            ("components" | "media", TomlData::Table(inputs)) => {
                for input in &mut inputs.entries {
                    let is_input = !is_media || matches!(input.key.as_str(), "iso" | "virtio");
                    match &mut input.value.data {
                        TomlData::Table(table) if is_input => download(table, &mut asked),
                        _ => asked.refuse(&mut input.value),
                    }
                }
            }
            _ => asked.refuse(&mut entry.value),
        }
    }
    asked.names
}

/// The variables that were reported, each at its first use.
struct RequiredVariables<'p> {
    names: BTreeSet<String>,
    problems: &'p mut Vec<Diagnostic>,
}

fn download(table: &mut TomlTable, asked: &mut RequiredVariables<'_>) {
    for TomlEntry { key, value, .. } in &mut table.entries {
        match &value.data {
            TomlData::Undecided(all) if all.len() == 1 && DIGESTS.contains(&key.as_str()) => {}
            _ => asked.refuse(value),
        }
    }
}

/// Requires a step's name and position, and all values of the step that seals the image, because
/// they determine the order of the steps.
fn require_step(step: &mut TomlValue, asked: &mut RequiredVariables<'_>) {
    if step.as_table().is_some_and(|t| t.contains("generalize")) {
        asked.refuse(step);
    } else {
        of_known(step, &["name", "before_seal"], asked);
    }
}

/// Requires the values of these keys in a table.
fn of_known(value: &mut TomlValue, keys: &[&str], asked: &mut RequiredVariables<'_>) {
    let TomlData::Table(table) = &mut value.data else {
        return asked.refuse(value);
    };
    for TomlEntry { key, value, .. } in &mut table.entries {
        if keys.contains(&key.as_str()) {
            asked.refuse(value);
        }
    }
}

impl RequiredVariables<'_> {
    fn refuse(&mut self, value: &mut TomlValue) {
        match &mut value.data {
            TomlData::Undecided(all) => {
                for wanting in all {
                    if self.names.insert(wanting.name.clone()) {
                        self.problems.push(wanting.to_error(&value.place, None));
                    }
                }
                value.data = TomlData::Unknown;
            }
            TomlData::Array(items) => items.iter_mut().for_each(|item| self.refuse(item)),
            TomlData::Table(table) => {
                let entries = table.entries.iter_mut();
                entries.for_each(|entry| self.refuse(&mut entry.value));
            }
            _ => {}
        }
    }
}
