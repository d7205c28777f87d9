//! Where in the file the clusters of a device are: 8 bytes for each of them.

use std::ops::Range;

use super::layout::{BLOCK, CLUSTER};

/// The place of a cluster stands above the bits of its stored blocks.
const BITS: u32 = 16;

pub struct Clusters {
    pub name: String,
    /// Bytes of the device.
    pub len: u64,
    /// Its place and its bits; 0: not named yet. No cluster is at the beginning of the file, where the header is.
    entries: Vec<u64>,
}

/// Bytes of a device that are one after the other in the file, or zeros.
pub struct Run {
    /// `None`: zeros.
    pub place: Option<u64>,
    /// Bytes, at least 1; beyond the device's end they are none of its own.
    pub len: u64,
}

/// Refuses a file so long that a place in it may not fit into an entry.
pub fn check_places(file: u64) -> Result<(), String> {
    match file >> (u64::BITS - BITS) {
        0 => Ok(()),
        _ => Err(format!("{file} bytes")),
    }
}

impl Clusters {
    /// The caller has limited `len`.
    pub fn new(name: &str, len: u64) -> Self {
        Self {
            name: name.to_owned(),
            len,
            entries: vec![0; len.div_ceil(CLUSTER) as usize],
        }
    }

    /// `place`: where the first of its blocks is, if any is stored.
    pub fn put(&mut self, cluster: u32, stored: u16, place: u64) -> Result<(), String> {
        let name = &self.name;
        let start = u64::from(cluster) * CLUSTER;
        let Some(entry) = self.entries.get_mut(cluster as usize) else {
            return Err(format!("cluster {cluster} is beyond the end of {name:?}"));
        };
        if *entry != 0 {
            return Err(format!("cluster {cluster} of {name:?} comes twice"));
        }
        // Proxmox takes a cluster with all of its blocks, whatever of it lies beyond the end (vma-reader.c: restore_extent).
        let blocks = (self.len - start).div_ceil(BLOCK).min(u64::from(u16::BITS));
        if stored != u16::MAX && u64::from(stored) >> blocks != 0 {
            return Err(format!(
                "cluster {cluster} of {name:?} has a block beyond the end"
            ));
        }
        *entry = place << BITS | u64::from(stored);
        Ok(())
    }

    /// The first cluster that was not named.
    pub fn missing(&self) -> Option<usize> {
        self.entries.iter().position(|entry| *entry == 0)
    }

    /// What begins at `offset`, which is within the device.
    pub fn run(&self, offset: u64) -> Run {
        let entry = self.entries.get((offset / CLUSTER) as usize);
        let (place, stored) = entry.map_or((0, 0), |e| (e >> BITS, *e as u16));
        let (block, within) = (offset % CLUSTER / BLOCK, offset % BLOCK);
        let from_here = stored >> block;
        // Zeros come in from above, so a run of stored blocks ends with the cluster.
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
        Run {
            place,
            len: u64::from(blocks) * BLOCK - within,
        }
    }

    /// The clusters of which something is stored, in the device's order.
    pub fn held(&self) -> impl Iterator<Item = Range<u64>> {
        let entries = (0..).zip(&self.entries);
        let held = entries.filter(|(_, entry)| **entry as u16 != 0);
        held.map(|(n, _): (u64, _)| n * CLUSTER..((n + 1) * CLUSTER).min(self.len))
    }
}
