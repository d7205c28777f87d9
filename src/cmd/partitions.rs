//! Reads the size and partition table of a disk image of any format.
//!
//! Reads only the table and the beginning of each volume, so that a compressed image need not be
//! unpacked.

use std::path::Path;

use winimg_base::error::Result;
use winimg_base::event::Cancel;
use winimg_formats::disk::{DiskImage, gpt};

/// A disk of an image: its member's name if the image has several, its length in bytes, and its
/// partitions.
pub struct PartitionedDisk {
    pub name: Option<String>,
    pub bytes: u64,
    pub table: gpt::PartitionTable,
}

/// Reads all disks of an image.
pub fn read(file: &Path, cancel: &Cancel) -> Result<Vec<PartitionedDisk>> {
    let image = DiskImage::from_file(file).open_all(cancel)?;
    image
        .into_disks()
        .into_iter()
        .map(|(name, disk)| {
            Ok(PartitionedDisk {
                table: gpt::read_table(disk.as_ref())?,
                bytes: disk.len(),
                name,
            })
        })
        .collect()
}
