//! What a recipe leaves to a person: a download that nothing proves yet, and a variable that a step names and nobody set.
//!
//! `validate` and `plan` go on without these and list them. Every command that fetches for a build refuses a recipe that has
//! one; `winimg pin` finds the proofs. Without any other value there is nothing to plan, and it is asked for as an error.

use std::collections::BTreeSet;

use super::InputId;
use super::merge::DIGESTS;
use super::value::Wanting;
use super::value::{Data, Entry, Table, Value};
use super::vars::place_of_name;
use winimg_base::diag::Diagnostic;
use winimg_base::digest::Algorithm;
use winimg_base::text::Place;

/// One thing that a person has to decide before a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undecided {
    Proof(MissingProof),
    /// Steps or clone checks name a variable that has no value: what they do is not known.
    Variable {
        variable: Wanting,
        /// The names of the steps; none where clone checks alone name it.
        steps: Vec<String>,
        /// The first use.
        place: Place,
    },
}

/// An input that nothing proves yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingProof {
    pub input: InputId,
    pub algorithm: Algorithm,
    /// The variable that holds the digest; without one the digest belongs into the input's own table.
    pub variable: Option<Wanting>,
    /// The digest's place, or that of the URL where none is named.
    pub place: Place,
    /// One sentence: why what is there is no proof.
    pub fact: String,
    /// What is signed in it are only members of the archive.
    pub has_signed_members: bool,
}

impl Wanting {
    /// The complaint about a use of it; `more` is another way to give it.
    pub fn complaint(&self, place: &Place, more: Option<&str>) -> Diagnostic {
        let name = &self.name;
        let set =
            format!("set it: --var {name}=…, WINIMG_VAR_{name}, or {name} = \"…\" under [vars]");
        let said = Diagnostic::error(format!("the variable `{name}` has no value"))
            .at(&place_of_name(place, name), "used here")
            .help(format!("it is {}", self.why))
            .help(set);
        match more {
            Some(more) => said.help(more),
            None => said,
        }
    }
}

impl Undecided {
    /// As an error, for whoever cannot go on without it.
    pub fn complaint(&self) -> Diagnostic {
        const PIN: &str = "or `winimg pin` fetches the file and writes its digest";
        match self {
            Self::Variable {
                variable, place, ..
            } => variable.complaint(place, None),
            Self::Proof(MissingProof {
                variable: Some(variable),
                place,
                ..
            }) => variable.complaint(place, Some(PIN)),
            Self::Proof(MissingProof {
                place,
                fact,
                has_signed_members: true,
                ..
            }) => Diagnostic::error(fact.as_str())
                .at(place, "")
                .help("write `sha256 = \"…\"` too")
                .help(PIN),
            Self::Proof(MissingProof { place, fact, .. }) => Diagnostic::error(fact.as_str())
                .at(place, "any bytes would do")
                .help("write `sha256 = \"…\"` (or `sha512`, or `checksum_url = \"https://…\"`)")
                .help("or who signs it, in a table `signature`")
                .help("or say why there is none: `unverified = \"reason\"`")
                .help(PIN),
        }
    }
}

/// All of them as errors; of the variables those alone that were not `asked` for already, each once. An input is in the
/// list once.
pub fn complaints(all: &[Undecided], asked: &BTreeSet<String>) -> Vec<Diagnostic> {
    let mut asked = asked.clone();
    let mut is_new = |one: &&Undecided| match one {
        Undecided::Variable { variable, .. }
        | Undecided::Proof(MissingProof {
            variable: Some(variable),
            ..
        }) => asked.insert(variable.name.clone()),
        Undecided::Proof(_) => true,
    };
    let open = all.iter().filter(|one| is_new(one));
    open.map(Undecided::complaint).collect()
}

/// Adds what a step or, without a name, a clone check needs: a variable is listed once, with all its steps.
pub fn add(all: &mut Vec<Undecided>, needed: Wanting, step: Option<&str>, at: &Place) {
    for one in all.iter_mut() {
        match one {
            Undecided::Variable {
                variable, steps, ..
            } if *variable == needed => {
                steps.extend(step.map(Into::into));
                return;
            }
            _ => {}
        }
    }
    all.push(Undecided::Variable {
        place: place_of_name(at, &needed.name),
        variable: needed,
        steps: step.map(Into::into).into_iter().collect(),
    });
}

