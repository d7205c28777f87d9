//! Records the used clusters that no file has claimed yet.

use std::ops::Range;

use super::record::MftRecord;
use super::report_damage;
use winimg_base::error::Result;

/// Clusters marked as used in `$Bitmap` that no MFT record has claimed yet.
pub(super) struct ClusterClaims {
    bits: Vec<u8>,
}

impl ClusterClaims {
    pub fn new(mut bits: Vec<u8>, clusters: u64) -> Self {
        // Bits beyond the volume are set but have no meaning.
        bits.resize(clusters.div_ceil(8) as usize, 0);
        if let Some(last) = bits.last_mut()
            && !clusters.is_multiple_of(8)
        {
            *last &= (1 << (clusters % 8)) - 1;
        }
        Self { bits }
    }

    /// Counts the clusters that are used but not claimed.
    pub fn count_unclaimed(&self) -> u64 {
        self.bits
            .iter()
            .map(|byte| u64::from(byte.count_ones()))
            .sum()
    }

    /// Claims all clusters of a record, and returns their number.
    pub fn claim_record(&mut self, record: &MftRecord) -> Result<u64> {
        let mut count = 0;
        for run in record.attributes.iter().flat_map(|a| &a.runs) {
            if let Some(cluster) = self.take(run) {
                let number = record.number;
                let what = format!(
                    "cluster {cluster}, used by MFT record {number}, is marked free or also used \
                     by another file"
                );
                return Err(report_damage(record.place, what));
            }
            count += run.end - run.start;
        }
        Ok(count)
    }

    /// Claims a run; returns the first cluster that cannot be claimed.
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
    use super::ClusterClaims;

    #[test]
    fn a_cluster_is_taken_once_and_only_where_it_is_used() {
        let mut claims = ClusterClaims::new(vec![0xff, 0b1111_0111, 0xff], 20);
        assert_eq!(claims.count_unclaimed(), 19);
        assert_eq!(claims.take(&(3..11)), None);
        assert_eq!(claims.count_unclaimed(), 11);
        assert_eq!(claims.take(&(0..4)), Some(3));
        assert_eq!(claims.take(&(10..14)), Some(10));
        assert_eq!(claims.take(&(12..20)), None);
        assert_eq!(claims.count_unclaimed(), 3);
    }
}
