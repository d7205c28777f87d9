//! Finds unused variables, which are often misspelt.
//!
//! Checks the values set by the user (the recipe's own `[vars]`, `--var-file`, `--var`). Packs may
//! declare more than a recipe uses, and the environment is shared. A skipped step uses its
//! variables like any other.

use std::collections::{BTreeMap, BTreeSet};

use crate::document::value::{TomlData, TomlTable, TomlValue};
use crate::keys::names::DECIDING;
use crate::keys::names::OWN_VERSION;
use crate::vars::declaration::Assignment;
use crate::vars::template::{self, TemplatePart};
use winimg_base::diag::{Diagnostic, find_nearest};
use winimg_base::text::Place;

/// Values of variables and references between them.
#[derive(Debug, Default)]
pub struct VariableUsage {
    /// The first place that sets each name.
    pub places: BTreeMap<String, Place>,
    /// The variables that each variable's value refers to.
    pub named: BTreeMap<String, Vec<String>>,
    /// All declared names, including aliases.
    pub known: BTreeSet<String>,
    /// Aliases with their variables.
    pub aliases: BTreeMap<String, String>,
    /// The assignment of each name that wins; `None` if there is none.
    pub said: BTreeMap<String, Option<Assignment>>,
    /// All assignments of each name, from the first file to the command line.
    pub words: BTreeMap<String, Vec<Assignment>>,
    /// Prefixes of declared variables.
    pub prefixes: BTreeMap<String, String>,
}

impl VariableUsage {
    /// Warns about each variable that no string of the tree uses, directly or indirectly.
    pub fn warn_unused(&self, tree: &TomlTable) -> Vec<Diagnostic> {
        let mut reached = BTreeSet::new();
        for entry in tree.entries.iter().filter(|e| e.key != "vars") {
            if !self.collect_used(&entry.value, &mut reached) {
                return Vec::new();
            }
        }
        self.places
            .iter()
            // Misplaced keys of the recipe have a warning of their own.
            .filter(|(name, _)| !reached.contains(*name) && !DECIDING.contains(&name.as_str()))
            .filter_map(|(name, at)| self.make_warning(name, at, &reached))
            .collect()
    }

    /// Collects the used variables; returns false if a template cannot be parsed, because it may
    /// use any of them.
    fn collect_used(&self, value: &TomlValue, reached: &mut BTreeSet<String>) -> bool {
        match &value.data {
            TomlData::Array(items) => items.iter().all(|item| self.collect_used(item, reached)),
            TomlData::Table(table) => table
                .entries
                .iter()
                .all(|e| self.collect_used(&e.value, reached)),
            _ => match value.template.as_deref().map(template::parse) {
                None => true,
                Some(Ok(parts)) => {
                    for part in parts {
                        if let TemplatePart::Name(name) = part {
                            self.follow(&name, reached);
                        }
                    }
                    true
                }
                Some(Err(_)) => false,
            },
        }
    }

    /// Adds a variable and those that its value refers to, under all of their names.
    pub fn follow(&self, name: &str, reached: &mut BTreeSet<String>) {
        if !reached.insert(name.into()) {
            return;
        }
        let variable = self.aliases.get(name).map_or(name, String::as_str);
        let others = self.aliases.iter().filter(|(_, v)| *v == variable);
        let same = others.map(|(alias, _)| alias.as_str()).chain([variable]);
        let named = self.named.get(name).into_iter().flatten();
        for next in same.chain(named.map(String::as_str)) {
            self.follow(next, reached);
        }
    }

    /// Returns no warning if a string has a misspelt name: that is an error that suggests this
    /// name.
    fn make_warning(
        &self,
        name: &str,
        at: &Place,
        reached: &BTreeSet<String>,
    ) -> Option<Diagnostic> {
        let others = reached
            .iter()
            .map(String::as_str)
            .filter(|other| self.known.contains(*other) || !is_own(other));
        let help = match find_nearest(name, others) {
            Some(near) if !self.known.contains(near) => return None,
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("remove it, or use it: `{{{{{name}}}}}`"),
        };
        let fact = format!("the variable `{name}` is not used");
        Some(Diagnostic::warning(fact).at(at, "").help(help))
    }
}

/// Returns true for a name that is predefined in some context.
fn is_own(name: &str) -> bool {
    ["name", "version", "url", OWN_VERSION].contains(&name) || name.starts_with("components.")
}
