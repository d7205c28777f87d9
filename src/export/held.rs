//! Which MiBs of the disk hold something, found out before the pass: formats with a table in front of their blocks have to
//! know it before they write the first.
//!
//! What a source has allocated would not do: it may be zeros, and the same disk in another file would give other bytes. A
//! MiB is read up to the first 4 KiB that are not zeros, so of data hardly anything is read twice.

use uuid::Uuid;

use super::CHUNK;
use super::chunk::{is_zero, touches};
use winimg_base::digest::{Algorithm, Digest, Hasher};
use winimg_base::error::Result;
use winimg_base::event::Cancel;
use winimg_formats::disk::Disk;

const STEP: usize = 4096;

pub struct Held {
    mibs: Vec<bool>,
    /// Of what stands at the beginning of each MiB that holds something, and of `identity`.
    content: Digest,
}

/// The blocks that a file has room for, in the disk's order.
pub struct Slots(Vec<Option<u32>>);

impl Held {
    pub fn find(disk: &dyn Disk, identity: &Digest, cancel: &Cancel) -> Result<Self> {
        let data = disk.data()?;
        let mut hasher = Hasher::new(Algorithm::Sha256);
        hasher.update(identity.bytes());
        let mut mibs = vec![false; (disk.len() / CHUNK) as usize];
        let mut buffer = vec![0; CHUNK as usize];
        for (index, held) in mibs.iter_mut().enumerate() {
            let index = index as u64;
            if !touches(&data, index) {
                continue;
            }
            cancel.check()?;
            // Most MiBs that hold something do so in their first sectors.
            disk.read_at(index * CHUNK, &mut buffer[..STEP])?;
            let mut seen = &buffer[..STEP];
            if is_zero(seen) {
                disk.read_at(index * CHUNK, &mut buffer)?;
                let Some(first) = buffer.chunks(STEP).find(|step| !is_zero(step)) else {
                    continue;
                };
                seen = first;
            }
            *held = true;
            hasher.update(&index.to_le_bytes());
            hasher.update(seen);
        }
        Ok(Self {
            mibs,
            content: hasher.finish(),
        })
    }

    /// An id for `what`, which stands before the content in its file, so the digest of all the disk comes too late.
    pub fn id(&self, what: &str) -> Uuid {
        let name = [self.content.bytes(), what.as_bytes()].concat();
        Uuid::new_v5(&Uuid::NAMESPACE_OID, &name)
    }

    /// Room for blocks of so many MiB that hold something.
    pub fn slots(&self, mibs: usize) -> Slots {
        let mut next = 0;
        let blocks = self.mibs.chunks(mibs);
        let slot = blocks.map(|block| {
            let slot = block.contains(&true).then_some(next);
            next += u32::from(slot.is_some());
            slot
        });
        Slots(slot.collect())
    }

    /// Room for every block.
    pub fn all(&self, mibs: usize) -> Slots {
        let count = self.mibs.chunks(mibs).count() as u32;
        Slots((0..count).map(Some).collect())
    }
}

impl Slots {
    pub fn of(&self, block: u64) -> Option<u64> {
        let slot = self.0.get(block as usize).copied().flatten();
        slot.map(u64::from)
    }

    /// How many blocks the file holds.
    pub fn count(&self) -> u64 {
        self.0.iter().flatten().count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 6 MiB: the first and the fifth hold something; the third is said to.
    struct Sparse;

    impl Disk for Sparse {
        fn len(&self) -> u64 {
            6 * CHUNK
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
            buffer.fill(0);
            for at in [3, 5 * CHUNK - 1] {
                if let Some(byte) = at
                    .checked_sub(offset)
                    .and_then(|at| buffer.get_mut(at as usize))
                {
                    *byte = 7;
                }
            }
            Ok(())
        }

        fn data(&self) -> Result<Vec<std::ops::Range<u64>>> {
            Ok(vec![0..10, 2 * CHUNK..5 * CHUNK])
        }
    }

    #[test]
    fn blocks_get_room_where_the_content_is_not_zero() {
        let id = Digest::sha256_of(b"disk");
        let held = Held::find(&Sparse, &id, &Cancel::default()).unwrap();
        assert_eq!(held.slots(1).0, [Some(0), None, None, None, Some(1), None]);
        assert_eq!(held.slots(2).0, [Some(0), None, Some(1)]);
        assert_eq!(held.slots(4).0, [Some(0), Some(1)]);
        assert_eq!(held.all(4).0, [Some(0), Some(1)]);
    }
}
