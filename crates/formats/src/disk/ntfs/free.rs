//! Free clusters of a volume, according to its `$Bitmap`.
//!
//! Refuses a volume that was not shut down cleanly: its bitmap lacks changes that are still in the
//! journal. (Linux-NTFS project: $Bitmap)

use std::ops::Range;

use super::NtfsVolume;
use winimg_base::error::{Error, Result};

/// Bytes of the bitmap of a 16 TiB volume with 4 KiB clusters.
const MAX_BITMAP_SIZE: u64 = 512 << 20;

impl NtfsVolume<'_> {
    /// Finds the free ranges: bytes from the volume's start, in whole clusters, ascending and
    /// disjoint.
    pub fn free(&self) -> Result<Vec<Range<u64>>> {
        let bitmap = self.read_bitmap()?;
        let cluster = u64::from(self.ntfs.cluster_size());
        Ok(find_unset_runs(&bitmap, self.count_clusters())
            .into_iter()
            .map(|run| run.start * cluster..run.end * cluster)
            .collect())
    }

    /// Counts the whole clusters of the volume.
    pub(super) fn count_clusters(&self) -> u64 {
        self.ntfs.size() / u64::from(self.ntfs.cluster_size())
    }

    /// Reads the bitmap: one bit per cluster, the lowest of a byte first; set if the cluster is in
    /// use.
    pub(super) fn read_bitmap(&self) -> Result<Vec<u8>> {
        if self.is_dirty()? {
            return Err(Error::failed(
                "the NTFS volume was not shut down cleanly, so its list of free clusters is \
                 unreliable",
            )
            .cure("check the volume in that Windows: chkdsk /f"));
        }
        self.read(r"C:\$Bitmap", MAX_BITMAP_SIZE)?
            .ok_or_else(|| Error::failed("there is no $Bitmap on the NTFS volume"))
    }
}

/// Finds the runs of zero bits, the lowest of a byte first; only the first `bits` are valid.
fn find_unset_runs(bitmap: &[u8], bits: u64) -> Vec<Range<u64>> {
    let mut runs = Vec::new();
    let mut start = None;
    let known = bits.min(bitmap.len() as u64 * 8);
    for bit in 0..known {
        let used = bitmap[(bit / 8) as usize] >> (bit % 8) & 1 == 1;
        match (used, start) {
            (false, None) => start = Some(bit),
            (true, Some(from)) => {
                runs.push(from..bit);
                start = None;
            }
            _ => {}
        }
    }
    runs.extend(start.map(|from| from..known));
    runs
}

#[cfg(test)]
mod tests {
    use super::find_unset_runs;

    #[test]
    fn runs_of_zeros_end_where_the_volume_does() {
        assert_eq!(
            find_unset_runs(&[0b1111_0001, 0b0000_0111], 14),
            [1..4, 11..14]
        );
        assert_eq!(find_unset_runs(&[0xff, 0xff], 16), []);
        assert_eq!(find_unset_runs(&[0b10, 0xf0], 100), [0..1, 2..12]);
        assert_eq!(find_unset_runs(&[], 8), []);
    }
}
