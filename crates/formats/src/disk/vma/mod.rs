//! VMAs, the backup archives of Proxmox VE: a header with the machine and its devices, then extents
//! in any order. Only the machine's disk is read.
//!
//! Opening walks all extents. Their headers have checksums, the content has none. Refuses archives
//! with several disks or none, with the memory of a running machine, and, like `qmrestore`, those
//! in which a cluster is missing or duplicate.
//!
//! Source: Proxmox, pve-qemu: vma_spec.txt, vma.h, vma-reader.c.

mod extent;
mod head;
mod index;
pub mod layout;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use super::{Disk, FormatMark, ImageFormat, OpenedImage, RawDisk, blocks, check_bounds, join};
use extent::VmaExtentHeader;
use head::{VmaArchiveDevice, VmaArchiveHead};
use index::VmaClusterIndex;
use layout::{BLOCK, CLUSTER, MOST};
use winimg_base::error::{Error, Result};

pub(super) const FORMAT: ImageFormat = ImageFormat {
    name: NAME,
    family: NAME,
    mark: FormatMark::Beginning(|ends| ends.has(0, layout::head::MAGIC)),
    open: |image, _| Ok(OpenedImage::from_disk(open(image.file)?)),
    to_qemu: |_, _| Ok(None),
    to_node: None,
};

const NAME: &str = "VMA";

/// The disk of an open archive.
pub struct VmaDisk {
    file: RawDisk,
    clusters: VmaClusterIndex,
}

pub fn open(path: &Path) -> Result<VmaDisk> {
    let file = RawDisk::open(path)?;
    let head = VmaArchiveHead::read(&file)?;
    let disk = disk_of(&file, &head)?;
    check_room(&file, &head)?;
    let mut all = walk(&file, &head)?;
    for clusters in all.values() {
        if let Some(missing) = clusters.find_missing() {
            let name = &clusters.name;
            let why = format!("the file ends without cluster {missing} of {name:?}");
            return Err(report_damaged(&file, file.len(), why));
        }
    }
    match all.remove(&disk) {
        Some(clusters) => Ok(VmaDisk { file, clusters }),
        None => Err(report_damaged(&file, 0, "no clusters for its disk")),
    }
}

/// Returns the number of the only device that is a disk and not state of the machine.
fn disk_of(file: &RawDisk, head: &VmaArchiveHead) -> Result<u8> {
    if head.devices.values().any(VmaArchiveDevice::is_memory) {
        return Err(blocks::refuse_file(
            file,
            "contains the memory of a running machine, whose disk was in use",
            "shut the machine down cleanly and back it up again",
        ));
    }
    let disks: Vec<(&u8, &VmaArchiveDevice)> = head
        .devices
        .iter()
        .filter(|(_, device)| device.is_disk())
        .collect();
    let why = match disks[..] {
        [(number, disk)] if disk.len <= MOST => return Ok(*number),
        [(_, disk)] => format!(
            "has a disk of {} bytes; winimg reads up to {MOST}",
            disk.len
        ),
        [] => {
            let why = "is a backup of a machine without a disk";
            return Err(blocks::refuse_file(
                file,
                why,
                "back up a machine with Windows",
            ));
        }
        ref several => {
            let names: Vec<String> = several
                .iter()
                .map(|(_, disk)| format!("{:?}", disk.name))
                .collect();
            format!("contains {} disks: {}", several.len(), names.join(", "))
        }
    };
    let cure = "restore it on Proxmox VE (qmrestore), and use the disk with Windows";
    Err(blocks::refuse_file(file, why, cure))
}

/// Checks that the file is large enough for all clusters, before memory is allocated for them.
fn check_room(file: &RawDisk, head: &VmaArchiveHead) -> Result<()> {
    let all = head
        .devices
        .values()
        .map(|d| d.len.div_ceil(CLUSTER))
        .fold(0, u64::saturating_add);
    let extents = file.len().saturating_sub(head.len) / layout::extent::HEADER;
    if all > extents.saturating_mul(layout::extent::CLUSTERS) {
        let why = format!("the file ends too early for {all} clusters");
        return Err(report_damaged(file, file.len(), why));
    }
    index::check_places(file.len()).map_err(|why| report_damaged(file, 0, why))
}

/// Walks the extents and returns the clusters of each device, by its number.
fn walk(file: &RawDisk, head: &VmaArchiveHead) -> Result<BTreeMap<u8, VmaClusterIndex>> {
    let mut all: BTreeMap<u8, VmaClusterIndex> = head
        .devices
        .iter()
        .map(|(number, device)| (*number, VmaClusterIndex::new(&device.name, device.len)))
        .collect();
    let mut at = head.len;
    while at < file.len() {
        let extent = VmaExtentHeader::read(file, at, head.archive)?;
        let mut place = at + layout::extent::HEADER;
        for named in extent.iter_clusters() {
            let Some(clusters) = all.get_mut(&named.device) else {
                let why = format!("a cluster of device {}, which is unknown", named.device);
                return Err(report_damaged(file, at, why));
            };
            clusters
                .put(named.cluster, named.stored, place)
                .map_err(|why| report_damaged(file, at, why))?;
            place += u64::from(named.stored.count_ones()) * BLOCK;
        }
        if place != extent.end {
            return Err(report_damaged(
                file,
                at,
                "an extent with a wrong number of blocks",
            ));
        }
        at = extent.end;
    }
    Ok(all)
}

fn report_damaged(file: &RawDisk, at: u64, why: impl Into<String>) -> Error {
    blocks::report_damaged(file, NAME, at, why)
        .cure("recreate or copy it again; on Proxmox VE: vma verify")
}

impl Disk for VmaDisk {
    fn len(&self) -> u64 {
        self.clusters.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_bounds(
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
        for held in self.clusters.iter_stored() {
            join(&mut ranges, held);
        }
        Ok(ranges)
    }
}
