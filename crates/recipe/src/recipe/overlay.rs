//! What a matrix says over the recipe of one of its variants: as `--var` and `--set` would, and with its places in the matrix's file.

use super::put::{in_one_line, in_path};
use super::value::{Data, Value};
use winimg_base::text::{Located, Place};

/// Laid over a recipe after the command line's own words.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    /// Of each variable its name, its value, and where it stands. A later one wins.
    pub vars: Vec<(String, Located<String>)>,
    pub settings: Vec<Setting>,
}

/// One value in a recipe.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its keys, each where it is written.
    pub(super) path: Vec<(String, Place)>,
    pub(super) value: Value,
}

impl Overlay {
    /// The same words for the command line of a process of its own.
    pub fn flags(&self) -> Vec<String> {
        let vars = self.vars.iter();
        let vars = vars.flat_map(|(name, v)| ["--var".to_owned(), format!("{name}={}", v.value)]);
        let settings = self.settings.iter();
        let settings = settings.flat_map(|s| ["--set".to_owned(), s.text()]);
        vars.chain(settings).collect()
    }
}

impl Setting {
    /// A text at the top of the recipe.
    pub(super) fn text_at_top(key: &str, text: Located<String>) -> Self {
        Self {
            path: vec![(key.into(), text.place.clone())],
            value: Value::new(Data::String(text.value), text.place),
        }
    }

    /// The path in dots and its value in TOML: what `--set` takes.
    fn text(&self) -> String {
        let keys = self.path.iter().map(|(key, _)| in_path(key));
        let keys: Vec<String> = keys.collect();
        format!("{}={}", keys.join("."), toml(&self.value))
    }
}

/// The value as TOML writes it in one line.
fn toml(value: &Value) -> String {
    match &value.data {
        Data::String(text) => in_one_line(text),
        Data::Integer(number) => number.to_string(),
        Data::Float(text) | Data::Date(text) => text.clone(),
        Data::Bool(flag) => flag.to_string(),
        Data::Array(items) => {
            let items: Vec<String> = items.iter().map(toml).collect();
            format!("[{}]", items.join(", "))
        }
        Data::Table(table) => {
            let entry =
                |e: &super::value::Entry| format!("{} = {}", in_path(&e.key), toml(&e.value));
            let entries: Vec<String> = table.entries.iter().map(entry).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        // A matrix fills in no variables of a recipe, and what it could not read makes no variant.
        Data::Undecided(_) | Data::Unknown => String::new(),
    }
}
