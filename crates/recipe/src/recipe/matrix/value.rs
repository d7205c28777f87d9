//! What a value of an axis, a row or the whole matrix says over a recipe.

use std::path::PathBuf;

use crate::recipe::decide::scalar;
use crate::recipe::fields::Fields;
use crate::recipe::overlay::Setting;
use crate::recipe::value::{Data, Table, Value};
use winimg_base::text::{Located, Place};

/// Another recipe, variables and values: any of them.
#[derive(Clone, Debug, Default)]
pub struct Says {
    pub recipe: Option<Located<PathBuf>>,
    /// With the place of each name.
    pub vars: Vec<(String, Place, Located<String>)>,
    pub settings: Vec<Setting>,
}

impl Says {
    /// The keys `recipe`, `vars` and `set` of the table.
    pub fn read(fields: &Fields<'_>) -> Self {
        let recipe = fields.string("recipe").map(|text| {
            let path = fields.cx.sources.folder(&text.place).join(&text.value);
            Located::new(path, text.place)
        });
        let mut settings = Vec::new();
        match fields.get("set").map(|value| (&value.data, value)) {
            Some((Data::Table(table), _)) => leaves(table, &mut Vec::new(), &mut settings),
            Some((Data::Unknown, _)) | None => {}
            Some((_, value)) => {
                let fact = format!("`set` takes a table, not {}", value.kind());
                let help = "write what a recipe would say, such as `set = { machine.cpus = 8 }`";
                fields.cx.error(fact, &value.place, value.kind(), help);
            }
        }
        for setting in &settings {
            refuse(fields, setting);
        }
        let vars = fields.map("vars").iter().filter_map(|entry| {
            let text = variable(fields, &entry.value)?;
            Some((entry.key.clone(), entry.key_place.clone(), text))
        });
        Self {
            recipe,
            vars: vars.collect(),
            settings,
        }
    }

    /// The one variable of this name.
    pub fn variable(name: &str, value: Located<String>) -> Self {
        let vars = vec![(name.to_owned(), value.place.clone(), value)];
        Self {
            vars,
            ..Self::default()
        }
    }
}

/// What a variable takes, as text.
pub fn variable(fields: &Fields<'_>, value: &Value) -> Option<Located<String>> {
    if matches!(value.data, Data::Unknown) {
        return None;
    }
    match scalar(value) {
        Ok(text) => Some(Located::new(text, value.place.clone())),
        Err(problem) => {
            fields.cx.problem(problem);
            None
        }
    }
}

/// What the matrix itself decides, and what `--set` does not take.
fn refuse(fields: &Fields<'_>, setting: &Setting) {
    let Some((first, place)) = setting.path.first() else {
        return;
    };
    let help = match first.as_str() {
        "name" => "a variant's name is made by `name` under [matrix]",
        "vars" => "variables stand under `vars`",
        _ => return,
    };
    let fact = format!("`set` does not take `{first}`");
    fields.cx.error(fact, place, "", help);
}

/// Every value below the table that is no table itself; a table without entries is a value.
fn leaves(table: &Table, path: &mut Vec<(String, Place)>, found: &mut Vec<Setting>) {
    for entry in &table.entries {
        path.push((entry.key.clone(), entry.key_place.clone()));
        match &entry.value.data {
            Data::Table(inner) if !inner.entries.is_empty() => leaves(inner, path, found),
            Data::Unknown => {}
            _ => found.push(Setting {
                path: path.clone(),
                value: entry.value.clone(),
            }),
        }
        path.pop();
    }
}
