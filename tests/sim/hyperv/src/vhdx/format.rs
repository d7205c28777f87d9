//! The fixed structures of a VHDX file as bytes: headers, region table, metadata table, parent locator.
//!
//! Source: [MS-VHDX], sections 2.1 to 2.6. Pure: bytes in, values out.

use crc::{CRC_32_ISCSI, Crc};
use uuid::{Uuid, uuid};

use super::Fault;

pub const MIB: u64 = 1 << 20;
pub const SECTOR: u64 = 512;
/// Where the two headers and the two region tables lie; each has a slot of 64 KiB.
pub const HEADERS: [u64; 2] = [64 << 10, 128 << 10];
pub const REGIONS: [u64; 2] = [192 << 10, 256 << 10];
pub const SLOT: usize = 64 << 10;
pub const HEADER_BYTES: usize = 4096;

const BAT: Uuid = uuid!("2DC27766-F623-4200-9D64-115E9BFD4A08");
const METADATA: Uuid = uuid!("8B7CA206-4790-4B9A-B8FE-575F050F886E");

const FILE_PARAMETERS: Uuid = uuid!("CAA16737-FA36-4D43-B3B6-33F0AA44E76B");
const VIRTUAL_DISK_SIZE: Uuid = uuid!("2FA54224-CD1B-4876-B211-5DBED83BF4B8");
const VIRTUAL_DISK_ID: Uuid = uuid!("BECA12AB-B2E6-4523-93EF-C309E000C746");
const LOGICAL_SECTOR: Uuid = uuid!("8141BF1D-A96F-4709-BA47-F233A8FAAB5F");
const PHYSICAL_SECTOR: Uuid = uuid!("CDA348C7-445D-4471-9CC9-E9885251C556");
const PARENT_LOCATOR: Uuid = uuid!("A8D35F2D-B30B-454D-ABF7-D3D84834AB0C");
const LOCATOR_VHDX: Uuid = uuid!("B04AEFB7-D19E-4A81-B789-25B8E9445913");

/// Metadata flags: the item belongs to the disk (not the file), and a reader has to know it.
const IS_VIRTUAL_DISK: u32 = 2;
const IS_REQUIRED: u32 = 4;
const HAS_PARENT: u32 = 2;

