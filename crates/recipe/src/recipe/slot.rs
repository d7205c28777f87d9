//! Where the recipe's own file holds a value that a later one may take the place of: a component's version, and its digest.
//!
//! Pure. Follows a text that is one variable to the word about it that wins. Refuses a text of several pieces, a word of the
//! command line or the environment, and one that another file says without a variable.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::Component;
use super::declare::{Level, Said};
use super::merge::DIGESTS;
use super::template::{self, Part};
use super::unread::Given;
use super::value::{Table, Value};
use winimg_base::text::Source;

/// A key of the recipe's own file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// From the outermost.
    pub tables: Vec<String>,
    /// More than one where the recipe gives a variable under several of its names. Not in the file yet where it only has a pack's.
    pub keys: Vec<String>,
    /// The text in it, or in the pack.
    pub written: String,
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = self.tables.join(".");
        let keys = self.keys.iter().map(|key| format!("{tables}.{key}"));
        f.write_str(&keys.collect::<Vec<_>>().join(", "))
    }
}

/// Notes of each component where its version and its digest are. `tree` is the whole recipe, `root` its own file.
pub fn find(components: &mut [Component], tree: &Table, given: &Given, root: &Arc<Source>) {
    let search = Search {
        vars: tree.get("vars").and_then(Value::as_table),
        said: &given.said,
        aliases: &given.aliases,
        root,
    };
    let all = tree.get("components").and_then(Value::as_table);
    let all = all.map(Table::by_key).unwrap_or_default();
    for component in components {
        let name = component.name.value.clone();
        let table = all
            .get(name.as_str())
            .and_then(|entry| entry.value.as_table());
        let slot = |key: &str| Some(search.slot(&name, key, table?.get(key)?));
        component.version_slot = slot("version");
        component.digest_slot = DIGESTS.iter().find_map(|key| slot(key));
    }
}

struct Search<'a> {
    vars: Option<&'a Table>,
    said: &'a BTreeMap<String, Option<Said>>,
    aliases: &'a BTreeMap<String, String>,
    root: &'a Arc<Source>,
}

impl Search<'_> {
    /// The error fits after "its version".
    fn slot(&self, component: &str, key: &str, value: &Value) -> Result<Slot, String> {
        if let Some(template) = &value.template {
            return self.variable(only(template)?);
        }
        let source = &value.place.source;
        if !Arc::ptr_eq(source, self.root) {
            return Err(format!("is written in {} and is no variable", source.name));
        }
        Ok(Slot {
            tables: vec!["components".into(), component.into()],
            keys: vec![key.into()],
            written: value.as_str().unwrap_or_default().into(),
        })
    }

    fn variable(&self, name: String) -> Result<Slot, String> {
        let Some(Some(said)) = self.said.get(&name) else {
            return Err(format!("is `{name}`, which no recipe sets"));
        };
        // A recipe whose variables go in a circle was refused.
        if said.template && template::is_template(&said.text) {
            return self.variable(only(&said.text)?);
        }
        let variable = self.aliases.get(&name).unwrap_or(&name).clone();
        let is_here = Arc::ptr_eq(&said.place.source, self.root);
        let (tables, keys) = match said.level {
            Level::Environment | Level::ImageBuilder | Level::VarFile | Level::Flag => {
                return Err(format!("is `{name}`, which {} sets", said.origin));
            }
            Level::Recipe => (vec!["vars".into()], self.names(&variable)),
            Level::Default if is_here => (vec!["vars".into(), variable], vec!["default".into()]),
            Level::Default | Level::Include => (vec!["vars".into()], vec![variable]),
        };
        Ok(Slot {
            tables,
            keys,
            written: said.text.clone(),
        })
    }

    /// The names of the variable under which the recipe's own file gives it a value.
    fn names(&self, variable: &String) -> Vec<String> {
        let others = self.aliases.iter().filter(|(_, of)| *of == variable);
        let all = others.map(|(alias, _)| alias).chain([variable]);
        let is_given = |name: &&String| {
            let value = self.vars.and_then(|vars| vars.get(name));
            value.is_some_and(|value| {
                value.as_table().is_none() && Arc::ptr_eq(&value.place.source, self.root)
            })
        };
        all.filter(is_given).cloned().collect()
    }
}

/// The one variable that the text is.
fn only(text: &str) -> Result<String, String> {
    let parts = template::parse(text).unwrap_or_default();
    match <[Part; 1]>::try_from(parts) {
        Ok([Part::Name(name)]) => Ok(name),
        _ => Err(format!("is put together: {text}")),
    }
}
