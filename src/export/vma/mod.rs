//! Exports a Proxmox VE backup archive: a VM and its disk in one file for `qmrestore`.
//!
//! Written and hashed in the disk's order while the disk is read, without blocks of zeros. Not
//! compressed.
//!
//! Layout: [`winimg_formats::disk::vma::layout`].

mod extent;
mod head;
mod variables;

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock};

use uuid::Uuid;

use super::archive::ArchiveSummary;
use super::format::{ExportSetup, OutputSize, OutputSpec};
use super::staging::ExportStaging;
use super::{DiskChunk, ExportJob, ExportedArtifact, Exporter, ExporterNeeds, PassTotals, check};
use extent::VmaExtentWriter;
use head::{VmaDevice, VmaHeader};
use winimg_base::digest::{Algorithm, Hasher};
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;
use winimg_base::io::PositionedIo as _;
use winimg_formats::disk::vma::layout::{CLUSTER, MOST};
use winimg_recipe::Firmware;
use winimg_recipe::OutputFormat;

/// Device number of the disk in the archive; 0 means none.
const DISK: u8 = 1;
/// Device number of the firmware's variables.
const EFI: u8 = 2;

pub const SPEC: OutputSpec = OutputSpec {
    about: "Proxmox VE's backup, for qmrestore",
    limit: Some(("a VMA", MOST)),
    describes_machine: true,
    ..OutputSpec::new(".vma", OutputSize::Flat, |setup, staging| {
        Ok(vec![Box::new(VmaExporter::new(setup, staging)?)])
    })
};

pub struct VmaExporter<'j> {
    job: &'j ExportJob<'j>,
    name: String,
    writer: Mutex<VmaWriter>,
    written: OnceLock<ArchiveSummary>,
}

/// The archive being written.
struct VmaWriter {
    file: File,
    temporary: PathBuf,
    at: u64,
    hasher: Hasher,
    archive: Uuid,
    extent: VmaExtentWriter,
}

impl<'j> VmaExporter<'j> {
    fn new(setup: &'j ExportSetup<'_>, staging: &mut ExportStaging) -> Result<Self> {
        let (job, len, identity) = (setup.job, setup.len(), &setup.identity);
        let name = job.file_name(OutputFormat::Vma);
        let (file, temporary) = staging.create(&name)?;
        let archive = Uuid::new_v5(&Uuid::NAMESPACE_OID, &[identity.bytes(), b"VMA"].concat());
        let mut writer = VmaWriter {
            file,
            temporary,
            at: 0,
            hasher: Hasher::new(Algorithm::Sha256),
            archive,
            extent: VmaExtentWriter::default(),
        };
        let mut devices = vec![VmaDevice::new(DISK, head::DISK, len)];
        if job.firmware == Firmware::Uefi {
            devices.push(VmaDevice::new(EFI, head::EFI, variables::LEN as u64));
        }
        let head = VmaHeader {
            archive,
            time: job.epoch,
            config: head::render_config(job, &devices),
            devices,
        };
        writer.write(&head.encode())?;
        Ok(Self {
            job,
            name,
            writer: Mutex::new(writer),
            written: OnceLock::new(),
        })
    }

    fn lock_writer(&self) -> MutexGuard<'_, VmaWriter> {
        // A panicking thread ends the pass; the writer is not used after that.
        self.writer.lock().unwrap_or_else(|p| p.into_inner())
    }
}

impl VmaWriter {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all_at(bytes, self.at)
            .map_err(|e| Error::io("write", &self.temporary, e))?;
        self.hasher.update(bytes);
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn add(&mut self, device: u8, cluster: u32, content: Option<&[u8]>) -> Result<()> {
        self.extent.add(device, cluster, content);
        if self.extent.is_full() {
            self.end_extent()
        } else {
            Ok(())
        }
    }

    fn end_extent(&mut self) -> Result<()> {
        if self.extent.is_empty() {
            return Ok(());
        }
        let extent = std::mem::take(&mut self.extent);
        self.write(&extent.build_header(self.archive))?;
        self.write(extent.data())?;
        self.extent = extent.clear();
        Ok(())
    }
}

impl Exporter for VmaExporter<'_> {
    fn needs(&self) -> ExporterNeeds {
        ExporterNeeds {
            ordered: true,
            ..ExporterNeeds::default()
        }
    }

    fn hash(&self, chunk: &DiskChunk) -> Result<()> {
        let mut writer = self.lock_writer();
        let first = chunk.offset() / CLUSTER;
        let clusters = super::CHUNK / CLUSTER;
        for n in 0..clusters {
            let content = chunk.data.as_deref().map(|data| {
                let at = (n * CLUSTER) as usize;
                &data[at..at + CLUSTER as usize]
            });
            writer.add(DISK, (first + n) as u32, content)?;
        }
        Ok(())
    }

    fn finish(&self, _: &PassTotals, _: &Cancel) -> Result<()> {
        let mut writer = self.lock_writer();
        if self.job.firmware == Firmware::Uefi {
            let variables = variables::build_empty();
            for (cluster, content) in variables.chunks(CLUSTER as usize).enumerate() {
                writer.add(EFI, cluster as u32, Some(content))?;
            }
        }
        writer.end_extent()?;
        let synced = writer.file.sync_all();
        synced.map_err(|e| Error::io("sync", &writer.temporary, e))?;
        self.written.get_or_init(|| ArchiveSummary {
            bytes: writer.at,
            sha256: writer.hasher.clone().finish(),
        });
        Ok(())
    }

    fn check(&self, totals: &PassTotals, cancel: &Cancel) -> Result<ExportedArtifact> {
        let written = self.written.get();
        let written = written.ok_or_else(|| Error::failed("checked before finished"))?;
        let writer = self.lock_writer();
        let temporary = &writer.temporary;
        let expected = (written.bytes, &written.sha256);
        check::check_file(&self.name, temporary, expected, cancel)?;
        let disk = winimg_formats::disk::vma::open(temporary)?;
        check::check_content(&self.name, &disk, totals, self.job.count_threads(), cancel)?;
        Ok(ExportedArtifact {
            kind: OutputFormat::Vma.name(),
            file: self.name.clone(),
            bytes: written.bytes,
            sha256: written.sha256.clone(),
            disk: None,
            checked: vec!["size", "digest", "headers", check::CONTENT],
        })
    }
}
