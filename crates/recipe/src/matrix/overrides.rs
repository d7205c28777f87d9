//! Overrides of a recipe by a value of an axis, a row or the whole matrix.

use std::path::PathBuf;

use crate::document::overlay::RecipeSetting;
use crate::document::value::{TomlData, TomlTable, TomlValue};
use crate::fields::TableReader;
use crate::vars::precedence::to_scalar_text;
use winimg_base::text::{Located, Place};

/// Overrides: another recipe, variables and values, all optional.
#[derive(Clone, Debug, Default)]
pub struct VariantOverrides {
    pub recipe: Option<Located<PathBuf>>,
    /// Names with their places, and values.
    pub vars: Vec<(String, Place, Located<String>)>,
    pub settings: Vec<RecipeSetting>,
}

impl VariantOverrides {
    /// Reads the keys `recipe`, `vars` and `set` of the table.
    pub fn read(fields: &TableReader<'_>) -> Self {
        let recipe = fields.read_string("recipe").map(|text| {
            let path = fields.cx.sources.find_folder(&text.place).join(&text.value);
            Located::new(path, text.place)
        });
        let mut settings = Vec::new();
        match fields.get("set").map(|value| (&value.data, value)) {
            Some((TomlData::Table(table), _)) => {
                collect_leaves(table, &mut Vec::new(), &mut settings)
            }
            Some((TomlData::Unknown, _)) | None => {}
            Some((_, value)) => {
                let fact = format!("`set` takes a table, not {}", value.kind_name());
                let help = "write keys of a recipe, such as `set = { machine.cpus = 8 }`";
                fields.cx.error(fact, &value.place, value.kind_name(), help);
            }
        }
        for setting in &settings {
            refuse(fields, setting);
        }
        let vars = fields.map("vars").iter().filter_map(|entry| {
            let text = read_variable(fields, &entry.value)?;
            Some((entry.key.clone(), entry.key_place.clone(), text))
        });
        Self {
            recipe,
            vars: vars.collect(),
            settings,
        }
    }

    /// Makes an override of one variable.
    pub fn from_variable(name: &str, value: Located<String>) -> Self {
        let vars = vec![(name.to_owned(), value.place.clone(), value)];
        Self {
            vars,
            ..Self::default()
        }
    }
}

/// Reads the value of a variable as text.
pub fn read_variable(fields: &TableReader<'_>, value: &TomlValue) -> Option<Located<String>> {
    if matches!(value.data, TomlData::Unknown) {
        return None;
    }
    match to_scalar_text(value) {
        Ok(text) => Some(Located::new(text, value.place.clone())),
        Err(problem) => {
            fields.cx.report(problem);
            None
        }
    }
}

/// Complains about keys that the matrix itself sets, and those that `--set` does not accept.
fn refuse(fields: &TableReader<'_>, setting: &RecipeSetting) {
    let Some((first, place)) = setting.path.first() else {
        return;
    };
    let help = match first.as_str() {
        "name" => "a variant's name comes from `name` under [matrix]",
        "vars" => "set variables under `vars`",
        _ => return,
    };
    let fact = format!("`set` does not accept `{first}`");
    fields.cx.error(fact, place, "", help);
}

/// Collects every value below the table that is not a table; an empty table is a value.
fn collect_leaves(
    table: &TomlTable,
    path: &mut Vec<(String, Place)>,
    found: &mut Vec<RecipeSetting>,
) {
    for entry in &table.entries {
        path.push((entry.key.clone(), entry.key_place.clone()));
        match &entry.value.data {
            TomlData::Table(inner) if !inner.entries.is_empty() => {
                collect_leaves(inner, path, found)
            }
            TomlData::Unknown => {}
            _ => found.push(RecipeSetting {
                path: path.clone(),
                value: entry.value.clone(),
            }),
        }
        path.pop();
    }
}
