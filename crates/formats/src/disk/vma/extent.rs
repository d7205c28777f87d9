//! An extent's header as it is read.

use super::damaged;
use super::layout::extent::{ARCHIVE, BLOCKS, HEADER, MAGIC, NAMED, SUM};
use super::layout::{BLOCK, sum_of};
use crate::bytes::{u16_be, u64_be};
use crate::disk::{Disk as _, RawDisk};
use winimg_base::error::Result;

pub struct Extent {
    header: [u8; HEADER as usize],
    /// Where the next one begins, which is within the file or its end.
    pub end: u64,
}

/// A cluster that an extent names.
pub struct Named {
    /// A bit for each block that is stored.
    pub stored: u16,
    pub device: u8,
    pub cluster: u32,
}

impl Extent {
    /// `at`: within the file. `archive`: the id that the header has.
    pub fn read(file: &RawDisk, at: u64, archive: [u8; 16]) -> Result<Self> {
        let bad = |why: &str| Err(damaged(file, at, why));
        let left = file.len().saturating_sub(at);
        let mut header = [0; HEADER as usize];
        if left < HEADER {
            return bad("the file ends within an extent's header");
        }
        file.read_at(at, &mut header)?;
        if !header.starts_with(MAGIC) {
            return bad("no extent where one should begin");
        }
        if header[SUM] != sum_of(&header, SUM) {
            return bad("an extent whose header has a wrong sum");
        }
        if header[ARCHIVE] != archive {
            return bad("an extent of another archive");
        }
        let blocks = u64::from(u16_be(&header, BLOCKS)) * BLOCK;
        if left - HEADER < blocks {
            return bad("the file ends within an extent");
        }
        Ok(Self {
            header,
            end: at + HEADER + blocks,
        })
    }

    /// In the order of their blocks.
    pub fn clusters(&self) -> impl Iterator<Item = Named> {
        let words = self.header[NAMED..].chunks_exact(8).map(|w| u64_be(w, 0));
        let all = words.map(|word| Named {
            stored: (word >> 48) as u16,
            device: (word >> 32) as u8,
            cluster: word as u32,
        });
        all.filter(|named| named.device != 0)
    }
}
