//! Opens disk images for the commands that read them.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use winimg_base::error::{Error, Result};
use winimg_base::io;
use winimg_formats::disk::qcow2::Qcow2Disk;
use winimg_formats::disk::qemu_img;
use winimg_formats::disk::{self, Disk, DiskImage, ImageFormat};

use super::CommandContext;

/// Opens a disk image. Unpacks a compressed qcow2 beside it first, into a folder that is removed on
/// drop.
pub fn open_disk(
    path: &Path,
    context: &CommandContext,
) -> Result<(Box<dyn Disk>, Option<TempDir>)> {
    if ImageFormat::detect(path)? != ImageFormat::Qcow2 {
        return Ok((disk::open(path, &context.cancel)?, None));
    }
    if let Some(disk) = Qcow2Disk::open_uncompressed(DiskImage::from_file(path), &context.cancel)? {
        return Ok((Box::new(disk), None));
    }
    let work = tempfile::Builder::new()
        .prefix(".winimg-verify-")
        .tempdir_in(io::folder_of(path))
        .map_err(|e| Error::io("create a temporary folder next to", path, e))?;
    let flat: PathBuf = work.path().join("flat.qcow2");
    context.sink.note(format!("unpacking {}", path.display()));
    qemu_img::flatten(
        &qemu_img::QemuImageArg::from_path(path, "qcow2"),
        &flat,
        &context.cancel,
    )?;
    let disk = Qcow2Disk::open(DiskImage::from_file(&flat), &context.cancel)?;
    Ok((Box::new(disk), Some(work)))
}
