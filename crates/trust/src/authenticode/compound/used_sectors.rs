//! Sectors that the streams of a compound file occupy.

use super::{FREESECT, MAXREGSECT, SignatureRefusal, malformed};

/// Sectors already assigned; a sector may belong to one stream only.
pub(super) struct UsedSectors(Vec<bool>);

impl UsedSectors {
    pub fn new(count: usize) -> Self {
        Self(vec![false; count])
    }

    pub fn take(&mut self, number: u32) -> Result<(), SignatureRefusal> {
        match self.0.get_mut(number as usize) {
            None => Err(malformed("a stream continues outside the file")),
            Some(true) => Err(malformed(
                "two of its streams share a sector, or one is circular",
            )),
            Some(used) => {
                *used = true;
                Ok(())
            }
        }
    }

    /// Returns for each sector whether a stream occupies it.
    pub fn as_slice(&self) -> &[bool] {
        &self.0
    }

    /// Returns the sectors of a chain from `start`, at most `most`. Sectors beyond the stream's
    /// length belong to no stream.
    pub fn mark_chain(
        &mut self,
        table: &[u32],
        start: u32,
        most: u64,
    ) -> Result<Vec<u32>, SignatureRefusal> {
        let mut chain = Vec::new();
        let mut next = start;
        while next <= MAXREGSECT && (chain.len() as u64) < most {
            self.take(next)?;
            chain.push(next);
            next = table.get(next as usize).copied().unwrap_or(FREESECT);
        }
        Ok(chain)
    }
}
