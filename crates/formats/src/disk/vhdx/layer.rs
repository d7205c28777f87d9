//! One VHDX file: its parameters, its block allocation table, and its own blocks.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use uuid::Uuid;

use super::header::VhdxHeader;
use super::parent::{self, ParentLocator};
use super::region::{VhdxMetadataItem, VhdxRegions};
use super::{MIB, read, report_damaged};
use crate::bytes::{u32_le, u64_le};
use crate::disk::blocks::MOST;
use crate::disk::{Disk, ImageFormat, RawDisk};
use winimg_base::error::{Error, Result};

/// Sectors covered by one sector bitmap block: [MS-VHDX] 2.4, "chunk ratio".
pub const SECTORS_PER_BITMAP: u64 = 1 << 23;
const LARGEST: u64 = 64 << 40;
/// Maximum step within a partially present block, so that its bitmap is read in small pieces.
const STEP: u64 = 1 << 20;

// States of a payload block, [MS-VHDX] 2.5.1.1. In all other states the content is undefined.
const NOT_PRESENT: u64 = 0;
pub const FULLY_PRESENT: u64 = 6;
const PARTIALLY_PRESENT: u64 = 7;
/// State of a sector bitmap, 2.5.1.2.
const BITMAP_PRESENT: u64 = 6;

pub struct VhdxLayer {
    pub file: RawDisk,
    pub header: VhdxHeader,
    pub regions: VhdxRegions,
    items: BTreeMap<VhdxMetadataItem, Range<u64>>,
    /// Bytes of the disk.
    pub len: u64,
    pub block: u64,
    pub sector: u64,
    /// True if there is a parent.
    pub has_parent: bool,
    /// The block allocation table; the entry of a sector bitmap follows each chunk of blocks.
    table: Vec<u64>,
}

/// Location of some bytes of the disk.
pub enum BlockHolder {
    /// In this file, at this offset.
    InFile(u64),
    /// Zeros, whatever the parent has.
    Zero,
    /// In the parent; zeros without one.
    InParent,
}

/// Returns the file offset stored in a table entry.
fn extract_offset(entry: u64) -> u64 {
    entry & !(MIB - 1)
}

impl VhdxLayer {
    pub fn open(path: &Path) -> Result<Self> {
        let file = RawDisk::open(path)?;
        let header = VhdxHeader::read(&file)?;
        let regions = VhdxRegions::read(&file)?;
        let items = regions.read_items(&file)?;
        let at = regions.metadata.start;
        let parameters = read_item(&file, &items, at, VhdxMetadataItem::FileParameters, 8)?;
        let size = read_item(&file, &items, at, VhdxMetadataItem::DiskSize, 8)?;
        let logical_sector = read_item(&file, &items, at, VhdxMetadataItem::LogicalSector, 4)?;
        let block = u64::from(u32_le(&parameters, 0));
        let len = u64_le(&size, 0);
        let sector = u64::from(u32_le(&logical_sector, 0));
        if !block.is_power_of_two() || !(MIB..=256 * MIB).contains(&block) {
            return Err(report_damaged(
                &file,
                at,
                format!("blocks of {block} bytes"),
            ));
        }
        if ![512, 4096].contains(&sector) {
            return Err(report_damaged(
                &file,
                at,
                format!("sectors of {sector} bytes"),
            ));
        }
        if len == 0 || len > LARGEST || !len.is_multiple_of(sector) {
            return Err(report_damaged(&file, at, format!("a disk of {len} bytes")));
        }
        let mut layer = Self {
            header,
            regions,
            items,
            len,
            block,
            sector,
            has_parent: u32_le(&parameters, 4) & 2 != 0,
            table: Vec::new(),
            file,
        };
        layer.table = layer.read_table()?;
        layer.check()?;
        Ok(layer)
    }

    pub fn read_locator(&self) -> Result<ParentLocator> {
        let at = self.regions.metadata.start;
        let Some(item) = self.items.get(&VhdxMetadataItem::ParentLocator) else {
            let why = "a differencing disk without a parent locator";
            return Err(report_damaged(&self.file, at, why));
        };
        ParentLocator::read(&self.file, item)
    }

