//! `winimg diff`: what differs between two images.

use std::path::Path;
use std::process::ExitCode;

use crate::cli;
use crate::diff::{self, Side};
use crate::record::{Manifest, built};
use crate::usage::{self, DiskUsage};
use crate::verify::Image;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;

use super::{Context, is_record, must_exist, print, print_json, verify};

/// The two differ (docs/exit-status.md).
const DIFFERENT: u8 = 12;

pub fn run(args: &cli::Diff, context: &Context) -> Result<ExitCode> {
    let (a, b) = (side(&args.a, context)?, side(&args.b, context)?);
    let found = diff::compare(&a, &b);
    match args.json {
        true => print_json(&serde_json::json!(found))?,
        false => print(&diff::text(&found))?,
    }
    Ok(match found.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(DIFFERENT),
    })
}

/// A build's folder or manifest by its records; an image by its disk, and by the manifest beside it that lists it.
fn side(path: &Path, context: &Context) -> Result<Side> {
    must_exist(path)?;
    let name = path.display().to_string();
    if path.is_dir() || is_record(path) {
        let manifest = match path.is_dir() {
            true => path.join(built::MANIFEST),
            false => path.to_owned(),
        };
        let record = io::folder_of(&manifest).join(usage::FILE);
        return Ok(Side {
            name,
            manifest: Some(diff::facts(&Manifest::read(&manifest)?)),
            disk: None,
            usage: record
                .exists()
                .then(|| DiskUsage::read(&record))
                .transpose()?,
        });
    }
    let (disk, _work) = verify::opened(path, context)?;
    let image = Image::open(disk.as_ref()).map_err(|e| e.at(path.display()))?;
    let facts = diff::disk::facts(&image).map_err(|finding| {
        Error::new(Kind::Verify, finding.problem.in_one_line()).at(path.display())
    })?;
    Ok(Side {
        name,
        manifest: beside(path)?,
        disk: Some(facts),
        usage: Some(
            usage::of_disk(disk.as_ref(), &context.cancel).map_err(|e| e.at(path.display()))?,
        ),
    })
}

fn beside(image: &Path) -> Result<Option<diff::Facts>> {
    let path = io::folder_of(image).join(built::MANIFEST);
    if !path.exists() {
        return Ok(None);
    }
    let manifest = Manifest::read(&path)?;
    let own = image.file_name().map(|name| name.to_string_lossy());
    let is_listed = manifest
        .artifacts
        .iter()
        .any(|a| Some(a.file.as_str()) == own.as_deref());
    Ok(is_listed.then(|| diff::facts(&manifest)))
}
