//! Reads a UDF volume from its anchor to its root directory (ECMA-167 3/8.4, 3/10; OSTA UDF 2.2).

use super::directory;
use super::icb::{
    Icb, LongAd, TAG_ANCHOR, TAG_FILE_SET, TAG_LOGICAL_VOLUME, TAG_PARTITION, TAG_POINTER,
    TAG_TERMINATING, read_tag,
};
use super::map::{UdfPartitionMap, UdfPartitionMaps};
use super::{MediumDamage, MediumData, MediumEntry, SECTOR, read_bytes};
use crate::bytes::{u16_le, u32_le};
use crate::disk::Disk;

/// Maximum number of descriptors read from a volume descriptor sequence.
const MAX_DESCRIPTORS: u32 = 256;

/// A mounted UDF volume.
pub(super) struct UdfVolume {
    pub label: String,
    pub maps: UdfPartitionMaps,
    file_set: LongAd,
}

/// The prevailing descriptors of a volume descriptor sequence.
#[derive(Default)]
struct DescriptorSequence {
    partitions: Vec<Vec<u8>>,
    logical: Option<Vec<u8>>,
}

impl UdfVolume {
    /// Reads the volume; `None` if the medium has no UDF, an error if its UDF is damaged.
    pub fn read(bytes: &dyn Disk) -> Result<Option<Self>, MediumDamage> {
        let Some(anchor) = find_anchor(bytes) else {
            return Ok(None);
        };
        let mut sequence = DescriptorSequence::default();
        for at in [16, 24] {
            let (length, start) = (u32_le(&anchor, at), u32_le(&anchor, at + 4));
            sequence = DescriptorSequence::read(bytes, start, length / SECTOR as u32);
            if sequence.logical.is_some() && !sequence.partitions.is_empty() {
                break;
            }
        }
        let Some(logical) = sequence.logical else {
            return Err("UDF without a logical volume descriptor in either sequence".into());
        };
        let block_size = u32_le(&logical, 212);
        if u64::from(block_size) != SECTOR {
            return Err(format!(
                "UDF with blocks of {block_size} bytes; optical media have {SECTOR}"
            )
            .into());
        }
        let mut volume = Self {
            label: directory::decode_dstring(logical.get(84..212).unwrap_or_default()),
            maps: UdfPartitionMaps::default(),
            file_set: LongAd::read(&logical, 248),
        };
        volume.read_maps(bytes, &logical, &sequence.partitions)?;
        Ok(Some(volume))
    }

    fn read_maps(
        &mut self,
        bytes: &dyn Disk,
        logical: &[u8],
        partitions: &[Vec<u8>],
    ) -> Result<(), MediumDamage> {
        let mut at = 440;
        for _ in 0..u32_le(logical, 268).min(16) {
            let length = logical.get(at + 1).copied().unwrap_or(0) as usize;
            let map = logical
                .get(at..at + length)
                .filter(|m| m.len() >= 6)
                .ok_or("a truncated UDF partition map")?;
            let map = match map[0] {
                1 => find_partition(u16_le(map, 4), partitions)?,
                2 => match map.get(5..28).unwrap_or_default() {
                    id if id.starts_with(b"*UDF Metadata Partition") => {
                        self.maps
                            .0
                            .push(find_partition(u16_le(map, 38), partitions)?);
                        let under = (self.maps.0.len() - 1) as u16;
                        let found = self.read_metadata(bytes, under, map);
                        self.maps.0.pop();
                        found?
                    }
                    id => {
                        return Err(format!(
                            "a UDF partition of an unsupported kind: {}",
                            String::from_utf8_lossy(id).trim_end_matches('\0')
                        )
                        .into());
                    }
                },
                other => return Err(format!("a UDF partition map of type {other}").into()),
            };
            self.maps.0.push(map);
            at += length;
        }
        if self.maps.0.is_empty() {
            return Err("UDF without a partition map".into());
        }
        Ok(())
    }

