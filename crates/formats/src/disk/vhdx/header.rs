//! The two headers, of which the newer one is valid, and updating them.
//!
//! Source: Microsoft, [MS-VHDX] 2.2.2 (Headers) and 2.2.2.1 (Updating the Headers).

use std::ops::Range;

use crc::{CRC_32_ISCSI, Crc};
use uuid::Uuid;

use super::{KIB64, parse_guid, read, report_damaged};
use crate::bytes::{u16_le, u32_le, u64_le};
use crate::disk::RawDisk;
use crate::disk::blocks::refuse_file;
use winimg_base::error::Result;

/// Offsets of the headers in the file.
pub const PLACES: [u64; 2] = [KIB64, 2 * KIB64];
/// Bytes of a header.
pub const LEN: u64 = 4096;

static CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

/// The valid header.
#[derive(Clone)]
pub struct VhdxHeader {
    /// Index among the two.
    slot: usize,
    sequence: u64,
    bytes: Vec<u8>,
}

/// Computes the checksum of a structure, with its own field (bytes 4 to 8) as zero.
fn compute_checksum(bytes: &[u8]) -> u32 {
    let mut sum = CRC.digest();
    sum.update(&bytes[..4]);
    sum.update(&[0; 4]);
    sum.update(&bytes[8..]);
    sum.finalize()
}

/// Sets the checksum of a structure.
pub fn seal(bytes: &mut [u8]) {
    let sum = compute_checksum(bytes);
    bytes[4..8].copy_from_slice(&sum.to_le_bytes());
}

/// Returns true if a structure has its signature and the right checksum.
pub fn is_valid(bytes: &[u8], signature: &[u8; 4]) -> bool {
    bytes.starts_with(signature) && u32_le(bytes, 4) == compute_checksum(bytes)
}

impl VhdxHeader {
    /// Reads the newer of the two; a partially written one has a wrong checksum. Refuses a file
    /// that was not closed.
    pub fn read(file: &RawDisk) -> Result<Self> {
        let mut newest: Option<Self> = None;
        for (slot, at) in PLACES.into_iter().enumerate() {
            let bytes = read(file, at, LEN, "a header")?;
            if !is_valid(&bytes, b"head") {
                continue;
            }
            let sequence = u64_le(&bytes, 8);
            match &newest {
                Some(other) if other.sequence > sequence => {}
                Some(other) if other.sequence == sequence && other.bytes != bytes => {
                    return Err(report_damaged(
                        file,
                        at,
                        "two different headers have the same sequence number",
                    ));
                }
                _ => {
                    newest = Some(Self {
                        slot,
                        sequence,
                        bytes,
                    });
                }
            }
        }
        let Some(header) = newest else {
            let why = "neither of the two headers is valid";
            return Err(report_damaged(file, KIB64, why));
        };
        let version = u16_le(&header.bytes, 66);
        if version != 1 {
            return Err(report_damaged(file, KIB64, format!("version {version}")));
        }
        if header.bytes[48..64] != [0; 16] {
            return Err(refuse_file(
                file,
                "was not closed cleanly: its log has changes that are not on the disk",
                format!(
                    "shut that VM down, or replay the log: qemu-img check -r all {}",
                    file.path().display()
                ),
            ));
        }
        Ok(header)
    }

    /// Returns the id that changes with the disk's content and by which a child identifies its
    /// parent.
    pub fn data_write(&self) -> Uuid {
        parse_guid(&self.bytes[32..48])
    }

    /// Returns the range of the log in the file.
    pub fn log(&self) -> Range<u64> {
        let start = u64_le(&self.bytes, 72);
        start..start.saturating_add(u32_le(&self.bytes, 68).into())
    }

    /// Returns the header for a file with changing content.
    pub fn with_new_ids(&self) -> Option<Self> {
        let mut next = self.next()?;
        next.bytes[16..32].copy_from_slice(&Uuid::new_v4().to_bytes_le());
        next.bytes[32..48].copy_from_slice(&Uuid::new_v4().to_bytes_le());
        Some(next)
    }

    /// Returns the same header for the other slot. `None`: the sequence number is at its maximum.
    pub fn next(&self) -> Option<Self> {
        let mut next = self.clone();
        next.slot = 1 - self.slot;
        next.sequence = self.sequence.checked_add(1)?;
        next.bytes[8..16].copy_from_slice(&next.sequence.to_le_bytes());
        Some(next)
    }

    /// Returns the offset in the file, and the bytes.
    pub fn encode(&self) -> (u64, Vec<u8>) {
        let mut bytes = self.bytes.clone();
        seal(&mut bytes);
        (PLACES[self.slot], bytes)
    }
}
