//! Partition tables, written as Windows writes them: GPT with a protective MBR, or a plain MBR.
//!
//! Sources: UEFI Specification 2.10, chapter 5; Microsoft, "PARTITION_INFORMATION_GPT".

use std::io::{Result, Write};
use std::os::unix::fs::FileExt;

use crate::layout::{Format, Kind, Layout, Partition, SECTOR};

const EFI: &str = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B";
const MSR: &str = "E3C9E316-0B5C-4DB8-817D-F92DF00215AE";
const BASIC: &str = "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7";
const ENTRIES: usize = 128;
const ENTRY: usize = 128;

/// A GUID's 16 bytes as they lie on disk.
pub fn guid(text: &str) -> Option<[u8; 16]> {
    let parts: Vec<&str> = text.trim_matches(['{', '}']).split('-').collect();
    if parts.iter().map(|part| part.len()).ne([8, 4, 4, 4, 12]) {
        return None;
    }
    let hex = parts.concat();
    let mut bytes = [0; 16];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(index * 2..index * 2 + 2)?, 16).ok()?;
    }
    bytes[..4].reverse();
    bytes[4..6].reverse();
    bytes[6..8].reverse();
    Some(bytes)
}

pub fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 {
                crc >> 1 ^ 0xEDB8_8320
            } else {
                crc >> 1
            }
        })
    })
}

/// Writes a GPT to both ends of the disk. `ids` are the unique GUIDs: the disk's, then one a partition.
pub fn write_gpt(disk: &impl FileExt, bytes: u64, layout: &Layout, ids: &[[u8; 16]]) -> Result<()> {
    let last = bytes / SECTOR - 1;
    let table_sectors = (ENTRIES * ENTRY) as u64 / SECTOR;
    let mut table = vec![0u8; ENTRIES * ENTRY];
    for (partition, id) in layout.partitions.iter().zip(&ids[1..]) {
        let at = (partition.number as usize - 1) * ENTRY;
        table[at..at + ENTRY].copy_from_slice(&gpt_entry(partition, id));
    }
    let header = |here: u64, other: u64, table_at: u64| {
        let mut sector = vec![0u8; SECTOR as usize];
        sector[..8].copy_from_slice(b"EFI PART");
        sector[8..12].copy_from_slice(&0x0001_0000u32.to_le_bytes());
        sector[12..16].copy_from_slice(&92u32.to_le_bytes());
        for (at, number) in [
            (24, here),
            (32, other),
            (40, 2 + table_sectors),
            (48, last - table_sectors - 1),
            (72, table_at),
        ] {
            sector[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        sector[56..72].copy_from_slice(&ids[0]);
        for (at, number) in [
            (80, ENTRIES as u32),
            (84, ENTRY as u32),
            (88, crc32(&table)),
        ] {
            sector[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        let crc = crc32(&sector[..92]);
        sector[16..20].copy_from_slice(&crc.to_le_bytes());
        sector
    };
    let mut mbr = vec![0u8; SECTOR as usize];
    let size = u32::try_from(last).unwrap_or(u32::MAX);
    mbr[446..462].copy_from_slice(&mbr_entry(false, 0xEE, 1, size));
    mbr[510..].copy_from_slice(&[0x55, 0xAA]);
    disk.write_all_at(&mbr, 0)?;
    disk.write_all_at(&header(1, last, 2), SECTOR)?;
    disk.write_all_at(&table, 2 * SECTOR)?;
    disk.write_all_at(&table, (last - table_sectors) * SECTOR)?;
    disk.write_all_at(&header(last, 1, last - table_sectors), last * SECTOR)
}

fn gpt_entry(partition: &Partition, id: &[u8; 16]) -> [u8; ENTRY] {
    let (kind, name) = match partition.kind {
        Kind::Efi => (EFI, "EFI system partition"),
        Kind::Msr => (MSR, "Microsoft reserved partition"),
        Kind::Primary => (BASIC, "Basic data partition"),
    };
    let kind = partition
        .type_id
        .as_deref()
        .and_then(guid)
        .or_else(|| guid(kind))
        .unwrap_or_default();
    let mut entry = [0; ENTRY];
    entry[..16].copy_from_slice(&kind);
    entry[16..32].copy_from_slice(id);
    entry[32..40].copy_from_slice(&(partition.start / SECTOR).to_le_bytes());
    entry[40..48]
        .copy_from_slice(&((partition.start + partition.length) / SECTOR - 1).to_le_bytes());
    for (slot, unit) in entry[56..].chunks_exact_mut(2).zip(name.encode_utf16()) {
        slot.copy_from_slice(&unit.to_le_bytes());
    }
    entry
}

fn mbr_entry(active: bool, kind: u8, start: u32, sectors: u32) -> [u8; 16] {
    let mut entry = [0; 16];
    entry[0] = if active { 0x80 } else { 0 };
    entry[1..4].copy_from_slice(&[0xFE, 0xFF, 0xFF]);
    entry[4] = kind;
    entry[5..8].copy_from_slice(&[0xFE, 0xFF, 0xFF]);
    entry[8..12].copy_from_slice(&start.to_le_bytes());
    entry[12..].copy_from_slice(&sectors.to_le_bytes());
    entry
}

/// Writes an MBR with `boot` (at most 440 bytes) as its code, and the disk signature.
pub fn write_mbr(disk: &impl FileExt, layout: &Layout, boot: &[u8], signature: u32) -> Result<()> {
    let mut sector = Vec::with_capacity(SECTOR as usize);
    sector.write_all(&boot[..boot.len().min(440)])?;
    sector.resize(440, 0);
    sector.write_all(&signature.to_le_bytes())?;
    sector.resize(446, 0);
    for partition in &layout.partitions {
        let own = match partition.format {
            Some(Format::Fat32) => 0x0C,
            _ => 0x07,
        };
        let typed = partition
            .type_id
            .as_deref()
            .and_then(|text| u8::from_str_radix(text.trim_start_matches("0x"), 16).ok());
        let start = (partition.start / SECTOR) as u32;
        sector.write_all(&mbr_entry(
            partition.active,
            typed.unwrap_or(own),
            start,
            (partition.length / SECTOR) as u32,
        ))?;
    }
    sector.resize(510, 0);
    sector.write_all(&[0x55, 0xAA])?;
    disk.write_all_at(&sector, 0)
}

/// Clears both ends of the disk, so that no older table or file system shows through.
pub fn wipe(disk: &impl FileExt, bytes: u64) -> Result<()> {
    let zeros = vec![0; 1 << 20];
    disk.write_all_at(&zeros, 0)?;
    disk.write_all_at(&zeros, bytes.saturating_sub(1 << 20) / SECTOR * SECTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_of_the_check_string() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn guids_lie_mixed_endian() {
        assert_eq!(
            guid("{C12A7328-F81F-11D2-BA4B-00A0C93EC93B}").map(|b| b[..4].to_vec()),
            Some(vec![0x28, 0x73, 0x2A, 0xC1])
        );
        assert_eq!(guid("C12A7328"), None);
    }
}
