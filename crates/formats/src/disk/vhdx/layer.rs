//! One VHDX file: its shape, its block allocation table, and what it holds itself.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use uuid::Uuid;

use super::header::Header;
use super::parent::{self, Locator};
use super::region::{Item, Regions};
use super::{MIB, damaged, read};
use crate::bytes::{u32_le, u64_le};
use crate::disk::blocks::MOST;
use crate::disk::{Disk, Format, RawDisk};
use winimg_base::error::{Error, Result};

/// Sectors that one block of the sector bitmap covers: [MS-VHDX] 2.4, "chunk ratio".
pub const BITMAP_SECTORS: u64 = 1 << 23;
const LARGEST: u64 = 64 << 40;
/// Of a block that is held in part no more is looked at in one step, so that its bitmap is read in small pieces.
const STEP: u64 = 1 << 20;

// States of a payload block, [MS-VHDX] 2.5.1.1. Those not named here have no content that anyone may count on.
const NOT_PRESENT: u64 = 0;
pub const FULLY_PRESENT: u64 = 6;
const PARTIALLY_PRESENT: u64 = 7;
/// Of a sector bitmap, 2.5.1.2.
const BITMAP_PRESENT: u64 = 6;

pub struct Layer {
    pub file: RawDisk,
    pub header: Header,
    pub regions: Regions,
    items: BTreeMap<Item, Range<u64>>,
    /// Bytes of the disk.
    pub len: u64,
    pub block: u64,
    pub sector: u64,
    /// Whether there is a parent.
    pub differencing: bool,
    /// The block allocation table; after each chunk of blocks stands the entry of its sector bitmap.
    table: Vec<u64>,
}

/// Who has some bytes of the disk.
pub enum Holder {
    /// This file, there.
    Here(u64),
    /// Nobody: they are zeros, whatever lies below.
    Zero,
    /// The parent; without one they are zeros.
    Below,
}

/// Where a table's entry points to.
fn place(entry: u64) -> u64 {
    entry & !(MIB - 1)
}

impl Layer {
    pub fn open(path: &Path) -> Result<Self> {
        let file = RawDisk::open(path)?;
        let header = Header::read(&file)?;
        let regions = Regions::read(&file)?;
        let items = regions.items(&file)?;
        let at = regions.metadata.start;
        let bad = |why: String| damaged(&file, at, why);
        let item = |item: Item, len: u64| {
            let found = items
                .get(&item)
                .ok_or_else(|| bad(format!("no {item:?} in the metadata")))?;
            if found.end - found.start != len {
                let len = found.end - found.start;
                return Err(bad(format!("{item:?} has {len} bytes")));
            }
            read(&file, found.start, len, "the metadata")
        };
        let parameters = item(Item::FileParameters, 8)?;
        let block = u64::from(u32_le(&parameters, 0));
        let len = u64_le(&item(Item::DiskSize, 8)?, 0);
        let sector = u64::from(u32_le(&item(Item::LogicalSector, 4)?, 0));
        if !block.is_power_of_two() || !(MIB..=256 * MIB).contains(&block) {
            return Err(bad(format!("blocks of {block} bytes")));
        }
        if ![512, 4096].contains(&sector) {
            return Err(bad(format!("sectors of {sector} bytes")));
        }
        if len == 0 || len > LARGEST || !len.is_multiple_of(sector) {
            return Err(bad(format!("a disk of {len} bytes")));
        }
        let mut layer = Self {
            header,
            regions,
            items,
            len,
            block,
            sector,
            differencing: u32_le(&parameters, 4) & 2 != 0,
            table: Vec::new(),
            file,
        };
        layer.table = layer.read_table()?;
        layer.check()?;
        Ok(layer)
    }

    pub fn locator(&self) -> Result<Locator> {
        let at = self.regions.metadata.start;
        let Some(item) = self.items.get(&Item::ParentLocator) else {
            let why = "a differencing disk without a parent locator";
            return Err(damaged(&self.file, at, why));
        };
        Locator::read(&self.file, item)
    }

    fn blocks(&self) -> u64 {
        self.len.div_ceil(self.block)
    }

    /// Payload blocks that one sector bitmap covers.
    fn ratio(&self) -> u64 {
        BITMAP_SECTORS * self.sector / self.block
    }

    /// Source: [MS-VHDX] 2.5; a differencing disk's table ends with the last bitmap, any other with the last block.
    fn read_table(&self) -> Result<Vec<u64>> {
        let (count, ratio) = (self.blocks(), self.ratio());
        let entries = match self.differencing {
            true => count.div_ceil(ratio) * (ratio + 1),
            false => count + (count - 1) / ratio,
        };
        let region = &self.regions.table;
        if entries * 8 > region.end - region.start || count > MOST {
            let why = format!("a block table too small for {count} blocks");
            return Err(damaged(&self.file, region.start, why));
        }
        let bytes = read(&self.file, region.start, entries * 8, "the block table")?;
        Ok(bytes.chunks_exact(8).map(|e| u64_le(e, 0)).collect())
    }

    fn entry(&self, index: u64) -> u64 {
        self.table.get(index as usize).copied().unwrap_or(0)
    }

