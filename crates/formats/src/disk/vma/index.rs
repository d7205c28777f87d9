//! Index of a device's clusters in the file: 8 bytes per cluster.

use std::ops::Range;

use super::layout::{BLOCK, CLUSTER};

/// Low bits of an entry, one per stored block; the offset is above them.
const BITS: u32 = 16;

pub struct VmaClusterIndex {
    pub name: String,
    /// Bytes of the device.
    pub len: u64,
    /// Offset and bits of each cluster; 0: not seen yet. Offset 0 is the file's header, so never a
    /// cluster.
    entries: Vec<u64>,
}

/// Bytes of a device that are contiguous in the file, or zeros.
pub struct VmaRun {
    /// `None`: zeros.
    pub place: Option<u64>,
    /// Length in bytes, at least 1; it may extend beyond the device's end.
    pub len: u64,
}

/// Refuses a file with offsets too large for an entry.
pub fn check_places(file: u64) -> Result<(), String> {
    match file >> (u64::BITS - BITS) {
        0 => Ok(()),
        _ => Err(format!("{file} bytes")),
    }
}

impl VmaClusterIndex {
    /// Creates an empty index. The caller has limited `len`.
    pub fn new(name: &str, len: u64) -> Self {
        Self {
            name: name.to_owned(),
            len,
            entries: vec![0; len.div_ceil(CLUSTER) as usize],
        }
    }

    /// Adds a cluster; `place` is the offset of its first stored block.
    pub fn put(&mut self, cluster: u32, stored: u16, place: u64) -> Result<(), String> {
        let name = &self.name;
        let start = u64::from(cluster) * CLUSTER;
        let Some(entry) = self.entries.get_mut(cluster as usize) else {
            return Err(format!("cluster {cluster} is beyond the end of {name:?}"));
        };
        if *entry != 0 {
            return Err(format!("cluster {cluster} of {name:?} appears twice"));
        }
        // Proxmox accepts a cluster with all of its blocks, even beyond the device's end
        // (vma-reader.c: restore_extent).
        let blocks = (self.len - start).div_ceil(BLOCK).min(u64::from(u16::BITS));
        if stored != u16::MAX && u64::from(stored) >> blocks != 0 {
            return Err(format!(
                "cluster {cluster} of {name:?} has a block beyond the end"
            ));
        }
        *entry = place << BITS | u64::from(stored);
        Ok(())
    }

    /// Returns the first missing cluster.
    pub fn find_missing(&self) -> Option<usize> {
        self.entries.iter().position(|entry| *entry == 0)
    }

    /// Returns the run that starts at `offset`, which is within the device.
    pub fn run(&self, offset: u64) -> VmaRun {
        let entry = self.entries.get((offset / CLUSTER) as usize);
        let (place, stored) = entry.map_or((0, 0), |e| (e >> BITS, *e as u16));
        let (block, within) = (offset % CLUSTER / BLOCK, offset % BLOCK);
        let from_here = stored >> block;
        // The shift fills in zeros, so a run of stored blocks ends with the cluster.
        let (place, blocks) = match from_here.trailing_ones() {
            0 => {
                let left = u16::BITS - block as u32;
                (None, from_here.trailing_zeros().min(left))
            }
            ones => {
                let before = u64::from((stored & !(u16::MAX << block)).count_ones());
                (Some(place + before * BLOCK + within), ones)
            }
        };
        VmaRun {
            place,
            len: u64::from(blocks) * BLOCK - within,
        }
    }

    /// Iterates over clusters with stored blocks, in the device's order.
    pub fn iter_stored(&self) -> impl Iterator<Item = Range<u64>> {
        (0..)
            .zip(&self.entries)
            .filter(|(_, entry)| **entry as u16 != 0)
            .map(|(n, _): (u64, _)| n * CLUSTER..((n + 1) * CLUSTER).min(self.len))
    }
}
