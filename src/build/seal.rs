//! The end of the machine's life: Windows powers itself off, QEMU goes, the disk is closed and checked.
//!
//! Refuses a disk that is damaged: nothing is exported from it.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use crate::disk::qemu_img;
use crate::error::{Error, Kind, Result};
use crate::event::Cancel;
use crate::guest::Guest;
use crate::vm::Machine;

/// Pending servicing can take minutes; killing it earlier breaks the image.
const OFF_TIMEOUT: Duration = Duration::from_secs(600);

/// Powers the guest off and waits until its disk is closed.
pub fn power_off(
    machine: &mut dyn Machine,
    mut guest: Box<dyn Guest>,
    slowness: u32,
) -> Result<()> {
    guest.shut_down()?;
    drop(guest);
    machine.wait_off(OFF_TIMEOUT * slowness)
}

/// An empty disk for the machine. `bytes` is a whole number of MiB.
pub fn create(disk: &Path, bytes: u64, cancel: &Cancel) -> Result<()> {
    let (file, bytes) = (qemu_img::file_name(disk), OsString::from(bytes.to_string()));
    let arguments = ["create", "-q", "-f", "qcow2"].map(OsStr::new);
    qemu_img::run(&[&arguments[..], &[&file, &bytes]].concat(), cancel)?;
    Ok(())
}

/// A disk that holds what the layer holds at `backing`, as the disk's folder sees it.
pub fn create_over(disk: &Path, backing: &Path, cancel: &Cancel) -> Result<()> {
    let file = qemu_img::file_name(disk);
    let arguments = ["create", "-q", "-f", "qcow2", "-F", "qcow2", "-b"].map(OsStr::new);
    qemu_img::run(
        &[&arguments[..], &[backing.as_os_str(), &file]].concat(),
        cancel,
    )?;
    Ok(())
}

/// Says where the layer below a moved disk is; not a byte of content changes.
pub fn rename_backing(disk: &Path, backing: &Path, cancel: &Cancel) -> Result<()> {
    let file = qemu_img::file_name(disk);
    let arguments = ["rebase", "-u", "-f", "qcow2", "-F", "qcow2", "-b"].map(OsStr::new);
    qemu_img::run(
        &[&arguments[..], &[backing.as_os_str(), &file]].concat(),
        cancel,
    )?;
    Ok(())
}

/// `qemu-img check` on the closed disk.
pub fn check(disk: &Path, cancel: &Cancel) -> Result<()> {
    let file = qemu_img::file_name(disk);
    let arguments = ["check", "-f", "qcow2"].map(OsStr::new);
    match qemu_img::run(&[&arguments[..], &[&file]].concat(), cancel) {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.kind(), Kind::Cancelled | Kind::Host) => Err(error),
        Err(error) => Err(Error::new(Kind::Machine, "the machine's disk is damaged")
            .at(disk.display())
            .lines(error.to_string().lines())),
    }
}
