//! From the tables of the file to axes and rows.

use super::combine::{Axis, AxisValue, Exclude, Include, Parts, combine};
use super::value::{self, Says};
use super::{Matrix, name, pipeline};
use crate::recipe::context::Context;
use crate::recipe::fields::Fields;
use crate::recipe::keys;
use crate::recipe::value::{Data, Entry, Table, Value};
use crate::recipe::words::refused_name;
use winimg_base::diag::{Diagnostic, suggestion};
use winimg_base::text::{Located, Place};

/// What a row has beside its axes, so that no axis is called so; `recipe` is a word of the names' template as well.
const OWN: [&str; 4] = ["name", "recipe", "vars", "set"];

pub fn matrix(cx: &Context<'_>, tree: &Table, start: &Place) -> Option<Matrix> {
    let what = "the matrix's file".to_owned();
    let top = Fields::of(cx, tree, "matrix.file", what, start);
    top.ask();
    top.refuse_unknown();
    schema(&top);
    let pipeline = top.table("pipeline").and_then(|own| pipeline::read(&own));
    let fields = top.table("matrix")?;
    let axes: Vec<Axis> = fields
        .map("axes")
        .iter()
        .map(|e| axis(&fields, e))
        .collect();
    let template = fields.string("name");
    if let Some(template) = &template {
        let axes: Vec<&str> = axes.iter().map(|axis| axis.name.value.as_str()).collect();
        name::judge(&fields, template, &axes);
    }
    let parts = Parts {
        base: Says::read(&fields),
        exclude: rows(&fields, "exclude", &axes, exclude),
        include: rows(&fields, "include", &axes, include),
        axes,
        template: template?,
    };
    Some(Matrix {
        pipeline,
        ..combine(&fields, &parts)
    })
}

/// The one that this version reads.
fn schema(top: &Fields<'_>) {
    match top.get("schema").map(|value| (&value.data, value)) {
        Some((Data::Integer(1), _)) | None => {}
        Some((Data::Integer(other), value)) => {
            let fact = format!("schema {other} is not known to this version");
            top.cx
                .error(fact, &value.place, "", "this version reads schema 1");
        }
        Some(_) => {
            top.integer("schema");
        }
    }
}

fn axis(fields: &Fields<'_>, entry: &Entry) -> Axis {
    let name = Located::new(entry.key.clone(), entry.key_place.clone());
    if OWN.contains(&entry.key.as_str()) {
        let fact = format!("an axis cannot be called `{}`", entry.key);
        let help = "rows of `include` have a key of this name";
        fields.cx.error(fact, &name.place, "", help);
    } else if let Some((fact, help)) = refused_name(&entry.key) {
        fields.cx.error(fact, &name.place, "", &help);
    }
    let mut values: Vec<AxisValue> = Vec::new();
    match &entry.value.data {
        Data::Array(items) if !items.is_empty() => {
            for item in items {
                let Some(value) = axis_value(fields, &entry.key, item) else {
                    continue;
                };
                if values.iter().any(|v| v.name.value == value.name.value) {
                    let fact = format!("`{}` has \"{}\" twice", entry.key, value.name.value);
                    fields.cx.error(fact, &value.name.place, "", "");
                }
                values.push(value);
            }
        }
        Data::Unknown => {}
        Data::Array(_) => {
            let fact = format!("the axis `{}` has no values", entry.key);
            let help = "name some, or leave it out";
            fields.cx.error(fact, &entry.value.place, "", help);
        }
        _ => {
            let fact = format!(
                "the axis `{}` takes a list, not {}",
                entry.key,
                entry.value.kind()
            );
            let help = "such as [\"1.34.2\", \"1.35.1\"], or a list of tables with a `name` each";
            fields.cx.error(fact, &entry.value.place, "", help);
        }
    }
    Axis { name, values }
}

/// A text is the value of the variable that is called as the axis; a table says what it says.
fn axis_value(fields: &Fields<'_>, axis: &str, value: &Value) -> Option<AxisValue> {
    if !matches!(value.data, Data::Table(_)) {
        let text = value::variable(fields, value)?;
        return Some(AxisValue {
            name: text.clone(),
            says: Says::variable(axis, text),
            is_plain: true,
        });
    }
    let what = format!("the value of `{axis}`");
    let own = Fields::called(fields.cx, value, "matrix.value", what)?;
    Some(AxisValue {
        says: Says::read(&own),
        name: own.string("name")?,
        is_plain: false,
    })
}

