//! The descriptor of a flat VMDK, as it lies in an ESXi datastore beside its extent, which is [`super::flat`]'s.
//!
//! Source: VMware, "Virtual Disk Format 5.0" technical note: `createType` vmfs, an extent of type VMFS.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;

use super::flat::Form;
use super::staging::Staging;
use super::{Artifact, Exporter, Job, Totals, check, vmdk};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;

pub struct Descriptor {
    file: File,
    temporary: PathBuf,
    name: String,
    extent: String,
    text: String,
}

impl Descriptor {
    /// In the manifest. A recipe asks for the disk and gets this with it.
    const KIND: &str = "vmdk_descriptor";

    pub fn new(job: &Job<'_>, len: u64, identity: &Digest, staging: &mut Staging) -> Result<Self> {
        let name = format!("{}-esxi.vmdk", job.name);
        let extent = Form::Extent.file(job.name);
        let (file, temporary) = staging.create(&name)?;
        Ok(Self {
            file,
            temporary,
            text: vmdk::descriptor(vmdk::Extent::Flat, &extent, len, identity),
            name,
            extent,
        })
    }
}

impl Exporter for Descriptor {
    fn finish(&self, _: &Totals, _: &Cancel) -> Result<()> {
        let written = (&self.file).write_all(self.text.as_bytes());
        written.map_err(|e| Error::io("write", &self.temporary, e))?;
        let synced = self.file.sync_all();
        synced.map_err(|e| Error::io("sync", &self.temporary, e))
    }

    fn check(&self, _: &Totals, _: &Cancel) -> Result<Artifact> {
        let found = fs::read(&self.temporary).map_err(|e| Error::io("read", &self.temporary, e))?;
        check::same(&self.name, "text", self.text.as_bytes(), &found)?;
        Ok(Artifact {
            kind: Self::KIND,
            file: self.name.clone(),
            bytes: found.len() as u64,
            sha256: Digest::sha256_of(&found),
            disk: Some(self.extent.clone()),
            checked: vec!["text".into()],
        })
    }
}
