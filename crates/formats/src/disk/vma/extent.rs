//! Reads an extent's header.

use super::layout::extent::{ARCHIVE, BLOCKS, HEADER, MAGIC, NAMED, SUM};
use super::layout::{BLOCK, sum_of};
use super::report_damaged;
use crate::bytes::{u16_be, u64_be};
use crate::disk::{Disk as _, RawDisk};
use winimg_base::error::Result;

pub struct VmaExtentHeader {
    header: [u8; HEADER as usize],
    /// Offset of the next extent, at most the end of the file.
    pub end: u64,
}

/// A cluster of an extent.
pub struct VmaCluster {
    /// One bit per stored block.
    pub stored: u16,
    pub device: u8,
    pub cluster: u32,
}

impl VmaExtentHeader {
    /// Reads the extent at `at`, which is within the file. `archive` is the id in the archive's
    /// header.
    pub fn read(file: &RawDisk, at: u64, archive: [u8; 16]) -> Result<Self> {
        let left = file.len().saturating_sub(at);
        let mut header = [0; HEADER as usize];
        if left < HEADER {
            return Err(report_damaged(
                file,
                at,
                "the file ends within an extent's header",
            ));
        }
        file.read_at(at, &mut header)?;
        if !header.starts_with(MAGIC) {
            return Err(report_damaged(file, at, "there is no extent header"));
        }
        if header[SUM] != sum_of(&header, SUM) {
            return Err(report_damaged(
                file,
                at,
                "an extent header with a wrong checksum",
            ));
        }
        if header[ARCHIVE] != archive {
            return Err(report_damaged(file, at, "an extent of another archive"));
        }
        let blocks = u64::from(u16_be(&header, BLOCKS)) * BLOCK;
        if left - HEADER < blocks {
            return Err(report_damaged(file, at, "the file ends within an extent"));
        }
        Ok(Self {
            header,
            end: at + HEADER + blocks,
        })
    }

    /// Iterates over the clusters in the order of their blocks.
    pub fn iter_clusters(&self) -> impl Iterator<Item = VmaCluster> {
        self.header[NAMED..]
            .chunks_exact(8)
            .map(|w| u64_be(w, 0))
            .map(|word| VmaCluster {
                stored: (word >> 48) as u16,
                device: (word >> 32) as u8,
                cluster: word as u32,
            })
            .filter(|named| named.device != 0)
    }
}
