//! Exports a file with a front, blocks in the disk's order, and an end: a VHDX or a dynamic VHD.
//!
//! All offsets are known before the first write. Workers write blocks in any order, with holes for
//! runs of zeros; the file's digest is computed in order at the same time, without reading it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock};

use super::data_map::BlockSlots;
use super::flat::data_runs;
use super::staging::ExportStaging;
use super::{
    CHUNK, DiskChunk, ExportJob, ExportedArtifact, Exporter, ExporterNeeds, PassTotals, check,
};
use winimg_base::digest::{Algorithm, Digest, Hasher};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io::PositionedIo as _;
use winimg_formats::disk::{Disk, RawDisk};
use winimg_recipe::OutputFormat;

/// The layout of the file.
pub struct BlockLayout {
    /// Size of a block in bytes, a multiple of a chunk.
    pub block: u64,
    /// Bytes in front of each block.
    pub lead: Vec<u8>,
    /// Size of the front in bytes.
    pub start: u64,
    pub slots: BlockSlots,
    /// Size of the disk in bytes, the end of the last block.
    pub len: u64,
}

impl BlockLayout {
    /// Returns the offset of a block's content in the file; `None` if it is zeros and not stored.
    pub fn find_offset(&self, block: u64) -> Option<u64> {
        let lead = self.lead.len() as u64;
        let slot = self.slots.find_slot(block)?;
        Some(self.start + slot * (lead + self.block) + lead)
    }

    /// Returns the end of the blocks.
    pub fn end(&self) -> u64 {
        self.start + self.slots.count() * (self.lead.len() as u64 + self.block)
    }
}

/// A format with such files: its front, its end, and its reader.
pub trait BlockFormat: Send + Sync {
    /// The format's own entries in an artifact's `checked`.
    const CHECKED: &'static [&'static str];

    /// Builds the consecutive pieces of the front.
    fn build_front<'a>(&'a self, layout: &'a BlockLayout) -> impl Iterator<Item = Vec<u8>>;

    fn build_end(&self) -> Vec<u8> {
        Vec::new()
    }

    fn open(path: &Path) -> Result<impl Disk>;
}

pub struct BlockExporter<'j, F> {
    job: &'j ExportJob<'j>,
    output: OutputFormat,
    format: F,
    file: BlockFile,
}

impl<'j, F: BlockFormat> BlockExporter<'j, F> {
    pub fn new(
        job: &'j ExportJob<'_>,
        output: OutputFormat,
        format: F,
        layout: BlockLayout,
        staging: &mut ExportStaging,
    ) -> Result<Self> {
        let file = BlockFile::new(staging, job.file_name(output), layout)?;
        file.write_front(format.build_front(&file.layout))?;
        Ok(Self {
            job,
            output,
            format,
            file,
        })
    }
}

impl<F: BlockFormat> Exporter for BlockExporter<'_, F> {
    fn needs(&self) -> ExporterNeeds {
        ExporterNeeds {
            chunks: true,
            ordered: true,
            ..ExporterNeeds::default()
        }
    }

    fn take(&self, chunk: &DiskChunk) -> Result<()> {
        self.file.take(chunk)
    }

    fn hash(&self, chunk: &DiskChunk) -> Result<()> {
        self.file.hash(chunk)
    }

    fn finish(&self, _: &PassTotals, _: &Cancel) -> Result<()> {
        self.file.finish(&self.format.build_end())
    }

    fn check(&self, totals: &PassTotals, cancel: &Cancel) -> Result<ExportedArtifact> {
        let file = &self.file;
        let end = self.format.build_end().len() as u64;
        let bytes = file.check_front(self.format.build_front(&file.layout), end)?;
        let disk = F::open(&file.temporary)?;
        check::check_content(&file.name, &disk, totals, self.job.count_threads(), cancel)?;
        Ok(ExportedArtifact {
            kind: self.output.name(),
            file: file.name.clone(),
            bytes,
            sha256: file.digest()?,
            disk: None,
            checked: [&["size"], F::CHECKED, &[check::CONTENT]].concat(),
        })
    }
}

/// The file while it is written.
struct BlockFile {
    layout: BlockLayout,
    temporary: PathBuf,
    name: String,
    file: File,
    hasher: Mutex<Hasher>,
    digest: OnceLock<Digest>,
}

