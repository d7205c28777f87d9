//! Dynamic VHDs. Differencing ones are refused: their other half is in another file.
//!
//! Source: Microsoft, "Virtual Hard Disk Image Format Specification" 1.0 (all fields big-endian).

pub mod create;

use std::collections::BTreeMap;
use std::path::Path;

use super::blocks::{Blocks, MOST, damaged, part, refused};
use super::vhd::{self, FOOTER, Footer};
use super::{Disk, RawDisk, SECTOR};
use crate::bytes::{u32_be, u64_be};
use winimg_base::error::Result;

const FORMAT: &str = "dynamic VHD";
/// Bytes of the dynamic header.
const HEADER: u64 = 1024;
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
    let header = part(&file, FORMAT, at, HEADER, "the dynamic header")?;
    let table = Table::read(&header, found.size).map_err(|why| damaged(&file, FORMAT, at, why))?;
    let (places, written) = table.blocks(&file)?;
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
    fn read(header: &[u8], size: u64) -> Result<Self, String> {
        if !header.starts_with(b"cxsparse") {
            return Err("no dynamic header".into());
        }
        if u32_be(header, 36) != vhd::checksum(header, 36) {
            return Err("a dynamic header with a wrong checksum".into());
        }
        let block = u64::from(u32_be(header, 32));
        if !block.is_power_of_two() || !(4096..=1 << 28).contains(&block) {
            return Err(format!("blocks of {block} bytes"));
        }
        let count = size.div_ceil(block);
        let there = u64::from(u32_be(header, 28));
        if count > there || count > MOST {
            return Err(format!("{there} blocks where {size} bytes need {count}"));
        }
        Ok(Self {
            at: u64_be(header, 16),
            block,
            count,
        })
    }

    /// Each block stands behind a bitmap of its written sectors, which fills whole sectors.
    fn blocks(&self, file: &RawDisk) -> Result<Places> {
        let entries = part(file, FORMAT, self.at, self.count * 4, "the block table")?;
        let bits = self.block / SECTOR / 8;
        let mut bitmap = vec![0; bits as usize];
        let (mut places, mut written) = (Vec::new(), BTreeMap::new());
        for (i, entry) in entries.chunks_exact(4).enumerate() {
            let entry = u32_be(entry, 0);
            if entry == ABSENT {
                places.push(0);
                continue;
            }
            let at = u64::from(entry) * SECTOR;
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
