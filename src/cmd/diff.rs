//! `winimg diff`: compares two images.

use std::path::Path;
use std::process::ExitCode;

use crate::cli;
use crate::diff::{self, DiffSide};
use crate::record::{BuildManifest, writer};
use crate::usage::{self, DiskUsage};
use crate::verify::InspectedImage;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;

use super::disk::open_disk;
use super::{CommandContext, is_record, must_exist, print, print_json};

/// Exit status if the two differ (docs/exit-status.md).
const DIFFERENT: u8 = 12;

pub fn run(args: &cli::DiffArgs, context: &CommandContext) -> Result<ExitCode> {
    let (a, b) = (read_side(&args.a, context)?, read_side(&args.b, context)?);
    let found = diff::compare(&a, &b);
    if args.json {
        print_json(&serde_json::json!(found))?;
    } else {
        print(&diff::render(&found))?;
    }
    Ok(if found.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(DIFFERENT)
    })
}

/// Reads a build's folder or manifest by its records; an image by its disk, and by a manifest
/// beside it that lists it.
fn read_side(path: &Path, context: &CommandContext) -> Result<DiffSide> {
    must_exist(path)?;
    let name = path.display().to_string();
    if path.is_dir() || is_record(path) {
        let manifest = if path.is_dir() {
            path.join(writer::MANIFEST)
        } else {
            path.to_owned()
        };
        let record = io::folder_of(&manifest).join(usage::FILE);
        return Ok(DiffSide {
            name,
            manifest: Some(diff::collect_facts(&BuildManifest::read(&manifest)?)),
            disk: None,
            usage: record
                .exists()
                .then(|| DiskUsage::read(&record))
                .transpose()?,
        });
    }
    let (disk, _work) = open_disk(path, context)?;
    let image = InspectedImage::open(disk.as_ref()).map_err(|e| e.at(path.display()))?;
    let facts = diff::disk::collect_facts(&image).map_err(|finding| {
        Error::new(Kind::Verify, finding.problem.in_one_line()).at(path.display())
    })?;
    Ok(DiffSide {
        name,
        manifest: read_manifest_beside(path)?,
        disk: Some(facts),
        usage: Some(
            usage::read_disk(disk.as_ref(), &context.cancel).map_err(|e| e.at(path.display()))?,
        ),
    })
}

fn read_manifest_beside(image: &Path) -> Result<Option<diff::DiffFacts>> {
    let path = io::folder_of(image).join(writer::MANIFEST);
    if !path.exists() {
        return Ok(None);
    }
    let manifest = BuildManifest::read(&path)?;
    let own = image.file_name().map(|name| name.to_string_lossy());
    let is_listed = manifest
        .artifacts
        .iter()
        .any(|a| Some(a.file.as_str()) == own.as_deref());
    Ok(is_listed.then(|| diff::collect_facts(&manifest)))
}