impl BlockFile {
    fn new(staging: &mut ExportStaging, name: String, layout: BlockLayout) -> Result<Self> {
        let (file, temporary) = staging.create(&name)?;
        file.set_len(layout.end())
            .map_err(|e| Error::io("size", &temporary, e))?;
        Ok(Self {
            layout,
            temporary,
            name,
            file,
            hasher: Mutex::new(Hasher::new(Algorithm::Sha256)),
            digest: OnceLock::new(),
        })
    }

    /// Writes the front of the file from consecutive `pieces`.
    fn write_front(&self, pieces: impl Iterator<Item = Vec<u8>>) -> Result<()> {
        let mut at = 0;
        for piece in pieces {
            self.write_data(&piece, at)?;
            self.lock_hasher().update(&piece);
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn lock_hasher(&self) -> MutexGuard<'_, Hasher> {
        // A panicking thread ends the pass; the hasher is not used after that.
        self.hasher.lock().unwrap_or_else(|p| p.into_inner())
    }

    fn write(&self, bytes: &[u8], at: u64) -> Result<()> {
        self.file
            .write_all_at(bytes, at)
            .map_err(|e| Error::io("write", &self.temporary, e))
    }

    /// Writes bytes, with holes for zeros.
    fn write_data(&self, bytes: &[u8], at: u64) -> Result<()> {
        for run in data_runs(bytes) {
            self.write(&bytes[run.clone()], at + run.start as u64)?;
        }
        Ok(())
    }

    /// Returns a chunk's offset in the file, and true if it is the first of its block.
    fn locate_chunk(&self, chunk: &DiskChunk) -> Result<Option<(u64, bool)>> {
        let (block, within) = (
            chunk.offset() / self.layout.block,
            chunk.offset() % self.layout.block,
        );
        match self.layout.find_offset(block) {
            Some(place) => Ok(Some((place + within, within == 0))),
            None if chunk.data.is_none() => Ok(None),
            None => Err(
                Error::new(Kind::Export, "the disk was written while it was exported")
                    .at(format!("offset {} of the disk", chunk.offset()))
                    .expected("zeros, as at the export's start")
                    .found("data")
                    .cure("stop the program that writes to it, then export again"),
            ),
        }
    }

    fn take(&self, chunk: &DiskChunk) -> Result<()> {
        let Some((at, is_first)) = self.locate_chunk(chunk)? else {
            return Ok(());
        };
        let lead = &self.layout.lead;
        if is_first {
            self.write(lead, at - lead.len() as u64)?;
        }
        self.write_data(chunk.data.as_deref().unwrap_or_default(), at)
    }

    /// Chunks come in order.
    fn hash(&self, chunk: &DiskChunk) -> Result<()> {
        static ZEROS: [u8; CHUNK as usize] = [0; CHUNK as usize];
        let Some((_, is_first)) = self.locate_chunk(chunk)? else {
            return Ok(());
        };
        let mut hasher = self.lock_hasher();
        if is_first {
            hasher.update(&self.layout.lead);
        }
        hasher.update(chunk.data.as_deref().unwrap_or(&ZEROS));
        // The file always contains the full last block.
        let end = chunk.offset() + CHUNK;
        if end == self.layout.len {
            for _ in 0..(end.next_multiple_of(self.layout.block) - end) / CHUNK {
                hasher.update(&ZEROS);
            }
        }
        Ok(())
    }

    /// Writes the end of the file and syncs it.
    fn finish(&self, end: &[u8]) -> Result<()> {
        self.write(end, self.layout.end())?;
        self.file
            .sync_all()
            .map_err(|e| Error::io("sync", &self.temporary, e))?;
        let mut hasher = self.lock_hasher().clone();
        hasher.update(end);
        self.digest.get_or_init(|| hasher.finish());
        Ok(())
    }

    /// Returns the digest of the finished file.
    fn digest(&self) -> Result<Digest> {
        let digest = self.digest.get().cloned();
        digest.ok_or_else(|| Error::failed("checked before finished"))
    }

    /// Reads the front back and compares it byte for byte, because a reader needs only one of each
    /// pair of headers. Returns the file's length, which must equal front, blocks and `end` bytes.
    fn check_front(&self, pieces: impl Iterator<Item = Vec<u8>>, end: u64) -> Result<u64> {
        let file = RawDisk::open(&self.temporary)?;
        check::require_equal(&self.name, "size", self.layout.end() + end, file.len())?;
        let mut at = 0;
        for piece in pieces {
            let mut found = vec![0; piece.len()];
            file.read_at(at, &mut found)?;
            check::require_equal(&self.name, "front", true, piece == found)?;
            at += piece.len() as u64;
        }
        Ok(file.len())
    }
}
