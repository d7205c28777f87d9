//! Finds the places in the recipe's own file that can be updated: a component's version and its
//! digest.
//!
//! Pure. Follows a variable to the assignment that wins. Refuses texts of several parts, values
//! from the command line or the environment, and literal values in other files.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::ComponentSpec;
use crate::document::merge::DIGESTS;
use crate::document::value::{TomlTable, TomlValue};
use crate::vars::declaration::{Assignment, AssignmentLevel};
use crate::vars::template::{self, TemplatePart};
use crate::vars::unused::VariableUsage;
use winimg_base::text::SourceText;

/// A key of the recipe's own file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueSlot {
    /// Path of the table, outermost first.
    pub tables: Vec<String>,
    /// Several keys if the recipe sets a variable under several names. The key is not in the file
    /// yet if only a pack sets the variable.
    pub keys: Vec<String>,
    /// The text in the recipe or in the pack.
    pub written: String,
}

impl fmt::Display for ValueSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = self.tables.join(".");
        let keys = self.keys.iter().map(|key| format!("{tables}.{key}"));
        f.write_str(&keys.collect::<Vec<_>>().join(", "))
    }
}

/// Finds the places of each component's version and digest. `tree` is the whole recipe, `root` its
/// own file.
pub fn find(
    components: &mut [ComponentSpec],
    tree: &TomlTable,
    given: &VariableUsage,
    root: &Arc<SourceText>,
) {
    let search = SlotSearch {
        vars: tree.get("vars").and_then(TomlValue::as_table),
        said: &given.said,
        aliases: &given.aliases,
        root,
    };
    let tables = tree
        .get("components")
        .and_then(TomlValue::as_table)
        .map(TomlTable::by_key)
        .unwrap_or_default();
    for component in components {
        let name = component.name.value.clone();
        let table = tables
            .get(name.as_str())
            .and_then(|entry| entry.value.as_table());
        component.version_slot = search.key_slot(&name, "version", table);
        component.digest_slot = DIGESTS
            .iter()
            .find_map(|key| search.key_slot(&name, key, table));
    }
}

struct SlotSearch<'a> {
    vars: Option<&'a TomlTable>,
    said: &'a BTreeMap<String, Option<Assignment>>,
    aliases: &'a BTreeMap<String, String>,
    root: &'a Arc<SourceText>,
}

impl SlotSearch<'_> {
    /// Finds the place of a key, if the table has it.
    fn key_slot(
        &self,
        component: &str,
        key: &str,
        table: Option<&TomlTable>,
    ) -> Option<Result<ValueSlot, String>> {
        Some(self.find_slot(component, key, table?.get(key)?))
    }

    /// Finds the place of a value. The error continues a sentence that begins with "its version".
    fn find_slot(
        &self,
        component: &str,
        key: &str,
        value: &TomlValue,
    ) -> Result<ValueSlot, String> {
        if let Some(template) = &value.template {
            return self.find_variable(parse_only(template)?);
        }
        let source = &value.place.source;
        if !Arc::ptr_eq(source, self.root) {
            return Err(format!("is written in {} without a variable", source.name));
        }
        Ok(ValueSlot {
            tables: vec!["components".into(), component.into()],
            keys: vec![key.into()],
            written: value.as_str().unwrap_or_default().into(),
        })
    }

    fn find_variable(&self, name: String) -> Result<ValueSlot, String> {
        let Some(Some(said)) = self.said.get(&name) else {
            return Err(format!("is `{name}`, which the recipe does not set"));
        };
        // A recipe with a cycle of variables was refused.
        if said.template && template::is_template(&said.text) {
            return self.find_variable(parse_only(&said.text)?);
        }
        let variable = self.aliases.get(&name).unwrap_or(&name).clone();
        let is_here = Arc::ptr_eq(&said.place.source, self.root);
        let (tables, keys) = match said.level {
            AssignmentLevel::Environment
            | AssignmentLevel::ImageBuilder
            | AssignmentLevel::VarFile
            | AssignmentLevel::Flag => {
                return Err(format!("is `{name}`, which {} sets", said.origin));
            }
            AssignmentLevel::Recipe => (vec!["vars".into()], self.list_names(&variable)),
            AssignmentLevel::Default if is_here => {
                (vec!["vars".into(), variable], vec!["default".into()])
            }
            AssignmentLevel::Default | AssignmentLevel::Include => {
                (vec!["vars".into()], vec![variable])
            }
        };
        Ok(ValueSlot {
            tables,
            keys,
            written: said.text.clone(),
        })
    }

    /// Lists the names under which the recipe's own file sets the variable.
    fn list_names(&self, variable: &String) -> Vec<String> {
        self.aliases
            .iter()
            .filter(|(_, of)| *of == variable)
            .map(|(alias, _)| alias)
            .chain([variable])
            .filter(|name| self.is_set(name))
            .cloned()
            .collect()
    }

    fn is_set(&self, name: &str) -> bool {
        let value = self.vars.and_then(|vars| vars.get(name));
        value.is_some_and(|value| {
            value.as_table().is_none() && Arc::ptr_eq(&value.place.source, self.root)
        })
    }
}

/// Returns the variable of a text that consists only of it.
fn parse_only(text: &str) -> Result<String, String> {
    let parts = template::parse(text).unwrap_or_default();
    match <[TemplatePart; 1]>::try_from(parts) {
        Ok([TemplatePart::Name(name)]) => Ok(name),
        _ => Err(format!("is composed of several parts: {text}")),
    }
}
