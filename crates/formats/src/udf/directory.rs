//! UDF directories: files of file identifier descriptors (ECMA-167 4/14.4), which may cross blocks.

use super::icb::{Icb, LongAd, TAG_FILE_IDENTIFIER, read_tag};
use super::map::UdfPartitionMaps;
use super::{MediumDamage, MediumEntry, reader};
use crate::bytes::{text_be, u16_le};
use crate::disk::Disk;

/// Largest directory that is read, bytes: some 300,000 entries.
const MAX_DIRECTORY: u64 = 16 << 20;

const DELETED: u8 = 4;
const PARENT: u8 = 8;

/// Reads the entries of a directory, without the parent and deleted ones.
pub(super) fn read(
    maps: &UdfPartitionMaps,
    bytes: &dyn Disk,
    dir: &MediumEntry,
) -> Result<Vec<MediumEntry>, MediumDamage> {
    let content = read_whole(bytes, dir)?;
    let mut entries = Vec::new();
    let mut rest = content.as_slice();
    while rest.len() >= 38 {
        let name_length = usize::from(rest[19]);
        let name_at = 38 + usize::from(u16_le(rest, 36));
        let total = (name_at + name_length).next_multiple_of(4);
        let Some(one) = rest.get(..total) else {
            return Err("a truncated directory entry".into());
        };
        if read_tag(one) != Some(TAG_FILE_IDENTIFIER) {
            return Err(format!(
                "an invalid directory entry, {} bytes before the end of its directory",
                rest.len()
            )
            .into());
        }
        if one[18] & (DELETED | PARENT) == 0 {
            let name = decode_identifier(&one[name_at..name_at + name_length]);
            let icb = Icb::read(maps, bytes, LongAd::read(one, 20))?;
            entries.push(MediumEntry {
                is_dir: icb.is_dir(),
                name,
                size: icb.size,
                data: icb.data,
            });
        }
        rest = &rest[total..];
    }
    Ok(entries)
}

pub(super) fn read_whole(bytes: &dyn Disk, dir: &MediumEntry) -> Result<Vec<u8>, MediumDamage> {
    if dir.size > MAX_DIRECTORY || dir.size > bytes.len() {
        return Err(format!("a directory of {} bytes", dir.size).into());
    }
    let mut content = vec![0; dir.size as usize];
    let mut done = 0;
    while done < content.len() {
        done += reader::read_some(bytes, &dir.data, done as u64, &mut content[done..])?;
    }
    Ok(content)
}

/// Decodes OSTA compressed Unicode: a compression id of 8 (one byte per character) or 16 (two,
/// big-endian), then the characters.
pub(super) fn decode_identifier(bytes: &[u8]) -> String {
    match bytes.split_first() {
        Some((8 | 254, text)) => text.iter().map(|b| char::from(*b)).collect(),
        Some((16 | 255, text)) => text_be(text),
        _ => String::new(),
    }
}

/// Decodes a fixed field with the number of used bytes in its last byte (OSTA UDF 2.1.3).
pub(super) fn decode_dstring(field: &[u8]) -> String {
    let used = field.last().copied().map_or(0, usize::from);
    decode_identifier(field.get(..used).unwrap_or_default())
}
