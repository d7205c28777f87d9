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
use super::staging::ExportStaging;
use super::{DiskChunk, ExportJob, ExportedArtifact, Exporter, ExporterNeeds, PassTotals, check};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;
use winimg_base::io::PositionedIo as _;
use winimg_formats::disk::vhd::VhdFooter;
use winimg_formats::disk::{Disk, RawDisk, join, vhd};
use winimg_recipe::recipe::target::OutputFormat;

/// Size of a hole in bytes: the block size of common file systems.
const HOLE: usize = 4096;

/// The kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlatFormat {
    Raw,
    /// A fixed VHD, with a footer.
    Vhd,
    /// The extent of a flat VMDK.
    Extent,
}

impl FlatFormat {
    pub fn file_name(self, name: &str) -> String {
        match self {
            Self::Raw => format!("{name}.raw"),
            Self::Vhd => format!("{name}.vhd"),
            // The datastore browser recognizes an extent by this name.
            Self::Extent => format!("{name}-esxi-flat.vmdk"),
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Raw => OutputFormat::Raw.name(),
            Self::Vhd => OutputFormat::Vhd.name(),
            Self::Extent => OutputFormat::VmdkFlat.name(),
        }
    }

    fn footer_len(self) -> u64 {
        match self {
            Self::Vhd => vhd::FOOTER,
            Self::Raw | Self::Extent => 0,
        }
    }
}

pub struct FlatExporter<'j> {
    job: &'j ExportJob<'j>,
    file: File,
    temporary: PathBuf,
    name: String,
    len: u64,
    form: FlatFormat,
    digest: OnceLock<Digest>,
}

impl<'j> FlatExporter<'j> {
    pub fn new(
        job: &'j ExportJob<'_>,
        len: u64,
        staging: &mut ExportStaging,
        form: FlatFormat,
    ) -> Result<Self> {
        let name = form.file_name(job.name);
        let (file, temporary) = staging.create(&name)?;
        file.set_len(len + form.footer_len())
            .map_err(|e| Error::io("size", &temporary, e))?;
        Ok(Self {
            job,
            file,
            temporary,
            name,
            len,
            form,
            digest: OnceLock::new(),
        })
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
        if self.form == FlatFormat::Vhd {
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
        let mut checked = vec!["size".to_string()];
        let disk = if self.form == FlatFormat::Vhd {
            let (disk, footer) = vhd::open(&self.temporary)?;
            let content = totals.flat.clone().map(|h| self.build_footer(&h.finish()));
            check::require_equal(&self.name, "footer", content.as_ref(), Some(&footer))?;
            checked.push("footer".into());
            disk
        } else {
            RawDisk::open(&self.temporary)?
        };
        check::check_content(&self.name, &disk, totals, self.job.count_threads(), cancel)?;
        checked.push(check::CONTENT.into());
        let digest = self.digest.get().cloned();
        Ok(ExportedArtifact {
            kind: self.form.kind(),
            file: self.name.clone(),
            bytes: disk.len() + self.form.footer_len(),
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
