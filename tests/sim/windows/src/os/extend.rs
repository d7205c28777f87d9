//! C: takes the free space that lies directly behind it, as Windows' storage management does for cloudbase-init's
//! ExtendVolumesPlugin. Here when C: is unmounted, at the end of the boot that asked for it.
//!
//! A partition behind C:, such as a Recovery of Server 2025, leaves nothing to take.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::disk::crc32;
use crate::layout::SECTOR;
use crate::machine::devices::Device;
use crate::machine::sys;

/// Partitions end at whole MiB.
const MIB: u64 = (1 << 20) / SECTOR;
/// Sectors of the copy of a GPT's table, and its header.
const BACKUP: u64 = 33;

/// Extends partition `number`, then its file system. Nothing to take is no fault.
pub fn volume(disk: &Device, number: u32) -> Result<(), String> {
    let io = |e: std::io::Error| e.to_string();
    let file = File::options()
        .read(true)
        .write(true)
        .open(disk.node())
        .map_err(io)?;
    let mut mbr = [0; 512];
    file.read_exact_at(&mut mbr, 0).map_err(io)?;
    let sectors = disk.bytes / SECTOR;
    let grown = if mbr[450] == 0xEE {
        gpt(&file, sectors, number)?
    } else {
        match mbr_grown(&mbr, sectors, number) {
            Some(mbr) => {
                file.write_all_at(&mbr, 0).map_err(io)?;
                true
            }
            None => false,
        }
    };
    if !grown {
        return Ok(());
    }
    sys::reread_partitions(&file).map_err(io)?;
    drop(file);
    let node = disk.partition(number);
    sys::tool("ntfsresize", &["--force", "--no-progress-bar", &node])?;
    // It asks for a check at the next start, which Windows does not after it extended a volume.
    sys::tool("ntfsfix", &["--clear-dirty", &node])
}

/// The last sector that a partition may have: up to the next one or `end`, both not included, at a whole MiB.
fn last_sector(first: u64, last: u64, others: impl Iterator<Item = u64>, end: u64) -> Option<u64> {
    let limit = others
        .filter(|start| *start > first)
        .min()
        .unwrap_or(end)
        .min(end);
    let grown = (limit / MIB * MIB).checked_sub(1)?;
    (grown > last).then_some(grown)
}

fn mbr_grown(mbr: &[u8; 512], sectors: u64, number: u32) -> Option<[u8; 512]> {
    let word = |at: usize| {
        let bytes: [u8; 4] = mbr.get(at..at + 4)?.try_into().ok()?;
        Some(u64::from(u32::from_le_bytes(bytes)))
    };
    let entry = |index: usize| 446 + 16 * index;
    let index = usize::try_from(number)
        .ok()?
        .checked_sub(1)
        .filter(|index| *index < 4)?;
    let (first, length) = (word(entry(index) + 8)?, word(entry(index) + 12)?);
    let others = (0..4).filter_map(|other| word(entry(other) + 8));
    let last = last_sector(
        first,
        first + length - 1,
        others,
        sectors.min(u64::from(u32::MAX)),
    )?;
    let mut grown = *mbr;
    let length = u32::try_from(last + 1 - first).ok()?;
    grown[entry(index) + 12..entry(index) + 16].copy_from_slice(&length.to_le_bytes());
    Some(grown)
}

