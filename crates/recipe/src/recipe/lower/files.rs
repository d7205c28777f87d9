//! Verbs about files: `copy`, `extract`, `file`, `directory`, `remove`.

use super::references::{RecipeItems, read_component_name};
use crate::recipe::fields::{LoweringContext, TableReader};
use crate::recipe::value::TomlValue;
use crate::recipe::{Encoding, StepContent, Verb};

/// Reads `component` or `path`, the source of a step's bytes.
pub fn read_content(fields: &TableReader<'_>, known: RecipeItems<'_>) -> Option<StepContent> {
    match (fields.has("component"), fields.has("path")) {
        (true, false) => read_component_name(fields, known).map(StepContent::Component),
        (false, true) => fields.read_local_path("path").map(StepContent::Local),
        (both, _) => {
            let help = "`component = \"kubelet\"` for a downloaded file, `path = \"files/x\"` for \
                        a file next to the recipe";
            if both {
                let fact = format!("{} has both `component` and `path`", fields.what);
                fields.cx.error(fact, &fields.place, "", help);
            } else {
                let fact = format!("{} has neither `component` nor `path`", fields.what);
                fields.cx.report_missing(fact, &fields.place, help);
            }
            None
        }
    }
}

pub fn copy(cx: &LoweringContext<'_>, value: &TomlValue, known: RecipeItems<'_>) -> Option<Verb> {
    let fields = TableReader::open(cx, value, "copy")?;
    let from = read_content(&fields, known);
    let to = fields.guest_path("to");
    Some(Verb::Copy {
        from: from?,
        to: to?,
    })
}

pub fn extract(
    cx: &LoweringContext<'_>,
    value: &TomlValue,
    known: RecipeItems<'_>,
) -> Option<Verb> {
    let fields = TableReader::open(cx, value, "extract")?;
    let component = read_component_name(&fields, known);
    if let Some(name) = &component
        && let Some(found) = known.components.iter().find(|c| c.name.value == name.value)
        && found.unpack.is_none()
    {
        let fact = format!("component `{}` is not an archive to unpack", name.value);
        let help = format!(
            "write `unpack = \"zip\"` (or tar, tar.gz, tar.zst) under `[components.{}]`",
            name.value
        );
        cx.error(fact, &name.place, "", &help);
    }
    let to = fields.guest_path("to");
    let strip = fields.read_integer("strip");
    let only = fields.read_texts("only");
    Some(Verb::Extract {
        component: component?,
        to: to?,
        strip: strip?.value as usize,
        only,
    })
}

pub fn read_file(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<Verb> {
    let fields = TableReader::open(cx, value, "file")?;
    let path = fields.guest_path("path");
    let content = fields.read_text("content");
    let encoding = fields.read_choice("encoding");
    Some(Verb::File {
        path: path?,
        content: content?,
        encoding: encoding.map_or(Encoding::Utf8, |e| e.value),
    })
}

pub fn read_directory(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<Verb> {
    let fields = TableReader::open(cx, value, "directory")?;
    let path = fields.guest_path("path");
    path.map(|path| Verb::Directory { path })
}

pub fn remove(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<Verb> {
    let fields = TableReader::open(cx, value, "remove")?;
    let path = fields.guest_path("path");
    let recursive = fields.flag("recursive");
    Some(Verb::Remove {
        path: path?,
        recursive,
    })
}
