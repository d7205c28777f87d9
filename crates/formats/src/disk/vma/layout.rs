//! Where everything is in a VMA, and the sums of its headers: what who reads one and who writes one have in common.
//!
//! Numbers are big-endian, but for the lengths of texts. Source: Proxmox, pve-qemu: vma_spec.txt, vma.h.

use std::ops::Range;

use md5::{Digest as _, Md5};

/// Bytes of a cluster, which the last one of a device need not fill.
pub const CLUSTER: u64 = 64 << 10;
/// Bytes of a block, of which a cluster has 16. In the file it is whole, whatever the device's size.
pub const BLOCK: u64 = 4096;
/// Bytes of the largest disk: the index of its clusters has to fit into memory.
pub const MOST: u64 = 16 << 40;

/// The archive's header.
pub mod head {
    use std::ops::Range;

    pub const MAGIC: &[u8; 4] = b"VMA\0";
    pub const VERSION: u32 = 1;
    /// Bytes before the texts.
    pub const FIXED: usize = 12288;
    /// The id that every part of the archive has.
    pub const ARCHIVE: Range<usize> = 8..24;
    /// When it was made, in Unix seconds.
    pub const TIME: usize = 24;
    pub const SUM: Range<usize> = 32..48;
    /// Where the texts begin, how many bytes they have, and how many the whole header.
    pub const TEXTS: usize = 48;
    pub const TEXTS_LEN: usize = 52;
    pub const LEN: usize = 56;
    /// Where the texts of the configurations' names and of the configurations are named.
    pub const NAMES: usize = 2044;
    pub const CONFIGS: usize = 3068;
    /// Where the devices are, the first of which is none: each begins with where its name is among the texts.
    pub const DEVICES: usize = 4096;
    /// Bytes of a device there.
    pub const DEVICE: usize = 32;
    /// Where in it the size of the device is.
    pub const SIZE: usize = 8;
}

/// An extent's header, which stands before its blocks.
pub mod extent {
    use std::ops::Range;

    pub const MAGIC: &[u8; 4] = b"VMAE";
    /// Bytes.
    pub const HEADER: u64 = 512;
    /// How many blocks follow.
    pub const BLOCKS: usize = 6;
    /// The archive's id.
    pub const ARCHIVE: Range<usize> = 8..24;
    pub const SUM: Range<usize> = 24..40;
    /// Where the clusters are named: a bit for each block that is stored, the first one lowest (16 bits), 8 bits in no use, the
    /// device's number (8 bits; 0: none), the cluster's (32 bits).
    pub const NAMED: usize = 40;
    /// How many at most.
    pub const CLUSTERS: u64 = 59;
}

/// The MD5 of a header, taken with zeros in the place of its sum.
pub fn sum_of(header: &[u8], sum: Range<usize>) -> [u8; 16] {
    let mut md5 = Md5::new();
    md5.update(&header[..sum.start]);
    md5.update([0; 16]);
    md5.update(&header[sum.end..]);
    md5.finalize().into()
}
