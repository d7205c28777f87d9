//! Reads axes and rows from the tables of the file.

use super::combine::{AxisValue, ExcludeRow, IncludeRow, MatrixAxis, MatrixParts, build_variants};
use super::overrides::{self, VariantOverrides};
use super::{MatrixSpec, name, pipeline};
use crate::context::LoweringContext;
use crate::document::value::{TomlData, TomlEntry, TomlTable, TomlValue};
use crate::fields::TableReader;
use crate::keys;
use crate::keys::names::refused_name;
use winimg_base::diag::{Diagnostic, suggest};
use winimg_base::text::{Located, Place};

/// Keys of a row besides the axes, so that no axis can have these names. `recipe` is also a
/// variable of the name template.
const OWN: [&str; 4] = ["name", "recipe", "vars", "set"];

pub fn read_tables(
    cx: &LoweringContext<'_>,
    tree: &TomlTable,
    start: &Place,
) -> Option<MatrixSpec> {
    let what = "the matrix's file".to_owned();
    let top = TableReader::from_table(cx, tree, "matrix.file", what, start);
    top.ask();
    top.refuse_unknown();
    check_schema(&top);
    let pipeline = top
        .read_table("pipeline")
        .and_then(|own| pipeline::read(&own));
    let fields = top.read_table("matrix")?;
    let axes: Vec<MatrixAxis> = fields
        .map("axes")
        .iter()
        .map(|e| read_axis(&fields, e))
        .collect();
    let template = fields.read_string("name");
    if let Some(template) = &template {
        let axes: Vec<&str> = axes.iter().map(|axis| axis.name.value.as_str()).collect();
        name::judge(&fields, template, &axes);
    }
    let parts = MatrixParts {
        base: VariantOverrides::read(&fields),
        exclude: read_rows(&fields, "exclude", &axes, read_exclude),
        include: read_rows(&fields, "include", &axes, include),
        axes,
        template: template?,
    };
    Some(MatrixSpec {
        pipeline,
        ..build_variants(&fields, &parts)
    })
}

/// Refuses an unknown schema.
fn check_schema(top: &TableReader<'_>) {
    match top.get("schema").map(|value| (&value.data, value)) {
        Some((TomlData::Integer(1), _)) | None => {}
        Some((TomlData::Integer(other), value)) => {
            let fact = format!("schema {other} is not supported by this version");
            top.cx
                .error(fact, &value.place, "", "this version supports schema 1");
        }
        Some(_) => {
            top.read_integer("schema");
        }
    }
}

