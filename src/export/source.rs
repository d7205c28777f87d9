//! The disk that is exported, opened so that its clusters can be read in place.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::staging::Staging;
use super::{CHUNK, Job};
use crate::digest::{Algorithm, Digest, Hasher};
use crate::disk::{self, Disk, Format, qcow2, qemu_img};
use crate::error::{Error, Kind, Result};
use crate::event::{Cancel, Sink};

pub struct Source {
    pub disk: Box<dyn Disk>,
    /// The file that QEMU can read, and QEMU's name of its format; `None` where QEMU does not know it (an OVA).
    pub qemu: Option<(PathBuf, &'static str)>,
}

impl Source {
    /// A qcow2 that is compressed or an overlay is flattened into a scratch file first.
    pub fn open(
        job: &Job<'_>,
        staging: &Staging,
        sink: &dyn Sink,
        cancel: &Cancel,
    ) -> Result<Self> {
        let path = job.source;
        let driver = match Format::of(path)? {
            Format::Raw => Some("raw"),
            Format::FixedVhd | Format::DynamicVhd => Some("vpc"),
            Format::Vhdx => Some("vhdx"),
            Format::SparseVmdk => Some("vmdk"),
            Format::StreamVmdk | Format::Ova => None,
            Format::Qcow2 => return Self::qcow2(job, staging, sink, cancel),
        };
        let disk = disk::open(path, cancel)?;
        if disk.sector() != disk::SECTOR {
            return Err(Error::new(
                Kind::Export,
                "a disk can't be exported into formats whose sectors have another size",
            )
            .at(path.display())
            .expected("sectors of 512 bytes")
            .found(format!("{} bytes", disk.sector()))
            .cure("build the image on a disk with sectors of 512 bytes"));
        }
        Ok(Self {
            disk,
            qemu: driver.map(|d| (path.to_owned(), d)),
        })
    }

    fn qcow2(job: &Job<'_>, staging: &Staging, sink: &dyn Sink, cancel: &Cancel) -> Result<Self> {
        let path = job.source;
        let (disk, file) = match qcow2::Qcow2::look(path, cancel)? {
            Ok(disk) => (disk, path.to_owned()),
            Err(why) => {
                sink.note(format!(
                    "{} {why}; it is flattened before the export",
                    path.display()
                ));
                let flat = staging.scratch(&format!("{}.flattened.qcow2", job.name))?;
                flatten(path, &flat, cancel)?;
                (qcow2::Qcow2::open(&flat, cancel)?, flat)
            }
        };
        Ok(Self {
            disk: Box::new(disk),
            qemu: Some((file, "qcow2")),
        })
    }
}

fn flatten(from: &Path, to: &Path, cancel: &Cancel) -> Result<()> {
    let arguments = ["convert", "-f", "qcow2", "-O", "qcow2"].map(OsStr::new);
    let (from, to) = (qemu_img::file_name(from), qemu_img::file_name(to));
    qemu_img::run(&[&arguments[..], &[&from, &to]].concat(), cancel).map(drop)
}

/// What the VMDK's content ids are made of. They stand before the content in the file, so the whole disk's digest comes
/// too late; the first and last MiB hold the partition table with the disk's own GUIDs.
pub fn identity(disk: &dyn Disk, job: &Job<'_>) -> Result<Digest> {
    let mut hasher = Hasher::new(Algorithm::Sha256);
    let head = format!("winimg disk\n{}\n{}\n{}\n", job.name, disk.len(), job.epoch);
    hasher.update(head.as_bytes());
    let mut buffer = vec![0; CHUNK as usize];
    for offset in [0, disk.len() - CHUNK] {
        disk.read_at(offset, &mut buffer)?;
        hasher.update(&buffer);
    }
    Ok(hasher.finish())
}

impl Source {
    pub fn for_qemu(&self) -> Result<(&Path, &'static str)> {
        match &self.qemu {
            Some((file, driver)) => Ok((file, driver)),
            None => Err(Error::new(
                Kind::Export,
                "a qcow2 can't be made from an OVA or a stream-optimised VMDK",
            )
            .cure("export a raw disk from it, and a qcow2 from that")),
        }
    }
}
