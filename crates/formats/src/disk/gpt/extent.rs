//! Compares the sizes in the partition table and in the volumes of a disk with the disk itself.
//!
//! A truncated disk can be read up to its end and passes most checks of its content, so this comes
//! first.
//!
//! Sources: UEFI 2.10, 5.3 (GPT); the boot sectors documented by the Linux-NTFS project (NTFS) and
//! by Microsoft (FAT: "FAT32 File System Specification"; exFAT: "exFAT file system specification").

use super::super::{COPY_AGAIN, Disk, SECTOR};
use super::{DiskPartition, PartitionStyle, PartitionTable};
use crate::bytes::{u16_le, u32_le, u64_le};
use winimg_base::error::{Error, Result};

/// Refuses a disk that ends before the sector of its backup GPT.
pub(super) fn check_backup_place(disk: &dyn Disk, backup: u64) -> Result<()> {
    let needed = backup.saturating_add(1).saturating_mul(disk.sector_size());
    if needed <= disk.len() {
        return Ok(());
    }
    Err(
        Error::failed("the disk is truncated: its partition table was written for a larger one")
            .expected(format!("{needed} bytes"))
            .found(format!("{} bytes", disk.len()))
            .cure(COPY_AGAIN),
    )
}

/// Refuses partitions and volumes that cannot be on this disk, and reports all problems at once.
pub(super) fn check(disk: &dyn Disk, table: &PartitionTable) -> Result<()> {
    if table.style == PartitionStyle::None {
        return Ok(());
    }
    let mut complaints = Vec::new();
    if !disk.len().is_multiple_of(SECTOR) {
        let len = disk.len();
        complaints.push(format!(
            "its {len} bytes are not a multiple of {SECTOR}-byte sectors"
        ));
    }
    complaints.extend(
        table
            .partitions
            .iter()
            .filter_map(|p| find_outside(p, disk.len())),
    );
    complaints.extend(find_overlaps(&table.partitions));
    if complaints.is_empty() {
        complaints = too_large(disk, &table.partitions)?;
    }
    match complaints.as_slice() {
        [] => Ok(()),
        [one] => Err(Error::failed(format!("the disk is damaged: {one}")).cure(COPY_AGAIN)),
        all => Err(Error::failed("the disk is damaged")
            .lines(all)
            .cure(COPY_AGAIN)),
    }
}

fn find_outside(partition: &DiskPartition, len: u64) -> Option<String> {
    let number = partition.number;
    let end = compute_end(partition);
    if partition.len == 0 {
        return Some(format!("partition {number} ends before it starts"));
    }
    (end > len).then(|| {
        format!("partition {number} ends beyond the end of the disk, at {end} of {len} bytes")
    })
}

fn find_overlaps(partitions: &[DiskPartition]) -> Vec<String> {
    let mut by_start: Vec<&DiskPartition> = partitions.iter().collect();
    by_start.sort_by_key(|p| p.start);
    let mut complaints = Vec::new();
    let mut furthest: Option<&DiskPartition> = None;
    for next in by_start {
        if let Some(before) = furthest
            && compute_end(before) > next.start
        {
            let (a, b) = (
                before.number.min(next.number),
                before.number.max(next.number),
            );
            complaints.push(format!("partitions {a} and {b} overlap"));
        }
        if furthest.is_none_or(|before| compute_end(before) < compute_end(next)) {
            furthest = Some(next);
        }
    }
    complaints
}

fn compute_end(partition: &DiskPartition) -> u64 {
    partition.start.saturating_add(partition.len)
}

fn too_large(disk: &dyn Disk, partitions: &[DiskPartition]) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for partition in partitions.iter().filter(|p| p.len >= SECTOR) {
        let mut boot = [0; 512];
        disk.read_at(partition.start, &mut boot)?;
        let Some((system, claimed)) = detect_volume(&boot) else {
            continue;
        };
        if claimed > partition.len {
            let DiskPartition { number, len, .. } = partition;
            complaints.push(format!(
                "the {system} volume of partition {number} has {claimed} bytes, but the \
                 partition {len}"
            ));
        }
    }
    Ok(complaints)
}

/// Returns the file system of a boot sector, and its volume size in bytes. `None`: not a known boot
/// sector.
pub(super) fn detect_volume(boot: &[u8; 512]) -> Option<(&'static str, u64)> {
    let jumps = matches!(boot[0], 0xeb | 0xe9);
    if !jumps || boot[510..] != [0x55, 0xaa] {
        return None;
    }
    let sector = u64::from(u16_le(boot, 11));
    if &boot[3..11] == b"NTFS    " {
        return Some(("NTFS", u64_le(boot, 40).saturating_mul(sector)));
    }
    if &boot[3..11] == b"EXFAT   " {
        let shift = u32::from(boot[108]);
        let bytes = u64_le(boot, 72).checked_mul(1u64.checked_shl(shift)?);
        return Some(("exFAT", bytes.unwrap_or(u64::MAX)));
    }
    if &boot[54..57] == b"FAT" || &boot[82..87] == b"FAT32" {
        let sectors = match u16_le(boot, 19) {
            0 => u64::from(u32_le(boot, 32)),
            short => u64::from(short),
        };
        return Some(("FAT", sectors.saturating_mul(sector)));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(number: u32, start: u64, len: u64) -> DiskPartition {
        DiskPartition {
            number,
            start,
            len,
            kind: String::new(),
            role: None,
            name: String::new(),
            active: false,
        }
    }

    #[test]
    fn partitions_overlap_when_they_share_a_byte() {
        let found = |parts: &[(u64, u64)]| {
            let parts = (1..)
                .zip(parts)
                .map(|(n, (start, len))| partition(n, *start, *len));
            find_overlaps(&parts.collect::<Vec<_>>()).join("; ")
        };
        assert_eq!(found(&[(0, 10), (10, 5), (20, 5)]), "");
        assert_eq!(found(&[(20, 5), (0, 21)]), "partitions 1 and 2 overlap");
        // One around two others.
        assert_eq!(
            found(&[(0, 100), (10, 5), (50, 5)]),
            "partitions 1 and 2 overlap; partitions 1 and 3 overlap"
        );
    }

    #[test]
    fn a_boot_sector_says_how_large_its_volume_is() {
        let boot = |parts: &[(usize, &[u8])]| {
            let mut boot = [0; 512];
            boot[510..].copy_from_slice(&[0x55, 0xaa]);
            boot[0] = 0xeb;
            for (at, bytes) in parts {
                boot[*at..*at + bytes.len()].copy_from_slice(bytes);
            }
            detect_volume(&boot)
        };
        let ntfs: &[(usize, &[u8])] = &[(3, b"NTFS    "), (11, &[0, 2]), (40, &[7])];
        assert_eq!(boot(ntfs), Some(("NTFS", 7 * 512)));
        let fat16: &[(usize, &[u8])] = &[(54, b"FAT16"), (11, &[0, 2]), (19, &[9]), (32, &[1])];
        assert_eq!(boot(fat16), Some(("FAT", 9 * 512)));
        let fat32: &[(usize, &[u8])] = &[(82, b"FAT32"), (11, &[0, 16]), (32, &[5])];
        assert_eq!(boot(fat32), Some(("FAT", 5 * 4096)));
        let exfat: &[(usize, &[u8])] = &[(3, b"EXFAT   "), (72, &[4]), (108, &[9])];
        assert_eq!(boot(exfat), Some(("exFAT", 4 * 512)));
        assert_eq!(boot(&[(0, b"\x33\xc0\x8e\xd0")]), None);
    }
}
