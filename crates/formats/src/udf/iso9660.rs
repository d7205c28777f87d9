//! ISO 9660 and Joliet trees (ECMA-119 8.4, 9.1; Microsoft Joliet specification).

use super::{Damage, Data, Entry, Extent, SECTOR, directory, take};
use crate::bytes::{text_be, u16_le, u32_le};
use crate::disk::Disk;

/// Volume descriptors are looked for in sectors 16 to 16 + this.
const MAX_DESCRIPTORS: u64 = 64;

const DIRECTORY: u8 = 0x02;
const ASSOCIATED: u8 = 0x04;
const MULTI_EXTENT: u8 = 0x80;

/// The volume descriptors that matter here.
pub(super) struct Descriptors {
    primary: Vec<u8>,
    joliet: Option<Vec<u8>>,
}

impl Descriptors {
    pub fn read(bytes: &dyn Disk) -> Option<Self> {
        let (mut primary, mut joliet) = (None, None);
        for sector in 16..16 + MAX_DESCRIPTORS {
            let Ok(block) = take(bytes, sector * SECTOR, SECTOR as usize) else {
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

    /// Bytes that the medium says it has.
    pub fn volume_size(&self) -> u64 {
        u64::from(u32_le(&self.primary, 80)) * u64::from(u16_le(&self.primary, 128)).max(1)
    }

    /// Joliet when it is there.
    pub fn preferred(&self) -> Volume {
        let primary = Volume::new(&self.primary, false);
        match &self.joliet {
            Some(block) => {
                let mut joliet = Volume::new(block, true);
                // Joliet has room for 16 characters of a label, the primary descriptor for 32.
                if primary.label.starts_with(&joliet.label) {
                    joliet.label = primary.label;
                }
                joliet
            }
            None => primary,
        }
    }
}

/// UCS-2 level 1, 2 or 3.
fn is_joliet(block: &[u8]) -> bool {
    matches!(&block[88..91], b"%/@" | b"%/C" | b"%/E")
}

pub(super) struct Volume {
    pub label: String,
    pub joliet: bool,
    pub root: Entry,
}

impl Volume {
    fn new(block: &[u8], joliet: bool) -> Self {
        Self {
            label: text(&block[40..72], joliet).trim_end().to_string(),
            joliet,
            root: Entry {
                name: String::new(),
                is_dir: true,
                size: u64::from(u32_le(block, 166)),
                data: Data::Extents(vec![extent(&block[156..190])]),
            },
        }
    }

    pub fn read_dir(&self, bytes: &dyn Disk, dir: &Entry) -> Result<Vec<Entry>, Damage> {
        let content = directory::whole(bytes, dir)?;
        let mut entries: Vec<Entry> = Vec::new();
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
                    .ok_or("a directory record that is cut short")?;
                rest = &rest[usize::from(length)..];
                let flags = record[25];
                let name = &record[33..33 + usize::from(record[32])];
                if matches!(name, [0] | [1]) || flags & ASSOCIATED != 0 {
                    continue;
                }
                let piece = extent(record);
                match (entries.last_mut(), continues) {
                    (Some(last), true) => {
                        last.size += piece.length;
                        if let Data::Extents(all) = &mut last.data {
                            all.push(piece);
                        }
                    }
                    _ => entries.push(Entry {
                        name: self.name(name),
                        is_dir: flags & DIRECTORY != 0,
                        size: piece.length,
                        data: Data::Extents(vec![piece]),
                    }),
                }
                continues = flags & MULTI_EXTENT != 0;
            }
        }
        Ok(entries)
    }

    /// The name without its version number and without the dot of an empty extension.
    fn name(&self, bytes: &[u8]) -> String {
        let name = text(bytes, self.joliet);
        let name = match name.rsplit_once(';') {
            Some((name, version)) if version.chars().all(|c| c.is_ascii_digit()) => name,
            _ => &name,
        };
        if self.joliet {
            name.to_string()
        } else {
            name.strip_suffix('.').unwrap_or(name).to_string()
        }
    }
}

/// The bytes that a directory record points at.
fn extent(record: &[u8]) -> Extent {
    let skipped = u64::from(record.get(1).copied().unwrap_or(0));
    Extent {
        at: Some((u64::from(u32_le(record, 2)) + skipped) * SECTOR),
        length: u64::from(u32_le(record, 10)),
    }
}

fn text(bytes: &[u8], joliet: bool) -> String {
    if joliet {
        text_be(bytes).trim_end_matches('\0').to_string()
    } else {
        bytes.iter().map(|b| char::from(*b)).collect()
    }
}
