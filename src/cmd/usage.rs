//! `winimg inspect --usage`: shows disk usage by folder, from an image or its build's record.

use std::path::Path;

use crate::usage::{self, DiskUsage, UsageFolder};
use winimg_base::display_text::strip_line;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_base::text::{format_difference, format_size};

use super::disk::open_disk;
use super::{CommandContext, is_record, must_exist};

/// Reads the disk usage from a build's record, or else from the disk.
pub fn read_usage(file: &Path, context: &CommandContext) -> Result<DiskUsage> {
    must_exist(file)?;
    let folder = if file.is_dir() {
        Some(file)
    } else {
        is_record(file).then(|| io::folder_of(file))
    };
    let Some(folder) = folder else {
        let (disk, _work) = open_disk(file, context)?;
        return usage::read_disk(disk.as_ref(), &context.cancel).map_err(|e| e.at(file.display()));
    };
    let record = folder.join(usage::FILE);
    if !record.exists() {
        return Err(
            Error::new(Kind::Recipe, "this build recorded no disk usage")
                .at(folder.display())
                .expected(usage::FILE)
                .cure("run `winimg inspect --usage IMAGE` to read the disk itself"),
        );
    }
    DiskUsage::read(&record)
}

/// Renders the folders, the largest first, and what each layer added.
pub fn render(usage: &DiskUsage) -> String {
    let mut text = format!(
        "{} of {} are used, {} are free\n\n",
        format_size(usage.used()),
        format_size(usage.total),
        format_size(usage.free)
    );
    render_tree(&mut text, usage, &usage.root, 0);
    for own in &usage.metadata {
        render_line(&mut text, usage, own.bytes, &own.name);
    }
    if usage.unclaimed > 0 {
        render_line(
            &mut text,
            usage,
            usage.unclaimed,
            "allocated, but in no file",
        );
    }
    text += &format!(
        "\nFolders smaller than {} are counted in their parent folder; \
         hard-linked files count once.\n",
        format_size(usage.smallest)
    );
    let mut before = 0;
    for (number, layer) in usage.layers.iter().enumerate() {
        if number == 0 {
            text += "\nGrowth by layer:\n";
        }
        let name = strip_line(&layer.after);
        text += &format!("{:>12}  {name}\n", format_difference(before, layer.used));
        for change in &layer.changes {
            let (before, after) = (change.before.unwrap_or(0), change.after.unwrap_or(0));
            text += &format!(
                "{:>14}  {}\n",
                format_difference(before, after),
                strip_line(&change.path)
            );
        }
        before = layer.used;
    }
    text
}

fn render_tree(text: &mut String, usage: &DiskUsage, folder: &UsageFolder, depth: usize) {
    let name = match depth {
        0 => "\\",
        _ => &folder.name,
    };
    render_line(
        text,
        usage,
        folder.bytes,
        &format!("{}{name}", "  ".repeat(depth)),
    );
    for inner in &folder.folders {
        render_tree(text, usage, inner, depth + 1);
    }
}

fn render_line(text: &mut String, usage: &DiskUsage, bytes: u64, name: &str) {
    let share = bytes as f64 * 100.0 / usage.used().max(1) as f64;
    *text += &format!(
        "{:>10}  {share:>5.1} %  {}\n",
        format_size(bytes),
        strip_line(name)
    );
}
