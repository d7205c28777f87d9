//! A disk that its file keeps in blocks, in any order, with nothing kept for what was never written: the common part of
//! dynamic VHD and sparse VMDK, whose sectors have 512 bytes.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Disk, RawDisk, SECTOR, join, within};
use winimg_base::error::{Error, Result};

/// More blocks than any disk that winimg is given; a table of them has to fit into memory.
pub const MOST: u64 = 1 << 24;

pub struct Blocks {
    pub file: RawDisk,
    /// Bytes of the disk.
    pub len: u64,
    /// Bytes of a block.
    pub block: u64,
    /// Where each block begins in the file; 0: it is all zeros.
    pub places: Vec<u64>,
    /// Of the blocks that were written in part: a bit for each sector of 512 bytes, the highest first. The others are
    /// zeros whatever lies in the file.
    pub written: BTreeMap<usize, Vec<u8>>,
}

impl Blocks {
    /// Blocks that lie outside the file are refused before anything is read.
    pub fn check(self, format: &str) -> Result<Self> {
        for (i, place) in self.places.iter().enumerate().filter(|(_, p)| **p != 0) {
            let start = i as u64 * self.block;
            let used = self.block.min(self.len.saturating_sub(start));
            check_within(&self.file, format, *place, used, &format!("block {i}"))?;
        }
        Ok(self)
    }

    /// Zeros over the sectors of a block that were never written. `within` is where `part` begins in the block.
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

/// The file is not what its format demands.
pub fn damaged(file: &RawDisk, format: &str, at: u64, why: impl Into<String>) -> Error {
    Error::failed(format!("{} is not a sound {format}", file.path().display()))
        .at(format!("offset {at:#x} of the file"))
        .found(why.into())
        .cure("write or copy it again; qemu-img check may show more")
}

/// Refuses a part of the file, called `what`, that does not lie in it.
pub fn check_within(file: &RawDisk, format: &str, at: u64, len: u64, what: &str) -> Result<()> {
    match at.checked_add(len) {
        Some(end) if end <= file.len() => Ok(()),
        _ => Err(damaged(
            file,
            format,
            at,
            format!("{what} lies outside the file"),
        )),
    }
}

/// The bytes of such a part; the caller has limited `len`.
pub fn part(file: &RawDisk, format: &str, at: u64, len: u64, what: &str) -> Result<Vec<u8>> {
    check_within(file, format, at, len, what)?;
    let mut bytes = vec![0; len as usize];
    file.read_at(at, &mut bytes)?;
    Ok(bytes)
}

/// The file is sound, but it is not the whole disk.
pub fn refused(file: &RawDisk, why: impl Into<String>, cure: impl Into<String>) -> Error {
    let path = file.path().display();
    Error::failed(format!("{path} {}", why.into())).cure(cure)
}

impl Disk for Blocks {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        within(self.file.path(), offset, buffer.len() as u64, self.len)?;
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
