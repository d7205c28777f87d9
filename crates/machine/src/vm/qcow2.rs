//! Creates and checks the qcow2 disks of machines with `qemu-img`.
//!
//! Refuses a damaged disk.

use std::ffi::OsStr;
use std::path::Path;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io;
use winimg_formats::disk::{DiskImage, free_space, qemu_img};

/// Creates an empty disk. `bytes` is a whole number of MiB.
pub fn create(disk: &Path, bytes: u64, cancel: &Cancel) -> Result<()> {
    let bytes = bytes.to_string();
    let last = [&*qemu_img::file_name(disk), OsStr::new(&bytes)];
    run(&["create", "-q", "-f", "qcow2"], &last, cancel)?;
    io::restrict_to_owner(disk).map_err(|e| Error::io("restrict access to", disk, e))
}

/// Creates an overlay over the layer's disk at `backing`, a path relative to the new disk's folder.
pub fn create_over(disk: &Path, backing: &Path, cancel: &Cancel) -> Result<()> {
    let last = [backing.as_os_str(), &qemu_img::file_name(disk)];
    let create = ["create", "-q", "-f", "qcow2", "-F", "qcow2", "-b"];
    run(&create, &last, cancel)?;
    io::restrict_to_owner(disk).map_err(|e| Error::io("restrict access to", disk, e))
}

/// Changes the recorded path of a moved disk's parent layer. The content does not change.
pub fn rename_backing(disk: &Path, backing: &Path, cancel: &Cancel) -> Result<()> {
    let last = [backing.as_os_str(), &qemu_img::file_name(disk)];
    let rebase = ["rebase", "-u", "-f", "qcow2", "-F", "qcow2", "-b"];
    run(&rebase, &last, cancel)
}

/// Runs `qemu-img check` on the closed disk.
fn check(disk: &Path, cancel: &Cancel) -> Result<()> {
    let file = qemu_img::file_name(disk);
    match run(&["check", "-f", "qcow2"], &[&file], cancel) {
        Ok(()) => Ok(()),
        Err(error) if matches!(error.kind(), Kind::Cancelled | Kind::Host) => Err(error),
        Err(error) => Err(Error::new(Kind::Machine, "the machine's disk is damaged")
            .at(disk.display())
            .lines(error.to_string().lines())),
    }
}

fn run(arguments: &[&str], last: &[&OsStr], cancel: &Cancel) -> Result<()> {
    let all = arguments.iter().map(OsStr::new).chain(last.iter().copied());
    qemu_img::run(&all.collect::<Vec<_>>(), cancel).map(drop)
}

/// Checks the disk and zeroes its free space. Returns remarks about what could not be zeroed.
pub fn close(disk: DiskImage<'_>, cancel: &Cancel) -> Result<Vec<String>> {
    check(disk.file, cancel)?;
    free_space::clear(disk, cancel)
}
