//! The two headers, of which the newer counts, and how the next one is made from it.
//!
//! Source: Microsoft, [MS-VHDX] 2.2.2 (Headers) and 2.2.2.1 (Updating the Headers).

use std::ops::Range;

use crc::{CRC_32_ISCSI, Crc};
use uuid::Uuid;

use super::{KIB64, damaged, guid, read};
use crate::bytes::{u16_le, u32_le, u64_le};
use crate::disk::RawDisk;
use crate::disk::blocks::refused;
use winimg_base::error::Result;

/// Where they are in the file.
pub const PLACES: [u64; 2] = [KIB64, 2 * KIB64];
/// Bytes of one.
pub const LEN: u64 = 4096;

static CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

/// The header that counts.
#[derive(Clone)]
pub struct Header {
    /// Which of the two it is.
    slot: usize,
    sequence: u64,
    bytes: Vec<u8>,
}

/// The checksum of a structure, whose own field (bytes 4 to 8) counts as zero.
fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = CRC.digest();
    sum.update(&bytes[..4]);
    sum.update(&[0; 4]);
    sum.update(&bytes[8..]);
    sum.finalize()
}

/// Gives a structure its checksum.
pub fn seal(bytes: &mut [u8]) {
    let sum = checksum(bytes);
    bytes[4..8].copy_from_slice(&sum.to_le_bytes());
}

/// Whether a structure has its signature and the right checksum.
pub fn sound(bytes: &[u8], signature: &[u8; 4]) -> bool {
    bytes.starts_with(signature) && u32_le(bytes, 4) == checksum(bytes)
}

impl Header {
    /// The newer of the two; one that was being written when the machine stopped has a wrong checksum. Refuses a file
    /// that was not closed.
    pub fn read(file: &RawDisk) -> Result<Self> {
        let mut newest: Option<Self> = None;
        for (slot, at) in PLACES.into_iter().enumerate() {
            let bytes = read(file, at, LEN, "a header")?;
            if !sound(&bytes, b"head") {
                continue;
            }
            let sequence = u64_le(&bytes, 8);
            match &newest {
                Some(other) if other.sequence > sequence => {}
                Some(other) if other.sequence == sequence && other.bytes != bytes => {
                    return Err(damaged(
                        file,
                        at,
                        "two headers that differ have the same number",
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
            let why = "neither of the two headers is whole";
            return Err(damaged(file, KIB64, why));
        };
        let version = u16_le(&header.bytes, 66);
        if version != 1 {
            return Err(damaged(file, KIB64, format!("version {version}")));
        }
        if header.bytes[48..64] != [0; 16] {
            return Err(refused(
                file,
                "was not closed in order: its log holds changes that the disk lacks",
                format!(
                    "shut that machine down, or replay the log: qemu-img check -r all {}",
                    file.path().display()
                ),
            ));
        }
        Ok(header)
    }

    /// What changes with the disk's content: a child notes it of its parent.
    pub fn data_write(&self) -> Uuid {
        guid(&self.bytes[32..48])
    }

    /// Where the log is in the file.
    pub fn log(&self) -> Range<u64> {
        let start = u64_le(&self.bytes, 72);
        start..start.saturating_add(u32_le(&self.bytes, 68).into())
    }

    /// The header for a file whose content is about to change.
    pub fn renewed(&self) -> Option<Self> {
        let mut next = self.next()?;
        next.bytes[16..32].copy_from_slice(&Uuid::new_v4().to_bytes_le());
        next.bytes[32..48].copy_from_slice(&Uuid::new_v4().to_bytes_le());
        Some(next)
    }

    /// The same once more, for the other place. `None`: the numbers are used up.
    pub fn next(&self) -> Option<Self> {
        let mut next = self.clone();
        next.slot = 1 - self.slot;
        next.sequence = self.sequence.checked_add(1)?;
        next.bytes[8..16].copy_from_slice(&next.sequence.to_le_bytes());
        Some(next)
    }

    /// Where it belongs in the file, and its bytes.
    pub fn written(&self) -> (u64, Vec<u8>) {
        let mut bytes = self.bytes.clone();
        seal(&mut bytes);
        (PLACES[self.slot], bytes)
    }
}
