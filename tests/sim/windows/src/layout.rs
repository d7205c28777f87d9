//! From `DiskConfiguration` to partitions with places on a disk. Pure: nothing is written here.
//!
//! Refuses what Setup refuses: a layout that does not fit the firmware, `Size` with `Extend`, a partition that is
//! modified but not created, a file system on the MSR. Logical drives and disks that keep their partitions are not
//! modelled and are refused too.
//!
//! Sources: Microsoft, "Configure UEFI/GPT-Based Hard Drive Partitions" and "... BIOS/MBR-Based ...".

use crate::answer::Element;
use crate::machine::Firmware;

pub const SECTOR: u64 = 512;
const MIB: u64 = 1 << 20;
/// Partitions start and end on multiples of this.
const ALIGN: u64 = MIB;
/// Smallest EFI system partition that Windows makes on a disk of 512-byte sectors.
const EFI_LEAST: u64 = 100 * MIB;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Efi,
    Msr,
    Primary,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Ntfs,
    Fat32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// From 1, as `PartitionID` counts.
    pub number: u32,
    pub kind: Kind,
    /// Bytes from the disk's start.
    pub start: u64,
    pub length: u64,
    pub format: Option<Format>,
    pub label: String,
    pub letter: Option<char>,
    pub active: bool,
    /// GUID (GPT) or `0xNN` (MBR) that replaces the kind's own type.
    pub type_id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub disk: u32,
    pub firmware: Firmware,
    pub partitions: Vec<Partition>,
}

/// A disk as Setup's disk management sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskFacts {
    pub bytes: u64,
    /// It holds a partition table.
    pub partitioned: bool,
}

/// Plans all `Disk` elements of a `DiskConfiguration`; `disks` are in the order of their numbers.
pub fn plan(
    configuration: &Element,
    disks: &[DiskFacts],
    firmware: Firmware,
) -> Result<Vec<Layout>, String> {
    let mut layouts: Vec<Layout> = Vec::new();
    for element in configuration.all("", "Disk") {
        let id = element.number("DiskID").ok_or("a <Disk> has no DiskID")?;
        let disk = disks.get(id as usize).ok_or_else(|| {
            format!(
                "Failed to query disk [{id}]: there are {} disks (0x80042405)",
                disks.len()
            )
        })?;
        if layouts.iter().any(|layout| u64::from(layout.disk) == id) {
            return Err(format!("disk {id} is configured twice"));
        }
        if disk.partitioned && !element.is_true("WillWipeDisk") {
            return Err(format!(
                "disk {id} is not empty and WillWipeDisk is not true"
            ));
        }
        let mut partitions = create(element, disk, firmware)?;
        modify(element, &mut partitions, firmware)?;
        layouts.push(Layout {
            disk: id as u32,
            firmware,
            partitions,
        });
    }
    Ok(layouts)
}

fn ordered<'a>(element: &'a Element, list: &'static str, name: &'static str) -> Vec<&'a Element> {
    let mut items: Vec<&Element> = element.all(list, name).collect();
    items.sort_by_key(|item| item.number("Order"));
    items
}

fn create(
    element: &Element,
    disk: &DiskFacts,
    firmware: Firmware,
) -> Result<Vec<Partition>, String> {
    let mut partitions = Vec::new();
    // The last MiB holds the backup of a GPT; Windows leaves it free on MBR disks too.
    let end = (disk.bytes / ALIGN).saturating_sub(1) * ALIGN;
    let mut at = ALIGN;
    let items = ordered(element, "CreatePartitions", "CreatePartition");
    for (index, item) in items.iter().enumerate() {
        let number = index as u32 + 1;
        if item.number("Order") != Some(u64::from(number)) {
            return Err(format!(
                "CreatePartition Orders are not 1, 2, 3 ... at {number}"
            ));
        }
        let kind = match (item.text("Type"), firmware) {
            (Some("Primary"), _) => Kind::Primary,
            (Some("EFI"), Firmware::Uefi) => Kind::Efi,
            (Some("MSR"), Firmware::Uefi) => Kind::Msr,
            (Some("EFI" | "MSR"), Firmware::Bios) => {
                return Err(format!(
                    "partition {number} needs a GPT disk, and this computer starts by BIOS"
                ));
            }
            (other, _) => return Err(format!("partition {number}: type {other:?} can't be made")),
        };
        let length = match (item.number("Size"), item.is_true("Extend")) {
            (Some(_), true) => return Err(format!("partition {number} has Size and Extend")),
            (None, false) => return Err(format!("partition {number} has neither Size nor Extend")),
            (Some(size), false) => size * MIB,
            (None, true) if number as usize == items.len() => end.saturating_sub(at),
            (None, true) => {
                return Err(format!(
                    "partition {number} extends and is not the last one"
                ));
            }
        };
        if length == 0 || at + length > end {
            return Err(format!(
                "partition {number} does not fit on the disk of {} MiB",
                disk.bytes / MIB
            ));
        }
        if kind == Kind::Efi && length < EFI_LEAST {
            return Err(format!(
                "the EFI partition has {} MiB; 100 is the least",
                length / MIB
            ));
        }
        if firmware == Firmware::Bios && number > 4 {
            return Err("an MBR disk holds four primary partitions".to_owned());
        }
        let label = String::new();
        partitions.push(Partition {
            number,
            kind,
            start: at,
            length,
            format: None,
            label,
            letter: None,
            active: false,
            type_id: None,
        });
        at += length;
    }
    Ok(partitions)
}

