//! Exports raw disks, fixed VHDs and the extents of flat VMDKs: the same bytes, for a VHD with a
//! footer.
//!
//! Files are sparse: blocks of 4 KiB of zeros are holes. Sizes are never rounded; the pass accepts
//! only whole MiB, as Azure does.

use std::fs::File;
use std::path::PathBuf;
use std::sync::OnceLock;

use uuid::Uuid;

use super::chunk::is_zero;
use super::format::{ExportSetup, OutputSize, OutputSpec};
use super::staging::ExportStaging;
use super::{DiskChunk, ExportJob, ExportedArtifact, Exporter, ExporterNeeds, PassTotals, check};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;
use winimg_base::io::PositionedIo as _;
use winimg_formats::disk::vhd::VhdFooter;
use winimg_formats::disk::{Disk, RawDisk, join, vhd};
use winimg_recipe::OutputFormat;

/// Size of a hole in bytes: the block size of common file systems.
const HOLE: usize = 4096;

pub const RAW: OutputSpec = OutputSpec::new(".raw", OutputSize::Flat, |setup, staging| {
    let raw = FlatExporter::new(setup, staging, OutputFormat::Raw)?;
    Ok(vec![Box::new(raw)])
});

pub const VHD: OutputSpec = OutputSpec {
    about: "Fixed",
    limit: Some(("a VHD", vhd::MOST)),
    ..OutputSpec::new(".vhd", OutputSize::Flat, |setup, staging| {
        let vhd = FlatExporter::new(setup, staging, OutputFormat::Vhd)?;
        Ok(vec![Box::new(vhd)])
    })
};

pub struct FlatExporter<'j> {
    job: &'j ExportJob<'j>,
    file: File,
    temporary: PathBuf,
    name: String,
    len: u64,
    format: OutputFormat,
    digest: OnceLock<Digest>,
}

impl<'j> FlatExporter<'j> {
    pub fn new(
        setup: &'j ExportSetup<'_>,
        staging: &mut ExportStaging,
        format: OutputFormat,
    ) -> Result<Self> {
        let name = setup.job.file_name(format);
        let (file, temporary) = staging.create(&name)?;
        let flat = Self {
            job: setup.job,
            file,
            temporary,
            name,
            len: setup.len(),
            format,
            digest: OnceLock::new(),
        };
        flat.file
            .set_len(flat.len + flat.footer_len())
            .map_err(|e| Error::io("size", &flat.temporary, e))?;
        Ok(flat)
    }

    fn has_footer(&self) -> bool {
        self.format == OutputFormat::Vhd
    }

    fn footer_len(&self) -> u64 {
        if self.has_footer() { vhd::FOOTER } else { 0 }
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file
            .write_all_at(bytes, offset)
            .map_err(|e| Error::io("write", &self.temporary, e))
    }

    /// Builds the footer. Its id depends only on the content, so that the same disk produces the
    /// same file.
    fn build_footer(&self, content: &Digest) -> VhdFooter {
        VhdFooter {
            size: self.len,
            time: self.job.epoch,
            id: Uuid::new_v5(&Uuid::NAMESPACE_OID, content.bytes()),
        }
    }
}

impl Exporter for FlatExporter<'_> {
    fn needs(&self) -> ExporterNeeds {
        ExporterNeeds {
            chunks: true,
            flat_digest: true,
            ..ExporterNeeds::default()
        }
    }

    fn take(&self, chunk: &DiskChunk) -> Result<()> {
        let data = chunk.data.as_deref().unwrap_or_default();
        for run in data_runs(data) {
            self.write(&data[run.clone()], chunk.offset() + run.start as u64)?;
        }
        Ok(())
    }

    fn finish(&self, totals: &PassTotals, _: &Cancel) -> Result<()> {
        let mut hasher = totals
            .flat
            .clone()
            .ok_or_else(|| Error::failed("the pass made no digest of the disk"))?;
        if self.has_footer() {
            let footer = self.build_footer(&hasher.clone().finish()).encode();
            self.write(&footer, self.len)?;
            hasher.update(&footer);
        }
        self.digest.get_or_init(|| hasher.finish());
        self.file
            .sync_all()
            .map_err(|e| Error::io("sync", &self.temporary, e))
    }

    fn check(&self, totals: &PassTotals, cancel: &Cancel) -> Result<ExportedArtifact> {
        let mut checked = vec!["size"];
        let disk = if self.has_footer() {
            let (disk, footer) = vhd::open(&self.temporary)?;
            let content = totals.flat.clone().map(|h| self.build_footer(&h.finish()));
            check::require_equal(&self.name, "footer", content.as_ref(), Some(&footer))?;
            checked.push("footer");
            disk
        } else {
            RawDisk::open(&self.temporary)?
        };
        check::check_content(&self.name, &disk, totals, self.job.count_threads(), cancel)?;
        checked.push(check::CONTENT);
        let digest = self.digest.get().cloned();
        Ok(ExportedArtifact {
            kind: self.format.name(),
            file: self.name.clone(),
            bytes: disk.len() + self.footer_len(),
            sha256: digest.ok_or_else(|| Error::failed("checked before finished"))?,
            disk: None,
            checked,
        })
    }
}

/// Returns the nonzero parts of a chunk in blocks of `HOLE`, with adjacent ones joined.
pub fn data_runs(data: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut runs = Vec::new();
    for (i, block) in data.chunks(HOLE).enumerate() {
        if !is_zero(block) {
            join(&mut runs, i * HOLE..i * HOLE + block.len());
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_blocks_are_left_out_and_neighbours_joined() {
        let mut data = vec![0; 5 * HOLE];
        data[HOLE] = 1;
        data[3 * HOLE - 1] = 1;
        data[4 * HOLE + 7] = 1;
        assert_eq!(data_runs(&data), [HOLE..3 * HOLE, 4 * HOLE..5 * HOLE]);
    }
}
