//! The front of a new dynamic VHD, all that stands before its blocks, and what stands before each.
//!
//! Pure: the same disk, time and id give the same bytes. Which blocks are there must be known beforehand, so that the file
//! can be written and hashed from its first byte to its last. Makes no differencing disks.
//!
//! Source: Microsoft, "Virtual Hard Disk Image Format Specification" 1.0: dynamic disk header, block allocation table.

use super::{ABSENT, HEADER};
use crate::disk::SECTOR;
use crate::disk::vhd::{FOOTER, Footer, checksum};

/// Bytes of a block, the specification's usual size.
pub const BLOCK: u64 = 2 << 20;
/// Where content begins in the file, and a whole number of it between any two blocks: those of the file systems below.
const ALIGNMENT: u64 = 4096;

/// What stands before each block: its bitmap, which says of all sectors that they are there, behind as many zeros as align
/// the content.
pub fn lead() -> Vec<u8> {
    let bitmap = BLOCK / SECTOR / 8;
    let mut lead = vec![0; (ALIGNMENT - bitmap) as usize];
    lead.resize(ALIGNMENT as usize, 0xff);
    lead
}

/// Where the first lead begins in the file of a disk of `len` bytes.
pub fn end(len: u64) -> u64 {
    (FOOTER + HEADER + len.div_ceil(BLOCK) * 4).next_multiple_of(ALIGNMENT)
}

/// A copy of the footer, the header and the table. `place` says where the content of a block begins; `None`: it is zeros
/// and not there. The footer follows the last block once more.
pub fn front(footer: &Footer, place: impl Fn(u64) -> Option<u64>) -> Vec<u8> {
    let blocks = footer.size.div_ceil(BLOCK);
    let mut front = footer.encode_dynamic(FOOTER).to_vec();
    front.extend_from_slice(&header(blocks));
    for block in 0..blocks {
        let bitmap = |content: u64| ((content - BLOCK / SECTOR / 8) / SECTOR) as u32;
        let entry = place(block).map_or(ABSENT, bitmap);
        front.extend_from_slice(&entry.to_be_bytes());
    }
    front.resize(front.len().next_multiple_of(SECTOR as usize), 0xff);
    front.resize(end(footer.size) as usize, 0);
    front
}

fn header(blocks: u64) -> [u8; HEADER as usize] {
    let mut h = [0; HEADER as usize];
    let mut put = |at: usize, bytes: &[u8]| h[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"cxsparse");
    put(8, &u64::MAX.to_be_bytes()); // no other structure follows
    put(16, &(FOOTER + HEADER).to_be_bytes());
    put(24, &0x0001_0000u32.to_be_bytes());
    put(28, &(blocks as u32).to_be_bytes());
    put(32, &(BLOCK as u32).to_be_bytes());
    let sum = checksum(&h, 36);
    h[36..40].copy_from_slice(&sum.to_be_bytes());
    h
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn the_front_field_by_field() {
        let footer = Footer {
            size: 5 << 20,
            time: 1_700_000_000,
            id: Uuid::nil(),
        };
        let front = front(&footer, |block| {
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
        let lead = lead();
        assert_eq!((lead.len(), lead[3583], lead[3584]), (4096, 0, 0xff));
    }
}
