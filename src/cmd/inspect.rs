//! `winimg inspect`: shows the editions of an ISO, the partitions of a disk, or a summary of a
//! manifest.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli;
use crate::record::BuildManifest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_formats::disk::{ImageFormat, gpt};
use winimg_formats::udf::Medium;
use winimg_formats::wim::MediaFacts;

use super::{
    CommandContext, is_record, manifest_summary, must_exist, partitions, print, print_json, usage,
};

pub fn run(args: &cli::InspectArgs, context: &CommandContext) -> Result<()> {
    if args.usage {
        let found = usage::read_usage(&args.file, context)?;
        return if args.json {
            print_json(&json!(found))
        } else {
            print(&usage::render(&found))
        };
    }
    must_exist(&args.file)?;
    if is_record(&args.file) && !args.json {
        return print(&manifest_summary::render(&BuildManifest::read(&args.file)?));
    }
    let found = inspect_file(&args.file)?;
    if args.json {
        return print_json(&found);
    }
    let mut text = String::new();
    write_value(&mut text, &found, 0);
    print(&text)
}

/// Detects the kind of the file and reads it: an ISO has a volume descriptor, a manifest is JSON,
/// anything else is a disk.
fn inspect_file(file: &Path) -> Result<Value> {
    if is_record(file) {
        let manifest = BuildManifest::read(file)?;
        return serde_json::to_value(&manifest)
            .map_err(|e| Error::new(Kind::Failed, "cannot show the manifest").because(e));
    }
    match Medium::open(file) {
        Ok(medium) => inspect_medium(&medium),
        Err(_)
            if !file
                .extension()
                .is_some_and(|e| e.eq_ignore_ascii_case("iso")) =>
        {
            inspect_disk(file)
        }
        Err(error) => Err(error),
    }
}

fn inspect_medium(medium: &Medium) -> Result<Value> {
    let mut shown = json!({
        "medium": medium.label,
        "file system": medium.file_system.to_string(),
        "bytes": medium.size(),
    });
    let Some(facts) = MediaFacts::try_read(medium)? else {
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
                "short": image.short_name(),
                "display name": image.display_name,
                "version": image.version,
                "languages": image.languages.join(", "),
                "evaluation": facts.is_eval(image),
            })
        })
        .collect();
    Ok(shown)
}

fn inspect_disk(file: &Path) -> Result<Value> {
    let format = ImageFormat::detect(file)?;
    let disks = partitions::read(file, &Cancel::default())?;
    if let [one] = disks.as_slice() {
        // Without a partition table it could be any file.
        if format.is_unmarked() && one.table.style == gpt::PartitionStyle::None {
            return Err(Error::new(
                Kind::Recipe,
                "this is not an ISO, a disk image with partitions, or a manifest",
            )
            .at(file.display()));
        }
        return Ok(json!({
            "format": format.name,
            "virtual bytes": one.bytes,
            "table": one.table,
        }));
    }
    let disks: Vec<Value> = disks
        .iter()
        .map(|one| {
            json!({
                "file": one.name,
                "virtual bytes": one.bytes,
                "table": one.table,
            })
        })
        .collect();
    Ok(json!({
        "format": format.name,
        "disks": disks,
    }))
}

/// Writes JSON as indented lines.
fn write_value(text: &mut String, value: &Value, depth: usize) {
    let pad = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::Object(_) | Value::Array(_) => {
                        *text += &format!("{pad}{name}\n");
                        write_value(text, value, depth + 1);
                    }
                    Value::Null => {}
                    plain => *text += &format!("{pad}{name}: {}\n", format_value(plain)),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                match item {
                    Value::Object(_) => {
                        let mut inside = String::new();
                        write_value(&mut inside, item, depth + 1);
                        // The first line carries the dash.
                        let lead = format!("{pad}- ");
                        *text += &inside.replacen(&format!("{pad}  "), &lead, 1);
                    }
                    plain => *text += &format!("{pad}- {}\n", format_value(plain)),
                }
            }
        }
        plain => *text += &format!("{pad}{}\n", format_value(plain)),
    }
}

fn format_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
