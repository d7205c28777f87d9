//! The machine's disk under Hyper-V: a dynamic VHDX, or a differencing one over a layer.
//!
//! Refuses a disk that fails Hyper-V's own check.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::call::CmdletCall;
use super::errors::{CallFailure, explain};
use super::host::PowerShellHost;
use super::setup_calls::to_text;
use crate::vm::HypervisorKind;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io::folder_of;
use winimg_formats::disk::{DiskImage, free_space};

/// Block size in bytes. Such blocks shrink better than the default of New-VHD, 32 MiB (Microsoft:
/// Performance tuning for Hyper-V storage).
const BLOCK: u64 = 1 << 20;
/// Limit for operations on a whole disk.
const WHOLE_DISK: Duration = Duration::from_secs(3600);

/// Creates an empty disk. `bytes` is a whole number of MiB.
pub fn create(host: &PowerShellHost, disk: &Path, bytes: u64, cancel: &Cancel) -> Result<()> {
    let call = CmdletCall::new(r"Hyper-V\New-VHD")
        .with_text("Path", to_text(&HypervisorKind::HyperV.resolve_path(disk)?))
        .with_number("SizeBytes", bytes)
        .with_switch("Dynamic")
        .with_number("BlockSizeBytes", BLOCK)
        .select(&["Path"]);
    host.order("create the machine's disk", &call, cancel)
        .map(drop)
}

/// Creates a disk over the one at `parent`, a path relative to the new disk's folder.
pub fn create_over(
    host: &PowerShellHost,
    disk: &Path,
    parent: &Path,
    cancel: &Cancel,
) -> Result<()> {
    let disk = HypervisorKind::HyperV.resolve_path(disk)?;
    let call = CmdletCall::new(r"Hyper-V\New-VHD")
        .with_text("Path", to_text(&disk))
        .with_text("ParentPath", to_text(&resolve_parent(&disk, parent)))
        .with_switch("Differencing")
        .select(&["Path"]);
    host.order("create a disk over a layer", &call, cancel)
        .map(drop)
}

/// Changes the recorded path of a moved disk's parent layer.
pub fn move_parent(
    host: &PowerShellHost,
    disk: &Path,
    parent: &Path,
    cancel: &Cancel,
) -> Result<()> {
    let disk = HypervisorKind::HyperV.resolve_path(disk)?;
    let call = CmdletCall::new(r"Hyper-V\Set-VHD")
        .with_text("Path", to_text(&disk))
        .with_text("ParentPath", to_text(&resolve_parent(&disk, parent)))
        .with_switch("IgnoreIdMismatch");
    host.order("set the disk's parent", &call, cancel).map(drop)
}

/// Checks the disk, then shrinks it and zeroes its free space. Returns remarks about failed parts.
pub fn close(host: &PowerShellHost, image: DiskImage<'_>, cancel: &Cancel) -> Result<Vec<String>> {
    let disk = to_text(&HypervisorKind::HyperV.resolve_path(image.file)?);
    let test = CmdletCall::new(r"Hyper-V\Test-VHD")
        .with_text("Path", &disk)
        .with_patience(WHOLE_DISK);
    if let Err(trouble) = host.call(&test, cancel) {
        return Err(match trouble {
            CallFailure::Refused(_) => {
                let why = explain("validate the machine's disk", &trouble).to_string();
                Error::new(Kind::Machine, "the machine's disk is damaged")
                    .at(&disk)
                    .lines(why.lines())
            }
            other => explain("check the machine's disk", &other),
        });
    }
    let mut doubts = Vec::new();
    if let Err(trouble) = shrink(host, &disk, cancel) {
        if trouble == CallFailure::Interrupted {
            return Err(Error::cancelled());
        }
        doubts.push(format!(
            "the disk is larger than necessary, because it could not be compacted: {}",
            trouble.describe()
        ));
    }
    doubts.extend(free_space::clear_vhdx(image, cancel)?);
    Ok(doubts)
}

/// Removes unused blocks from the disk. Hyper-V searches for blocks without a file only on a disk
/// that is mounted read-only (Microsoft: Optimize-VHD, Mode Full).
fn shrink(host: &PowerShellHost, disk: &str, cancel: &Cancel) -> Result<(), CallFailure> {
    let mount = CmdletCall::new(r"Hyper-V\Mount-VHD")
        .with_text("Path", disk)
        .with_switch("ReadOnly");
    let optimize = CmdletCall::new(r"Hyper-V\Optimize-VHD")
        .with_text("Path", disk)
        .with_text("Mode", "Full")
        .with_patience(WHOLE_DISK);
    let dismount = CmdletCall::new(r"Hyper-V\Dismount-VHD").with_text("Path", disk);
    host.call(&mount, cancel)?;
    let optimized = host.call(&optimize, cancel);
    // In any case, even when interrupted: a mounted disk cannot be moved.
    let dismounted = host.call(&dismount, &Cancel::default());
    optimized.and(dismounted).map(|_| ())
}

/// Resolves `parent` from the disk's folder, without `..`, because it is also written into the
/// disk.
fn resolve_parent(disk: &Path, parent: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in folder_of(disk).join(parent).components() {
        match part {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::resolve_parent;
    use std::path::Path;

    #[test]
    fn a_layer_is_named_from_the_root() {
        let disk = Path::new("/cache/layers/draft-1/disk.vhdx");
        let parent = Path::new("../0a1b/disk.vhdx");
        assert_eq!(
            resolve_parent(disk, parent),
            Path::new("/cache/layers/0a1b/disk.vhdx")
        );
        let absolute = Path::new("/elsewhere/disk.vhdx");
        assert_eq!(resolve_parent(disk, absolute), absolute);
    }
}
