//! Verbs about files: `copy`, `extract`, `file`, `directory`, `remove`.

use super::known::{Known, component};
use crate::recipe::fields::{Context, Fields};
use crate::recipe::value::Value;
use crate::recipe::{Content, Encoding, Verb};

/// `component` or `path`: where a step's bytes come from.
pub fn content(fields: &Fields<'_>, known: Known<'_>) -> Option<Content> {
    match (fields.has("component"), fields.has("path")) {
        (true, false) => {
            fields.get("path");
            component(fields, known).map(Content::Component)
        }
        (false, true) => {
            fields.get("component");
            fields.local("path").map(Content::Local)
        }
        (both, _) => {
            fields.get("component");
            fields.get("path");
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
    let fields = Fields::open(cx, value, "`copy`")?;
    let from = content(&fields, known);
    let to = fields.guest_path("to", "say where to: `to = 'C:\\k\\kubelet.exe'`");
    fields.finish();
    Some(Verb::Copy {
        from: from?,
        to: to?,
    })
}

pub fn extract(cx: &Context<'_>, value: &Value, known: Known<'_>) -> Option<Verb> {
    let fields = Fields::open(cx, value, "`extract`")?;
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
    let to = fields.guest_path("to", "say where to: `to = 'C:\\Program Files\\containerd'`");
    let strip = fields.integer("strip", 0, 64);
    let stripped = strip.is_some() || !fields.has("strip");
    let only = fields.texts("only");
    fields.finish();
    Some(Verb::Extract {
        component: component?,
        to: to?,
        strip: strip.map_or(0, |s| s.value as usize),
        only,
    })
    .filter(|_| stripped)
}

pub fn file(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    let fields = Fields::open(cx, value, "`file`")?;
    let path = fields.guest_path("path", "say where: `path = 'C:\\k\\config.toml'`");
    fields.need(
        "content",
        "give the text: `content = '''…'''`; an empty file has `content = \"\"`",
    );
    let content = fields.text("content");
    let encoding = fields.choice(
        "encoding",
        &[
            ("utf-8", Encoding::Utf8),
            ("utf-8-bom", Encoding::Utf8Bom),
            ("utf-16", Encoding::Utf16),
        ],
    );
    fields.finish();
    Some(Verb::File {
        path: path?,
        content: content?,
        encoding: encoding.map_or(Encoding::Utf8, |e| e.value),
    })
}

pub fn directory(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    let fields = Fields::open(cx, value, "`directory`")?;
    let path = fields.guest_path("path", "say which: `path = 'C:\\etc\\cni\\net.d'`");
    fields.finish();
    path.map(|path| Verb::Directory { path })
}

pub fn remove(cx: &Context<'_>, value: &Value) -> Option<Verb> {
    let fields = Fields::open(cx, value, "`remove`")?;
    let path = fields.guest_path("path", "say what: `path = 'C:\\k\\old.exe'`");
    let recursive = fields.boolean("recursive");
    fields.finish();
    Some(Verb::Remove {
        path: path?,
        recursive: recursive.is_some_and(|r| r.value),
    })
}