/// The variables without a value that stand anywhere in it, each once, with the place of its first use.
pub fn within(value: &Value) -> Vec<(Wanting, Place)> {
    let mut found = Vec::new();
    collect(value, &mut found);
    found
}

fn collect(value: &Value, found: &mut Vec<(Wanting, Place)>) {
    match &value.data {
        Data::Undecided(all) => {
            for wanting in all {
                if !found.iter().any(|(known, _)| known == wanting) {
                    found.push((wanting.clone(), value.place.clone()));
                }
            }
        }
        Data::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Data::Table(table) => {
            let values = table.entries.iter().map(|entry| &entry.value);
            values.for_each(|value| collect(value, found));
        }
        _ => {}
    }
}

/// Leaves undecided what can be: the digests of downloads, what steps do and what clone checks look at. Everywhere else a variable without a value is
/// complained about. The names of those that were.
pub fn settle(tree: &mut Table, problems: &mut Vec<Diagnostic>) -> BTreeSet<String> {
    let mut asked = Asked {
        names: BTreeSet::new(),
        problems,
    };
    for entry in &mut tree.entries {
        let is_media = entry.key == "media";
        match (entry.key.as_str(), &mut entry.value.data) {
            // Resolved before, and used elsewhere.
            ("vars", _) => {}
            ("steps", Data::Array(steps)) => steps.iter_mut().for_each(|s| step(s, &mut asked)),
            ("clone", Data::Array(checks)) => {
                let checks = checks.iter_mut();
                checks.for_each(|check| of_known(check, &["why", "targets"], &mut asked));
            }
            ("components" | "media", Data::Table(inputs)) => {
                for input in &mut inputs.entries {
                    let is_input = !is_media || matches!(input.key.as_str(), "iso" | "virtio");
                    match &mut input.value.data {
                        Data::Table(table) if is_input => download(table, &mut asked),
                        _ => asked.refuse(&mut input.value),
                    }
                }
            }
            _ => asked.refuse(&mut entry.value),
        }
    }
    asked.names
}

/// The variables that were complained about, each at its first use.
struct Asked<'p> {
    names: BTreeSet<String>,
    problems: &'p mut Vec<Diagnostic>,
}

fn download(table: &mut Table, asked: &mut Asked<'_>) {
    for Entry { key, value, .. } in &mut table.entries {
        match &value.data {
            Data::Undecided(all) if all.len() == 1 && DIGESTS.contains(&key.as_str()) => {}
            _ => asked.refuse(value),
        }
    }
}

/// A step's name and place are always known, and so is all of the one that seals the image: without it the steps would
/// stand in another order.
fn step(step: &mut Value, asked: &mut Asked<'_>) {
    match step.as_table().is_some_and(|t| t.contains("generalize")) {
        true => asked.refuse(step),
        false => of_known(step, &["name", "before_seal"], asked),
    }
}

/// A table of which these keys are always known.
fn of_known(value: &mut Value, keys: &[&str], asked: &mut Asked<'_>) {
    let Data::Table(table) = &mut value.data else {
        return asked.refuse(value);
    };
    for Entry { key, value, .. } in &mut table.entries {
        if keys.contains(&key.as_str()) {
            asked.refuse(value);
        }
    }
}

impl Asked<'_> {
    fn refuse(&mut self, value: &mut Value) {
        match &mut value.data {
            Data::Undecided(all) => {
                for wanting in all {
                    if self.names.insert(wanting.name.clone()) {
                        self.problems.push(wanting.complaint(&value.place, None));
                    }
                }
                value.data = Data::Unknown;
            }
            Data::Array(items) => items.iter_mut().for_each(|item| self.refuse(item)),
            Data::Table(table) => {
                let entries = table.entries.iter_mut();
                entries.for_each(|entry| self.refuse(&mut entry.value));
            }
            _ => {}
        }
    }
}