    fn count_blocks(&self) -> u64 {
        self.len.div_ceil(self.block)
    }

    /// Payload blocks that one sector bitmap covers.
    fn ratio(&self) -> u64 {
        SECTORS_PER_BITMAP * self.sector / self.block
    }

    /// Reads the table. That of a differencing disk ends with the last bitmap entry, any other with
    /// the last block entry ([MS-VHDX] 2.5).
    fn read_table(&self) -> Result<Vec<u64>> {
        let (count, ratio) = (self.count_blocks(), self.ratio());
        let entries = if self.has_parent {
            count.div_ceil(ratio) * (ratio + 1)
        } else {
            count + (count - 1) / ratio
        };
        let region = &self.regions.table;
        if entries * 8 > region.end - region.start || count > MOST {
            let why = format!("a block table too small for {count} blocks");
            return Err(report_damaged(&self.file, region.start, why));
        }
        let bytes = read(&self.file, region.start, entries * 8, "the block table")?;
        Ok(bytes.chunks_exact(8).map(|e| u64_le(e, 0)).collect())
    }

    fn entry(&self, index: u64) -> u64 {
        self.table.get(index as usize).copied().unwrap_or(0)
    }

    /// Refuses blocks outside the file or in an invalid state, before anything is read.
    fn check(&self) -> Result<()> {
        let ratio = self.ratio();
        for block in 0..self.count_blocks() {
            let index = block + block / ratio;
            let entry = self.entry(index);
            let entry_at = self.regions.table.start + index * 8;
            match entry & 7 {
                0..=3 => continue,
                FULLY_PRESENT if extract_offset(entry) != 0 => {}
                PARTIALLY_PRESENT if extract_offset(entry) != 0 && self.has_parent => {
                    let bitmap = self.find_bitmap(block);
                    if bitmap.is_none_or(|at| at.saturating_add(MIB) > self.file.len()) {
                        let why = format!("block {block} is partially present without a bitmap");
                        return Err(report_damaged(&self.file, entry_at, why));
                    }
                }
                state => {
                    let why = format!("block {block} in state {state}, entry {entry:#x}");
                    return Err(report_damaged(&self.file, entry_at, why));
                }
            }
            let used = self.block.min(self.len - block * self.block);
            if extract_offset(entry).saturating_add(used) > self.file.len() {
                let why = format!("block {block} is outside the file");
                return Err(report_damaged(&self.file, extract_offset(entry), why));
            }
        }
        Ok(())
    }

    /// Returns the offset of the sector bitmap for a block, if it is present.
    fn find_bitmap(&self, block: u64) -> Option<u64> {
        let ratio = self.ratio();
        let entry = self.entry(block / ratio * (ratio + 1) + ratio);
        (entry & 7 == BITMAP_PRESENT && extract_offset(entry) != 0).then_some(extract_offset(entry))
    }

    /// Returns the location of the block with the byte `at` of the disk, without reading a sector
    /// bitmap.
    pub fn block_holder(&self, at: u64) -> BlockHolder {
        let (block, within) = (at / self.block, at % self.block);
        let entry = self.entry(block + block / self.ratio());
        match entry & 7 {
            FULLY_PRESENT | PARTIALLY_PRESENT => {
                BlockHolder::InFile(extract_offset(entry) + within)
            }
            NOT_PRESENT => BlockHolder::InParent,
            _ => BlockHolder::Zero,
        }
    }

