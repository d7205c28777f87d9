//! A stream-optimised VMDK by itself, the same that an OVA holds.

use std::path::PathBuf;
use std::sync::OnceLock;

use super::staging::Staging;
use super::{Artifact, Exporter, Job, Needs, Totals, check, vmdk};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;
use winimg_formats::disk::RawDisk;
use winimg_formats::disk::vmdk::{GRAIN, StreamVmdk};
use winimg_recipe::recipe::target::Output;

pub struct VmdkFile<'j> {
    job: &'j Job<'j>,
    temporary: PathBuf,
    name: String,
    writer: vmdk::Slot,
    written: OnceLock<vmdk::Written>,
}

impl<'j> VmdkFile<'j> {
    pub fn new(
        job: &'j Job<'_>,
        len: u64,
        identity: &Digest,
        staging: &mut Staging,
    ) -> Result<Self> {
        let name = format!("{}.vmdk", job.name);
        let (file, temporary) = staging.create(&name)?;
        let descriptor = vmdk::descriptor(vmdk::Extent::Stream, &name, len, identity);
        let stream = vmdk::Stream::new(file, temporary.clone(), 0);
        let writer = vmdk::Writer::begin(len, &descriptor, stream)?;
        Ok(Self {
            job,
            temporary,
            name,
            writer: vmdk::Slot::new(writer),
            written: OnceLock::new(),
        })
    }
}

impl Exporter for VmdkFile<'_> {
    fn needs(&self) -> Needs {
        Needs {
            stream: true,
            ..Needs::default()
        }
    }

    fn append(&self, index: u64, packed: &[u8]) -> Result<()> {
        self.writer.append(index, packed)
    }

    fn finish(&self, _: &Totals, _: &Cancel) -> Result<()> {
        let (written, stream) = self.writer.end()?;
        self.written.get_or_init(|| written);
        let synced = stream.file.sync_all();
        synced.map_err(|e| Error::io("sync", &self.temporary, e))
    }

    fn check(&self, totals: &Totals, cancel: &Cancel) -> Result<Artifact> {
        let written = self.written.get().ok_or_else(vmdk::out_of_order)?;
        let expected = (written.bytes, &written.sha256);
        check::whole(&self.name, &self.temporary, expected, cancel)?;
        let disk = StreamVmdk::open(RawDisk::open(&self.temporary)?)?;
        let (grains, stored) = (written.populated / GRAIN, disk.stored_grains());
        check::same(&self.name, "number of grains", grains, stored)?;
        check::content(&self.name, &disk, totals, self.job.threads(), cancel)?;
        Ok(Artifact {
            kind: Output::Vmdk.name(),
            file: self.name.clone(),
            bytes: written.bytes,
            sha256: written.sha256.clone(),
            disk: None,
            checked: [
                "size",
                "digest",
                "VMDK markers, end-of-stream last",
                check::CONTENT,
            ]
            .map(String::from)
            .to_vec(),
        })
    }
}