    /// Reads the metadata file, or its mirror if it is unreadable (OSTA UDF 2.50, 2.2.13).
    fn read_metadata(
        &self,
        bytes: &dyn Disk,
        under: u16,
        map: &[u8],
    ) -> Result<UdfPartitionMap, MediumDamage> {
        let mut why = "no metadata file".into();
        for at in [40, 44] {
            let ad = LongAd {
                length: SECTOR as u32,
                block: u32_le(map, at),
                partition: under,
            };
            match Icb::read(&self.maps, bytes, ad) {
                Ok(Icb {
                    data: MediumData::Extents(extents),
                    ..
                }) => return Ok(UdfPartitionMap::Metadata { extents }),
                Ok(_) => why = "a metadata file embedded in its own entry".into(),
                Err(e) => why = e,
            }
        }
        Err(why)
    }

    /// Reads the root directory.
    pub fn read_root(&self, bytes: &dyn Disk) -> Result<MediumEntry, MediumDamage> {
        let at = self
            .maps
            .find_offset(self.file_set.partition, self.file_set.block)?;
        let block = read_bytes(bytes, at, SECTOR as usize)?;
        if read_tag(&block) != Some(TAG_FILE_SET) {
            return Err(format!("no file set descriptor at offset {at}").into());
        }
        let icb = Icb::read(&self.maps, bytes, LongAd::read(&block, 400))?;
        if !icb.is_dir() {
            return Err("a root that is not a directory".into());
        }
        Ok(MediumEntry {
            name: String::new(),
            is_dir: true,
            size: icb.size,
            data: icb.data,
        })
    }
}

/// Finds the anchor, which is at two of sector 256, the last sector, and 256 before it (ECMA-167
/// 3/8.4.2.1).
fn find_anchor(bytes: &dyn Disk) -> Option<Vec<u8>> {
    let sectors = bytes.len() / SECTOR;
    [Some(256), sectors.checked_sub(257), sectors.checked_sub(1)]
        .into_iter()
        .flatten()
        .filter_map(|sector| read_bytes(bytes, sector * SECTOR, SECTOR as usize).ok())
        .find(|block| read_tag(block) == Some(TAG_ANCHOR))
}

fn find_partition(number: u16, partitions: &[Vec<u8>]) -> Result<UdfPartitionMap, MediumDamage> {
    partitions
        .iter()
        .find(|p| u16_le(p, 22) == number)
        .map(|p| UdfPartitionMap::Physical {
            start: u64::from(u32_le(p, 188)),
            blocks: u64::from(u32_le(p, 192)),
        })
        .ok_or_else(|| format!("no descriptor for UDF partition {number}").into())
}

impl DescriptorSequence {
    /// Reads descriptors until a terminator; for each role the highest sequence number prevails.
    fn read(bytes: &dyn Disk, start: u32, sectors: u32) -> Self {
        let mut found = Self::default();
        let mut next = Some((start, sectors));
        let mut budget = MAX_DESCRIPTORS;
        while let Some((start, sectors)) = next.take() {
            for sector in 0..sectors {
                if budget == 0 {
                    return found;
                }
                budget -= 1;
                let at = (u64::from(start) + u64::from(sector)) * SECTOR;
                let Ok(block) = read_bytes(bytes, at, SECTOR as usize) else {
                    return found;
                };
                match read_tag(&block) {
                    Some(TAG_LOGICAL_VOLUME) => found.add_logical(block),
                    Some(TAG_PARTITION) => found.add_partition(block),
                    Some(TAG_POINTER) => {
                        next = Some((u32_le(&block, 24), u32_le(&block, 20) / SECTOR as u32));
                        break;
                    }
                    Some(TAG_TERMINATING) => return found,
                    _ => {}
                }
            }
        }
        found
    }

    fn add_logical(&mut self, block: Vec<u8>) {
        let is_newer = self
            .logical
            .as_ref()
            .is_none_or(|old| u32_le(&block, 16) >= u32_le(old, 16));
        if is_newer {
            self.logical = Some(block);
        }
    }

    fn add_partition(&mut self, block: Vec<u8>) {
        let number = u16_le(&block, 22);
        match self.partitions.iter_mut().find(|p| u16_le(p, 22) == number) {
            Some(old) if u32_le(old, 16) <= u32_le(&block, 16) => *old = block,
            Some(_) => {}
            None => self.partitions.push(block),
        }
    }
}
