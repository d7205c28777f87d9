//! UDF descriptor tags, file entries and allocation descriptors (ECMA-167 3/7.2, 4/14.9, 4/14.14,
//! 4/14.17).

use crc::{CRC_16_XMODEM, Crc};

use super::map::UdfPartitionMaps;
use super::{MediumDamage, MediumData, MediumExtent, SECTOR, read_bytes};
use crate::bytes::{u16_le, u32_le, u64_le};
use crate::disk::Disk;

pub(super) const TAG_ANCHOR: u16 = 2;
pub(super) const TAG_POINTER: u16 = 3;
pub(super) const TAG_PARTITION: u16 = 5;
pub(super) const TAG_LOGICAL_VOLUME: u16 = 6;
pub(super) const TAG_TERMINATING: u16 = 8;
pub(super) const TAG_FILE_SET: u16 = 256;
pub(super) const TAG_FILE_IDENTIFIER: u16 = 257;
const TAG_ALLOCATION_EXTENT: u16 = 258;
const TAG_FILE_ENTRY: u16 = 261;
const TAG_EXTENDED_FILE_ENTRY: u16 = 266;

/// Maximum extents of one file: a 200 GiB file in extents of 1 MiB.
const MAX_EXTENTS: usize = 200_000;
/// Maximum continuation blocks of allocation descriptors.
const MAX_CONTINUATIONS: usize = 4096;

/// Returns the tag's identifier, if its checksum and the descriptor's CRC are right.
pub(super) fn read_tag(block: &[u8]) -> Option<u16> {
    let head = block.get(..16)?;
    let sum = head
        .iter()
        .enumerate()
        .filter(|(i, _)| *i != 4)
        .fold(0u8, |s, (_, b)| s.wrapping_add(*b));
    if sum != head[4] {
        return None;
    }
    let length = usize::from(u16_le(head, 10));
    let body = block.get(16..16 + length)?;
    (CRC.checksum(body) == u16_le(head, 8)).then(|| u16_le(head, 0))
}

/// CRC-ITU-T over a descriptor's body: polynomial 0x1021, initial value 0 (ECMA-167 1/7.2.6).
static CRC: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// A long allocation descriptor: a position in a logical volume, and a length in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct LongAd {
    pub length: u32,
    pub block: u32,
    /// Index into the partition maps.
    pub partition: u16,
}

impl LongAd {
    pub fn read(bytes: &[u8], at: usize) -> Self {
        Self {
            length: u32_le(bytes, at),
            block: u32_le(bytes, at + 4),
            partition: u16_le(bytes, at + 8),
        }
    }
}

/// A file entry or extended file entry, decoded.
pub(super) struct Icb {
    pub file_type: u8,
    /// Bytes.
    pub size: u64,
    pub data: MediumData,
}

impl Icb {
    /// Reads the file entry at `ad`.
    pub fn read(
        maps: &UdfPartitionMaps,
        bytes: &dyn Disk,
        ad: LongAd,
    ) -> Result<Self, MediumDamage> {
        let at = maps.find_offset(ad.partition, ad.block)?;
        let block = read_bytes(bytes, at, SECTOR as usize)?;
        let (size_of_ea_at, ea_at) = match read_tag(&block) {
            Some(TAG_FILE_ENTRY) => (168, 176),
            Some(TAG_EXTENDED_FILE_ENTRY) => (208, 216),
            Some(other) => {
                return Err(format!("tag {other} instead of a file entry at offset {at}").into());
            }
            None => return Err(format!("no valid file entry at offset {at}").into()),
        };
        let strategy = u16_le(&block, 20);
        if strategy != 4 {
            return Err(
                format!("ICB strategy {strategy} at offset {at}; only 4 is supported").into(),
            );
        }
        let size = u64_le(&block, 56);
        let start = ea_at + u32_le(&block, size_of_ea_at) as usize;
        let length = u32_le(&block, size_of_ea_at + 4) as usize;
        let descriptors = start
            .checked_add(length)
            .and_then(|end| block.get(start..end))
            .ok_or_else(|| format!("the file entry at offset {at} is larger than its block"))?;
        let data = match u16_le(&block, 34) & 7 {
            3 => MediumData::Embedded(
                usize::try_from(size)
                    .ok()
                    .and_then(|n| descriptors.get(..n))
                    .ok_or_else(|| {
                        format!(
                            "the embedded file at offset {at} has {length} bytes instead of {size}"
                        )
                    })?
                    .to_vec(),
            ),
            kind @ (0 | 1) => MediumData::Extents(read_extents(
                maps,
                bytes,
                descriptors,
                kind == 1,
                ad.partition,
                size,
            )?),
            other => {
                return Err(
                    format!("allocation descriptors of kind {other} at offset {at}").into(),
                );
            }
        };
        Ok(Self {
            file_type: block[27],
            size,
            data,
        })
    }

    pub fn is_dir(&self) -> bool {
        self.file_type == 4
    }
}

/// Follows allocation descriptors until `size` bytes are covered, they end, or a limit is reached.
fn read_extents(
    maps: &UdfPartitionMaps,
    bytes: &dyn Disk,
    first: &[u8],
    long: bool,
    own_partition: u16,
    size: u64,
) -> Result<Vec<MediumExtent>, MediumDamage> {
    let mut list = first.to_vec();
    let mut found: Vec<MediumExtent> = Vec::new();
    let mut covered = 0u64;
    for _ in 0..MAX_CONTINUATIONS {
        let mut next = None;
        for descriptor in list.chunks_exact(if long { 16 } else { 8 }) {
            let ad = if long {
                LongAd::read(descriptor, 0)
            } else {
                LongAd {
                    partition: own_partition,
                    ..LongAd::read(descriptor, 0)
                }
            };
            let length = u64::from(ad.length & 0x3fff_ffff);
            if length == 0 || covered >= size {
                break;
            }
            match ad.length >> 30 {
                3 => {
                    next = Some(ad);
                    break;
                }
                kind => {
                    let length = length.min(size - covered);
                    if kind == 0 {
                        maps.map(&mut found, ad.partition, ad.block, length)?;
                    } else {
                        found.push(MediumExtent { at: None, length });
                    }
                    covered += length;
                }
            }
            if found.len() > MAX_EXTENTS {
                return Err(format!("a file with more than {MAX_EXTENTS} extents").into());
            }
        }
        let Some(ad) = next else {
            return if covered < size {
                Err(format!("a file of {size} bytes with extents for {covered}").into())
            } else {
                Ok(found)
            };
        };
        list = read_continuation(maps, bytes, ad)?;
    }
    Err("a file whose allocation descriptors never end".into())
}

/// Reads the descriptors in an allocation extent descriptor.
fn read_continuation(
    maps: &UdfPartitionMaps,
    bytes: &dyn Disk,
    ad: LongAd,
) -> Result<Vec<u8>, MediumDamage> {
    let at = maps.find_offset(ad.partition, ad.block)?;
    let block = read_bytes(bytes, at, SECTOR as usize)?;
    if read_tag(&block) != Some(TAG_ALLOCATION_EXTENT) {
        return Err(format!("no allocation extent descriptor at offset {at}").into());
    }
    let length = u32_le(&block, 20) as usize;
    block
        .get(24..24usize.saturating_add(length))
        .map(<[u8]>::to_vec)
        .ok_or_else(|| {
            format!("the allocation extent at offset {at} is larger than its block").into()
        })
}
