//! `winimg inspect --usage`: what each folder of a Windows volume takes, of an image or as its build recorded it.

use std::path::Path;

use crate::page::{difference, in_one_line, size};
use crate::usage::{self, DiskUsage, Folder};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;

use super::{Context, is_record, must_exist, verify};

/// From the record that a build left, or else from the disk.
pub fn of(file: &Path, context: &Context) -> Result<DiskUsage> {
    must_exist(file)?;
    let folder = match file.is_dir() {
        true => Some(file),
        false => is_record(file).then(|| io::folder_of(file)),
    };
    let Some(folder) = folder else {
        let (disk, _work) = verify::opened(file, context)?;
        return usage::of_disk(disk.as_ref(), &context.cancel).map_err(|e| e.at(file.display()));
    };
    let record = folder.join(usage::FILE);
    match record.exists() {
        true => DiskUsage::read(&record),
        false => Err(
            Error::new(Kind::Recipe, "this build recorded no disk usage")
                .at(folder.display())
                .expected(usage::FILE)
                .cure("winimg inspect --usage IMAGE reads the disk itself"),
        ),
    }
}

/// The tree, the largest folders first, and what each layer added.
pub fn text(usage: &DiskUsage) -> String {
    let mut text = format!(
        "{} of {} are used, {} are free\n\n",
        size(usage.used()),
        size(usage.total),
        size(usage.free)
    );
    tree(&mut text, usage, &usage.root, 0);
    for own in &usage.metadata {
        line(&mut text, usage, own.bytes, &own.name);
    }
    if usage.unclaimed > 0 {
        line(
            &mut text,
            usage,
            usage.unclaimed,
            "marked as used, but no file's",
        );
    }
    text += &format!(
        "\nFolders with less than {} count in those that they lie in; a file with several names counts once.\n",
        size(usage.smallest)
    );
    let mut before = 0;
    for (number, layer) in usage.layers.iter().enumerate() {
        if number == 0 {
            text += "\nWhat was added, layer by layer:\n";
        }
        let name = in_one_line(&layer.after);
        text += &format!("{:>12}  {name}\n", difference(before, layer.used));
        for change in &layer.changes {
            let (before, after) = (change.before.unwrap_or(0), change.after.unwrap_or(0));
            text += &format!(
                "{:>14}  {}\n",
                difference(before, after),
                in_one_line(&change.path)
            );
        }
        before = layer.used;
    }
    text
}

fn tree(text: &mut String, usage: &DiskUsage, folder: &Folder, depth: usize) {
    let name = match depth {
        0 => "\\",
        _ => &folder.name,
    };
    line(
        text,
        usage,
        folder.bytes,
        &format!("{}{name}", "  ".repeat(depth)),
    );
    for inner in &folder.folders {
        tree(text, usage, inner, depth + 1);
    }
}

fn line(text: &mut String, usage: &DiskUsage, bytes: u64, name: &str) {
    let share = bytes as f64 * 100.0 / usage.used().max(1) as f64;
    *text += &format!(
        "{:>10}  {share:>5.1} %  {}\n",
        size(bytes),
        in_one_line(name)
    );
}
