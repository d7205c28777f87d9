//! zip (PKWARE APPNOTE). The central directory is authoritative; contradicting local headers are
//! refused.

use std::fs::File;
use std::io::BufReader;

use ::zip::read::ZipFileEntry;
use ::zip::{CompressionMethod, ZipArchive};

use winimg_base::error::{Error, Result};

use super::bounds::{self, ZipBounds};
use super::filter::ArchiveSelection;
use super::survey::{ArchiveSurvey, EntryKind};
use super::{ArchiveFile, UnpackLimits, UnpackWriter, archive_size, report_broken};

/// The file type bits of a Unix mode.
const TYPE: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;
const SYMLINK: u32 = 0o120_000;

pub(super) fn inspect(archive: &ArchiveFile, limits: &UnpackLimits) -> Result<ArchiveSurvey> {
    let mut survey = ArchiveSurvey::new(limits, archive_size(archive)?);
    let mut zip = open(archive)?;
    let mut first = zip.central_directory_start();
    for number in 0..zip.len() {
        let entry = zip
            .by_index_data(number)
            .map_err(|e| report_broken(archive, e))?;
        first = first.min(entry.header_start());
        if !survey.add(number, entry.name_raw(), judge(&entry)) {
            return Ok(survey);
        }
    }
    // The library keeps the last entry of each name, and does not report which names are
    // duplicates.
    if zip.has_duplicate_names() {
        survey.add_archive_problem("it has entries of the same name");
    }
    // Only if nothing else is wrong: these checks name no entry and would hide the ones that do.
    if survey.is_clean()
        && let Err(problem) = check_consistency(&mut zip)
    {
        survey.add_archive_problem(problem);
    }
    let bounds = ZipBounds {
        first,
        directory: zip.central_directory_start(),
        comment: zip.comment().len() as u64,
    };
    let mut file = File::open(archive.file).map_err(|e| Error::io("read", archive.file, e))?;
    if let Err(problem) = bounds::check(&mut file, &bounds) {
        survey.add_archive_problem(problem);
    }
    Ok(survey)
}

fn judge(entry: &ZipFileEntry<'_>) -> EntryKind {
    let mode = entry.unix_mode().unwrap_or(0) & TYPE;
    if mode == SYMLINK || entry.is_symlink() {
        return EntryKind::Refused("is a symbolic link".into());
    }
    if ![0, REGULAR, FOLDER].contains(&mode) {
        return EntryKind::Refused("is a device, pipe or socket".into());
    }
    if entry.encrypted() {
        return EntryKind::Refused("is encrypted".into());
    }
    let raw = entry.name_raw();
    if raw.ends_with(b"/") || raw.ends_with(b"\\") || mode == FOLDER {
        if entry.size() > 0 {
            return EntryKind::Refused("is a folder with content".into());
        }
        return EntryKind::Folder;
    }
    match entry.compression() {
        CompressionMethod::Stored | CompressionMethod::Deflated => EntryKind::File(entry.size()),
        other => EntryKind::Refused(format!("is packed with {other}, which is not supported")),
    }
}

/// Refuses archives that readers could interpret differently: contradicting headers, or bytes that
/// belong to two entries.
fn check_consistency(zip: &mut ZipReader) -> std::result::Result<(), String> {
    if zip.has_overlapping_entries().map_err(|e| e.to_string())? {
        return Err("its entries overlap, like those of an archive bomb".into());
    }
    zip.validate_header_consistency().map_err(|e| e.to_string())
}

pub(super) fn extract(
    archive: &ArchiveFile,
    selection: &ArchiveSelection,
    writer: &mut UnpackWriter,
) -> Result<()> {
    let mut zip = open(archive)?;
    for number in 0..zip.len() {
        match selection.get(number) {
            None => {}
            Some(member) if member.is_folder => writer.create_folder(&member.path)?,
            Some(member) => {
                let content = zip
                    .by_index(number)
                    .map_err(|e| report_broken(archive, format!("{}: {e}", member.path)))?;
                writer.write_file(archive, &member.path, member.size, content)?;
            }
        }
    }
    Ok(())
}

type ZipReader = ZipArchive<BufReader<File>>;

fn open(archive: &ArchiveFile) -> Result<ZipReader> {
    let file = File::open(archive.file).map_err(|e| Error::io("read", archive.file, e))?;
    ZipArchive::new(BufReader::new(file)).map_err(|e| report_broken(archive, e))
}
