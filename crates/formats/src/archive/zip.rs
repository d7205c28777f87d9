//! zip (PKWARE APPNOTE). The central directory rules; local headers that say otherwise are refused.

use std::fs::File;
use std::io::BufReader;

use ::zip::read::ZipFileEntry;
use ::zip::{CompressionMethod, ZipArchive};

use winimg_base::error::{Error, Result};

use super::bounds::{self, Bounds};
use super::filter::Selection;
use super::survey::{Survey, What};
use super::{Limits, Packed, Writer, broken, size_of_file};

/// The file type bits of a Unix mode.
const TYPE: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;
const SYMLINK: u32 = 0o120_000;

pub(super) fn survey(archive: &Packed, limits: &Limits) -> Result<Survey> {
    let mut survey = Survey::new(limits, size_of_file(archive)?);
    let mut zip = open(archive)?;
    let mut first = zip.central_directory_start();
    for number in 0..zip.len() {
        let entry = zip.by_index_data(number).map_err(|e| broken(archive, e))?;
        first = first.min(entry.header_start());
        if !survey.add(number, entry.name_raw(), judge(&entry)) {
            return Ok(survey);
        }
    }
    // The library keeps the last of each name, and does not say which were there twice.
    if zip.has_duplicate_names() {
        survey.whole("it has entries of the same name");
    }
    // Only when nothing else is wrong: these checks name no entry, and would hide the ones that do.
    if survey.is_clean()
        && let Err(problem) = consistent(&mut zip)
    {
        survey.whole(problem);
    }
    let bounds = Bounds {
        first,
        directory: zip.central_directory_start(),
        comment: zip.comment().len() as u64,
    };
    let mut file = File::open(archive.file).map_err(|e| Error::io("read", archive.file, e))?;
    if let Err(problem) = bounds::check(&mut file, &bounds) {
        survey.whole(problem);
    }
    Ok(survey)
}

fn judge(entry: &ZipFileEntry<'_>) -> What {
    let mode = entry.unix_mode().unwrap_or(0) & TYPE;
    if mode == SYMLINK || entry.is_symlink() {
        return What::Refused("is a symbolic link".into());
    }
    if ![0, REGULAR, FOLDER].contains(&mode) {
        return What::Refused("is a device, pipe or socket".into());
    }
    if entry.encrypted() {
        return What::Refused("is encrypted".into());
    }
    let raw = entry.name_raw();
    if raw.ends_with(b"/") || raw.ends_with(b"\\") || mode == FOLDER {
        if entry.size() > 0 {
            return What::Refused("is a folder with content".into());
        }
        return What::Folder;
    }
    match entry.compression() {
        CompressionMethod::Stored | CompressionMethod::Deflated => What::File(entry.size()),
        other => What::Refused(format!("is packed with {other}, which is not supported")),
    }
}

/// What readers could disagree about: headers that contradict each other, bytes that belong to two entries.
fn consistent(zip: &mut Zip) -> std::result::Result<(), String> {
    if zip.has_overlapping_entries().map_err(|e| e.to_string())? {
        return Err("its entries overlap, like those of an archive bomb".into());
    }
    zip.validate_header_consistency().map_err(|e| e.to_string())
}

pub(super) fn extract(archive: &Packed, selection: &Selection, writer: &mut Writer) -> Result<()> {
    let mut zip = open(archive)?;
    for number in 0..zip.len() {
        match selection.get(number) {
            None => {}
            Some(member) if member.is_folder => writer.folder(&member.path)?,
            Some(member) => {
                let content = zip
                    .by_index(number)
                    .map_err(|e| broken(archive, format!("{}: {e}", member.path)))?;
                writer.file(archive, &member.path, member.size, content)?;
            }
        }
    }
    Ok(())
}

type Zip = ZipArchive<BufReader<File>>;

fn open(archive: &Packed) -> Result<Zip> {
    let file = File::open(archive.file).map_err(|e| Error::io("read", archive.file, e))?;
    ZipArchive::new(BufReader::new(file)).map_err(|e| broken(archive, e))
}
