//! A backup archive of Proxmox VE: the machine and its disk in one file, which `qmrestore` makes a machine of.
//!
//! Written in the disk's order while it is read, blocks of zeros left out; its digest is taken on the way. It is not compressed.
//!
//! Its layout: [`winimg_formats::disk::vma::layout`].

mod extent;
mod head;
mod variables;

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock};

use uuid::Uuid;

use super::archive::Written;
use super::staging::Staging;
use super::{Artifact, Chunk, Exporter, Job, Needs, Totals, check};
use extent::Extent;
use head::{Device, Head};
use winimg_base::digest::{Algorithm, Digest, Hasher};
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;
use winimg_base::io::Positioned as _;
use winimg_formats::disk::vma::{self, layout::CLUSTER};
use winimg_recipe::recipe::Firmware;
use winimg_recipe::recipe::target::Output;

/// The number of the disk in the archive; 0 means none.
const DISK: u8 = 1;
/// That of the firmware's variables.
const EFI: u8 = 2;

pub struct Vma<'j> {
    job: &'j Job<'j>,
    name: String,
    writer: Mutex<Writer>,
    written: OnceLock<Written>,
}

/// The file as far as it is written.
struct Writer {
    file: File,
    temporary: PathBuf,
    at: u64,
    hasher: Hasher,
    archive: Uuid,
    extent: Extent,
}

impl<'j> Vma<'j> {
    pub fn new(
        job: &'j Job<'_>,
        len: u64,
        identity: &Digest,
        staging: &mut Staging,
    ) -> Result<Self> {
        let name = format!("{}.vma", job.name);
        let (file, temporary) = staging.create(&name)?;
        let archive = Uuid::new_v5(&Uuid::NAMESPACE_OID, &[identity.bytes(), b"VMA"].concat());
        let mut writer = Writer {
            file,
            temporary,
            at: 0,
            hasher: Hasher::new(Algorithm::Sha256),
            archive,
            extent: Extent::default(),
        };
        let mut devices = vec![Device::new(DISK, head::DISK, len)];
        if job.firmware == Firmware::Uefi {
            devices.push(Device::new(EFI, head::EFI, variables::LEN as u64));
        }
        let head = Head {
            archive,
            time: job.epoch,
            config: head::config(job, &devices),
            devices,
        };
        writer.write(&head.bytes())?;
        Ok(Self {
            job,
            name,
            writer: Mutex::new(writer),
            written: OnceLock::new(),
        })
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        // A thread that panicked ends the pass, and what it left here is not used after that.
        self.writer.lock().unwrap_or_else(|p| p.into_inner())
    }
}

impl Writer {
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
        match self.extent.is_full() {
            true => self.end_extent(),
            false => Ok(()),
        }
    }

    fn end_extent(&mut self) -> Result<()> {
        if self.extent.is_empty() {
            return Ok(());
        }
        let extent = std::mem::take(&mut self.extent);
        self.write(&extent.header(self.archive))?;
        self.write(extent.data())?;
        self.extent = extent.emptied();
        Ok(())
    }
}

impl Exporter for Vma<'_> {
    fn needs(&self) -> Needs {
        Needs {
            ordered: true,
            ..Needs::default()
        }
    }

    fn hash(&self, chunk: &Chunk) -> Result<()> {
        let mut writer = self.writer();
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

    fn finish(&self, _: &Totals, _: &Cancel) -> Result<()> {
        let mut writer = self.writer();
        if self.job.firmware == Firmware::Uefi {
            let variables = variables::empty();
            for (cluster, content) in variables.chunks(CLUSTER as usize).enumerate() {
                writer.add(EFI, cluster as u32, Some(content))?;
            }
        }
        writer.end_extent()?;
        let synced = writer.file.sync_all();
        synced.map_err(|e| Error::io("sync", &writer.temporary, e))?;
        self.written.get_or_init(|| Written {
            bytes: writer.at,
            sha256: writer.hasher.clone().finish(),
        });
        Ok(())
    }

    fn check(&self, totals: &Totals, cancel: &Cancel) -> Result<Artifact> {
        let written = self.written.get();
        let written = written.ok_or_else(|| Error::failed("checked before finished"))?;
        let writer = self.writer();
        let temporary = &writer.temporary;
        let expected = (written.bytes, &written.sha256);
        check::whole(&self.name, temporary, expected, cancel)?;
        let disk = vma::open(temporary)?;
        check::content(&self.name, &disk, totals, self.job.threads(), cancel)?;
        Ok(Artifact {
            kind: Output::Vma.name(),
            file: self.name.clone(),
            bytes: written.bytes,
            sha256: written.sha256.clone(),
            disk: None,
            checked: ["size", "digest", "headers", check::CONTENT]
                .map(String::from)
                .to_vec(),
        })
    }
}
