//! The end of the machine's life: Windows powers itself off, QEMU goes, the disk is closed and checked.
//!
//! Refuses a disk that is damaged: nothing is exported from it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::error::{Error, Kind, Result};
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
pub fn create(disk: &Path, bytes: u64) -> Result<()> {
    qemu_img(
        &["create", "-q", "-f", "qcow2"],
        disk,
        &[&bytes.to_string()],
        "the machine's disk cannot be made",
    )
}

/// `qemu-img check` on the closed disk.
pub fn check(disk: &Path) -> Result<()> {
    qemu_img(
        &["check", "-f", "qcow2"],
        disk,
        &[],
        "the machine's disk is damaged",
    )
}

fn qemu_img(before: &[&str], disk: &Path, after: &[&str], fact: &str) -> Result<()> {
    let output = Command::new("qemu-img")
        .args(before)
        .arg(disk)
        .args(after)
        .output()
        .map_err(|e| {
            Error::new(Kind::Host, "cannot run qemu-img")
                .because(e)
                .cure("install qemu-utils")
        })?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::new(Kind::Machine, fact)
        .at(disk.display())
        .lines(String::from_utf8_lossy(&output.stdout).lines())
        .lines(String::from_utf8_lossy(&output.stderr).lines()))
}