fn read_axis(fields: &TableReader<'_>, entry: &TomlEntry) -> MatrixAxis {
    let name = Located::new(entry.key.clone(), entry.key_place.clone());
    if OWN.contains(&entry.key.as_str()) {
        let fact = format!("an axis cannot be named `{}`", entry.key);
        let help = "rows of `include` have a key with this name";
        fields.cx.error(fact, &name.place, "", help);
    } else if let Some((fact, help)) = refused_name(&entry.key) {
        fields.cx.error(fact, &name.place, "", &help);
    }
    let mut values: Vec<AxisValue> = Vec::new();
    match &entry.value.data {
        TomlData::Array(items) if !items.is_empty() => {
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
        TomlData::Unknown => {}
        TomlData::Array(_) => {
            let fact = format!("the axis `{}` has no values", entry.key);
            let help = "add some, or remove the axis";
            fields.cx.error(fact, &entry.value.place, "", help);
        }
        _ => {
            let fact = format!(
                "the axis `{}` takes a list, not {}",
                entry.key,
                entry.value.kind_name()
            );
            let help = "such as [\"1.34.2\", \"1.35.1\"], or a list of tables with a `name` each";
            fields.cx.error(fact, &entry.value.place, "", help);
        }
    }
    MatrixAxis { name, values }
}

/// Reads a value of an axis: a string sets the variable with the name of the axis; a table sets its
/// own values.
fn axis_value(fields: &TableReader<'_>, axis: &str, value: &TomlValue) -> Option<AxisValue> {
    if !matches!(value.data, TomlData::Table(_)) {
        let text = overrides::read_variable(fields, value)?;
        return Some(AxisValue {
            name: text.clone(),
            says: VariantOverrides::from_variable(axis, text),
            is_plain: true,
        });
    }
    let what = format!("the value of `{axis}`");
    let own = TableReader::open_as(fields.cx, value, "matrix.value", what)?;
    Some(AxisValue {
        says: VariantOverrides::read(&own),
        name: own.read_string("name")?,
        is_plain: false,
    })
}

/// Reads the valid rows of `include` or `exclude`.
fn read_rows<T>(
    fields: &TableReader<'_>,
    key: &str,
    axes: &[MatrixAxis],
    row: impl Fn(&TableReader<'_>, &[MatrixAxis]) -> Option<T>,
) -> Vec<T> {
    let mut rows = Vec::new();
    for item in fields.list(key).unwrap_or_default() {
        let TomlData::Table(table) = &item.data else {
            let help = format!("each row is a table: [[matrix.{key}]]");
            let fact = format!("a row of `{key}` is {}", item.kind_name());
            fields.cx.error(fact, &item.place, "", &help);
            continue;
        };
        let keys = format!("matrix.{key}");
        let what = keys::find_table(&keys).title();
        let own = TableReader::from_table(fields.cx, table, &keys, what, &item.place);
        rows.extend(row(&own, axes));
    }
    rows
}

fn read_exclude(row: &TableReader<'_>, axes: &[MatrixAxis]) -> Option<ExcludeRow> {
    if row.table.entries.is_empty() {
        let help = "add axes and their values: without any it would exclude every variant";
        let fact = "a row of `exclude` has no axis";
        row.cx.error(fact, &row.place, "", help);
        return None;
    }
    let mut is_right = true;
    let mut wanted = Vec::new();
    for entry in &row.table.entries {
        let values = match &entry.value.data {
            TomlData::Array(items) => items.iter().collect(),
            _ => vec![&entry.value],
        };
        let Some(axis) = known_axis(row, entry, axes) else {
            is_right = false;
            continue;
        };
        let mut names = Vec::new();
        for value in values {
            let name = overrides::read_variable(row, value)
                .and_then(|text| known_value(row, &axes[axis], &text));
            is_right &= name.is_some();
            names.extend(name);
        }
        wanted.push((axis, names));
    }
    is_right.then(|| ExcludeRow {
        place: row.place.clone(),
        wanted,
    })
}

fn include(row: &TableReader<'_>, axes: &[MatrixAxis]) -> Option<IncludeRow> {
    let mut is_right = true;
    let mut values = Vec::new();
    let of_axes = row.table.entries.iter().filter(|e| !row.has_row(&e.key));
    for entry in of_axes {
        let axis = known_axis(row, entry, axes);
        let value = axis.and_then(|at| read_included_value(row, &axes[at], &entry.value));
        match axis.zip(value) {
            Some(found) => values.push(found),
            None => is_right = false,
        }
    }
    values.sort_by_key(|(axis, _)| *axis);
    let (name, says) = (row.read_string("name"), VariantOverrides::read(row));
    is_right.then(|| IncludeRow {
        place: row.place.clone(),
        name,
        says,
        values,
    })
}

/// Finds a value of the axis by its name; an axis with only strings also accepts a new one.
fn read_included_value(
    row: &TableReader<'_>,
    axis: &MatrixAxis,
    value: &TomlValue,
) -> Option<AxisValue> {
    let text = overrides::read_variable(row, value)?;
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
        says: VariantOverrides::from_variable(&axis.name.value, text),
        is_plain: true,
    })
}

fn known_axis(row: &TableReader<'_>, entry: &TomlEntry, axes: &[MatrixAxis]) -> Option<usize> {
    let found = axes.iter().position(|axis| axis.name.value == entry.key);
    if found.is_none() {
        let names: Vec<&str> = axes.iter().map(|a| a.name.value.as_str()).collect();
        let fact = format!("there is no axis `{}`", entry.key);
        let problem = Diagnostic::error(fact).at(&entry.key_place, "");
        row.cx
            .report(problem.help(suggest(&entry.key, &names, "axes")));
    }
    found
}

/// Returns the name of a value if the axis has it; complains otherwise.
fn known_value(row: &TableReader<'_>, axis: &MatrixAxis, text: &Located<String>) -> Option<String> {
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
        .report(problem.help(suggest(&text.value, &names, "values")));
    None
}
