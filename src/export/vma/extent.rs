//! An extent: a header that lists up to 59 clusters, and their nonzero blocks.

use uuid::Uuid;

use crate::export::chunk::is_zero;
use winimg_formats::disk::vma::layout;
use winimg_formats::disk::vma::layout::extent::{
    ARCHIVE, BLOCKS, CLUSTERS, HEADER, MAGIC, NAMED, SUM,
};

const BLOCK: usize = layout::BLOCK as usize;

#[derive(Default)]
pub struct VmaExtentWriter {
    /// Device, cluster, and a bit for each block that is stored.
    clusters: Vec<u64>,
    data: Vec<u8>,
}

impl VmaExtentWriter {
    /// Adds a cluster. `content` may be shorter for a device's last cluster, and `None` for zeros.
    /// A cluster of zeros is listed too, because `vma extract` would miss it otherwise.
    pub fn add(&mut self, device: u8, cluster: u32, content: Option<&[u8]>) {
        let mut stored = 0_u64;
        for (n, block) in content.unwrap_or_default().chunks(BLOCK).enumerate() {
            if !is_zero(block) {
                stored |= 1 << n;
                self.data.extend_from_slice(block);
            }
        }
        let named = stored << 48 | u64::from(device) << 32 | u64::from(cluster);
        self.clusters.push(named);
    }

    pub fn is_full(&self) -> bool {
        self.clusters.len() == CLUSTERS as usize
    }

    pub fn is_empty(&self) -> bool {
        self.clusters.is_empty()
    }

    /// Returns the stored blocks.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Builds the header. `archive`: the id in every part of the archive.
    pub fn build_header(&self, archive: Uuid) -> [u8; HEADER as usize] {
        let mut header = [0; HEADER as usize];
        header[..MAGIC.len()].copy_from_slice(MAGIC);
        // At most 59 * 16.
        let blocks = (self.data.len() / BLOCK) as u16;
        header[BLOCKS..BLOCKS + 2].copy_from_slice(&blocks.to_be_bytes());
        header[ARCHIVE].copy_from_slice(archive.as_bytes());
        for (place, cluster) in header[NAMED..].chunks_mut(8).zip(&self.clusters) {
            place.copy_from_slice(&cluster.to_be_bytes());
        }
        let sum = layout::sum_of(&header, SUM);
        header[SUM].copy_from_slice(&sum);
        header
    }

    /// Clears the extent and keeps its memory.
    pub fn clear(mut self) -> Self {
        self.clusters.clear();
        self.data.clear();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_zeros_are_named_and_not_stored() {
        let mut cluster = vec![0; 16 * BLOCK];
        cluster[3 * BLOCK + 7] = 1;
        cluster[16 * BLOCK - 1] = 2;
        let mut extent = VmaExtentWriter::default();
        extent.add(1, 0x0102_0304, Some(&cluster));
        extent.add(2, 5, None);
        assert_eq!(extent.data().len(), 2 * BLOCK);
        let header = extent.build_header(Uuid::from_bytes([9; 16]));
        assert_eq!(&header[..8], b"VMAE\0\0\0\x02");
        assert_eq!(header[40..48], [0x80, 0x08, 0, 1, 1, 2, 3, 4]);
        assert_eq!(header[48..56], [0, 0, 0, 2, 0, 0, 0, 5]);
        assert!(is_zero(&header[56..]));
    }
}
