//! Aliases of variables: a value given under one name counts for all of them.
//!
//! A later level wins over an earlier one, whichever name it uses. Two names set at the same level
//! must have the same value.

use std::collections::BTreeMap;

use crate::keys::names::refused_name;
use crate::vars::VariableScope;
use crate::vars::declaration::{Assignment, AssignmentLevel, VariableDeclaration};
use crate::vars::template::{self, TemplatePart};
use winimg_base::diag::Diagnostic;

/// Assignments by variable name; `None` if there is none, or none that could be read.
type AssignmentMap = BTreeMap<String, Option<Assignment>>;

/// Lists the aliases, each with its variable.
pub fn list(
    declared: &BTreeMap<String, VariableDeclaration>,
    problems: &mut Vec<Diagnostic>,
) -> BTreeMap<String, String> {
    let mut aliases = BTreeMap::new();
    for (variable, declaration) in declared {
        for alias in &declaration.aliases {
            if let Some((fact, help)) = refused_name(&alias.value) {
                problems.push(Diagnostic::error(fact).at(&alias.place, "").help(help));
            } else if let Some(other) = aliases.get(&alias.value) {
                let fact = format!("`{}` is already an alias of `{other}`", alias.value);
                problems.push(Diagnostic::error(fact).at(&alias.place, ""));
            } else {
                aliases.insert(alias.value.clone(), variable.clone());
            }
        }
    }
    aliases
}

/// Gives all names of a variable the winning assignment. Returns the pairs of names that were set
/// at the same level.
pub fn resolve_aliases(
    said: &mut AssignmentMap,
    aliases: &BTreeMap<String, String>,
) -> Vec<(String, String)> {
    let mut groups: BTreeMap<&String, Vec<&String>> = BTreeMap::new();
    for (alias, variable) in aliases {
        groups.entry(variable).or_default().push(alias);
    }
    let mut twice = Vec::new();
    for (variable, aliases) in groups {
        let free = aliases
            .into_iter()
            .filter(|alias| !refers_to(said, alias, variable) && !refers_to(said, variable, alias));
        let group: Vec<&String> = std::iter::once(variable).chain(free).collect();
        let top = group.iter().filter_map(|name| level_of(said, name)).max();
        let (winners, others): (Vec<&String>, Vec<&String>) = group
            .into_iter()
            .partition(|name| top.is_some() && level_of(said, name) == top);
        let word = winners.first().and_then(|name| said[*name].clone());
        for name in others {
            said.insert(name.clone(), word.clone());
        }
        if let [first, more @ ..] = winners.as_slice() {
            twice.extend(
                more.iter()
                    .map(|name| (name.to_string(), first.to_string())),
            );
        }
    }
    twice
}

fn level_of(said: &AssignmentMap, name: &str) -> Option<AssignmentLevel> {
    Some(said.get(name)?.as_ref()?.level)
}

/// Returns true if the value of `name` refers to `other`: then the recipe itself relates the two.
fn refers_to(said: &AssignmentMap, name: &str, other: &str) -> bool {
    let Some(Some(word)) = said.get(name) else {
        return false;
    };
    let parts = template::parse(&word.text).unwrap_or_default();
    word.template && parts.contains(&TemplatePart::Name(other.into()))
}

fn complete_value(
    name: &str,
    declaration: Option<&VariableDeclaration>,
    scope: &VariableScope,
) -> Option<String> {
    let text = scope.get(name)?.value.clone();
    Some(match declaration {
        Some(declaration) => declaration.complete(text),
        None => text,
    })
}

/// Complains if two names of one variable were both set, to different values.
pub fn check_same_value(
    name: &str,
    other: &str,
    declaration: Option<&VariableDeclaration>,
    scope: &VariableScope,
    said: &AssignmentMap,
) -> Option<Diagnostic> {
    let one = complete_value(name, declaration, scope)?;
    let two = complete_value(other, declaration, scope)?;
    if one == two {
        return None;
    }
    let fact = format!("`{name}` and `{other}` are the same variable but have different values");
    let help = format!(
        "`{other}` is \"{two}\" at {}: keep one of the two",
        said.get(other)?.as_ref()?.place
    );
    let place = &said.get(name)?.as_ref()?.place;
    let problem = Diagnostic::error(fact).at(place, format!("\"{one}\""));
    Some(problem.help(help))
}
