//! The partitions of a disk, GPT or MBR.
//!
//! Tables count in the disk's own sectors, 512 or 4096 bytes. An extended MBR partition is listed
//! as one; the logical partitions inside it are not.

mod extent;

use std::collections::BTreeMap;

use gpt::header::Header;
use serde::Serialize;
use uuid::Uuid;

use super::{COPY_AGAIN, Disk, DiskReader, SECTOR};
use crate::bytes::{u16_le, u32_le, u64_le};
use winimg_base::error::{Error, Result};

/// Bytes of a GPT header (UEFI 2.10, 5.3.2).
const HEADER: usize = 92;
/// Maximum number of entries that are accepted; Windows writes 128.
const MAX_ENTRIES: u32 = 1024;

/// The partition table of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartitionTable {
    pub style: PartitionStyle,
    pub partitions: Vec<DiskPartition>,
    /// Damage that does not affect the list of partitions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PartitionStyle {
    Gpt,
    Mbr,
    /// Neither: an empty disk, or a file system without a table.
    None,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiskPartition {
    /// Number as in `diskpart`, from 1.
    pub number: u32,
    /// Bytes.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// GPT type GUID in capitals, or the MBR type as `0x07`.
    pub kind: String,
    /// Name of the type, if it is one that Windows creates.
    pub role: Option<&'static str>,
    /// GPT name; empty on MBR.
    pub name: String,
    /// MBR only: the partition that the BIOS boots.
    pub active: bool,
}

/// Microsoft: "PARTITION_INFORMATION_GPT structure", "Disk partition types".
const ROLES: &[(&str, &str)] = &[
    ("C12A7328-F81F-11D2-BA4B-00A0C93EC93B", "EFI system"),
    ("E3C9E316-0B5C-4DB8-817D-F92DF00215AE", "Microsoft reserved"),
    ("EBD0A0A2-B9E5-4433-87C0-68B6B72699C7", "basic data"),
    ("DE94BBA4-06D1-4D40-A16A-BFD50179D6AC", "Windows recovery"),
    ("0x07", "NTFS"),
    ("0x27", "Windows recovery"),
    ("0x0C", "FAT32"),
    ("0xEE", "GPT protective"),
];

fn find_role(kind: &str) -> Option<&'static str> {
    ROLES.iter().find(|(k, _)| *k == kind).map(|(_, r)| *r)
}

/// Reads the partition table and checks it against the disk. One damaged copy of a GPT is only a
/// doubt. Refuses a GPT with two damaged copies, a disk that is shorter than in its table,
/// partitions that overlap or end beyond the disk, and volumes that are larger than their
/// partition.
pub fn read_table(disk: &dyn Disk) -> Result<PartitionTable> {
    let table = read(disk)?;
    extent::check(disk, &table)?;
    Ok(table)
}

fn read(disk: &dyn Disk) -> Result<PartitionTable> {
    let empty = PartitionTable {
        style: PartitionStyle::None,
        partitions: Vec::new(),
        doubts: Vec::new(),
    };
    if disk.len() < SECTOR {
        return Ok(empty);
    }
    let mut sector = [0; 512];
    disk.read_at(0, &mut sector)?;
    let lb = gpt::disk::LogicalBlockSize::Lb512;
    let Ok(mbr) = gpt::mbr::ProtectiveMBR::from_bytes(&sector, lb) else {
        return Ok(empty);
    };
    let records: Vec<_> = (0..4).filter_map(|i| mbr.partition(i)).collect();
    if records.iter().any(|r| r.os_type == 0xEE) {
        return read_gpt(disk);
    }
    // A volume's boot sector ends in the same signature as an MBR.
    let is_mbr = records.iter().all(|r| r.boot_indicator & 0x7f == 0);
    if !is_mbr || extent::detect_volume(&sector).is_some() {
        return Ok(empty);
    }
    let partitions = (1..)
        .zip(records)
        .filter(|(_, r)| r.os_type != 0 && r.lb_size != 0)
        .map(|(number, r)| {
            let kind = format!("{:#04X}", r.os_type).replace("0X", "0x");
            DiskPartition {
                number,
                start: u64::from(r.lb_start) * disk.sector_size(),
                len: u64::from(r.lb_size) * disk.sector_size(),
                role: find_role(&kind),
                kind,
                name: String::new(),
                active: r.boot_indicator & 0x80 != 0,
            }
        })
        .collect();
    Ok(PartitionTable {
        style: PartitionStyle::Mbr,
        partitions,
        doubts: Vec::new(),
    })
}

/// One of the two copies of a GPT, with verified checksums.
struct GptCopy {
    header: Header,
    partitions: BTreeMap<u32, gpt::partition::Partition>,
}

