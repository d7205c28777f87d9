//! Builds the front of a new VHDX without a parent: everything before its blocks, in pieces of one
//! MiB.
//!
//! Pure: the same disk and ids give the same bytes. Blocks follow the front in the disk's order and
//! without gaps, so the set of stored blocks must be known beforehand; the file can then be written
//! and hashed sequentially. Makes no differencing disks; the log is empty.
//!
//! Source: Microsoft, [MS-VHDX] 2.2 (header section), 2.4 (BAT) with 2.5.1.1 (states), 2.6
//! (metadata).

use uuid::Uuid;

use super::MIB;
use super::header::{LEN, PLACES, seal};
use super::layer::{FULLY_PRESENT, SECTORS_PER_BITMAP};
use super::region::{self, ITEMS, VhdxMetadataItem};
use crate::disk::SECTOR;
use crate::disk::blocks;

/// Bytes of a block, the format's minimum: scattered data takes the least space.
pub const BLOCK: u64 = MIB;
/// Bytes of the largest disk that [`super::open`] can read.
pub const MOST: u64 = blocks::MOST * BLOCK;
/// Blocks between two entries for sector bitmaps: the chunk ratio of 2.4.
const RATIO: u64 = SECTORS_PER_BITMAP * SECTOR / BLOCK;
/// Pieces before the table: headers, log, metadata.
const FIXED_PIECES: u64 = 3;
const ENTRIES: u64 = MIB / 8;
/// State of a block of zeros without space in the file.
const ZERO: u64 = 2;

/// Parameters of a new file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VhdxFront {
    /// Bytes of the disk, whole MiB, at most [`MOST`].
    pub len: u64,
    /// True if blocks of zeros have space in the file, too.
    pub fixed: bool,
    pub file_write: Uuid,
    /// Id by which a child identifies its parent.
    pub data_write: Uuid,
    /// Disk id that the guest sees.
    pub disk: Uuid,
}

impl VhdxFront {
    fn count_blocks(&self) -> u64 {
        self.len / BLOCK
    }

    /// Counts the entries: without a parent the table ends with the last block's entry.
    fn count_entries(&self) -> u64 {
        let blocks = self.count_blocks();
        blocks + blocks.saturating_sub(1) / RATIO
    }

    fn table_pieces(&self) -> u64 {
        self.count_entries().div_ceil(ENTRIES).max(1)
    }

    /// Returns the offset of the first block in the file.
    pub fn end(&self) -> u64 {
        (FIXED_PIECES + self.table_pieces()) * MIB
    }

    /// Builds the front in pieces of one MiB. `place` returns the offset of a block; `None`: not
    /// stored.
    pub fn build_pieces<'a>(
        &'a self,
        place: impl Fn(u64) -> Option<u64> + 'a,
    ) -> impl Iterator<Item = Vec<u8>> + 'a {
        let empty_log = vec![0; MIB as usize];
        let table = (0..self.table_pieces()).map(move |piece| self.build_table(piece, &place));
        [self.build_headers(), empty_log, self.build_metadata()]
            .into_iter()
            .chain(table)
    }

    fn build_headers(&self) -> Vec<u8> {
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

    fn build_metadata(&self) -> Vec<u8> {
        let sector = (SECTOR as u32).to_le_bytes().to_vec();
        let parameters = [BLOCK as u32, u32::from(self.fixed)];
        // Flags: 2 of the disk, not of the file; 4 required. The sector sizes match the installed
        // Windows.
        let items: [(VhdxMetadataItem, u8, Vec<u8>); 5] = [
            (
                VhdxMetadataItem::FileParameters,
                4,
                parameters.iter().flat_map(|n| n.to_le_bytes()).collect(),
            ),
            (
                VhdxMetadataItem::DiskSize,
                6,
                self.len.to_le_bytes().to_vec(),
            ),
            (
                VhdxMetadataItem::DiskId,
                6,
                self.disk.to_bytes_le().to_vec(),
            ),
            (VhdxMetadataItem::LogicalSector, 6, sector.clone()),
            (VhdxMetadataItem::PhysicalSector, 6, sector),
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

    /// Builds one MiB of the table. Entries for sector bitmaps are empty: only differencing disks
    /// have them.
    fn build_table(&self, piece: u64, place: &impl Fn(u64) -> Option<u64>) -> Vec<u8> {
        let first = piece * ENTRIES;
        let mut bytes = Vec::with_capacity(MIB as usize);
        for index in first..(first + ENTRIES).min(self.count_entries()) {
            let (chunk, within) = (index / (RATIO + 1), index % (RATIO + 1));
            let entry = if within == RATIO {
                0
            } else {
                place(chunk * RATIO + within).map_or(ZERO, |at| at | FULLY_PRESENT)
            };
            bytes.extend_from_slice(&entry.to_le_bytes());
        }
        bytes.resize(MIB as usize, 0);
        bytes
    }
}
