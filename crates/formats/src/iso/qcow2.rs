//! Builds the smallest qcow2 overlay that changes one cluster of a raw file: version 3, one data
//! cluster, a backing file (QEMU docs/interop/qcow2.txt).

use std::path::Path;

use winimg_base::error::{Error, Kind, Result};

/// Bytes of a cluster.
pub(super) const CLUSTER: u64 = 1 << CLUSTER_BITS;
const CLUSTER_BITS: u32 = 16;
/// Entries of an L2 table: one table maps 512 MiB.
const PER_TABLE: u64 = CLUSTER / 8;
/// The reference is the only one, so QEMU may write in place.
const COPIED: u64 = 1 << 63;
const HEADER: u32 = 104;
/// QEMU's limit on the name of a backing file, bytes.
const MAX_NAME: usize = 1023;

/// Builds an overlay of `size` bytes (a multiple of 512) over `backing` in which cluster `cluster`
/// reads as `data`.
pub(super) fn build_overlay(
    backing: &Path,
    size: u64,
    cluster: u64,
    data: &[u8],
) -> Result<Vec<u8>> {
    let name = backing
        .to_str()
        .filter(|n| n.len() <= MAX_NAME)
        .ok_or_else(|| {
            Error::new(
                Kind::Host,
                "a qcow2 overlay cannot name its backing file: the path is over 1023 bytes or \
                 not UTF-8",
            )
            .at(backing.display())
            .cure("move the file to a shorter path")
        })?;
    let tables = size.div_ceil(CLUSTER).div_ceil(PER_TABLE).max(1);
    let l1_clusters = (tables * 8).div_ceil(CLUSTER);
    // 0 header, 1 refcount table, 2 refcount block, 3… L1, then the L2 table and the data.
    let l1_at = 3 * CLUSTER;
    let l2_at = l1_at + l1_clusters * CLUSTER;
    let data_at = l2_at + CLUSTER;
    let clusters = data_at / CLUSTER + 1;
    let mut out = vec![0; (clusters * CLUSTER) as usize];
    put_at(&mut out, 0, &build_header(name, size, tables as u32));
    put_at(&mut out, CLUSTER, &(2 * CLUSTER).to_be_bytes());
    for n in 0..clusters {
        put_at(&mut out, 2 * CLUSTER + n * 2, &1u16.to_be_bytes());
    }
    let l1_entry = l1_at + cluster / PER_TABLE * 8;
    put_at(&mut out, l1_entry, &(l2_at | COPIED).to_be_bytes());
    let l2_entry = l2_at + cluster % PER_TABLE * 8;
    put_at(&mut out, l2_entry, &(data_at | COPIED).to_be_bytes());
    let data = &data[..data.len().min(CLUSTER as usize)];
    put_at(&mut out, data_at, data);
    Ok(out)
}

fn put_at(out: &mut [u8], at: u64, bytes: &[u8]) {
    let at = at as usize;
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

fn build_header(name: &str, size: u64, l1_entries: u32) -> Vec<u8> {
    // The backing format is stated so that QEMU never guesses it; then an end mark, then the name.
    let mut extensions = Vec::new();
    extensions.extend(0xe279_2acau32.to_be_bytes());
    extensions.extend(3u32.to_be_bytes());
    extensions.extend(b"raw\0\0\0\0\0");
    extensions.extend([0; 8]);
    let name_at = u64::from(HEADER) + extensions.len() as u64;
    let mut out = Vec::new();
    out.extend(b"QFI\xfb");
    out.extend(3u32.to_be_bytes());
    out.extend(name_at.to_be_bytes());
    out.extend((name.len() as u32).to_be_bytes());
    out.extend(CLUSTER_BITS.to_be_bytes());
    out.extend(size.to_be_bytes());
    // No encryption; the L1 table; the refcount table of one cluster; no snapshots.
    out.extend(0u32.to_be_bytes());
    out.extend(l1_entries.to_be_bytes());
    out.extend((3 * CLUSTER).to_be_bytes());
    out.extend(CLUSTER.to_be_bytes());
    out.extend(1u32.to_be_bytes());
    out.extend(0u32.to_be_bytes());
    out.extend(0u64.to_be_bytes());
    // Incompatible, compatible and autoclear features; 16-bit refcounts; the header's length.
    out.extend([0; 24]);
    out.extend(4u32.to_be_bytes());
    out.extend(HEADER.to_be_bytes());
    out.extend(extensions);
    out.extend(name.as_bytes());
    out
}
