//! Layout of a VMA and the checksums of its headers, shared by the reader and the writer.
//!
//! Numbers are big-endian, except the lengths of texts. Source: Proxmox, pve-qemu: vma_spec.txt,
//! vma.h.

use std::ops::Range;

use md5::{Digest as _, Md5};

/// Bytes of a cluster; the last one of a device may be partial.
pub const CLUSTER: u64 = 64 << 10;
/// Bytes of a block, 16 per cluster. In the file it is always complete, whatever the device's size.
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
    /// Creation time, in Unix seconds.
    pub const TIME: usize = 24;
    pub const SUM: Range<usize> = 32..48;
    /// Offset and length of the texts, and length of the whole header.
    pub const TEXTS: usize = 48;
    pub const TEXTS_LEN: usize = 52;
    pub const LEN: usize = 56;
    /// Offsets of the configurations' names and contents among the texts.
    pub const NAMES: usize = 2044;
    pub const CONFIGS: usize = 3068;
    /// Table of devices; the first is unused. Each starts with the offset of its name among the
    /// texts.
    pub const DEVICES: usize = 4096;
    /// Bytes per device.
    pub const DEVICE: usize = 32;
    /// Offset of the device's size in its entry.
    pub const SIZE: usize = 8;
}

/// An extent's header, which precedes its blocks.
pub mod extent {
    use std::ops::Range;

    pub const MAGIC: &[u8; 4] = b"VMAE";
    /// Bytes.
    pub const HEADER: u64 = 512;
    /// Number of blocks that follow.
    pub const BLOCKS: usize = 6;
    /// The archive's id.
    pub const ARCHIVE: Range<usize> = 8..24;
    pub const SUM: Range<usize> = 24..40;
    /// Table of clusters: one bit per stored block, the first one lowest (16 bits), 8 unused bits,
    /// the device's number (8 bits; 0: none), the cluster's number (32 bits).
    pub const NAMED: usize = 40;
    /// Maximum number of clusters.
    pub const CLUSTERS: u64 = 59;
}

/// Computes the MD5 of a header, with zeros in place of its checksum.
pub fn sum_of(header: &[u8], sum: Range<usize>) -> [u8; 16] {
    let mut md5 = Md5::new();
    md5.update(&header[..sum.start]);
    md5.update([0; 16]);
    md5.update(&header[sum.end..]);
    md5.finalize().into()
}
