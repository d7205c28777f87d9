//! The partitions of a disk, GPT or MBR.
//!
//! Tables count in the disk's own sectors, 512 or 4096 bytes. Extended MBR partitions are listed as one; what is inside them is not.

use serde::Serialize;

use super::{Disk, DiskReader, SECTOR};
use crate::bytes::u32_le;
use winimg_base::error::{Error, Result};

/// Bytes of a GPT header (UEFI 2.10, 5.3.2).
const HEADER: usize = 92;
/// Most entries that are believed; Windows writes 128.
const MOST: u32 = 1024;

/// How the disk is divided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Table {
    pub style: Style,
    pub partitions: Vec<Partition>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    Gpt,
    Mbr,
    /// Neither: an empty disk, or a file system without a table.
    None,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Partition {
    /// As `diskpart` counts: from 1.
    pub number: u32,
    /// Bytes.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// GPT type GUID in capitals, or the MBR type as `0x07`.
    pub kind: String,
    /// The type in words, where it is one that Windows makes.
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

fn role(kind: &str) -> Option<&'static str> {
    ROLES.iter().find(|(k, _)| *k == kind).map(|(_, r)| *r)
}

/// Reads the partition table. A damaged primary GPT is read from its backup; one with neither is an error.
pub fn table(disk: &dyn Disk) -> Result<Table> {
    let empty = Table {
        style: Style::None,
        partitions: Vec::new(),
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
        return gpt_table(disk);
    }
    let partitions: Vec<Partition> = (1..)
        .zip(records)
        .filter(|(_, r)| r.os_type != 0 && r.lb_size != 0)
        .map(|(number, r)| {
            let kind = format!("{:#04X}", r.os_type).replace("0X", "0x");
            Partition {
                number,
                start: u64::from(r.lb_start) * disk.sector(),
                len: u64::from(r.lb_size) * disk.sector(),
                role: role(&kind),
                kind,
                name: String::new(),
                active: r.boot_indicator & 0x80 != 0,
            }
        })
        .collect();
    // A volume's boot sector ends in the same signature as an MBR; its "partitions" lie outside the disk.
    if partitions.iter().any(|p| p.start + p.len > disk.len()) {
        return Ok(empty);
    }
    Ok(Table {
        style: Style::Mbr,
        partitions,
    })
}

/// Refuses what the `gpt` crate takes for impossible or believes: entries of another size than all known systems write,
/// and as many as fill the memory. A header whose own sum is wrong is not looked at: the crate does not either.
fn usable(disk: &dyn Disk) -> Result<()> {
    let sector = disk.sector();
    for at in [sector, (disk.len() / sector).saturating_sub(1) * sector] {
        let mut header = [0; HEADER];
        if disk.read_at(at, &mut header).is_err() || !header.starts_with(b"EFI PART") {
            continue;
        }
        let mut unsummed = header;
        unsummed[16..20].fill(0);
        let (count, each) = (u32_le(&header, 80), u32_le(&header, 84));
        if libdeflater::crc32(&unsummed) == u32_le(&header, 16) && (each != 128 || count > MOST) {
            return Err(Error::failed("the disk's partition table cannot be read")
                .at(format!("offset {at:#x} of the disk"))
                .expected(format!("at most {MOST} entries of 128 bytes"))
                .found(format!("{count} of {each}")));
        }
    }
    Ok(())
}

fn gpt_table(disk: &dyn Disk) -> Result<Table> {
    usable(disk)?;
    let sector = disk.sector();
    let table = gpt::GptConfig::new()
        .writable(false)
        .logical_block_size(if sector == 4096 {
            gpt::disk::LogicalBlockSize::Lb4096
        } else {
            gpt::disk::LogicalBlockSize::Lb512
        })
        .open_from_device(DiskReader::new(disk))
        .map_err(|e| {
            Error::failed("neither of the disk's partition tables can be read").because(e)
        })?;
    let partitions = table
        .partitions()
        .iter()
        .map(|(number, p)| {
            let kind = p.part_type_guid.guid.to_string().to_uppercase();
            Partition {
                number: *number,
                start: p.first_lba.saturating_mul(sector),
                len: (p.last_lba.saturating_add(1))
                    .saturating_sub(p.first_lba)
                    .saturating_mul(sector),
                role: role(&kind),
                kind,
                name: p.name.clone(),
                active: false,
            }
        })
        .collect();
    Ok(Table {
        style: Style::Gpt,
        partitions,
    })
}

impl Table {
    /// The partition that holds Windows: the largest of basic data (GPT) or NTFS (MBR).
    pub fn windows(&self) -> Option<&Partition> {
        self.partitions
            .iter()
            .filter(|p| matches!(p.role, Some("basic data" | "NTFS")))
            .max_by_key(|p| p.len)
    }
}