/// The rows of `include` or `exclude` that are right.
fn rows<T>(
    fields: &Fields<'_>,
    key: &str,
    axes: &[Axis],
    row: impl Fn(&Fields<'_>, &[Axis]) -> Option<T>,
) -> Vec<T> {
    let items = fields.list(key).unwrap_or_default().iter();
    let one = |item: &Value| {
        let Data::Table(table) = &item.data else {
            let help = format!("each row is a table: [[matrix.{key}]]");
            let fact = format!("a row of `{key}` is {}", item.kind());
            fields.cx.error(fact, &item.place, "", &help);
            return None;
        };
        let keys = format!("matrix.{key}");
        let own = Fields::of(
            fields.cx,
            table,
            &keys,
            keys::of(&keys).title(),
            &item.place,
        );
        row(&own, axes)
    };
    items.filter_map(one).collect()
}

fn exclude(row: &Fields<'_>, axes: &[Axis]) -> Option<Exclude> {
    if row.table.entries.is_empty() {
        let help = "name axes and their values: without any it would exclude every variant";
        let fact = "a row of `exclude` names no axis";
        row.cx.error(fact, &row.place, "", help);
        return None;
    }
    let mut is_right = true;
    let mut wanted = Vec::new();
    for entry in &row.table.entries {
        let values = match &entry.value.data {
            Data::Array(items) => items.iter().collect(),
            _ => vec![&entry.value],
        };
        let Some(axis) = known_axis(row, entry, axes) else {
            is_right = false;
            continue;
        };
        let name = |value: &Value| {
            let text = value::variable(row, value)?;
            known_value(row, &axes[axis], &text)
        };
        let names: Vec<Option<String>> = values.into_iter().map(name).collect();
        is_right &= names.iter().all(Option::is_some);
        wanted.push((axis, names.into_iter().flatten().collect()));
    }
    is_right.then(|| Exclude {
        place: row.place.clone(),
        wanted,
    })
}

fn include(row: &Fields<'_>, axes: &[Axis]) -> Option<Include> {
    let mut is_right = true;
    let mut values = Vec::new();
    let of_axes = row.table.entries.iter().filter(|e| !row.knows(&e.key));
    for entry in of_axes {
        let axis = known_axis(row, entry, axes);
        let value = axis.and_then(|at| included(row, &axes[at], &entry.value));
        match axis.zip(value) {
            Some(found) => values.push(found),
            None => is_right = false,
        }
    }
    values.sort_by_key(|(axis, _)| *axis);
    let (name, says) = (row.string("name"), Says::read(row));
    is_right.then(|| Include {
        place: row.place.clone(),
        name,
        says,
        values,
    })
}

/// A value of the axis by its name; where all of them are texts, another one, too.
fn included(row: &Fields<'_>, axis: &Axis, value: &Value) -> Option<AxisValue> {
    let text = value::variable(row, value)?;
    let named = axis.values.iter().find(|v| v.name.value == text.value);
    if let Some(named) = named {
        return Some(named.clone());
    }
    if axis.values.iter().any(|v| !v.is_plain) {
        known_value(row, axis, &text);
        return None;
    }
    Some(AxisValue {
        name: text.clone(),
        says: Says::variable(&axis.name.value, text),
        is_plain: true,
    })
}

fn known_axis(row: &Fields<'_>, entry: &Entry, axes: &[Axis]) -> Option<usize> {
    let found = axes.iter().position(|axis| axis.name.value == entry.key);
    if found.is_none() {
        let names: Vec<&str> = axes.iter().map(|a| a.name.value.as_str()).collect();
        let fact = format!("there is no axis `{}`", entry.key);
        let problem = Diagnostic::error(fact).at(&entry.key_place, "");
        row.cx
            .problem(problem.help(suggestion(&entry.key, &names, "axes")));
    }
    found
}

/// The name of a value that the axis has.
fn known_value(row: &Fields<'_>, axis: &Axis, text: &Located<String>) -> Option<String> {
    let names: Vec<&str> = axis.values.iter().map(|v| v.name.value.as_str()).collect();
    if names.contains(&text.value.as_str()) {
        return Some(text.value.clone());
    }
    let fact = format!(
        "the axis `{}` has no value \"{}\"",
        axis.name.value, text.value
    );
    let problem = Diagnostic::error(fact).at(&text.place, "");
    row.cx
        .problem(problem.help(suggestion(&text.value, &names, "values")));
    None
}
