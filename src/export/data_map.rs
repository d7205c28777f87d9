//! Finds the MiBs of the disk that have data, before the pass: formats with a table in front of
//! their blocks need it before they write the first.
//!
//! The source's allocation map is not enough: allocated clusters may be zeros, and the same disk in
//! another file would produce different bytes. Each MiB is read only up to the first 4 KiB that are
//! not zeros, so little is read twice.

use uuid::Uuid;

use super::CHUNK;
use super::chunk::{has_overlap, is_zero};
use winimg_base::digest::{Algorithm, Digest, Hasher};
use winimg_base::error::Result;
use winimg_base::event::Cancel;
use winimg_formats::disk::Disk;

const STEP: usize = 4096;

pub struct DataMap {
    mibs: Vec<bool>,
    /// Hash of `identity` and of the first data in each MiB.
    content: Digest,
}

/// The blocks that are stored in a file, in the disk's order.
pub struct BlockSlots(Vec<Option<u32>>);

impl DataMap {
    pub fn find(disk: &dyn Disk, identity: &Digest, cancel: &Cancel) -> Result<Self> {
        let data = disk.data()?;
        let mut hasher = Hasher::new(Algorithm::Sha256);
        hasher.update(identity.bytes());
        let mut mibs = vec![false; (disk.len() / CHUNK) as usize];
        let mut buffer = vec![0; CHUNK as usize];
        for (index, held) in mibs.iter_mut().enumerate() {
            let index = index as u64;
            if !has_overlap(&data, index) {
                continue;
            }
            cancel.check()?;
            // Most MiBs with data have some in their first sectors.
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

    /// Returns an id for `what`. It precedes the content in its file, so the digest of the whole
    /// disk would come too late.
    pub fn make_id(&self, what: &str) -> Uuid {
        let name = [self.content.bytes(), what.as_bytes()].concat();
        Uuid::new_v5(&Uuid::NAMESPACE_OID, &name)
    }

    /// Assigns slots to the blocks of `mibs` MiB that have data.
    pub fn assign_slots(&self, mibs: usize) -> BlockSlots {
        let mut next = 0;
        let blocks = self.mibs.chunks(mibs);
        let slot = blocks.map(|block| {
            let slot = block.contains(&true).then_some(next);
            next += u32::from(slot.is_some());
            slot
        });
        BlockSlots(slot.collect())
    }

    /// Assigns a slot to every block.
    pub fn assign_all(&self, mibs: usize) -> BlockSlots {
        let count = self.mibs.chunks(mibs).count() as u32;
        BlockSlots((0..count).map(Some).collect())
    }
}

impl BlockSlots {
    pub fn find_slot(&self, block: u64) -> Option<u64> {
        let slot = self.0.get(block as usize).copied().flatten();
        slot.map(u64::from)
    }

    /// Returns the number of stored blocks.
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
        let held = DataMap::find(&Sparse, &id, &Cancel::default()).unwrap();
        assert_eq!(
            held.assign_slots(1).0,
            [Some(0), None, None, None, Some(1), None]
        );
        assert_eq!(held.assign_slots(2).0, [Some(0), None, Some(1)]);
        assert_eq!(held.assign_slots(4).0, [Some(0), Some(1)]);
        assert_eq!(held.assign_all(4).0, [Some(0), Some(1)]);
    }
}
