//! ISO 9660 and Joliet trees (ECMA-119 8.4, 9.1; Microsoft Joliet specification).

use super::{MediumDamage, MediumData, MediumEntry, MediumExtent, SECTOR, directory, read_bytes};
use crate::bytes::{text_be, u16_le, u32_le};
use crate::disk::Disk;

/// Maximum number of volume descriptors read, from sector 16.
const MAX_DESCRIPTORS: u64 = 64;

const DIRECTORY: u8 = 0x02;
const ASSOCIATED: u8 = 0x04;
const MULTI_EXTENT: u8 = 0x80;

/// The relevant volume descriptors.
pub(super) struct IsoDescriptors {
    primary: Vec<u8>,
    joliet: Option<Vec<u8>>,
}

impl IsoDescriptors {
    pub fn read(bytes: &dyn Disk) -> Option<Self> {
        let (mut primary, mut joliet) = (None, None);
        for sector in 16..16 + MAX_DESCRIPTORS {
            let Ok(block) = read_bytes(bytes, sector * SECTOR, SECTOR as usize) else {
                break;
            };
            if &block[1..6] != b"CD001" {
                break;
            }
            match block[0] {
                1 if primary.is_none() => primary = Some(block),
                2 if is_joliet(&block) && joliet.is_none() => joliet = Some(block),
                255 => break,
                _ => {}
            }
        }
        primary.map(|primary| Self { primary, joliet })
    }

    /// Returns the size of the medium from its descriptor, in bytes.
    pub fn volume_size(&self) -> u64 {
        u64::from(u32_le(&self.primary, 80)) * u64::from(u16_le(&self.primary, 128)).max(1)
    }

    /// Returns the Joliet volume, or else the primary one.
    pub fn choose_volume(&self) -> IsoVolume {
        let primary = IsoVolume::new(&self.primary, false);
        match &self.joliet {
            Some(block) => {
                let mut joliet = IsoVolume::new(block, true);
                // A Joliet label has at most 16 characters, a primary one 32.
                if primary.label.starts_with(&joliet.label) {
                    joliet.label = primary.label;
                }
                joliet
            }
            None => primary,
        }
    }
}

/// Returns true for a Joliet descriptor (escape sequence of UCS-2 level 1, 2 or 3).
fn is_joliet(block: &[u8]) -> bool {
    matches!(&block[88..91], b"%/@" | b"%/C" | b"%/E")
}

pub(super) struct IsoVolume {
    pub label: String,
    pub is_joliet: bool,
    pub root: MediumEntry,
}

impl IsoVolume {
    fn new(block: &[u8], is_joliet: bool) -> Self {
        Self {
            label: decode_text(&block[40..72], is_joliet)
                .trim_end()
                .to_string(),
            is_joliet,
            root: MediumEntry {
                name: String::new(),
                is_dir: true,
                size: u64::from(u32_le(block, 166)),
                data: MediumData::Extents(vec![parse_extent(&block[156..190])]),
            },
        }
    }

    pub fn read_dir(
        &self,
        bytes: &dyn Disk,
        dir: &MediumEntry,
    ) -> Result<Vec<MediumEntry>, MediumDamage> {
        let content = directory::read_whole(bytes, dir)?;
        let mut entries: Vec<MediumEntry> = Vec::new();
        let mut continues = false;
        for sector in content.chunks(SECTOR as usize) {
            let mut rest = sector;
            // Records never cross a sector; a length of zero ends the sector.
            while let Some(&length) = rest.first()
                && length != 0
            {
                let record = rest
                    .get(..usize::from(length))
                    .filter(|r| r.len() >= 34 && r.len() >= 33 + usize::from(r[32]))
                    .ok_or("a truncated directory record")?;
                rest = &rest[usize::from(length)..];
                let flags = record[25];
                let name = &record[33..33 + usize::from(record[32])];
                if matches!(name, [0] | [1]) || flags & ASSOCIATED != 0 {
                    continue;
                }
                let piece = parse_extent(record);
                match (entries.last_mut(), continues) {
                    (Some(last), true) => {
                        last.size += piece.length;
                        if let MediumData::Extents(all) = &mut last.data {
                            all.push(piece);
                        }
                    }
                    _ => entries.push(MediumEntry {
                        name: self.name(name),
                        is_dir: flags & DIRECTORY != 0,
                        size: piece.length,
                        data: MediumData::Extents(vec![piece]),
                    }),
                }
                continues = flags & MULTI_EXTENT != 0;
            }
        }
        Ok(entries)
    }

    /// Decodes a name, without its version number and the dot of an empty extension.
    fn name(&self, bytes: &[u8]) -> String {
        let name = decode_text(bytes, self.is_joliet);
        let name = match name.rsplit_once(';') {
            Some((name, version)) if version.chars().all(|c| c.is_ascii_digit()) => name,
            _ => &name,
        };
        if self.is_joliet {
            name.to_string()
        } else {
            name.strip_suffix('.').unwrap_or(name).to_string()
        }
    }
}

/// Parses the extent of a directory record.
fn parse_extent(record: &[u8]) -> MediumExtent {
    let skipped = u64::from(record.get(1).copied().unwrap_or(0));
    MediumExtent {
        at: Some((u64::from(u32_le(record, 2)) + skipped) * SECTOR),
        length: u64::from(u32_le(record, 10)),
    }
}

fn decode_text(bytes: &[u8], is_joliet: bool) -> String {
    if is_joliet {
        text_be(bytes).trim_end_matches('\0').to_string()
    } else {
        bytes.iter().map(|b| char::from(*b)).collect()
    }
}