/// Reads the copy with its header at a sector. The inner error describes the damage. The outer one
/// refuses values for which the `gpt` crate panics or exhausts memory: an entry size that no known
/// system writes, and excessive numbers of entries.
fn read_copy(disk: &dyn Disk, at: u64) -> Result<Result<GptCopy, String>> {
    let sector = disk.sector_size();
    let mut bytes = [0; HEADER];
    let offset = at.saturating_mul(sector);
    if disk.read_at(offset, &mut bytes).is_err() {
        return Ok(Err("it is beyond the end of the disk".into()));
    }
    if !bytes.starts_with(b"EFI PART") {
        return Ok(Err("there is no header".into()));
    }
    let mut without_checksum = bytes;
    without_checksum[16..20].fill(0);
    if libdeflater::crc32(&without_checksum) != u32_le(&bytes, 16) {
        return Ok(Err("the checksum of its header is wrong".into()));
    }
    let (count, each) = (u32_le(&bytes, 80), u32_le(&bytes, 84));
    if each != 128 || count > MAX_ENTRIES {
        return Err(Error::failed("the disk's partition table cannot be read")
            .at(format!("offset {offset:#x} of the disk"))
            .expected(format!("at most {MAX_ENTRIES} entries of 128 bytes"))
            .found(format!("{count} of {each}")));
    }
    let header = Header {
        signature: "EFI PART".into(),
        revision: (u16_le(&bytes, 10), u16_le(&bytes, 8)),
        header_size_le: u32_le(&bytes, 12),
        crc32: u32_le(&bytes, 16),
        reserved: 0,
        current_lba: u64_le(&bytes, 24),
        backup_lba: u64_le(&bytes, 32),
        first_usable: u64_le(&bytes, 40),
        last_usable: u64_le(&bytes, 48),
        disk_guid: Uuid::from_slice_le(&bytes[56..72]).unwrap_or_default(),
        part_start: u64_le(&bytes, 72),
        num_parts: count,
        part_size: each,
        crc32_parts: u32_le(&bytes, 88),
    };
    if header.current_lba != at {
        let own = header.current_lba;
        return Ok(Err(format!("its header says that it is at sector {own}")));
    }
    let size = match sector {
        4096 => gpt::disk::LogicalBlockSize::Lb4096,
        _ => gpt::disk::LogicalBlockSize::Lb512,
    };
    let read = gpt::partition::file_read_partitions(&mut DiskReader::new(disk), &header, size);
    Ok(match read {
        Ok(partitions) => Ok(GptCopy { header, partitions }),
        Err(_) => Err("the checksum of its entries is wrong".into()),
    })
}

fn read_gpt(disk: &dyn Disk) -> Result<PartitionTable> {
    let sector = disk.sector_size();
    let last = (disk.len() / sector).saturating_sub(1);
    let primary = read_copy(disk, 1)?;
    if let Ok(primary) = &primary {
        extent::check_backup_place(disk, primary.header.backup_lba)?;
    }
    let backup_at = match &primary {
        Ok(primary) => primary.header.backup_lba,
        Err(_) => last,
    };
    let backup = read_copy(disk, backup_at)?;
    let mut doubts = Vec::new();
    let used = match (primary, backup) {
        (Ok(primary), Ok(backup)) => {
            let same_disk = primary.header.disk_guid == backup.header.disk_guid;
            if !same_disk || primary.partitions != backup.partitions {
                doubts.push(
                    "the two copies of the partition table differ; the first one is read".into(),
                );
            }
            primary
        }
        (Ok(primary), Err(why)) => {
            doubts.push(format!(
                "the backup of the partition table is damaged: {why}"
            ));
            primary
        }
        (Err(why), Ok(backup)) => {
            doubts.push(format!(
                "the partition table is damaged ({why}) and is read from its backup"
            ));
            backup
        }
        (Err(first), Err(second)) => {
            return Err(
                Error::failed("neither of the disk's partition tables can be read")
                    .lines([
                        format!("the first, at sector 1: {first}"),
                        format!("the backup, at sector {backup_at}: {second}"),
                    ])
                    .cure(COPY_AGAIN),
            );
        }
    };
    let partitions = used.partitions.iter().map(|(number, p)| {
        let kind = p.part_type_guid.guid.to_string().to_uppercase();
        DiskPartition {
            number: *number,
            start: p.first_lba.saturating_mul(sector),
            len: (p.last_lba.saturating_add(1))
                .saturating_sub(p.first_lba)
                .saturating_mul(sector),
            role: find_role(&kind),
            kind,
            name: p.name.clone(),
            active: false,
        }
    });
    Ok(PartitionTable {
        style: PartitionStyle::Gpt,
        partitions: partitions.collect(),
        doubts,
    })
}

impl PartitionTable {
    /// Returns the Windows partition: the largest of basic data (GPT) or NTFS (MBR).
    pub fn find_windows(&self) -> Option<&DiskPartition> {
        self.partitions
            .iter()
            .filter(|p| matches!(p.role, Some("basic data" | "NTFS")))
            .max_by_key(|p| p.len)
    }
}