pub fn checksum(bytes: &[u8]) -> u32 {
    Crc::<u32>::new(&CRC_32_ISCSI).checksum(bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn guid_at(bytes: &[u8], at: usize) -> Option<Uuid> {
    Some(Uuid::from_bytes_le(
        bytes.get(at..at + 16)?.try_into().ok()?,
    ))
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Fills in the checksum at byte 4, which counts as zero while it is computed.
fn seal(bytes: &mut [u8]) {
    put(bytes, 4, &[0; 4]);
    let sum = checksum(bytes);
    put(bytes, 4, &sum.to_le_bytes());
}

fn is_sealed(bytes: &[u8]) -> bool {
    let mut copy = bytes.to_vec();
    let found = u32_at(bytes, 4);
    seal(&mut copy);
    found.is_some() && found == u32_at(&copy, 4)
}

/// The file type identifier at the start of the file.
pub fn file_identifier() -> Vec<u8> {
    let mut bytes = b"vhdxfile".to_vec();
    let creator = "winimg stand-in for Hyper-V (not Windows)";
    bytes.extend(creator.encode_utf16().flat_map(u16::to_le_bytes));
    bytes.resize(SLOT, 0);
    bytes
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub sequence: u64,
    pub file_write: Uuid,
    pub data_write: Uuid,
    pub log: Uuid,
    pub log_length: u32,
    pub log_offset: u64,
}

impl Header {
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        put(&mut bytes, 0, b"head");
        put(&mut bytes, 8, &self.sequence.to_le_bytes());
        put(&mut bytes, 16, &self.file_write.to_bytes_le());
        put(&mut bytes, 32, &self.data_write.to_bytes_le());
        put(&mut bytes, 48, &self.log.to_bytes_le());
        put(&mut bytes, 66, &1u16.to_le_bytes());
        put(&mut bytes, 68, &self.log_length.to_le_bytes());
        put(&mut bytes, 72, &self.log_offset.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    /// None where these bytes are no valid header.
    pub fn read(bytes: &[u8]) -> Option<Header> {
        let version = bytes.get(64..68)?;
        if !bytes.starts_with(b"head") || !is_sealed(bytes) || version != [0, 0, 1, 0] {
            return None;
        }
        Some(Header {
            sequence: u64_at(bytes, 8)?,
            file_write: guid_at(bytes, 16)?,
            data_write: guid_at(bytes, 32)?,
            log: guid_at(bytes, 48)?,
            log_length: u32_at(bytes, 68)?,
            log_offset: u64_at(bytes, 72)?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    pub offset: u64,
    pub length: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regions {
    pub bat: Region,
    pub metadata: Region,
}

impl Regions {
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; SLOT];
        put(&mut bytes, 0, b"regi");
        put(&mut bytes, 8, &2u32.to_le_bytes());
        for (at, id, region) in [(16, BAT, self.bat), (48, METADATA, self.metadata)] {
            put(&mut bytes, at, &id.to_bytes_le());
            put(&mut bytes, at + 16, &region.offset.to_le_bytes());
            put(&mut bytes, at + 24, &region.length.to_le_bytes());
            put(&mut bytes, at + 28, &1u32.to_le_bytes());
        }
        seal(&mut bytes);
        bytes
    }

    pub fn read(bytes: &[u8]) -> Option<Regions> {
        if !bytes.starts_with(b"regi") || !is_sealed(bytes) {
            return None;
        }
        let (mut bat, mut metadata) = (None, None);
        for entry in 0..u32_at(bytes, 8)?.min(2047) as usize {
            let at = 16 + entry * 32;
            let region = Region {
                offset: u64_at(bytes, at + 16)?,
                length: u32_at(bytes, at + 24)?,
            };
            match guid_at(bytes, at)? {
                BAT => bat = Some(region),
                METADATA => metadata = Some(region),
                // A region that a reader has to know.
                _ if u32_at(bytes, at + 28)? & 1 == 1 => return None,
                _ => {}
            }
        }
        Some(Regions {
            bat: bat?,
            metadata: metadata?,
        })
    }
}

/// Where a differencing disk says its parent is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locator {
    /// The parent's DataWriteGuid when the child was made.
    pub linkage: Uuid,
    pub relative: String,
    pub absolute: String,
}

impl Locator {
    fn bytes(&self) -> Vec<u8> {
        let pairs = [
            ("parent_linkage", format!("{{{}}}", self.linkage)),
            ("relative_path", self.relative.clone()),
            ("absolute_win32_path", self.absolute.clone()),
        ];
        let wide =
            |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
        let mut bytes = LOCATOR_VHDX.to_bytes_le().to_vec();
        bytes.extend([0, 0]);
        bytes.extend((pairs.len() as u16).to_le_bytes());
        let mut texts = Vec::new();
        for (key, value) in &pairs {
            let (key, value) = (wide(key), wide(value));
            let at = (20 + pairs.len() * 12 + texts.len()) as u32;
            bytes.extend(at.to_le_bytes());
            bytes.extend((at + key.len() as u32).to_le_bytes());
            bytes.extend((key.len() as u16).to_le_bytes());
            bytes.extend((value.len() as u16).to_le_bytes());
            texts.extend([key, value].concat());
        }
        bytes.extend(texts);
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Locator> {
        if guid_at(bytes, 0)? != LOCATOR_VHDX {
            return None;
        }
        let text = |at: u32, length: u16| {
            let from = at as usize;
            let bytes = bytes.get(from..from + usize::from(length))?;
            let units: Vec<u16> = bytes
                .chunks_exact(2)
                .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
                .collect();
            String::from_utf16(&units).ok()
        };
        let u16_at = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let (mut linkage, mut relative, mut absolute) = (None, String::new(), String::new());
        for entry in 0..usize::from(u16_at(18)?) {
            let at = 20 + entry * 12;
            let key = text(u32_at(bytes, at)?, u16_at(at + 8)?)?;
            let value = text(u32_at(bytes, at + 4)?, u16_at(at + 10)?)?;
            match key.as_str() {
                "parent_linkage" => linkage = Uuid::parse_str(&value).ok(),
                "relative_path" => relative = value,
                "absolute_win32_path" => absolute = value,
                _ => {}
            }
        }
        Some(Locator {
            linkage: linkage?,
            relative,
            absolute,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    pub block_size: u32,
    pub size: u64,
    pub disk_id: Uuid,
    pub parent: Option<Locator>,
}

impl Metadata {
    /// The whole metadata region: 1 MiB.
    pub fn bytes(&self) -> Vec<u8> {
        let flags = if self.parent.is_some() { HAS_PARENT } else { 0 };
        let mut parameters = self.block_size.to_le_bytes().to_vec();
        parameters.extend(flags.to_le_bytes());
        let disk = IS_VIRTUAL_DISK | IS_REQUIRED;
        let mut items = vec![
            (FILE_PARAMETERS, IS_REQUIRED, parameters),
            (VIRTUAL_DISK_SIZE, disk, self.size.to_le_bytes().to_vec()),
            (VIRTUAL_DISK_ID, disk, self.disk_id.to_bytes_le().to_vec()),
            (LOGICAL_SECTOR, disk, 512u32.to_le_bytes().to_vec()),
            (PHYSICAL_SECTOR, disk, 4096u32.to_le_bytes().to_vec()),
        ];
        if let Some(locator) = &self.parent {
            items.push((PARENT_LOCATOR, IS_REQUIRED, locator.bytes()));
        }
        let mut bytes = vec![0; MIB as usize];
        put(&mut bytes, 0, b"metadata");
        put(&mut bytes, 10, &(items.len() as u16).to_le_bytes());
        let mut at = SLOT;
        for (index, (id, flags, value)) in items.iter().enumerate() {
            let entry = 32 + index * 32;
            put(&mut bytes, entry, &id.to_bytes_le());
            put(&mut bytes, entry + 16, &(at as u32).to_le_bytes());
            put(&mut bytes, entry + 20, &(value.len() as u32).to_le_bytes());
            put(&mut bytes, entry + 24, &flags.to_le_bytes());
            put(&mut bytes, at, value);
            at += value.len().next_multiple_of(8);
        }
        bytes
    }

    pub fn read(bytes: &[u8]) -> Result<Metadata, Fault> {
        let broken = |what: &str| Fault::Broken(format!("its metadata {what}"));
        if !bytes.starts_with(b"metadata") || bytes.len() < SLOT {
            return Err(broken("table has no signature"));
        }
        let count = usize::from(u16::from_le_bytes([bytes[10], bytes[11]]));
        let (mut parameters, mut size, mut disk_id, mut sector, mut locator) =
            (None, None, None, None, None);
        for entry in (0..count.min(2047)).map(|index| 32 + index * 32) {
            let read = || {
                let from = u32_at(bytes, entry + 16)? as usize;
                let value = bytes.get(from..from + u32_at(bytes, entry + 20)? as usize)?;
                Some((guid_at(bytes, entry)?, u32_at(bytes, entry + 24)?, value))
            };
            let (id, flags, value) = read().ok_or_else(|| broken("has an item outside of it"))?;
            match id {
                FILE_PARAMETERS => parameters = u32_at(value, 0).zip(u32_at(value, 4)),
                VIRTUAL_DISK_SIZE => size = u64_at(value, 0),
                VIRTUAL_DISK_ID => disk_id = guid_at(value, 0),
                LOGICAL_SECTOR => sector = u32_at(value, 0),
                PHYSICAL_SECTOR => {}
                PARENT_LOCATOR => locator = Locator::read(value),
                _ if flags & IS_REQUIRED != 0 => {
                    return Err(broken("has an unknown required item"));
                }
                _ => {}
            }
        }
        let (block_size, flags) = parameters.ok_or_else(|| broken("lacks the file parameters"))?;
        let sane =
            block_size.is_power_of_two() && (MIB..=256 * MIB).contains(&u64::from(block_size));
        let size = size.filter(|size| size % SECTOR == 0 && *size <= 64 << 40);
        if !sane || size.is_none() || sector != Some(512) {
            return Err(broken(
                "has a block, disk or sector size that is not handled",
            ));
        }
        let parent = if flags & HAS_PARENT != 0 {
            Some(locator.ok_or_else(|| broken("names no parent"))?)
        } else {
            None
        };
        Ok(Metadata {
            block_size,
            size: size.unwrap_or_default(),
            disk_id: disk_id.ok_or_else(|| broken("lacks the disk's id"))?,
            parent,
        })
    }
}

/// How the entries of the block allocation table interleave: after each `ratio` blocks one entry for their sector bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    pub blocks: u64,
    pub ratio: u64,
}

impl Table {
    pub fn of(metadata: &Metadata) -> Table {
        let block = u64::from(metadata.block_size);
        Table {
            blocks: metadata.size.div_ceil(block),
            ratio: (SECTOR << 23) / block,
        }
    }

    pub fn entries(&self, differencing: bool) -> u64 {
        if differencing {
            self.blocks.div_ceil(self.ratio) * (self.ratio + 1)
        } else {
            self.blocks + self.blocks.saturating_sub(1) / self.ratio
        }
    }

    pub fn payload(&self, block: u64) -> usize {
        (block + block / self.ratio) as usize
    }

    pub fn bitmap(&self, block: u64) -> usize {
        (block / self.ratio * (self.ratio + 1) + self.ratio) as usize
    }
}

/// States of a payload block. (1, undefined, and 3, unmapped, read as zeros here.)
pub const NOT_PRESENT: u64 = 0;
pub const ZERO: u64 = 2;
pub const FULLY: u64 = 6;
pub const PARTIALLY: u64 = 7;
/// And of a sector bitmap block.
pub const BITMAP_PRESENT: u64 = 6;

pub fn state(entry: u64) -> u64 {
    entry & 7
}

pub fn offset(entry: u64) -> u64 {
    entry >> 20 << 20
}
