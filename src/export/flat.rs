//! Raw disks, fixed VHDs and the extents of flat VMDKs: the same bytes, the VHD with a footer behind them.
//!
//! Sparse: runs of 4 KiB of zeros are holes. Sizes are never rounded; the pass admits whole MiB only, as Azure does.

use std::fs::File;
use std::path::PathBuf;
use std::sync::OnceLock;

use uuid::Uuid;

use super::chunk::is_zero;
use super::staging::Staging;
use super::{Artifact, Chunk, Exporter, Job, Needs, Totals, check};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;
use winimg_base::io::Positioned as _;
use winimg_formats::disk::vhd::Footer;
use winimg_formats::disk::{Disk, RawDisk, join, vhd};
use winimg_recipe::recipe::target::Output;

/// Bytes that are skipped together when they are zero: the block of the usual file systems.
const HOLE: usize = 4096;

/// Which file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Raw,
    /// With a footer.
    Vhd,
    /// A flat VMDK's, beside its descriptor.
    Extent,
}

impl Form {
    pub fn file(self, name: &str) -> String {
        match self {
            Self::Raw => format!("{name}.raw"),
            Self::Vhd => format!("{name}.vhd"),
            // The name by which a datastore's browser knows that a descriptor has this file.
            Self::Extent => format!("{name}-esxi-flat.vmdk"),
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Raw => Output::Raw.name(),
            Self::Vhd => Output::Vhd.name(),
            Self::Extent => Output::VmdkFlat.name(),
        }
    }

    fn footer(self) -> u64 {
        match self {
            Self::Vhd => vhd::FOOTER,
            Self::Raw | Self::Extent => 0,
        }
    }
}

pub struct Flat<'j> {
    job: &'j Job<'j>,
    file: File,
    temporary: PathBuf,
    name: String,
    len: u64,
    form: Form,
    digest: OnceLock<Digest>,
}

impl<'j> Flat<'j> {
    pub fn new(job: &'j Job<'_>, len: u64, staging: &mut Staging, form: Form) -> Result<Self> {
        let name = form.file(job.name);
        let (file, temporary) = staging.create(&name)?;
        file.set_len(len + form.footer())
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

    /// The footer's id is made from the content, so that the same disk gives the same file.
    fn footer(&self, content: &Digest) -> Footer {
        Footer {
            size: self.len,
            time: self.job.epoch,
            id: Uuid::new_v5(&Uuid::NAMESPACE_OID, content.bytes()),
        }
    }
}

impl Exporter for Flat<'_> {
    fn needs(&self) -> Needs {
        Needs {
            chunks: true,
            flat_digest: true,
            ..Needs::default()
        }
    }

    fn take(&self, chunk: &Chunk) -> Result<()> {
        let data = chunk.data.as_deref().unwrap_or_default();
        for run in data_runs(data) {
            self.write(&data[run.clone()], chunk.offset() + run.start as u64)?;
        }
        Ok(())
    }

    fn finish(&self, totals: &Totals, _: &Cancel) -> Result<()> {
        let mut hasher = totals
            .flat
            .clone()
            .ok_or_else(|| Error::failed("the pass made no digest of the disk"))?;
        if self.form == Form::Vhd {
            let footer = self.footer(&hasher.clone().finish()).encode();
            self.write(&footer, self.len)?;
            hasher.update(&footer);
        }
        self.digest.get_or_init(|| hasher.finish());
        self.file
            .sync_all()
            .map_err(|e| Error::io("sync", &self.temporary, e))
    }

    fn check(&self, totals: &Totals, cancel: &Cancel) -> Result<Artifact> {
        let mut checked = vec!["size".to_string()];
        let disk = if self.form == Form::Vhd {
            let (disk, footer) = vhd::open(&self.temporary)?;
            let content = totals.flat.clone().map(|h| self.footer(&h.finish()));
            check::same(&self.name, "footer", content.as_ref(), Some(&footer))?;
            checked.push("footer".into());
            disk
        } else {
            RawDisk::open(&self.temporary)?
        };
        check::content(&self.name, &disk, totals, self.job.threads(), cancel)?;
        checked.push(check::CONTENT.into());
        let digest = self.digest.get().cloned();
        Ok(Artifact {
            kind: self.form.kind(),
            file: self.name.clone(),
            bytes: disk.len() + self.form.footer(),
            sha256: digest.ok_or_else(|| Error::failed("checked before finished"))?,
            disk: None,
            checked,
        })
    }
}

/// The parts of a chunk that are not zero, by blocks of `HOLE`, neighbours joined.
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
