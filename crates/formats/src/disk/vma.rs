//! VMAs, the backup archives of Proxmox VE: a header with the machine and its devices, then extents in any order. What is read is the
//! machine's disk.
//!
//! Opening walks all extents. Their headers have sums, the content has none. Refused: archives with several disks or with none, with
//! the memory of a running machine, and those that `qmrestore` refuses, in which a cluster is missing or comes twice.
//!
//! Source: Proxmox, pve-qemu: vma_spec.txt, vma.h, vma-reader.c.

mod extent;
mod head;
mod index;
pub mod layout;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use super::{Disk, RawDisk, blocks, join, within};
use extent::Extent;
use head::{Device, Head};
use index::Clusters;
use layout::{BLOCK, CLUSTER, MOST};
use winimg_base::error::{Error, Result};

const FORMAT: &str = "VMA";

/// The disk of an open archive.
pub struct Vma {
    file: RawDisk,
    clusters: Clusters,
}

pub fn open(path: &Path) -> Result<Vma> {
    let file = RawDisk::open(path)?;
    let head = Head::read(&file)?;
    let disk = disk_of(&file, &head)?;
    check_room(&file, &head)?;
    let mut all = walk(&file, &head)?;
    for clusters in all.values() {
        if let Some(missing) = clusters.missing() {
            let name = &clusters.name;
            let why = format!("the file ends without cluster {missing} of {name:?}");
            return Err(damaged(&file, file.len(), why));
        }
    }
    match all.remove(&disk) {
        Some(clusters) => Ok(Vma { file, clusters }),
        None => Err(damaged(&file, 0, "no clusters of its disk")),
    }
}

/// The number of the only device that is a disk and no state of the machine.
fn disk_of(file: &RawDisk, head: &Head) -> Result<u8> {
    if head.devices.values().any(Device::is_memory) {
        return Err(blocks::refused(
            file,
            "holds the memory of a machine that was running, whose disk was in use",
            "shut the machine down in order and back it up again",
        ));
    }
    let disks = head.devices.iter().filter(|(_, device)| device.is_disk());
    let disks: Vec<(&u8, &Device)> = disks.collect();
    let why = match disks[..] {
        [(number, disk)] if disk.len <= MOST => return Ok(*number),
        [(_, disk)] => format!(
            "has a disk of {} bytes; winimg reads up to {MOST}",
            disk.len
        ),
        [] => {
            let why = "is a backup of a machine without a disk";
            return Err(blocks::refused(file, why, "back up one that has Windows"));
        }
        ref several => {
            let names = several.iter().map(|(_, disk)| format!("{:?}", disk.name));
            let names: Vec<String> = names.collect();
            format!("holds {} disks: {}", several.len(), names.join(", "))
        }
    };
    let cure = "restore it on a Proxmox VE (qmrestore), and take the disk that Windows is on";
    Err(blocks::refused(file, why, cure))
}

/// Whether the file has room for extents that name all clusters, before any memory is asked for.
fn check_room(file: &RawDisk, head: &Head) -> Result<()> {
    let clusters = head.devices.values().map(|d| d.len.div_ceil(CLUSTER));
    let all = clusters.fold(0, u64::saturating_add);
    let extents = file.len().saturating_sub(head.len) / layout::extent::HEADER;
    if all > extents.saturating_mul(layout::extent::CLUSTERS) {
        let why = format!("the file ends before {all} clusters can have been named");
        return Err(damaged(file, file.len(), why));
    }
    index::check_places(file.len()).map_err(|why| damaged(file, 0, why))
}

/// The clusters of each device, by its number.
fn walk(file: &RawDisk, head: &Head) -> Result<BTreeMap<u8, Clusters>> {
    let devices = head.devices.iter();
    let mut all: BTreeMap<u8, Clusters> = devices
        .map(|(number, device)| (*number, Clusters::new(&device.name, device.len)))
        .collect();
    let mut at = head.len;
    while at < file.len() {
        let extent = Extent::read(file, at, head.archive)?;
        let mut place = at + layout::extent::HEADER;
        for named in extent.clusters() {
            let Some(clusters) = all.get_mut(&named.device) else {
                let why = format!("a cluster of device {}, which is unknown", named.device);
                return Err(damaged(file, at, why));
            };
            let put = clusters.put(named.cluster, named.stored, place);
            put.map_err(|why| damaged(file, at, why))?;
            place += u64::from(named.stored.count_ones()) * BLOCK;
        }
        if place != extent.end {
            return Err(damaged(
                file,
                at,
                "an extent whose number of blocks is wrong",
            ));
        }
        at = extent.end;
    }
    Ok(all)
}

fn damaged(file: &RawDisk, at: u64, why: impl Into<String>) -> Error {
    blocks::damaged(file, FORMAT, at, why)
        .cure("write or copy it again; on a Proxmox VE: vma verify")
}

impl Disk for Vma {
    fn len(&self) -> u64 {
        self.clusters.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        within(
            self.file.path(),
            offset,
            buffer.len() as u64,
            self.clusters.len,
        )?;
        let mut done = 0;
        while done < buffer.len() {
            let run = self.clusters.run(offset + done as u64);
            let n = run.len.min((buffer.len() - done) as u64) as usize;
            let part = &mut buffer[done..done + n];
            match run.place {
                Some(place) => self.file.read_at(place, part)?,
                None => part.fill(0),
            }
            done += n;
        }
        Ok(())
    }

    fn data(&self) -> Result<Vec<Range<u64>>> {
        let mut ranges = Vec::new();
        for held in self.clusters.held() {
            join(&mut ranges, held);
        }
        Ok(ranges)
    }
}
