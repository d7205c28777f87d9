//! Dynamic VHDs. Differencing ones are refused: their other half is in another file.
//!
//! Source: Microsoft, "Virtual Hard Disk Image Format Specification" 1.0 (all fields big-endian).

use std::collections::BTreeMap;
use std::path::Path;

use super::blocks::{Blocks, MOST, damaged, refused};
use super::vhd::{FOOTER, Footer};
use super::{Disk, RawDisk, SECTOR};
use winimg_base::error::Result;

const FORMAT: &str = "dynamic VHD";
const HEADER: usize = 1024;
/// A block that was never written.
const ABSENT: u32 = u32::MAX;

/// Where the blocks are, and the bitmaps of those that were written in part.
type Places = (Vec<u64>, BTreeMap<usize, Vec<u8>>);

pub fn open(path: &Path) -> Result<Blocks> {
    let file = RawDisk::open(path)?;
    let Some(end) = file.len().checked_sub(FOOTER) else {
        return Err(damaged(&file, FORMAT, 0, "it is shorter than a footer"));
    };
    let mut footer = [0; 512];
    file.read_at(end, &mut footer)?;
    let found = Footer::any(&footer).map_err(|why| damaged(&file, FORMAT, end, why))?;
    match found.kind {
        3 => {}
        4 => {
            return Err(refused(
                &file,
                "is a differencing VHD: part of the disk is in its parent",
                "merge it first: Merge-VHD, or qemu-img convert from a copy beside its parent",
            ));
        }
        kind => return Err(damaged(&file, FORMAT, end, format!("disk type {kind}"))),
    }
    let at = found.header;
    let mut header = [0; HEADER];
    if at
        .checked_add(HEADER as u64)
        .is_none_or(|end| end > file.len())
    {
        return Err(damaged(&file, FORMAT, end, format!("a header at {at:#x}")));
    }
    file.read_at(at, &mut header)?;
    let table = Table::read(&header, found.size).map_err(|why| damaged(&file, FORMAT, at, why))?;
    let entries = table.entries(&file)?;
    let (places, written) = table.blocks(&file, &entries)?;
    Blocks {
        len: found.size,
        block: table.block,
        places,
        written,
        file,
    }
    .check(FORMAT)
}

/// What the dynamic header says of the block allocation table.
struct Table {
    at: u64,
    /// Bytes of a block's data.
    block: u64,
    /// Blocks of the disk.
    count: u64,
}

impl Table {
    fn read(h: &[u8; HEADER], size: u64) -> Result<Self, String> {
        let u32_at = |at: usize| u32::from_be_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
        if &h[..8] != b"cxsparse" {
            return Err("no dynamic header".into());
        }
        let bytes = h.iter().enumerate();
        let others = bytes.filter(|(i, _)| !(36..40).contains(i));
        let sum: u32 = others.map(|(_, b)| u32::from(*b)).sum();
        if u32_at(36) != !sum {
            return Err("a dynamic header with a wrong checksum".into());
        }
        let block = u64::from(u32_at(32));
        if !block.is_power_of_two() || !(4096..=1 << 28).contains(&block) {
            return Err(format!("blocks of {block} bytes"));
        }
        let count = size.div_ceil(block);
        let there = u64::from(u32_at(28));
        if count > there || count > MOST {
            return Err(format!("{there} blocks where {size} bytes need {count}"));
        }
        Ok(Self {
            at: u64::from(u32_at(16)) << 32 | u64::from(u32_at(20)),
            block,
            count,
        })
    }

    fn entries(&self, file: &RawDisk) -> Result<Vec<u32>> {
        let len = self.count * 4;
        if self.at.checked_add(len).is_none_or(|end| end > file.len()) {
            return Err(damaged(
                file,
                FORMAT,
                self.at,
                "the block table lies outside the file",
            ));
        }
        let mut bytes = vec![0; len as usize];
        file.read_at(self.at, &mut bytes)?;
        let words = bytes.chunks_exact(4);
        Ok(words
            .map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
            .collect())
    }

    /// Each block stands behind a bitmap of its written sectors, which fills whole sectors.
    fn blocks(&self, file: &RawDisk, entries: &[u32]) -> Result<Places> {
        let bits = self.block / SECTOR / 8;
        let mut bitmap = vec![0; bits as usize];
        let (mut places, mut written) = (Vec::new(), BTreeMap::new());
        for (i, entry) in entries.iter().enumerate() {
            if *entry == ABSENT {
                places.push(0);
                continue;
            }
            let at = u64::from(*entry) * SECTOR;
            if at < FOOTER || at + bits > file.len() {
                let why = format!("block {i} lies outside the file");
                return Err(damaged(file, FORMAT, at, why));
            }
            file.read_at(at, &mut bitmap)?;
            if bitmap.iter().any(|b| *b != 0xff) {
                written.insert(i, bitmap.clone());
            }
            places.push(at + bits.next_multiple_of(SECTOR));
        }
        Ok((places, written))
    }
}
