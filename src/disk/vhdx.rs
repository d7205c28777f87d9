//! VHDX, Hyper-V's disk format, fixed and dynamic.
//!
//! Refused: differencing disks, and disks whose log is not empty: the log is part of the content until it is replayed.
//!
//! Source: Microsoft, [MS-VHDX] (little-endian; checksums are CRC-32C with their own field taken as zero).

mod region;

use std::collections::BTreeMap;
use std::path::Path;

use crc::{CRC_32_ISCSI, Crc};

use super::blocks::{Blocks, MOST, damaged, refused};
use super::{Disk, RawDisk};
use crate::error::Result;
use region::{Item, Regions};

const FORMAT: &str = "VHDX";
const MIB: u64 = 1 << 20;
const KIB64: u64 = 64 << 10;
/// Sectors that one block of the sector bitmap covers: 2.2, "chunk ratio".
const BITMAP_SECTORS: u64 = 1 << 23;
const LARGEST: u64 = 64 << 40;

static CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

pub fn open(path: &Path) -> Result<Blocks> {
    let file = RawDisk::open(path)?;
    let header = header(&file)?;
    if header.log != [0; 16] {
        return Err(refused(
            &file,
            "was not closed in order: its log holds changes that the disk lacks",
            format!(
                "shut that machine down, or replay the log: qemu-img check -r all {}",
                path.display()
            ),
        ));
    }
    let regions = Regions::read(&file)?;
    let shape = Shape::read(&file, &regions)?;
    let places = shape.places(&file, &regions)?;
    Blocks {
        len: shape.len,
        block: shape.block,
        sector: shape.sector,
        places,
        written: BTreeMap::new(),
        file,
    }
    .check(FORMAT)
}

fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([b[at], b[at + 1]])
}

fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from(u32_at(b, at)) | u64::from(u32_at(b, at + 4)) << 32
}

/// `len` bytes at an offset that the file may not have.
fn read(file: &RawDisk, at: u64, len: u64, what: &str) -> Result<Vec<u8>> {
    if at.checked_add(len).is_none_or(|end| end > file.len()) {
        let why = format!("{what} lies outside the file");
        return Err(damaged(file, FORMAT, at, why));
    }
    let mut bytes = vec![0; len as usize];
    file.read_at(at, &mut bytes)?;
    Ok(bytes)
}

/// Whether a structure has its signature and the right checksum in bytes 4 to 8.
fn sound(bytes: &[u8], signature: &[u8; 4]) -> bool {
    let mut sum = CRC.digest();
    sum.update(&bytes[..4]);
    sum.update(&[0; 4]);
    sum.update(&bytes[8..]);
    bytes.starts_with(signature) && u32_at(bytes, 4) == sum.finalize()
}

struct Header {
    sequence: u64,
    log: [u8; 16],
    bytes: Vec<u8>,
}

/// The newer of the two headers; a header that was being written when the machine stopped has a wrong checksum.
fn header(file: &RawDisk) -> Result<Header> {
    let mut newest: Option<Header> = None;
    for at in [KIB64, 2 * KIB64] {
        let bytes = read(file, at, 4096, "a header")?;
        if !sound(&bytes, b"head") {
            continue;
        }
        let sequence = u64_at(&bytes, 8);
        let mut log = [0; 16];
        log.copy_from_slice(&bytes[48..64]);
        match &newest {
            Some(other) if other.sequence > sequence => {}
            Some(other) if other.sequence == sequence && other.bytes != bytes => {
                return Err(damaged(
                    file,
                    FORMAT,
                    at,
                    "two headers that differ have the same number",
                ));
            }
            _ => {
                newest = Some(Header {
                    sequence,
                    log,
                    bytes,
                });
            }
        }
    }
    let Some(header) = newest else {
        let why = "neither of the two headers is whole";
        return Err(damaged(file, FORMAT, KIB64, why));
    };
    let version = u16_at(&header.bytes, 66);
    if version != 1 {
        return Err(damaged(file, FORMAT, KIB64, format!("version {version}")));
    }
    Ok(header)
}

/// What the metadata says of the disk.
struct Shape {
    len: u64,
    block: u64,
    sector: u64,
}

impl Shape {
    fn read(file: &RawDisk, regions: &Regions) -> Result<Self> {
        let items = regions.items(file)?;
        let at = regions.metadata.start;
        let bad = |why: String| damaged(file, FORMAT, at, why);
        let item = |item: Item, len: u64| {
            let found = items
                .get(&item)
                .ok_or_else(|| bad(format!("no {item:?} in the metadata")))?;
            if found.end - found.start != len {
                return Err(bad(format!(
                    "{item:?} has {} bytes",
                    found.end - found.start
                )));
            }
            read(file, found.start, len, "the metadata")
        };
        let parameters = item(Item::FileParameters, 8)?;
        if u32_at(&parameters, 4) & 2 != 0 {
            return Err(refused(
                file,
                "is a differencing VHDX: part of the disk is in its parent",
                "merge it first: Merge-VHD",
            ));
        }
        let shape = Self {
            block: u32_at(&parameters, 0).into(),
            len: u64_at(&item(Item::DiskSize, 8)?, 0),
            sector: u32_at(&item(Item::LogicalSector, 4)?, 0).into(),
        };
        if !shape.block.is_power_of_two() || !(MIB..=256 * MIB).contains(&shape.block) {
            return Err(bad(format!("blocks of {} bytes", shape.block)));
        }
        if ![512, 4096].contains(&shape.sector) {
            return Err(bad(format!("sectors of {} bytes", shape.sector)));
        }
        if shape.len == 0 || shape.len > LARGEST || !shape.len.is_multiple_of(shape.sector) {
            return Err(bad(format!("a disk of {} bytes", shape.len)));
        }
        Ok(shape)
    }

    /// Reads the block allocation table. After each chunk of payload blocks stands the entry of its sector bitmap, which
    /// only differencing disks use.
    fn places(&self, file: &RawDisk, regions: &Regions) -> Result<Vec<u64>> {
        let ratio = BITMAP_SECTORS * self.sector / self.block;
        let count = self.len.div_ceil(self.block);
        let entries = count + (count - 1) / ratio;
        let table = &regions.table;
        if entries * 8 > table.end - table.start || count > MOST {
            return Err(damaged(
                file,
                FORMAT,
                table.start,
                format!("a block table too small for {count} blocks"),
            ));
        }
        let bytes = read(file, table.start, entries * 8, "the block table")?;
        let mut places = Vec::new();
        for i in 0..count {
            let at = (i + i / ratio) * 8;
            let entry = u64_at(&bytes, at as usize);
            places.push(match entry & 7 {
                // Not present, undefined, zero, unmapped: without a parent they all read as zeros.
                0..=3 => 0,
                6 if entry >> 20 != 0 => entry & !(MIB - 1),
                state => {
                    let why = format!("block {i} in state {state}, entry {entry:#x}");
                    return Err(damaged(file, FORMAT, table.start + at, why));
                }
            });
        }
        Ok(places)
    }
}