/// Writes both tables anew, the second at the disk's end; whether the partition grew.
fn gpt(file: &impl FileExt, sectors: u64, number: u32) -> Result<bool, String> {
    let io = |e: std::io::Error| e.to_string();
    let mut header = [0; 512];
    file.read_exact_at(&mut header, SECTOR).map_err(io)?;
    let mut table = vec![0; 32 * SECTOR as usize];
    file.read_exact_at(&mut table, 2 * SECTOR).map_err(io)?;
    if &header[..8] != b"EFI PART" {
        return Err("the disk has no GPT".to_owned());
    }
    let long = |bytes: &[u8], at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(word)
    };
    let used: Vec<(usize, u64, u64)> = table
        .chunks_exact(128)
        .enumerate()
        .filter(|(_, entry)| entry[..16].iter().any(|byte| *byte != 0))
        .map(|(index, entry)| (index + 1, long(entry, 32), long(entry, 40)))
        .collect();
    let (_, first, last) = *used
        .iter()
        .find(|(held, ..)| *held == number as usize)
        .ok_or("the table has no such partition")?;
    let end = sectors.checked_sub(BACKUP).ok_or("the disk is too small")?;
    let others = used.iter().map(|(_, start, _)| *start);
    let Some(grown) = last_sector(first, last, others, end) else {
        return Ok(false);
    };
    let at = (number as usize - 1) * 128;
    table[at + 40..at + 48].copy_from_slice(&grown.to_le_bytes());
    let mut sector = |here: u64, other: u64, table_at: u64| {
        for (at, number) in [(24, here), (32, other), (48, end - 1), (72, table_at)] {
            header[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        header[88..92].copy_from_slice(&crc32(&table).to_le_bytes());
        header[16..20].copy_from_slice(&[0; 4]);
        let crc = crc32(&header[..92]);
        header[16..20].copy_from_slice(&crc.to_le_bytes());
        header
    };
    let backup = sectors - 1;
    let (first, second) = (sector(1, backup, 2), sector(backup, 1, backup - 32));
    for (bytes, at) in [
        (&table[..], end),
        (&second[..], backup),
        (&table[..], 2),
        (&first[..], 1),
    ] {
        file.write_all_at(bytes, at * SECTOR).map_err(io)?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::write_gpt;
    use crate::layout::{Kind, Layout, Partition};
    use crate::machine::Firmware;

    #[test]
    fn only_the_space_directly_behind_is_taken() {
        let mib = |number: u64| number * MIB;
        let found =
            |others: &[u64], end| last_sector(mib(1), mib(10) - 1, others.iter().copied(), end);
        assert_eq!(found(&[mib(1)], mib(20) + 5), Some(mib(20) - 1));
        assert_eq!(found(&[mib(10)], mib(20)), None, "a partition behind");
        assert_eq!(found(&[mib(12)], mib(20)), Some(mib(12) - 1));
        assert_eq!(found(&[], mib(10) + 7), None, "less than a MiB");
    }

    #[test]
    fn an_mbr_partition_grows() {
        let mut mbr = [0u8; 512];
        mbr[446 + 8..446 + 16].copy_from_slice(&[0, 8, 0, 0, 0, 0x10, 0, 0]);
        let grown = mbr_grown(&mbr, 5 * MIB, 1).unwrap();
        assert_eq!(grown[446 + 8..446 + 16], [0, 8, 0, 0, 0, 0x20, 0, 0]);
        assert_eq!(mbr_grown(&mbr, 3 * MIB, 1), None);
    }

    #[test]
    fn a_gpt_partition_grows_with_the_disk() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(64 << 20).unwrap();
        let partition = |number, kind, start: u64, length: u64| Partition {
            number,
            kind,
            start: start << 20,
            length: length << 20,
            format: None,
            label: String::new(),
            letter: None,
            active: false,
            type_id: None,
        };
        let layout = Layout {
            disk: 0,
            firmware: Firmware::Uefi,
            partitions: vec![
                partition(1, Kind::Efi, 1, 4),
                partition(2, Kind::Primary, 5, 10),
            ],
        };
        write_gpt(&file, 32 << 20, &layout, &[[7; 16], [8; 16], [9; 16]]).unwrap();
        assert_eq!(gpt(&file, (64 << 20) / SECTOR, 2), Ok(true));
        assert_eq!(gpt(&file, (64 << 20) / SECTOR, 2), Ok(false));
        let mut entry = [0; 8];
        file.read_exact_at(&mut entry, 2 * SECTOR + 128 + 40)
            .unwrap();
        assert_eq!(u64::from_le_bytes(entry), 63 * MIB - 1);
        let mut backup = [0; 8];
        file.read_exact_at(&mut backup, (64 << 20) - SECTOR)
            .unwrap();
        assert_eq!(&backup, b"EFI PART");
    }
}
