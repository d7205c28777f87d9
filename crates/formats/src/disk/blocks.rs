//! A disk stored in blocks, in any order, without the blocks that were never written: the common
//! part of dynamic VHD and sparse VMDK, both with 512-byte sectors.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Disk, RawDisk, SECTOR, check_bounds, join};
use winimg_base::error::{Error, Result};

/// Maximum number of blocks, since their table has to fit into memory; real disks have fewer.
pub const MOST: u64 = 1 << 24;

pub struct BlockDisk {
    pub file: RawDisk,
    /// Bytes of the disk.
    pub len: u64,
    /// Bytes of a block.
    pub block: u64,
    /// Offset of each block in the file; 0: the block is all zeros.
    pub places: Vec<u64>,
    /// Bitmaps of partially written blocks: one bit per 512-byte sector, the highest first. The
    /// other sectors are zeros, whatever the file contains.
    pub written: BTreeMap<usize, Vec<u8>>,
}

impl BlockDisk {
    /// Refuses blocks outside the file before anything is read.
    pub fn check(self, format: &str) -> Result<Self> {
        for (i, place) in self.places.iter().enumerate().filter(|(_, p)| **p != 0) {
            let start = i as u64 * self.block;
            let used = self.block.min(self.len.saturating_sub(start));
            check_within(&self.file, format, *place, used, &format!("block {i}"))?;
        }
        Ok(self)
    }

    /// Zeroes the sectors of a block that were never written. `part` begins at `within` in the
    /// block.
    fn hide(&self, block: usize, within: u64, part: &mut [u8]) {
        let Some(bits) = self.written.get(&block) else {
            return;
        };
        let mut done = 0;
        while done < part.len() {
            let at = within + done as u64;
            let left = (SECTOR - at % SECTOR) as usize;
            let n = left.min(part.len() - done);
            let sector = (at / SECTOR) as usize;
            let byte = bits.get(sector / 8).copied().unwrap_or(0);
            if byte & 0x80 >> (sector % 8) == 0 {
                part[done..done + n].fill(0);
            }
            done += n;
        }
    }
}

/// Reports a file that violates its format.
pub fn report_damaged(file: &RawDisk, format: &str, at: u64, why: impl Into<String>) -> Error {
    Error::failed(format!("{} is not a valid {format}", file.path().display()))
        .at(format!("offset {at:#x} of the file"))
        .found(why.into())
        .cure("recreate or copy it again; qemu-img check may show more")
}

/// Refuses a part, called `what`, that is outside the file.
pub fn check_within(file: &RawDisk, format: &str, at: u64, len: u64, what: &str) -> Result<()> {
    match at.checked_add(len) {
        Some(end) if end <= file.len() => Ok(()),
        _ => Err(report_damaged(
            file,
            format,
            at,
            format!("{what} is outside the file"),
        )),
    }
}

/// Reads such a part; the caller has limited `len`.
pub fn read_part(file: &RawDisk, format: &str, at: u64, len: u64, what: &str) -> Result<Vec<u8>> {
    check_within(file, format, at, len, what)?;
    let mut bytes = vec![0; len as usize];
    file.read_at(at, &mut bytes)?;
    Ok(bytes)
}

/// Refuses a file that is valid but not the whole disk.
pub fn refuse_file(file: &RawDisk, why: impl Into<String>, cure: impl Into<String>) -> Error {
    let path = file.path().display();
    Error::failed(format!("{path} {}", why.into())).cure(cure)
}

impl Disk for BlockDisk {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_bounds(self.file.path(), offset, buffer.len() as u64, self.len)?;
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let (block, within) = ((at / self.block) as usize, at % self.block);
            let n = (self.block - within).min((buffer.len() - done) as u64) as usize;
            let part = &mut buffer[done..done + n];
            match self.places.get(block) {
                Some(place) if *place != 0 => {
                    self.file.read_at(place + within, part)?;
                    self.hide(block, within, part);
                }
                _ => part.fill(0),
            }
            done += n;
        }
        Ok(())
    }

    fn data(&self) -> Result<Vec<Range<u64>>> {
        let mut ranges = Vec::new();
        for (i, _) in self.places.iter().enumerate().filter(|(_, p)| **p != 0) {
            let start = i as u64 * self.block;
            let end = (start + self.block).min(self.len);
            if start < end {
                join(&mut ranges, start..end);
            }
        }
        Ok(ranges)
    }
}
