//! Exports a flat VMDK for an ESXi datastore: its descriptor, and the extent, which
//! [`crate::export::flat`] writes.
//!
//! Source: VMware, "Virtual Disk Format 5.0" technical note: `createType` vmfs, an extent of type
//! VMFS.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;

use crate::export::flat::FlatExporter;
use crate::export::format::{ExportSetup, OutputSize, OutputSpec};
use crate::export::staging::ExportStaging;
use crate::export::{ExportedArtifact, Exporter, PassTotals, check, vmdk};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;
use winimg_recipe::OutputFormat;

pub const SPEC: OutputSpec = OutputSpec {
    about: "Extent and descriptor, as in an ESXi datastore",
    // The datastore browser recognizes an extent by this name.
    ..OutputSpec::new("-esxi-flat.vmdk", OutputSize::Flat, |setup, staging| {
        Ok(vec![
            Box::new(FlatExporter::new(setup, staging, OutputFormat::VmdkFlat)?),
            Box::new(FlatVmdkDescriptor::new(setup, staging)?),
        ])
    })
};

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

    fn new(setup: &ExportSetup<'_>, staging: &mut ExportStaging) -> Result<Self> {
        let (job, len, identity) = (setup.job, setup.len(), &setup.identity);
        let name = format!("{}-esxi.vmdk", job.name);
        let extent = job.file_name(OutputFormat::VmdkFlat);
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
            checked: vec!["text"],
        })
    }
}
