//! Variables with more than one name: what is given under one of them counts for all.
//!
//! A later level wins over an earlier one, whichever name it uses. Two names at one level have to say the same.

use std::collections::BTreeMap;

use super::declare::Declaration;
use super::declare::Said;
use super::template::{self, Part};
use super::vars::Scope;
use super::words::refused_name;
use winimg_base::diag::Diagnostic;

/// All words about variables; `None` where there is none, or none that could be read.
type Words = BTreeMap<String, Option<Said>>;

/// Other names of variables, each with the variable that it means.
pub fn list(
    declared: &BTreeMap<String, Declaration>,
    problems: &mut Vec<Diagnostic>,
) -> BTreeMap<String, String> {
    let mut aliases = BTreeMap::new();
    for (variable, declaration) in declared {
        for alias in &declaration.aliases {
            if let Some((fact, help)) = refused_name(&alias.value) {
                problems.push(Diagnostic::error(fact).at(&alias.place, "").help(help));
            } else if let Some(other) = aliases.get(&alias.value) {
                let fact = format!("`{}` is another name of `{other}` already", alias.value);
                problems.push(Diagnostic::error(fact).at(&alias.place, ""));
            } else {
                aliases.insert(alias.value.clone(), variable.clone());
            }
        }
    }
    aliases
}

/// Gives all names of a variable the word that wins. Returns the pairs of names that were given at the same level.
pub fn settle(said: &mut Words, aliases: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let mut groups: BTreeMap<&String, Vec<&String>> = BTreeMap::new();
    for (alias, variable) in aliases {
        groups.entry(variable).or_default().push(alias);
    }
    let mut twice = Vec::new();
    for (variable, aliases) in groups {
        let free = aliases.into_iter();
        let free =
            free.filter(|alias| !names(said, alias, variable) && !names(said, variable, alias));
        let group: Vec<&String> = std::iter::once(variable).chain(free).collect();
        let level = |name: &String| Some(said.get(name)?.as_ref()?.level);
        let top = group.iter().filter_map(|name| level(name)).max();
        let (winners, others): (Vec<&String>, Vec<&String>) = group
            .into_iter()
            .partition(|name| top.is_some() && level(name) == top);
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

/// Whether the value of `name` names `other`: then the recipe itself says how the two hang together.
fn names(said: &Words, name: &str, other: &str) -> bool {
    let Some(Some(word)) = said.get(name) else {
        return false;
    };
    let parts = template::parse(&word.text).unwrap_or_default();
    word.template && parts.contains(&Part::Name(other.into()))
}

/// Two names of one variable that were both given have to say the same.
pub fn differ(
    name: &str,
    other: &str,
    declaration: Option<&Declaration>,
    scope: &Scope,
    said: &Words,
) -> Option<Diagnostic> {
    let value = |name: &str| {
        let text = scope.get(name)?.value.clone();
        Some(match declaration {
            Some(declaration) => declaration.complete(text),
            None => text,
        })
    };
    let place = |name: &str| Some(&said.get(name)?.as_ref()?.place);
    let (one, two) = (value(name)?, value(other)?);
    if one == two {
        return None;
    }
    let fact = format!("`{name}` and `{other}` are one variable, with two values");
    let help = format!(
        "`{other}` is \"{two}\" at {}: keep one of the two",
        place(other)?
    );
    let problem = Diagnostic::error(fact).at(place(name)?, format!("\"{one}\""));
    Some(problem.help(help))
}
