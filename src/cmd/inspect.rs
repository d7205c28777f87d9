//! `winimg inspect`: the editions of an ISO, the partitions of a disk, a manifest in short.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli;
use crate::disk::{self, gpt};
use crate::error::{Error, Kind, Result};
use crate::event::Cancel;
use crate::record::Manifest;
use crate::udf::Medium;
use crate::wim::MediaFacts;

use super::print;

pub fn run(args: &cli::Inspect) -> Result<()> {
    let found = look(&args.file)?;
    if args.json {
        return print(&format!("{found:#}\n"));
    }
    let mut text = String::new();
    write(&mut text, &found, 0);
    print(&text)
}

/// An ISO has a volume descriptor, a manifest is JSON, everything else is a disk or nothing we know.
fn look(file: &Path) -> Result<Value> {
    if !file.exists() {
        return Err(Error::new(Kind::Recipe, "there is no such file").at(file.display()));
    }
    if file
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("json"))
    {
        let manifest = Manifest::read(file)?;
        return serde_json::to_value(&manifest)
            .map_err(|e| Error::new(Kind::Failed, "cannot show the manifest").because(e));
    }
    match Medium::open(file) {
        Ok(medium) => look_at_medium(&medium),
        Err(_)
            if !file
                .extension()
                .is_some_and(|e| e.eq_ignore_ascii_case("iso")) =>
        {
            look_at_disk(file)
        }
        Err(error) => Err(error),
    }
}

fn look_at_medium(medium: &Medium) -> Result<Value> {
    let mut shown = json!({
        "medium": medium.label(),
        "file system": medium.file_system().to_string(),
        "bytes": medium.size(),
    });
    let Ok(facts) = MediaFacts::read(medium) else {
        let names: Vec<String> = medium.read_dir("")?.into_iter().map(|e| e.name).collect();
        shown["root"] = json!(names);
        return Ok(shown);
    };
    shown["images"] = facts
        .images
        .images
        .iter()
        .map(|image| {
            json!({
                "index": image.index,
                "name": image.name,
                "short": image.short(),
                "display name": image.display_name,
                "version": image.version,
                "languages": image.languages.join(", "),
                "evaluation": facts.is_eval(image),
            })
        })
        .collect();
    Ok(shown)
}

fn look_at_disk(file: &Path) -> Result<Value> {
    let disk = disk::open(file, &Cancel::default())?;
    let table = gpt::table(disk.as_ref())?;
    Ok(json!({
        "format": format!("{:?}", disk::Format::of(file)?),
        "virtual bytes": disk.len(),
        "table": table,
    }))
}

/// JSON as indented lines for people.
fn write(text: &mut String, value: &Value, depth: usize) {
    let pad = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::Object(_) | Value::Array(_) => {
                        *text += &format!("{pad}{name}\n");
                        write(text, value, depth + 1);
                    }
                    Value::Null => {}
                    plain => *text += &format!("{pad}{name}: {}\n", bare(plain)),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                match item {
                    Value::Object(_) => {
                        let mut inside = String::new();
                        write(&mut inside, item, depth + 1);
                        // The first line carries the dash.
                        let lead = format!("{pad}- ");
                        *text += &inside.replacen(&format!("{pad}  "), &lead, 1);
                    }
                    plain => *text += &format!("{pad}- {}\n", bare(plain)),
                }
            }
        }
        plain => *text += &format!("{pad}{}\n", bare(plain)),
    }
}

fn bare(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
