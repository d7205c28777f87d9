//! Opens disk images for the commands that read them.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use winimg_base::error::{Error, Result};
use winimg_base::io;
use winimg_formats::disk::{self, Disk, DiskImage, NamedDisk, OpenedImage};

use super::CommandContext;

/// Opens a disk image with all its disks. Unpacks a compressed one beside it first, into a folder
/// that is removed on drop.
pub fn open_disks(
    path: &Path,
    context: &CommandContext,
) -> Result<(Vec<NamedDisk>, Option<TempDir>)> {
    let image = DiskImage::from_file(path);
    if let OpenedImage::InPlace(disks) = image.open_all(&context.cancel)? {
        return Ok((disks, None));
    }
    let work = tempfile::Builder::new()
        .prefix(".winimg-verify-")
        .tempdir_in(io::folder_of(path))
        .map_err(|e| Error::io("create a temporary folder next to", path, e))?;
    let flat: PathBuf = work.path().join("flat.qcow2");
    context.sink.note(format!("unpacking {}", path.display()));
    image.flatten(&flat, &context.cancel)?;
    let disk = disk::open(&flat, &context.cancel)?;
    Ok((Vec::from([(None, disk)]), Some(work)))
}

/// Opens an image with one disk, as [`open_disks`] does.
pub fn open_disk(
    path: &Path,
    context: &CommandContext,
) -> Result<(Box<dyn Disk>, Option<TempDir>)> {
    let (disks, work) = open_disks(path, context)?;
    Ok((disk::take_only_disk(path, disks)?, work))
}