    /// Blocks that lie outside the file, or in a state that they can't have, are refused before anything is read.
    fn check(&self) -> Result<()> {
        let ratio = self.ratio();
        for block in 0..self.blocks() {
            let index = block + block / ratio;
            let entry = self.entry(index);
            let bad = |at: u64, why: String| Err(damaged(&self.file, at, why));
            match entry & 7 {
                0..=3 => continue,
                FULLY_PRESENT if place(entry) != 0 => {}
                PARTIALLY_PRESENT if place(entry) != 0 && self.differencing => {
                    let bitmap = self.bitmap(block);
                    if bitmap.is_none_or(|at| at.saturating_add(MIB) > self.file.len()) {
                        let why =
                            format!("block {block} is there in part, and no bitmap says which");
                        return bad(self.regions.table.start + index * 8, why);
                    }
                }
                state => {
                    let why = format!("block {block} in state {state}, entry {entry:#x}");
                    return bad(self.regions.table.start + index * 8, why);
                }
            }
            let used = self.block.min(self.len - block * self.block);
            if place(entry).saturating_add(used) > self.file.len() {
                let why = format!("block {block} lies outside the file");
                return bad(place(entry), why);
            }
        }
        Ok(())
    }

    /// Where the sector bitmap for a block is.
    fn bitmap(&self, block: u64) -> Option<u64> {
        let ratio = self.ratio();
        let entry = self.entry(block / ratio * (ratio + 1) + ratio);
        (entry & 7 == BITMAP_PRESENT && place(entry) != 0).then_some(place(entry))
    }

    /// Where this file keeps room for the byte `at` of the disk, whether or not it holds that byte.
    pub fn block_holder(&self, at: u64) -> Holder {
        let (block, within) = (at / self.block, at % self.block);
        let entry = self.entry(block + block / self.ratio());
        match entry & 7 {
            FULLY_PRESENT | PARTIALLY_PRESENT => Holder::Here(place(entry) + within),
            NOT_PRESENT => Holder::Below,
            _ => Holder::Zero,
        }
    }

    /// Who has the byte `at`, which lies on the disk, and for how many bytes that is so, at most `most`; at least one.
    pub fn holder(&self, at: u64, most: u64) -> Result<(Holder, u64)> {
        let (block, within) = (at / self.block, at % self.block);
        let most = most.min(self.block - within).min(self.len - at).max(1);
        let holder = self.block_holder(at);
        if self.entry(block + block / self.ratio()) & 7 != PARTIALLY_PRESENT {
            return Ok((holder, most));
        }
        let most = most.min(STEP);
        let bitmap = self.bitmap(block).unwrap_or_default();
        let sectors = self.block / self.sector;
        let first = block % self.ratio() * sectors + within / self.sector;
        let last = first + (within % self.sector + most - 1) / self.sector;
        let bits = read(
            &self.file,
            bitmap + first / 8,
            last / 8 - first / 8 + 1,
            "a sector bitmap",
        )?;
        let bit = |sector: u64| {
            let byte = bits.get((sector / 8 - first / 8) as usize);
            byte.is_some_and(|b| b >> (sector % 8) & 1 == 1)
        };
        let here = bit(first);
        let run = (first..=last).take_while(|s| bit(*s) == here).count() as u64;
        let len = (run * self.sector - within % self.sector).min(most);
        Ok((if here { holder } else { Holder::Below }, len))
    }

    /// What every structure takes of the file, ascending. Refuses a file in which two of them overlap.
    pub fn used(&self) -> Result<Vec<Range<u64>>> {
        let header = 0..MIB;
        let mut used = vec![header, self.header.log()];
        used.extend(self.regions.all.iter().cloned());
        let ratio = self.ratio();
        for (index, entry) in self.table.iter().enumerate() {
            let bitmap = index as u64 % (ratio + 1) == ratio;
            let len = match (bitmap, entry & 7) {
                (true, BITMAP_PRESENT) => MIB,
                (false, FULLY_PRESENT | PARTIALLY_PRESENT) => self.block,
                _ => continue,
            };
            used.push(place(*entry)..place(*entry).saturating_add(len));
        }
        used.retain(|r| !r.is_empty());
        used.sort_by_key(|r| r.start);
        for pair in used.windows(2) {
            if pair[0].end > pair[1].start {
                let why = "two of its structures lie in the same place";
                return Err(damaged(&self.file, pair[1].start, why));
            }
        }
        Ok(used)
    }
}

/// Opens the parent that `parent::find` found, when it is the one that the child was made over.
pub fn open_parent(child: &Layer, locator: &Locator, path: &Path) -> Result<Layer> {
    let shown = path.display();
    if Format::of(path)? != Format::Vhdx {
        return Err(parent::refused(&child.file, shown)
            .expected("a VHDX")
            .found("a file of another format"));
    }
    let parent = Layer::open(path)?;
    let id = parent.header.data_write();
    if !locator.linkages.contains(&id) {
        let expected: Vec<String> = locator.linkages.iter().map(Uuid::to_string).collect();
        return Err(Error::failed(format!(
            "the parent {shown} was written since {} was made over it",
            child.file.path().display()
        ))
        .expected(format!("DataWriteGuid {}", expected.join(" or ")))
        .found(id)
        .cure("bring back the parent as it was, or build the image again"));
    }
    if parent.sector != child.sector {
        return Err(parent::refused(&child.file, shown)
            .expected(format!("sectors of {} bytes", child.sector))
            .found(format!("{} bytes", parent.sector)));
    }
    Ok(parent)
}
