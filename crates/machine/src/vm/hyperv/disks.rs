//! The machine's disk, as Hyper-V keeps it: a dynamic VHDX, over another where a layer is below it.
//!
//! Refuses a disk that Hyper-V itself does not find whole.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::call::Call;
use super::errors::{Trouble, explain};
use super::host::Host;
use super::making::path;
use crate::vm::Platform;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io::folder_of;
use winimg_formats::disk::{Image, free_space};

/// Blocks of this size shrink better than the 32 MiB that New-VHD takes (Microsoft: Performance tuning for Hyper-V storage).
const BLOCK: u64 = 1 << 20;
/// For work over a whole disk.
const WHOLE_DISK: Duration = Duration::from_secs(3600);

/// An empty disk. `bytes` is a whole number of MiB.
pub fn create(host: &Host, disk: &Path, bytes: u64, cancel: &Cancel) -> Result<()> {
    let call = Call::new(r"Hyper-V\New-VHD")
        .text("Path", path(&Platform::HyperV.absolute(disk)?))
        .number("SizeBytes", bytes)
        .on("Dynamic")
        .number("BlockSizeBytes", BLOCK)
        .select(&["Path"]);
    host.order("make the machine's disk", &call, cancel)
        .map(drop)
}

/// A disk over the one at `parent`, as the disk's folder sees it.
pub fn create_over(host: &Host, disk: &Path, parent: &Path, cancel: &Cancel) -> Result<()> {
    let disk = Platform::HyperV.absolute(disk)?;
    let call = Call::new(r"Hyper-V\New-VHD")
        .text("Path", path(&disk))
        .text("ParentPath", path(&below(&disk, parent)))
        .on("Differencing")
        .select(&["Path"]);
    host.order("make a disk over a layer", &call, cancel)
        .map(drop)
}

/// Says where the layer below a moved disk is.
pub fn move_parent(host: &Host, disk: &Path, parent: &Path, cancel: &Cancel) -> Result<()> {
    let disk = Platform::HyperV.absolute(disk)?;
    let call = Call::new(r"Hyper-V\Set-VHD")
        .text("Path", path(&disk))
        .text("ParentPath", path(&below(&disk, parent)))
        .on("IgnoreIdMismatch");
    host.order("point the disk at its layer", &call, cancel)
        .map(drop)
}

/// Whether it is whole; then its free blocks are given back, and zeroed where they stay. Gives what could not be done, in words.
pub fn close(host: &Host, image: Image<'_>, cancel: &Cancel) -> Result<Vec<String>> {
    let disk = path(&Platform::HyperV.absolute(image.file)?);
    let test = Call::new(r"Hyper-V\Test-VHD")
        .text("Path", &disk)
        .within(WHOLE_DISK);
    if let Err(trouble) = host.call(&test, cancel) {
        return Err(match trouble {
            Trouble::Refused(_) => {
                let why = explain("call the machine's disk whole", &trouble).to_string();
                Error::new(Kind::Machine, "the machine's disk is damaged")
                    .at(&disk)
                    .lines(why.lines())
            }
            other => explain("look at the machine's disk", &other),
        });
    }
    let mut doubts = Vec::new();
    if let Err(trouble) = compact(host, &disk, cancel) {
        if trouble == Trouble::Interrupted {
            return Err(Error::cancelled());
        }
        doubts.push(format!(
            "the disk was not compacted, so that it is larger than it need be: {}",
            trouble.fact()
        ));
    }
    doubts.extend(free_space::clear_vhdx(image, cancel)?);
    Ok(doubts)
}

/// Only a disk that is mounted to be read is searched for blocks that no file has (Microsoft: Optimize-VHD, Mode Full).
fn compact(host: &Host, disk: &str, cancel: &Cancel) -> Result<(), Trouble> {
    let mount = Call::new(r"Hyper-V\Mount-VHD")
        .text("Path", disk)
        .on("ReadOnly");
    let optimize = Call::new(r"Hyper-V\Optimize-VHD")
        .text("Path", disk)
        .text("Mode", "Full")
        .within(WHOLE_DISK);
    let dismount = Call::new(r"Hyper-V\Dismount-VHD").text("Path", disk);
    host.call(&mount, cancel)?;
    let optimized = host.call(&optimize, cancel);
    // Whatever came of it, and even when interrupted: a mounted disk can't be moved.
    let dismounted = host.call(&dismount, &Cancel::default());
    optimized.and(dismounted).map(|_| ())
}

/// `parent` from the disk's folder, without `..`: it is also written into the disk.
fn below(disk: &Path, parent: &Path) -> PathBuf {
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
    use super::below;
    use std::path::Path;

    #[test]
    fn a_layer_is_named_from_the_root() {
        let disk = Path::new("/cache/layers/draft-1/disk.vhdx");
        let parent = Path::new("../0a1b/disk.vhdx");
        assert_eq!(
            below(disk, parent),
            Path::new("/cache/layers/0a1b/disk.vhdx")
        );
        let absolute = Path::new("/elsewhere/disk.vhdx");
        assert_eq!(below(disk, absolute), absolute);
    }
}
