//! Which clusters a file has already been seen to have.

use std::ops::Range;

use super::damaged;
use super::record::Record;
use winimg_base::error::Result;

/// `$Bitmap` without the clusters that were claimed.
pub(super) struct Claims {
    bits: Vec<u8>,
}

impl Claims {
    pub fn new(mut bits: Vec<u8>, clusters: u64) -> Self {
        // Bits beyond the volume are set and mean nothing.
        bits.resize(clusters.div_ceil(8) as usize, 0);
        if let Some(last) = bits.last_mut()
            && !clusters.is_multiple_of(8)
        {
            *last &= (1 << (clusters % 8)) - 1;
        }
        Self { bits }
    }

    /// Clusters that are used and not claimed.
    pub fn left(&self) -> u64 {
        let ones = self.bits.iter().map(|byte| u64::from(byte.count_ones()));
        ones.sum()
    }

    /// Takes all clusters of a record; their number.
    pub fn claim(&mut self, record: &Record) -> Result<u64> {
        let mut count = 0;
        for run in record.attributes.iter().flat_map(|a| &a.runs) {
            if let Some(cluster) = self.take(run) {
                let number = record.number;
                let what = format!(
                    "cluster {cluster} of record {number} of the $MFT is another file's as well, or free"
                );
                return Err(damaged(record.place, what));
            }
            count += run.end - run.start;
        }
        Ok(count)
    }

    /// The first cluster that can't be taken.
    fn take(&mut self, run: &Range<u64>) -> Option<u64> {
        let mut at = run.start;
        while at < run.end {
            let end = run.end.min((at / 8 + 1) * 8);
            let mask = u8::MAX >> (8 - (end - at)) << (at % 8);
            let byte = &mut self.bits[(at / 8) as usize];
            if *byte & mask != mask {
                return Some(at + u64::from((!*byte & mask).trailing_zeros()) - at % 8);
            }
            *byte &= !mask;
            at = end;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::Claims;

    #[test]
    fn a_cluster_is_taken_once_and_only_where_it_is_used() {
        let mut claims = Claims::new(vec![0xff, 0b1111_0111, 0xff], 20);
        assert_eq!(claims.left(), 19);
        assert_eq!(claims.take(&(3..11)), None);
        assert_eq!(claims.left(), 11);
        assert_eq!(claims.take(&(0..4)), Some(3));
        assert_eq!(claims.take(&(10..14)), Some(10));
        assert_eq!(claims.take(&(12..20)), None);
        assert_eq!(claims.left(), 3);
    }
}
