//! Builds the metadata of a new dynamic VHD: everything before its blocks, and the bitmap of each
//! block.
//!
//! Deterministic: the same disk, time and id give the same bytes. The set of blocks must be known
//! beforehand, so that the file can be written and hashed sequentially. Does not support
//! differencing disks.
//!
//! Source: Microsoft, "Virtual Hard Disk Image Format Specification" 1.0: dynamic disk header,
//! block allocation table.

use super::dynamic::{ABSENT, HEADER};
use super::{FOOTER, VhdFooter, compute_checksum};
use crate::disk::SECTOR;

/// Bytes of a block, the specification's usual size.
pub const BLOCK: u64 = 2 << 20;
/// Alignment of block content in the file: the block size of the underlying file systems.
const ALIGNMENT: u64 = 4096;

/// Builds the bytes before each block: zeros to align its content, and a bitmap with all sectors
/// set.
pub fn build_lead() -> Vec<u8> {
    let bitmap = BLOCK / SECTOR / 8;
    let mut lead = vec![0; (ALIGNMENT - bitmap) as usize];
    lead.resize(ALIGNMENT as usize, 0xff);
    lead
}

/// Returns the offset of the first lead in the file of a disk of `len` bytes.
pub fn end(len: u64) -> u64 {
    (FOOTER + HEADER + len.div_ceil(BLOCK) * 4).next_multiple_of(ALIGNMENT)
}

/// Builds the copy of the footer, the header and the table. `offset_of` returns the file offset of
/// a block's content, or `None` for a block of zeros, which is not stored. The footer is repeated
/// after the last block.
pub fn build_front(footer: &VhdFooter, offset_of: impl Fn(u64) -> Option<u64>) -> Vec<u8> {
    let blocks = footer.size.div_ceil(BLOCK);
    let mut front = footer.encode_dynamic(FOOTER).to_vec();
    front.extend_from_slice(&build_header(blocks));
    for block in 0..blocks {
        // An entry points to the bitmap before the content.
        let entry = offset_of(block).map_or(ABSENT, |content| {
            ((content - BLOCK / SECTOR / 8) / SECTOR) as u32
        });
        front.extend_from_slice(&entry.to_be_bytes());
    }
    front.resize(front.len().next_multiple_of(SECTOR as usize), 0xff);
    front.resize(end(footer.size) as usize, 0);
    front
}

fn build_header(blocks: u64) -> [u8; HEADER as usize] {
    let mut h = [0; HEADER as usize];
    h[..8].copy_from_slice(b"cxsparse");
    h[8..16].copy_from_slice(&u64::MAX.to_be_bytes()); // no other structure follows
    h[16..24].copy_from_slice(&(FOOTER + HEADER).to_be_bytes());
    h[24..28].copy_from_slice(&0x0001_0000u32.to_be_bytes());
    h[28..32].copy_from_slice(&(blocks as u32).to_be_bytes());
    h[32..36].copy_from_slice(&(BLOCK as u32).to_be_bytes());
    let sum = compute_checksum(&h, 36);
    h[36..40].copy_from_slice(&sum.to_be_bytes());
    h
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn the_front_field_by_field() {
        let footer = VhdFooter {
            size: 5 << 20,
            time: 1_700_000_000,
            id: Uuid::nil(),
        };
        let front = build_front(&footer, |block| {
            (block != 1).then_some(8192 + block * BLOCK)
        });
        assert_eq!(front.len() as u64, end(footer.size));
        assert_eq!(end(footer.size), 4096);
        for (field, expected) in [
            (0..8, "636f6e6563746978"),
            (16..24, "0000000000000200"), // the dynamic header
            (60..64, "00000003"),
            (512..520, "6378737061727365"),
            (520..528, "ffffffffffffffff"),
            (528..536, "0000000000000600"), // the table
            (536..540, "00010000"),
            (540..544, "00000003"), // blocks
            (544..548, "00200000"),
            // Sector 15 has the bitmap of what begins in sector 16.
            (1536..1548, "0000000fffffffff0000200f"),
            (1548..1552, "ffffffff"),
            (2044..2052, "ffffffff00000000"),
        ] {
            assert_eq!(hex::encode(&front[field.clone()]), expected, "{field:?}");
        }
        let header = &front[512..1536];
        let sum: u32 = header.iter().map(|b| u32::from(*b)).sum();
        let field: u32 = header[36..40].iter().map(|b| u32::from(*b)).sum();
        assert_eq!(header[36..40], (!(sum - field)).to_be_bytes());
        let lead = build_lead();
        assert_eq!((lead.len(), lead[3583], lead[3584]), (4096, 0, 0xff));
    }
}
