//! Values of variables that change nothing, because nothing reads them: most often a name with a slip in it.
//!
//! Looks at what the user gives (the recipe's own `[vars]`, `--var-file`, `--var`). Packs may declare more than a recipe
//! uses, and the environment is shared. A step that `when` skips reads its variables like any other.

use std::collections::{BTreeMap, BTreeSet};

use super::declare::Said;
use super::lower::DECIDING;
use super::template::{self, Part};
use super::value::{Data, Table, Value};
use super::words::OWN_VERSION;
use winimg_base::diag::{Diagnostic, nearest};
use winimg_base::text::Place;

/// What was given, and what the values of variables name in their turn.
#[derive(Debug, Default)]
pub struct Given {
    /// Names with the first place that gives them a value.
    pub places: BTreeMap<String, Place>,
    /// Names of variables with those that their values name.
    pub named: BTreeMap<String, Vec<String>>,
    /// All names that are declared, other names too.
    pub known: BTreeSet<String>,
    /// Other names, each with the variable that it means.
    pub aliases: BTreeMap<String, String>,
    /// All names with the word that wins; `None`: there is none.
    pub said: BTreeMap<String, Option<Said>>,
    /// All names with every word about them, from the first file that says one to the command line.
    pub words: BTreeMap<String, Vec<Said>>,
    /// What values of declared variables begin with.
    pub prefixes: BTreeMap<String, String>,
}

impl Given {
    /// A warning for each that no string of the tree reads, be it through other variables.
    pub fn unread(&self, tree: &Table) -> Vec<Diagnostic> {
        let mut reached = BTreeSet::new();
        for entry in tree.entries.iter().filter(|e| e.key != "vars") {
            if !self.reach(&entry.value, &mut reached) {
                return Vec::new();
            }
        }
        // A key of the recipe that slipped in here has a warning of its own.
        let slipped = |name: &String| DECIDING.contains(&name.as_str());
        let unread = self.places.iter();
        let unread = unread.filter(|(n, _)| !reached.contains(*n) && !slipped(n));
        unread
            .filter_map(|(n, at)| self.warning(n, at, &reached))
            .collect()
    }

    /// Whether every template below could be read; one that could not may name anything.
    fn reach(&self, value: &Value, reached: &mut BTreeSet<String>) -> bool {
        match &value.data {
            Data::Array(items) => items.iter().all(|item| self.reach(item, reached)),
            Data::Table(table) => table.entries.iter().all(|e| self.reach(&e.value, reached)),
            _ => match value.template.as_deref().map(template::parse) {
                None => true,
                Some(Ok(parts)) => {
                    for part in parts {
                        if let Part::Name(name) = part {
                            self.follow(&name, reached);
                        }
                    }
                    true
                }
                Some(Err(_)) => false,
            },
        }
    }

    /// Notes a variable and those that its value names in its turn, under all of their names.
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

    /// Nothing where a string has a slip in the name: it is refused, with this name for a cure.
    fn warning(&self, name: &str, at: &Place, reached: &BTreeSet<String>) -> Option<Diagnostic> {
        let others = reached.iter().map(String::as_str);
        let others = others.filter(|other| self.known.contains(*other) || !is_own(other));
        let help = match nearest(name, others) {
            Some(near) if !self.known.contains(near) => return None,
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("take it out, or use it: `{{{{{name}}}}}`"),
        };
        let fact = format!("nothing reads the variable `{name}`");
        Some(Diagnostic::warning(fact).at(at, "").help(help))
    }
}

/// Whether the text has a value of its own in some place, without a variable.
fn is_own(name: &str) -> bool {
    ["name", "version", "url", OWN_VERSION].contains(&name) || name.starts_with("components.")
}
