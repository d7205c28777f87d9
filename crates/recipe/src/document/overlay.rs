//! Overrides by a matrix for the recipe of a variant, like `--var` and `--set`, but with places in
//! the matrix's file.

use crate::document::edit::{in_one_line, in_path};
use crate::document::value::{TomlData, TomlValue};
use winimg_base::text::{Located, Place};

/// Overrides of a recipe, applied after those of the command line.
#[derive(Clone, Debug, Default)]
pub struct RecipeOverlay {
    /// Names and values of variables. A later one wins.
    pub vars: Vec<(String, Located<String>)>,
    pub settings: Vec<RecipeSetting>,
}

/// A value at a path in a recipe.
#[derive(Clone, Debug)]
pub struct RecipeSetting {
    /// Its keys with their places.
    pub(crate) path: Vec<(String, Place)>,
    pub(crate) value: TomlValue,
}

impl RecipeOverlay {
    /// Renders the overrides as command line arguments for another process.
    pub fn to_flags(&self) -> Vec<String> {
        let vars = self
            .vars
            .iter()
            .flat_map(|(name, text)| ["--var".to_owned(), format!("{name}={}", text.value)]);
        let settings = self
            .settings
            .iter()
            .flat_map(|setting| ["--set".to_owned(), setting.to_text()]);
        vars.chain(settings).collect()
    }
}

impl RecipeSetting {
    /// Makes a setting of a top-level string.
    pub(crate) fn text_at_top(key: &str, text: Located<String>) -> Self {
        Self {
            path: vec![(key.into(), text.place.clone())],
            value: TomlValue::new(TomlData::String(text.value), text.place),
        }
    }

    /// Renders the dotted path and the TOML value, in the syntax of `--set`.
    fn to_text(&self) -> String {
        let keys: Vec<String> = self.path.iter().map(|(key, _)| in_path(key)).collect();
        format!("{}={}", keys.join("."), render_toml(&self.value))
    }
}

/// Renders the value as TOML in one line.
fn render_toml(value: &TomlValue) -> String {
    match &value.data {
        TomlData::String(text) => in_one_line(text),
        TomlData::Integer(number) => number.to_string(),
        TomlData::Float(text) | TomlData::Date(text) => text.clone(),
        TomlData::Bool(flag) => flag.to_string(),
        TomlData::Array(items) => {
            let items: Vec<String> = items.iter().map(render_toml).collect();
            format!("[{}]", items.join(", "))
        }
        TomlData::Table(table) => {
            let entries: Vec<String> = table
                .entries
                .iter()
                .map(|entry| format!("{} = {}", in_path(&entry.key), render_toml(&entry.value)))
                .collect();
            format!("{{ {} }}", entries.join(", "))
        }
        // A matrix substitutes no variables, and values with errors make no variant.
        TomlData::Undecided(_) | TomlData::Unknown => String::new(),
    }
}
