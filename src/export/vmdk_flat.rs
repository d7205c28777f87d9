//! Exports the descriptor of a flat VMDK for an ESXi datastore; [`super::flat`] writes the extent.
//!
//! Source: VMware, "Virtual Disk Format 5.0" technical note: `createType` vmfs, an extent of type
//! VMFS.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;

use super::flat::FlatFormat;
use super::staging::ExportStaging;
use super::{ExportJob, ExportedArtifact, Exporter, PassTotals, check, vmdk};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;

pub struct FlatVmdkDescriptor {
    file: File,
    temporary: PathBuf,
    name: String,
    extent: String,
    text: String,
}

impl FlatVmdkDescriptor {
    /// The kind in the manifest. No output of its own: it comes with the flat VMDK.
    const KIND: &str = "vmdk_descriptor";

    pub fn new(
        job: &ExportJob<'_>,
        len: u64,
        identity: &Digest,
        staging: &mut ExportStaging,
    ) -> Result<Self> {
        let name = format!("{}-esxi.vmdk", job.name);
        let extent = FlatFormat::Extent.file_name(job.name);
        let (file, temporary) = staging.create(&name)?;
        Ok(Self {
            file,
            temporary,
            text: vmdk::render_descriptor(vmdk::VmdkExtent::Flat, &extent, len, identity),
            name,
            extent,
        })
    }
}

impl Exporter for FlatVmdkDescriptor {
    fn finish(&self, _: &PassTotals, _: &Cancel) -> Result<()> {
        let written = (&self.file).write_all(self.text.as_bytes());
        written.map_err(|e| Error::io("write", &self.temporary, e))?;
        let synced = self.file.sync_all();
        synced.map_err(|e| Error::io("sync", &self.temporary, e))
    }

    fn check(&self, _: &PassTotals, _: &Cancel) -> Result<ExportedArtifact> {
        let found = fs::read(&self.temporary).map_err(|e| Error::io("read", &self.temporary, e))?;
        check::require_equal(&self.name, "text", self.text.as_bytes(), &found)?;
        Ok(ExportedArtifact {
            kind: Self::KIND,
            file: self.name.clone(),
            bytes: found.len() as u64,
            sha256: Digest::sha256_of(&found),
            disk: Some(self.extent.clone()),
            checked: vec!["text".into()],
        })
    }
}
