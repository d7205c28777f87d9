//! VMDKs of the kind `monolithicSparse`: one file, descriptor inside, grains not compressed.
//!
//! Refused: snapshots (part of the disk is in a parent) and disks that a program has not closed.
//!
//! Source: VMware, "Virtual Disk Format 5.0" technical note (little-endian, offsets in sectors of 512 bytes).

use std::collections::BTreeMap;
use std::path::Path;

use super::blocks::{Blocks, MOST, damaged, part, refused};
use super::{Disk, RawDisk, SECTOR};
use crate::bytes::{u32_le, u64_le, words_le};
use winimg_base::error::Result;

const FORMAT: &str = "sparse VMDK";
/// Grains in each grain table; VMware's library knows no other number.
const TABLE: u64 = 512;
/// The flag that a table entry of 1 means zeros.
const ZEROED: u32 = 4;

pub fn open(path: &Path) -> Result<Blocks> {
    let file = RawDisk::open(path)?;
    let mut h = [0; 512];
    file.read_at(0, &mut h)?;
    let bad = |at: u64, why: String| Err(damaged(&file, FORMAT, at, why));
    let (version, flags) = (u32_le(&h, 4), u32_le(&h, 8));
    if !(1..=3).contains(&version) || flags & 0x0003_0000 != 0 {
        return bad(4, format!("version {version}, flags {flags:#x}"));
    }
    if h[72] != 0 {
        return Err(refused(
            &file,
            "was not closed by the program that wrote it",
            "shut that machine down in order, or convert a copy: qemu-img convert -O raw",
        ));
    }
    let (capacity, grain) = (u64_le(&h, 12), u64_le(&h, 20));
    let count = capacity.div_ceil(grain.max(1));
    if !grain.is_power_of_two() || !(8..=1 << 16).contains(&grain) || count > 2 * MOST {
        return bad(12, format!("{capacity} sectors in grains of {grain}"));
    }
    let entries = u32_le(&h, 44);
    if u64::from(entries) != TABLE {
        return bad(44, format!("grain tables with {entries} entries"));
    }
    check_descriptor(&file, u64_le(&h, 28), u64_le(&h, 36))?;
    let tables = numbers(&file, u64_le(&h, 56), count.div_ceil(TABLE))?;
    let mut places = Vec::new();
    for table in tables {
        let left = (count - places.len() as u64).min(TABLE);
        if table == 0 {
            places.resize(places.len() + left as usize, 0);
            continue;
        }
        for entry in numbers(&file, table.into(), left)? {
            let zeros = entry == 1 && flags & ZEROED != 0;
            places.push(if zeros { 0 } else { u64::from(entry) * SECTOR });
        }
    }
    Blocks {
        len: capacity * SECTOR,
        block: grain * SECTOR,
        places,
        written: BTreeMap::new(),
        file,
    }
    .check(FORMAT)
}

/// `count` words at a sector of the file.
fn numbers(file: &RawDisk, sector: u64, count: u64) -> Result<Vec<u32>> {
    if sector == 0 {
        return Err(damaged(
            file,
            FORMAT,
            0,
            "a grain table in the place of the header",
        ));
    }
    let at = sector.saturating_mul(SECTOR);
    let bytes = part(file, FORMAT, at, count * 4, "a grain table")?;
    Ok(words_le(&bytes).collect())
}

/// The text says whether this file is the whole disk.
fn check_descriptor(file: &RawDisk, sector: u64, sectors: u64) -> Result<()> {
    let (at, len) = (
        sector.saturating_mul(SECTOR),
        sectors.saturating_mul(SECTOR),
    );
    if sector == 0 || len > 1 << 20 || at.checked_add(len).is_none_or(|end| end > file.len()) {
        return Err(refused(
            file,
            "has no descriptor inside: it is one piece of a VMDK in several files",
            "convert the whole first: qemu-img convert -O raw DESCRIPTOR.vmdk disk.raw",
        ));
    }
    let mut bytes = vec![0; len as usize];
    file.read_at(at, &mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|l| l.split_once('='));
        let found = lines.find(|(key, _)| key.trim().eq_ignore_ascii_case(name));
        found.map(|(_, v)| v.trim().trim_matches('"').to_owned())
    };
    match (
        value("createType").as_deref(),
        value("parentCID").as_deref(),
    ) {
        (Some("monolithicSparse"), Some("ffffffff")) => Ok(()),
        (Some("monolithicSparse"), _) => Err(refused(
            file,
            "is a snapshot: part of the disk is in its parent",
            "consolidate the snapshots first",
        )),
        (kind, _) => Err(refused(
            file,
            format!(
                "is a VMDK of the kind {}",
                kind.unwrap_or("that it does not say")
            ),
            "convert it first: qemu-img convert -O raw",
        )),
    }
}
