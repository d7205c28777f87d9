//! The front of a new VHDX without a parent: all that stands before its blocks, in pieces of one MiB.
//!
//! Pure: the same disk and ids give the same bytes. Blocks follow the front in the disk's order and without gaps, so which
//! of them are there must be known beforehand; the file can then be written and hashed from its first byte to its last.
//! Makes no differencing disks, and nothing of a log, which is empty.
//!
//! Source: Microsoft, [MS-VHDX] 2.2 (header section), 2.4 (BAT) with 2.5.1.1 (states), 2.6 (metadata).

use uuid::Uuid;

use super::MIB;
use super::header::{LEN, PLACES, seal};
use super::layer::{BITMAP_SECTORS, FULLY_PRESENT};
use super::region::{self, ITEMS, Item};
use crate::disk::SECTOR;
use crate::disk::blocks;

/// Bytes of a block, the smallest that the format has: what a disk has scattered over it takes the least room.
pub const BLOCK: u64 = MIB;
/// Bytes of the largest disk: [`super::open`] reads tables of so many blocks.
pub const MOST: u64 = blocks::MOST * BLOCK;
/// Blocks between two entries for sector bitmaps: the chunk ratio of 2.4.
const RATIO: u64 = BITMAP_SECTORS * SECTOR / BLOCK;
/// Pieces before the table: headers, log, metadata.
const FIXED_PIECES: u64 = 3;
const ENTRIES: u64 = MIB / 8;
/// Zeros, and no room in the file.
const ZERO: u64 = 2;

/// What a file says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Front {
    /// Bytes of the disk, whole MiB, at most [`MOST`].
    pub len: u64,
    /// Whether blocks of zeros have their room, too, and keep it.
    pub fixed: bool,
    pub file_write: Uuid,
    /// A child of the disk finds it by this.
    pub data_write: Uuid,
    /// What the guest sees.
    pub disk: Uuid,
}

impl Front {
    fn blocks(&self) -> u64 {
        self.len / BLOCK
    }

    /// Without a parent the table ends with the last block's entry.
    fn entries(&self) -> u64 {
        let blocks = self.blocks();
        blocks + blocks.saturating_sub(1) / RATIO
    }

    fn table_pieces(&self) -> u64 {
        self.entries().div_ceil(ENTRIES).max(1)
    }

    /// Where the first block begins in the file.
    pub fn end(&self) -> u64 {
        (FIXED_PIECES + self.table_pieces()) * MIB
    }

    /// The front, one MiB after the other. `place` says where a block is in the file; `None`: it is not there.
    pub fn pieces<'a>(
        &'a self,
        place: impl Fn(u64) -> Option<u64> + 'a,
    ) -> impl Iterator<Item = Vec<u8>> + 'a {
        let empty_log = vec![0; MIB as usize];
        let table = (0..self.table_pieces()).map(move |piece| self.table(piece, &place));
        [self.headers(), empty_log, self.metadata()]
            .into_iter()
            .chain(table)
    }

    fn headers(&self) -> Vec<u8> {
        let mut bytes = vec![0; MIB as usize];
        bytes[..8].copy_from_slice(b"vhdxfile");
        let creator = "winimg".encode_utf16().flat_map(u16::to_le_bytes);
        for (to, from) in bytes[8..].iter_mut().zip(creator) {
            *to = from;
        }
        for (number, at) in PLACES.into_iter().enumerate() {
            let header = &mut bytes[at as usize..][..LEN as usize];
            header[..4].copy_from_slice(b"head");
            header[8..16].copy_from_slice(&(number as u64 + 1).to_le_bytes());
            header[16..32].copy_from_slice(&self.file_write.to_bytes_le());
            header[32..48].copy_from_slice(&self.data_write.to_bytes_le());
            header[66] = 1; // version of the format
            header[68..72].copy_from_slice(&(MIB as u32).to_le_bytes()); // log
            header[72..80].copy_from_slice(&MIB.to_le_bytes());
            seal(header);
        }
        for at in region::PLACES {
            let regions = &mut bytes[at as usize..][..region::LEN as usize];
            regions[..4].copy_from_slice(b"regi");
            regions[8] = 2;
            let table = (region::TABLE, FIXED_PIECES, self.table_pieces());
            let metadata = (region::METADATA, 2, 1);
            for (i, (id, start, mib)) in [table, metadata].into_iter().enumerate() {
                let entry = &mut regions[16 + i * 32..][..32];
                entry[..16].copy_from_slice(&Uuid::from_u128(id).to_bytes_le());
                entry[16..24].copy_from_slice(&(start * MIB).to_le_bytes());
                entry[24..28].copy_from_slice(&((mib * MIB) as u32).to_le_bytes());
                entry[28] = 1; // required
            }
            seal(regions);
        }
        bytes
    }

    fn metadata(&self) -> Vec<u8> {
        let sector = (SECTOR as u32).to_le_bytes().to_vec();
        let parameters = [BLOCK as u32, u32::from(self.fixed)];
        // Flags: 2 of the disk, not of the file; 4 required. Both sectors are those that Windows was installed on.
        let items: [(Item, u8, Vec<u8>); 5] = [
            (
                Item::FileParameters,
                4,
                parameters.iter().flat_map(|n| n.to_le_bytes()).collect(),
            ),
            (Item::DiskSize, 6, self.len.to_le_bytes().to_vec()),
            (Item::DiskId, 6, self.disk.to_bytes_le().to_vec()),
            (Item::LogicalSector, 6, sector.clone()),
            (Item::PhysicalSector, 6, sector),
        ];
        let mut bytes = vec![0; MIB as usize];
        bytes[..8].copy_from_slice(b"metadata");
        bytes[10] = items.len() as u8;
        let mut offset = region::LEN as usize;
        for (i, (item, flags, content)) in items.iter().enumerate() {
            let known = ITEMS.iter().find(|(_, known)| known == item);
            let id = known.map_or(0, |(id, _)| *id);
            let entry = &mut bytes[32 + i * 32..][..32];
            entry[..16].copy_from_slice(&Uuid::from_u128(id).to_bytes_le());
            entry[16..20].copy_from_slice(&(offset as u32).to_le_bytes());
            entry[20..24].copy_from_slice(&(content.len() as u32).to_le_bytes());
            entry[24] = *flags;
            bytes[offset..offset + content.len()].copy_from_slice(content);
            offset += content.len();
        }
        bytes
    }

    /// A MiB of the table. Entries for sector bitmaps are empty: only differencing disks have those.
    fn table(&self, piece: u64, place: &impl Fn(u64) -> Option<u64>) -> Vec<u8> {
        let first = piece * ENTRIES;
        let mut bytes = Vec::with_capacity(MIB as usize);
        for index in first..(first + ENTRIES).min(self.entries()) {
            let (chunk, within) = (index / (RATIO + 1), index % (RATIO + 1));
            let entry = match within == RATIO {
                true => 0,
                false => place(chunk * RATIO + within).map_or(ZERO, |at| at | FULLY_PRESENT),
            };
            bytes.extend_from_slice(&entry.to_le_bytes());
        }
        bytes.resize(MIB as usize, 0);
        bytes
    }
}
