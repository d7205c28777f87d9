//! The two tables that say where things are: regions in the file, items in the metadata region.

use std::collections::BTreeMap;
use std::ops::Range;

use super::header::sound;
use super::{KIB64, MIB, damaged, guid, read};
use crate::bytes::{u16_le, u32_le, u64_le};
use crate::disk::{Disk, RawDisk};
use winimg_base::error::Result;

/// Where the region tables are in the file.
pub const PLACES: [u64; 2] = [3 * KIB64, 4 * KIB64];
/// Bytes of a region table, and of the table in front of the metadata.
pub const LEN: u64 = KIB64;
pub const TABLE: u128 = 0x2dc27766_f623_4200_9d64_115e9bfd4a08;
pub const METADATA: u128 = 0x8b7ca206_4790_4b9a_b8fe_575f050f886e;

/// Where the regions are in the file.
pub struct Regions {
    pub table: Range<u64>,
    pub metadata: Range<u64>,
    /// These two and the optional ones that are not known.
    pub all: Vec<Range<u64>>,
}

/// The items of the metadata that are looked at, or known and not needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    FileParameters,
    DiskSize,
    DiskId,
    LogicalSector,
    PhysicalSector,
    ParentLocator,
}

/// Their ids.
pub const ITEMS: [(u128, Item); 6] = [
    (0xcaa16737_fa36_4d43_b3b6_33f0aa44e76b, Item::FileParameters),
    (0x2fa54224_cd1b_4876_b211_5dbed83bf4b8, Item::DiskSize),
    (0xbeca12ab_b2e6_4523_93ef_c309e000c746, Item::DiskId),
    (0x8141bf1d_a96f_4709_ba47_f233a8faab5f, Item::LogicalSector),
    (0xcda348c7_445d_4471_9cc9_e9885251c556, Item::PhysicalSector),
    (0xa8d35f2d_b30b_454d_abf7_d3d84834ab0c, Item::ParentLocator),
];

impl Regions {
    /// The first of the two tables that is whole.
    pub fn read(file: &RawDisk) -> Result<Self> {
        for at in PLACES {
            let bytes = read(file, at, LEN, "a region table")?;
            if sound(&bytes, b"regi") {
                return Self::of(file, &bytes, at);
            }
        }
        let why = "neither of the two region tables is whole";
        Err(damaged(file, 3 * KIB64, why))
    }

    fn of(file: &RawDisk, bytes: &[u8], at: u64) -> Result<Self> {
        let bad = |why: String| damaged(file, at, why);
        let (mut table, mut metadata) = (None, None);
        let mut all = Vec::new();
        let count = u32_le(bytes, 8) as usize;
        let entries = bytes[16..].chunks_exact(32);
        if count > entries.len() {
            return Err(bad(format!("{count} regions")));
        }
        for entry in entries.take(count) {
            let (start, len) = (u64_le(entry, 16), u64::from(u32_le(entry, 24)));
            let place = match guid(entry).as_u128() {
                TABLE => &mut table,
                METADATA => &mut metadata,
                _ if u32_le(entry, 28) & 1 != 0 => {
                    return Err(bad(format!(
                        "an unknown region {} is required",
                        guid(entry)
                    )));
                }
                _ => {
                    all.push(start..start.saturating_add(len));
                    continue;
                }
            };
            let end = start.checked_add(len).filter(|end| *end <= file.len());
            let Some(end) = end.filter(|_| start >= MIB && start.is_multiple_of(MIB)) else {
                return Err(bad(format!("a region of {len} bytes at {start:#x}")));
            };
            all.push(start..end);
            if place.replace(start..end).is_some() {
                return Err(bad(format!("region {} twice", guid(entry))));
            }
        }
        match (table, metadata) {
            (Some(table), Some(metadata)) => Ok(Self {
                table,
                metadata,
                all,
            }),
            _ => Err(bad("no block table or no metadata".into())),
        }
    }

    /// Where the items of the metadata are in the file.
    pub fn items(&self, file: &RawDisk) -> Result<BTreeMap<Item, Range<u64>>> {
        let region = &self.metadata;
        let bad = |why: String| damaged(file, region.start, why);
        if region.end - region.start < KIB64 {
            return Err(bad("a metadata region without a table".into()));
        }
        let bytes = read(file, region.start, KIB64, "the metadata")?;
        let count = usize::from(u16_le(&bytes, 10));
        let entries = bytes[32..].chunks_exact(32);
        if !bytes.starts_with(b"metadata") || count > entries.len() {
            return Err(bad(format!("a metadata table with {count} entries")));
        }
        let mut items = BTreeMap::new();
        for entry in entries.take(count) {
            let (offset, len) = (u32_le(entry, 16), u32_le(entry, 20));
            let known = ITEMS.iter().find(|(id, _)| *id == guid(entry).as_u128());
            let Some((_, item)) = known else {
                // Bit 2: who does not know the item must not open the file.
                if u32_le(entry, 24) & 4 != 0 {
                    return Err(bad(format!("an unknown item {} is required", guid(entry))));
                }
                continue;
            };
            let start = region.start + u64::from(offset);
            let end = start + u64::from(len);
            if u64::from(offset) < KIB64
                || end > region.end
                || items.insert(*item, start..end).is_some()
            {
                return Err(bad(format!("{item:?} of {len} bytes at {offset:#x}")));
            }
        }
        Ok(items)
    }
}
