//! Maps the blocks of a volume's partitions to the medium (ECMA-167 3/10.5, 3/10.7; OSTA UDF 2.50,
//! 2.2.10).

use super::{MediumDamage, MediumExtent, SECTOR};

/// Places of the blocks of one partition map in the medium.
pub(super) enum UdfPartitionMap {
    /// Sectors, from the start of the medium.
    Physical { start: u64, blocks: u64 },
    /// UDF 2.50: blocks are inside the metadata file.
    Metadata { extents: Vec<MediumExtent> },
}

/// The partition maps of a volume, by their reference numbers.
#[derive(Default)]
pub(super) struct UdfPartitionMaps(pub Vec<UdfPartitionMap>);

impl UdfPartitionMaps {
    /// Returns the byte offset of one block.
    pub fn find_offset(&self, partition: u16, block: u32) -> Result<u64, MediumDamage> {
        let mut found = Vec::new();
        self.map(&mut found, partition, block, SECTOR)?;
        match found.as_slice() {
            [
                MediumExtent {
                    at: Some(at),
                    length: SECTOR,
                },
            ] => Ok(*at),
            _ => Err(format!("block {block} was never recorded").into()),
        }
    }

    /// Adds the extents of `length` bytes from `block` of a partition, joined with the last one if
    /// adjacent.
    pub fn map(
        &self,
        out: &mut Vec<MediumExtent>,
        partition: u16,
        block: u32,
        length: u64,
    ) -> Result<(), MediumDamage> {
        let from = u64::from(block) * SECTOR;
        match self.0.get(usize::from(partition)) {
            None => {
                return Err(format!("a reference to the missing partition {partition}").into());
            }
            Some(UdfPartitionMap::Physical { start, blocks }) => {
                if from + length <= blocks * SECTOR {
                    join(out, Some(start * SECTOR + from), length);
                    return Ok(());
                }
            }
            Some(UdfPartitionMap::Metadata { extents }) => {
                let (mut skip, mut left) = (from, length);
                for extent in extents {
                    if skip >= extent.length {
                        skip -= extent.length;
                        continue;
                    }
                    let n = (extent.length - skip).min(left);
                    join(out, extent.at.map(|at| at + skip), n);
                    (skip, left) = (0, left - n);
                    if left == 0 {
                        return Ok(());
                    }
                }
            }
        }
        Err(format!("{length} bytes at block {block} are outside partition {partition}").into())
    }

    /// Returns the byte offset of the end of the last partition.
    pub fn end(&self) -> u64 {
        self.0
            .iter()
            .map(|m| match m {
                UdfPartitionMap::Physical { start, blocks } => (start + blocks) * SECTOR,
                UdfPartitionMap::Metadata { .. } => 0,
            })
            .max()
            .unwrap_or(0)
    }
}

fn join(out: &mut Vec<MediumExtent>, at: Option<u64>, length: u64) {
    if let Some(last) = out.last_mut()
        && let (Some(a), Some(b)) = (last.at, at)
        && a + last.length == b
    {
        last.length += length;
        return;
    }
    out.push(MediumExtent { at, length });
}
