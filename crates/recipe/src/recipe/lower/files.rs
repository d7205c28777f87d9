//! Verbs about files: `copy`, `extract`, `file`, `directory`, `remove`.

use super::known::{Known, component};
use crate::recipe::fields::{Context, Fields};
use crate::recipe::value::Value;
use crate::recipe::{Content, Encoding, Verb};

/// `component` or `path`: where a step's bytes come from.
pub fn content(fields: &Fields<'_>, known: Known<'_>) -> Option<Content> {
    match (fields.has("component"), fields.has("path")) {
        (true, false) => component(fields, known).map(Content::Component),
        (false, true) => fields.local("path").map(Content::Local),
        (both, _) => {
            let help = "`component = \"kubelet\"` for a fetched file, `path = \"files/x\"` for one beside the recipe";
            match both {
                true => {
                    let fact = format!("{} has both `component` and `path`", fields.what);
                    fields.cx.error(fact, &fields.place, "", help);
                }
                false => {
                    let fact = format!("{} has neither `component` nor `path`", fields.what);
                    fields.cx.missing(fact, &fields.place, help);
                }
            }
            None
        }
    }
}

pub fn copy(cx: &Context<'_>, value: &Value, known: Known<'_>) -> Option<Verb> {
    let fields = Fields::open(cx, value, "copy")?;
    let from = content(&fields, known);
    let to = fields.guest_path("to");
    Some(Verb::Copy {
        from: from?,
        to: to?,
    })
}

pub fn extract(cx: &Context<'_>, value: &Value, known: Known<'_>) -> Option<Verb> {
    let fields = Fields::open(cx, value, "extract")?;
    let component = component(&fields, known);
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
    let strip = fields.integer("strip");
    let only = fields.texts("only");
    Some(Verb::Extract {
        component: component?,
        to: to?,
        strip: strip?.value as usize,
        only,
    })
}

pub fn file(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    let fields = Fields::open(cx, value, "file")?;
    let path = fields.guest_path("path");
    let content = fields.text("content");
    let encoding = fields.choice("encoding");
    Some(Verb::File {
        path: path?,
        content: content?,
        encoding: encoding.map_or(Encoding::Utf8, |e| e.value),
    })
}

pub fn directory(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    let fields = Fields::open(cx, value, "directory")?;
    let path = fields.guest_path("path");
    path.map(|path| Verb::Directory { path })
}

pub fn remove(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    let fields = Fields::open(cx, value, "remove")?;
    let path = fields.guest_path("path");
    let recursive = fields.flag("recursive");
    Some(Verb::Remove {
        path: path?,
        recursive,
    })
}
