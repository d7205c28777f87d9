//! The disk that is exported, opened so that its clusters can be read in place.

use super::staging::Staging;
use super::{CHUNK, Job};
use winimg_base::digest::{Algorithm, Digest, Hasher};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Sink};
use winimg_formats::disk::backing::Chain;
use winimg_formats::disk::ntfs::{Hibernation, Windows};
use winimg_formats::disk::qcow2::Qcow2;
use winimg_formats::disk::qemu_img::{self, Named};
use winimg_formats::disk::{self, Disk, Format, Image, gpt, vhdx};

pub struct Source {
    pub disk: Box<dyn Disk>,
    /// As QEMU gets it; `None` where QEMU can't read it (an OVA, a VMA, a VHDX with a parent).
    pub qemu: Option<Named>,
}

impl Source {
    /// A compressed qcow2 is flattened into a scratch file first. An overlay is read where the job lets it name files.
    pub fn open(
        job: &Job<'_>,
        staging: &mut Staging,
        sink: &dyn Sink,
        cancel: &Cancel,
    ) -> Result<Self> {
        let path = job.source.file;
        let driver = match Format::of(path)? {
            Format::Raw => Some("raw"),
            Format::FixedVhd | Format::DynamicVhd => Some("vpc"),
            // QEMU reads no parents.
            Format::Vhdx => (vhdx::open(job.source)?.files() == 1).then_some("vhdx"),
            Format::SparseVmdk => Some("vmdk"),
            Format::StreamVmdk | Format::Ova | Format::Vma => None,
            Format::Qcow2 => return Self::qcow2(job, staging, sink, cancel),
        };
        let disk = job.source.open(cancel)?;
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
            qemu: driver.map(|d| Named::file(path, d)),
        })
    }

    fn qcow2(
        job: &Job<'_>,
        staging: &mut Staging,
        sink: &dyn Sink,
        cancel: &Cancel,
    ) -> Result<Self> {
        let named = Chain::of(job.source, cancel)?.named()?;
        if let Some(disk) = Qcow2::look(job.source, cancel)? {
            return Ok(Self {
                disk: Box::new(disk),
                qemu: Some(named),
            });
        }
        sink.note(format!(
            "{} has compressed clusters; it is flattened before the export",
            job.source.file.display()
        ));
        let flat = staging.scratch(&format!("{}.flattened.qcow2", job.name))?;
        qemu_img::flatten(&named, &flat, cancel)?;
        Ok(Self {
            disk: Box::new(Qcow2::open(Image::alone(&flat), cancel)?),
            qemu: Some(Named::file(&flat, "qcow2")),
        })
    }

    /// Refuses a disk that is not whole, and a Windows that was hibernated: it would go on from its memory on another machine.
    /// A disk without a partition table is not looked at.
    pub fn judge(&self, job: &Job<'_>, sink: &dyn Sink) -> Result<()> {
        let path = job.source.file.display();
        let table = gpt::table(self.disk.as_ref()).map_err(|e| e.or_at(&path))?;
        for doubt in &table.doubts {
            sink.warn(format!("{path}: {doubt}"));
        }
        let Ok(windows) = Windows::find(self.disk.as_ref(), &table) else {
            return Ok(());
        };
        if windows.volume.hibernation()? == Hibernation::Waits {
            let fact = "the disk's Windows was hibernated and would go on from its memory";
            return Err(Error::new(Kind::Export, fact)
                .at(path)
                .expected("a Windows that was shut down")
                .found(r"the mark in C:\hiberfil.sys")
                .cure("start it once, and shut it down with `shutdown /s /f /t 0` after `powercfg /h off`"));
        }
        if windows.volume.is_dirty()? {
            sink.warn(format!(
                "{path}: its Windows volume was not closed in order, and Windows checks it at the next start"
            ));
        }
        Ok(())
    }

    pub fn for_qemu(&self) -> Result<&Named> {
        self.qemu.as_ref().ok_or_else(|| {
            Error::new(
                Kind::Export,
                "a qcow2 can't be made from an OVA, a VMA, a stream-optimised VMDK or a differencing VHDX",
            )
            .cure("export a raw disk from it, and a qcow2 from that")
        })
    }
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
