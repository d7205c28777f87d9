//! The source disk of an export, opened so that its clusters can be read in place.

use super::staging::ExportStaging;
use super::{CHUNK, ExportJob};
use winimg_base::digest::{Algorithm, Digest, Hasher};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Sink};
use winimg_formats::disk::ntfs::{Hibernation, WindowsVolume};
use winimg_formats::disk::qemu_img::QemuImageArg;
use winimg_formats::disk::{self, Disk, DiskImage, OpenedImage, gpt};

pub struct ExportSource {
    pub disk: Box<dyn Disk>,
    /// QEMU's name for the disk; `None` if QEMU can't read it (an OVA, a VMA, a VHDX with a
    /// parent).
    pub qemu: Option<QemuImageArg>,
}

impl ExportSource {
    /// Opens the job's source. Flattens a compressed image into a scratch file first. Reads an
    /// overlay if the job allows its backing files.
    pub fn open(
        job: &ExportJob<'_>,
        staging: &mut ExportStaging,
        sink: &dyn Sink,
        cancel: &Cancel,
    ) -> Result<Self> {
        let path = job.source.file;
        let disks = match job.source.open_all(cancel)? {
            OpenedImage::InPlace(disks) => disks,
            OpenedImage::Compressed(_) => {
                sink.note(format!(
                    "{} has compressed clusters; it is flattened before the export",
                    path.display()
                ));
                let flat = staging.create_scratch(&format!("{}.flattened.qcow2", job.name))?;
                job.source.flatten(&flat, cancel)?;
                let flat = DiskImage::from_file(&flat);
                return Ok(Self {
                    disk: flat.open(cancel)?,
                    qemu: flat.to_qemu(cancel)?,
                });
            }
        };
        let disk = disk::take_only_disk(path, disks)?;
        if disk.sector_size() != disk::SECTOR {
            return Err(Error::new(
                Kind::Export,
                "cannot export a disk with a different sector size",
            )
            .at(path.display())
            .expected("sectors of 512 bytes")
            .found(format!("{} bytes", disk.sector_size()))
            .cure("build the image on a disk with sectors of 512 bytes"));
        }
        Ok(Self {
            disk,
            qemu: job.source.to_qemu(cancel)?,
        })
    }

    /// Rejects a damaged partition table, and a hibernated Windows, which would resume its saved
    /// memory on another machine. Ignores a disk without a partition table.
    pub fn judge(&self, job: &ExportJob<'_>, sink: &dyn Sink) -> Result<()> {
        let path = job.source.file.display();
        let table = gpt::read_table(self.disk.as_ref()).map_err(|e| e.or_at(&path))?;
        for doubt in &table.doubts {
            sink.warn(format!("{path}: {doubt}"));
        }
        let Ok(windows) = WindowsVolume::find(self.disk.as_ref(), &table) else {
            return Ok(());
        };
        if windows.volume.read_hibernation()? == Hibernation::Suspended {
            let fact = "the disk's Windows is hibernated and would resume from its saved memory";
            return Err(Error::new(Kind::Export, fact)
                .at(path)
                .expected("a Windows that was shut down")
                .found(r"the mark in C:\hiberfil.sys")
                .cure(
                    "start it once, and shut it down with `shutdown /s /f /t 0` after \
                     `powercfg /h off`",
                ));
        }
        if windows.volume.is_dirty()? {
            sink.warn(format!(
                "{path}: its Windows volume was not cleanly unmounted; Windows checks it at the \
                 next start"
            ));
        }
        Ok(())
    }

    pub fn for_qemu(&self) -> Result<&QemuImageArg> {
        self.qemu.as_ref().ok_or_else(|| {
            Error::new(
                Kind::Export,
                "cannot create a qcow2 from an OVA, a VMA, a stream-optimised VMDK or a \
                 differencing VHDX",
            )
            .cure("export a raw disk first, then a qcow2 from that")
        })
    }
}

/// Computes the seed of the VMDK's content ids.
///
/// They precede the content in the file, so the digest of the whole disk would come too late. The
/// first and last MiB contain the partition table with the disk's own GUIDs.
pub fn compute_identity(disk: &dyn Disk, job: &ExportJob<'_>) -> Result<Digest> {
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