    /// Returns the location of the byte `at` of the disk, and the number of bytes from there with
    /// the same location, from 1 to `most`.
    pub fn find_holder(&self, at: u64, most: u64) -> Result<(BlockHolder, u64)> {
        let (block, within) = (at / self.block, at % self.block);
        let most = most.min(self.block - within).min(self.len - at).max(1);
        let holder = self.block_holder(at);
        if self.entry(block + block / self.ratio()) & 7 != PARTIALLY_PRESENT {
            return Ok((holder, most));
        }
        let most = most.min(STEP);
        let bitmap = self.find_bitmap(block).unwrap_or_default();
        let sectors = self.block / self.sector;
        let first = block % self.ratio() * sectors + within / self.sector;
        let last = first + (within % self.sector + most - 1) / self.sector;
        let bits = read(
            &self.file,
            bitmap + first / 8,
            last / 8 - first / 8 + 1,
            "a sector bitmap",
        )?;
        let base = first / 8 * 8;
        let is_here = is_bit_set(&bits, first - base);
        let run = (first..=last)
            .take_while(|sector| is_bit_set(&bits, sector - base) == is_here)
            .count() as u64;
        let len = (run * self.sector - within % self.sector).min(most);
        Ok((
            if is_here {
                holder
            } else {
                BlockHolder::InParent
            },
            len,
        ))
    }

    /// Returns the ranges of all structures in the file, ascending. Refuses a file in which two
    /// overlap.
    pub fn list_used(&self) -> Result<Vec<Range<u64>>> {
        let header = 0..MIB;
        let mut used = vec![header, self.header.log()];
        used.extend(self.regions.all.iter().cloned());
        let ratio = self.ratio();
        for (index, entry) in self.table.iter().enumerate() {
            let is_bitmap = index as u64 % (ratio + 1) == ratio;
            let len = match (is_bitmap, entry & 7) {
                (true, BITMAP_PRESENT) => MIB,
                (false, FULLY_PRESENT | PARTIALLY_PRESENT) => self.block,
                _ => continue,
            };
            used.push(extract_offset(*entry)..extract_offset(*entry).saturating_add(len));
        }
        used.retain(|r| !r.is_empty());
        used.sort_by_key(|r| r.start);
        for pair in used.windows(2) {
            if pair[0].end > pair[1].start {
                let why = "two of its structures overlap";
                return Err(report_damaged(&self.file, pair[1].start, why));
            }
        }
        Ok(used)
    }
}

/// Returns true if a bit is set; bits are numbered from the lowest of each byte.
fn is_bit_set(bits: &[u8], index: u64) -> bool {
    bits.get((index / 8) as usize)
        .is_some_and(|b| b >> (index % 8) & 1 == 1)
}

/// Reads an item of the metadata region at `at`, which must have `len` bytes.
fn read_item(
    file: &RawDisk,
    items: &BTreeMap<VhdxMetadataItem, Range<u64>>,
    at: u64,
    item: VhdxMetadataItem,
    len: u64,
) -> Result<Vec<u8>> {
    let found = items
        .get(&item)
        .ok_or_else(|| report_damaged(file, at, format!("no {item:?} in the metadata")))?;
    let actual = found.end - found.start;
    if actual != len {
        let why = format!("{item:?} has {actual} bytes");
        return Err(report_damaged(file, at, why));
    }
    read(file, found.start, len, "the metadata")
}

/// Opens the parent that `parent::find` found, and checks that the child was created from it.
pub fn open_parent(child: &VhdxLayer, locator: &ParentLocator, path: &Path) -> Result<VhdxLayer> {
    let parent_path = path.display();
    if *ImageFormat::detect(path)? != super::FORMAT {
        return Err(parent::refuse_parent(&child.file, parent_path)
            .expected("a VHDX")
            .found("a file of another format"));
    }
    let parent = VhdxLayer::open(path)?;
    let id = parent.header.data_write();
    if !locator.linkages.contains(&id) {
        let expected: Vec<String> = locator.linkages.iter().map(Uuid::to_string).collect();
        return Err(Error::failed(format!(
            "the parent {parent_path} was changed after its child {} was created",
            child.file.path().display()
        ))
        .expected(format!("DataWriteGuid {}", expected.join(" or ")))
        .found(id)
        .cure("restore the unchanged parent, or rebuild the image"));
    }
    if parent.sector != child.sector {
        return Err(parent::refuse_parent(&child.file, parent_path)
            .expected(format!("sectors of {} bytes", child.sector))
            .found(format!("{} bytes", parent.sector)));
    }
    Ok(parent)
}
