//! The region table of the file, and the item table of the metadata region.

use std::collections::BTreeMap;
use std::ops::Range;

use super::header::is_valid;
use super::{KIB64, MIB, parse_guid, read, report_damaged};
use crate::bytes::{u16_le, u32_le, u64_le};
use crate::disk::{Disk, RawDisk};
use winimg_base::error::Result;

/// Offsets of the region tables in the file.
pub const PLACES: [u64; 2] = [3 * KIB64, 4 * KIB64];
/// Bytes of a region table, and of the table before the metadata.
pub const LEN: u64 = KIB64;
pub const TABLE: u128 = 0x2dc27766_f623_4200_9d64_115e9bfd4a08;
pub const METADATA: u128 = 0x8b7ca206_4790_4b9a_b8fe_575f050f886e;

/// Ranges of the regions in the file.
pub struct VhdxRegions {
    pub table: Range<u64>,
    pub metadata: Range<u64>,
    /// These two and unknown optional regions.
    pub all: Vec<Range<u64>>,
}

/// The known items of the metadata, of which not all are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VhdxMetadataItem {
    FileParameters,
    DiskSize,
    DiskId,
    LogicalSector,
    PhysicalSector,
    ParentLocator,
}

/// Ids of the items.
pub const ITEMS: [(u128, VhdxMetadataItem); 6] = [
    (
        0xcaa16737_fa36_4d43_b3b6_33f0aa44e76b,
        VhdxMetadataItem::FileParameters,
    ),
    (
        0x2fa54224_cd1b_4876_b211_5dbed83bf4b8,
        VhdxMetadataItem::DiskSize,
    ),
    (
        0xbeca12ab_b2e6_4523_93ef_c309e000c746,
        VhdxMetadataItem::DiskId,
    ),
    (
        0x8141bf1d_a96f_4709_ba47_f233a8faab5f,
        VhdxMetadataItem::LogicalSector,
    ),
    (
        0xcda348c7_445d_4471_9cc9_e9885251c556,
        VhdxMetadataItem::PhysicalSector,
    ),
    (
        0xa8d35f2d_b30b_454d_abf7_d3d84834ab0c,
        VhdxMetadataItem::ParentLocator,
    ),
];

impl VhdxRegions {
    /// Reads the first valid table of the two.
    pub fn read(file: &RawDisk) -> Result<Self> {
        for at in PLACES {
            let bytes = read(file, at, LEN, "a region table")?;
            if is_valid(&bytes, b"regi") {
                return Self::parse(file, &bytes, at);
            }
        }
        let why = "neither of the two region tables is valid";
        Err(report_damaged(file, 3 * KIB64, why))
    }

    fn parse(file: &RawDisk, bytes: &[u8], at: u64) -> Result<Self> {
        let (mut table, mut metadata) = (None, None);
        let mut all = Vec::new();
        let count = u32_le(bytes, 8) as usize;
        let entries = bytes[16..].chunks_exact(32);
        if count > entries.len() {
            return Err(report_damaged(file, at, format!("{count} regions")));
        }
        for entry in entries.take(count) {
            let (start, len) = (u64_le(entry, 16), u64::from(u32_le(entry, 24)));
            let place = match parse_guid(entry).as_u128() {
                TABLE => &mut table,
                METADATA => &mut metadata,
                _ if u32_le(entry, 28) & 1 != 0 => {
                    let why = format!("an unknown region {} is required", parse_guid(entry));
                    return Err(report_damaged(file, at, why));
                }
                _ => {
                    all.push(start..start.saturating_add(len));
                    continue;
                }
            };
            let end = start.checked_add(len).filter(|end| *end <= file.len());
            let Some(end) = end.filter(|_| start >= MIB && start.is_multiple_of(MIB)) else {
                let why = format!("a region of {len} bytes at {start:#x}");
                return Err(report_damaged(file, at, why));
            };
            all.push(start..end);
            if place.replace(start..end).is_some() {
                return Err(report_damaged(
                    file,
                    at,
                    format!("region {} twice", parse_guid(entry)),
                ));
            }
        }
        match (table, metadata) {
            (Some(table), Some(metadata)) => Ok(Self {
                table,
                metadata,
                all,
            }),
            _ => Err(report_damaged(file, at, "no block table or no metadata")),
        }
    }

    /// Reads the ranges of the metadata's items in the file.
    pub fn read_items(&self, file: &RawDisk) -> Result<BTreeMap<VhdxMetadataItem, Range<u64>>> {
        let region = &self.metadata;
        if region.end - region.start < KIB64 {
            let why = "a metadata region without a table";
            return Err(report_damaged(file, region.start, why));
        }
        let bytes = read(file, region.start, KIB64, "the metadata")?;
        let count = usize::from(u16_le(&bytes, 10));
        let entries = bytes[32..].chunks_exact(32);
        if !bytes.starts_with(b"metadata") || count > entries.len() {
            let why = format!("a metadata table with {count} entries");
            return Err(report_damaged(file, region.start, why));
        }
        let mut items = BTreeMap::new();
        for entry in entries.take(count) {
            let (offset, len) = (u32_le(entry, 16), u32_le(entry, 20));
            let known = ITEMS
                .iter()
                .find(|(id, _)| *id == parse_guid(entry).as_u128());
            let Some((_, item)) = known else {
                // Bit 2: required; a reader that does not know the item must not open the file.
                if u32_le(entry, 24) & 4 != 0 {
                    let why = format!("an unknown item {} is required", parse_guid(entry));
                    return Err(report_damaged(file, region.start, why));
                }
                continue;
            };
            let start = region.start + u64::from(offset);
            let end = start + u64::from(len);
            if u64::from(offset) < KIB64
                || end > region.end
                || items.insert(*item, start..end).is_some()
            {
                let why = format!("{item:?} of {len} bytes at {offset:#x}");
                return Err(report_damaged(file, region.start, why));
            }
        }
        Ok(items)
    }
}
