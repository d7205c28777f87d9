//! Where the blocks of a volume's partitions lie in the medium (ECMA-167 3/10.5, 3/10.7; OSTA UDF 2.50, 2.2.10).

use super::{Damage, Extent, SECTOR};

/// Where the blocks of one partition map lie in the medium.
pub(super) enum Map {
    /// Sectors, from the start of the medium.
    Physical { start: u64, blocks: u64 },
    /// UDF 2.50: blocks live inside the metadata file.
    Metadata { extents: Vec<Extent> },
}

/// The partition maps of a volume, by their reference numbers.
#[derive(Default)]
pub(super) struct Maps(pub Vec<Map>);

impl Maps {
    /// The byte offset of one block.
    pub fn offset(&self, partition: u16, block: u32) -> Result<u64, Damage> {
        let mut found = Vec::new();
        self.map(&mut found, partition, block, SECTOR)?;
        match found.as_slice() {
            [
                Extent {
                    at: Some(at),
                    length: SECTOR,
                },
            ] => Ok(*at),
            _ => Err(format!("block {block} was never recorded").into()),
        }
    }

    /// Adds the extents of `length` bytes from `block` of a partition on, joined with the last one where they touch.
    pub fn map(
        &self,
        out: &mut Vec<Extent>,
        partition: u16,
        block: u32,
        length: u64,
    ) -> Result<(), Damage> {
        let beyond =
            || format!("{length} bytes at block {block} lie outside partition {partition}").into();
        let from = u64::from(block) * SECTOR;
        match self.0.get(usize::from(partition)) {
            None => Err(format!("a reference to partition {partition}, which is not there").into()),
            Some(Map::Physical { start, blocks }) => {
                if from + length > blocks * SECTOR {
                    return Err(beyond());
                }
                join(out, Some(start * SECTOR + from), length);
                Ok(())
            }
            Some(Map::Metadata { extents }) => {
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
                Err(beyond())
            }
        }
    }

    /// Byte offset of the end of the last partition.
    pub fn end(&self) -> u64 {
        self.0
            .iter()
            .map(|m| match m {
                Map::Physical { start, blocks } => (start + blocks) * SECTOR,
                Map::Metadata { .. } => 0,
            })
            .max()
            .unwrap_or(0)
    }
}

fn join(out: &mut Vec<Extent>, at: Option<u64>, length: u64) {
    if let Some(last) = out.last_mut()
        && let (Some(a), Some(b)) = (last.at, at)
        && a + last.length == b
    {
        last.length += length;
        return;
    }
    out.push(Extent { at, length });
}
