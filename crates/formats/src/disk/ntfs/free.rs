//! The clusters of a volume that no file has, as its `$Bitmap` says.
//!
//! Refuses a volume that was not shut down in order: what its journal has not yet brought about is not in the bitmap.
//! (Linux-NTFS project: $Bitmap)

use std::ops::Range;

use super::Volume;
use winimg_base::error::{Error, Result};

/// Of a volume of 16 TiB with clusters of 4 KiB.
const LONGEST_BITMAP: u64 = 512 << 20;

impl Volume<'_> {
    /// Bytes from the volume's start, in whole clusters, ascending and apart.
    pub fn free(&self) -> Result<Vec<Range<u64>>> {
        let bitmap = self.bitmap()?;
        let cluster = u64::from(self.ntfs.cluster_size());
        Ok(unset(&bitmap, self.clusters())
            .into_iter()
            .map(|run| run.start * cluster..run.end * cluster)
            .collect())
    }

    /// Whole clusters of the volume.
    pub(super) fn clusters(&self) -> u64 {
        self.ntfs.size() / u64::from(self.ntfs.cluster_size())
    }

    /// One bit for each cluster, the lowest of a byte first; it is set where a file has the cluster.
    pub(super) fn bitmap(&self) -> Result<Vec<u8>> {
        if self.is_dirty()? {
            return Err(Error::failed("the NTFS volume was not shut down in order: which clusters are free is not certain",
            )
            .cure("check the volume in that Windows: chkdsk /f"));
        }
        let bitmap = self.read(r"C:\$Bitmap", LONGEST_BITMAP)?;
        bitmap.ok_or_else(|| Error::failed("there is no $Bitmap on the NTFS volume"))
    }
}

/// The runs of bits that are 0, the lowest of a byte first; `bits` counts those that mean anything.
fn unset(bitmap: &[u8], bits: u64) -> Vec<Range<u64>> {
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
    use super::unset;

    #[test]
    fn runs_of_zeros_end_where_the_volume_does() {
        assert_eq!(unset(&[0b1111_0001, 0b0000_0111], 14), [1..4, 11..14]);
        assert_eq!(unset(&[0xff, 0xff], 16), []);
        assert_eq!(unset(&[0b10, 0xf0], 100), [0..1, 2..12]);
        assert_eq!(unset(&[], 8), []);
    }
}
