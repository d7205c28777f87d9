//! `winimg inspect`: the editions of an ISO, the partitions of a disk, a manifest in short.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli;
use crate::record::Manifest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_formats::disk::{self, gpt};
use winimg_formats::udf::Medium;
use winimg_formats::wim::MediaFacts;

use super::{Context, in_short, is_record, must_exist, partitions, print, print_json, usage};

pub fn run(args: &cli::Inspect, context: &Context) -> Result<()> {
    if args.usage {
        let found = usage::of(&args.file, context)?;
        return match args.json {
            true => print_json(&json!(found)),
            false => print(&usage::text(&found)),
        };
    }
    must_exist(&args.file)?;
    if is_record(&args.file) && !args.json {
        return print(&in_short::text(&Manifest::read(&args.file)?));
    }
    let found = look(&args.file)?;
    if args.json {
        return print_json(&found);
    }
    let mut text = String::new();
    write(&mut text, &found, 0);
    print(&text)
}

/// An ISO has a volume descriptor, a manifest is JSON, everything else is a disk or nothing we know.
fn look(file: &Path) -> Result<Value> {
    if is_record(file) {
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
        "medium": medium.label,
        "file system": medium.file_system.to_string(),
        "bytes": medium.size(),
    });
    let Some(facts) = MediaFacts::of_any(medium)? else {
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
    let format = disk::Format::of(file)?;
    let disks = partitions::read(file, &Cancel::default())?;
    if let [one] = disks.as_slice() {
        // A raw disk has no mark of its own: without a partition table it could be any file.
        if format == disk::Format::Raw && one.table.style == gpt::Style::None {
            return Err(Error::new(
                Kind::Recipe,
                "this is neither an ISO, nor a disk image with partitions, nor a manifest",
            )
            .at(file.display()));
        }
        return Ok(json!({
            "format": name(format),
            "virtual bytes": one.bytes,
            "table": one.table,
        }));
    }
    let disks = disks.iter().map(|one| {
        json!({
            "file": one.name,
            "virtual bytes": one.bytes,
            "table": one.table,
        })
    });
    Ok(json!({
        "format": name(format),
        "disks": disks.collect::<Vec<_>>(),
    }))
}

fn name(format: disk::Format) -> &'static str {
    match format {
        disk::Format::Raw => "raw",
        disk::Format::Qcow2 => "qcow2",
        disk::Format::FixedVhd => "fixed VHD",
        disk::Format::DynamicVhd => "dynamic VHD",
        disk::Format::Vhdx => "VHDX",
        disk::Format::SparseVmdk => "sparse VMDK",
        disk::Format::StreamVmdk => "stream-optimised VMDK",
        disk::Format::Ova => "OVA",
        disk::Format::Vma => "VMA",
    }
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