fn modify(
    element: &Element,
    partitions: &mut [Partition],
    firmware: Firmware,
) -> Result<(), String> {
    let mut letters: Vec<char> = Vec::new();
    for item in ordered(element, "ModifyPartitions", "ModifyPartition") {
        let id = item
            .number("PartitionID")
            .ok_or("a ModifyPartition has no PartitionID")?;
        let partition = partitions
            .iter_mut()
            .find(|held| u64::from(held.number) == id);
        let partition = partition
            .ok_or_else(|| format!("ModifyPartition names partition {id}, which does not exist"))?;
        let touched = ["Format", "Label", "Letter", "Active", "TypeID", "Extend"]
            .iter()
            .find(|name| item.get(name).is_some());
        if let (Kind::Msr, Some(name)) = (partition.kind, touched) {
            return Err(format!("partition {id} is the MSR and can't have {name}"));
        }
        partition.format = match item.text("Format") {
            None => None,
            Some("NTFS") => Some(Format::Ntfs),
            Some("FAT32") => Some(Format::Fat32),
            Some(other) => return Err(format!("partition {id} can't be formatted as {other:?}")),
        };
        if let Some(label) = item.text("Label") {
            let longest = if partition.format == Some(Format::Fat32) {
                11
            } else {
                32
            };
            if partition.format.is_none() || label.chars().count() > longest {
                return Err(format!(
                    "partition {id}: label {label:?} needs a Format that can hold it"
                ));
            }
            partition.label = label.to_owned();
        }
        if let Some(letter) = item.text("Letter") {
            let letter = letter
                .chars()
                .next()
                .filter(|c| letter.len() == 1 && ('C'..='Z').contains(c));
            let letter = letter
                .filter(|c| !letters.contains(c))
                .ok_or_else(|| format!("partition {id}: letter is not free or not C..Z"))?;
            letters.push(letter);
            partition.letter = Some(letter);
        }
        partition.active = item.is_true("Active");
        if partition.active && firmware == Firmware::Uefi {
            return Err(format!(
                "partition {id} is Active, which a GPT disk does not know"
            ));
        }
        if item.is_true("Extend") {
            return Err(format!("partition {id}: Extend of a partition just made"));
        }
        partition.type_id = item.text("TypeID").map(str::to_owned);
        if partition
            .type_id
            .as_deref()
            .is_some_and(|text| !type_id_fits(text, firmware))
        {
            return Err(format!(
                "partition {id}: TypeID does not fit the disk's partition style"
            ));
        }
    }
    if partitions.iter().filter(|held| held.active).count() > 1 {
        return Err("two partitions are Active".to_owned());
    }
    Ok(())
}

fn type_id_fits(text: &str, firmware: Firmware) -> bool {
    match firmware {
        Firmware::Uefi => crate::disk::guid(text).is_some(),
        Firmware::Bios => text
            .strip_prefix("0x")
            .is_some_and(|hex| u8::from_str_radix(hex, 16).is_ok()),
    }
}

/// What Setup of Server 2025 does to a layout: without a recovery partition that has room for it, C: is shrunk, and a
/// partition of Setup's own comes behind it (vmware/packer-examples-for-vsphere, issue 1043).
pub fn recovery_of_2025(layout: &mut Layout, windows: u32) {
    const LEAST: u64 = 800 * MIB;
    const OWN: u64 = 650 * MIB;
    let type_id = match layout.firmware {
        Firmware::Uefi => "DE94BBA4-06D1-4D40-A16A-BFD50179D6AC",
        Firmware::Bios => "0x27",
    };
    let is_recovery = |held: &&Partition| {
        let id = held.type_id.as_deref().unwrap_or_default();
        id.eq_ignore_ascii_case(type_id) && held.format == Some(Format::Ntfs)
    };
    let mut recoveries = layout.partitions.iter().filter(is_recovery);
    if recoveries.any(|held| held.length >= LEAST) {
        return;
    }
    let number = layout.partitions.len() as u32 + 1;
    let Some(c) = layout.partitions.iter_mut().find(|p| p.number == windows) else {
        return;
    };
    c.length -= OWN;
    let start = c.start + c.length;
    layout.partitions.push(Partition {
        number,
        kind: Kind::Primary,
        start,
        length: OWN,
        format: Some(Format::Ntfs),
        label: "Recovery".to_owned(),
        letter: None,
        active: false,
        type_id: Some(type_id.to_owned()),
    });
}

/// The partition the firmware starts from, or why there is none.
pub fn system_partition(layout: &Layout) -> Result<&Partition, String> {
    let found = match layout.firmware {
        Firmware::Uefi => layout
            .partitions
            .iter()
            .find(|held| held.kind == Kind::Efi && held.format == Some(Format::Fat32)),
        Firmware::Bios => layout
            .partitions
            .iter()
            .find(|held| held.active && held.format == Some(Format::Ntfs)),
    };
    found.ok_or_else(|| match layout.firmware {
        Firmware::Uefi => "no EFI partition with FAT32 on a GPT disk".to_owned(),
        Firmware::Bios => "no Active partition with NTFS on an MBR disk".to_owned(),
    })
}
