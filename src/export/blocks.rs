//! A file of a front, blocks in the disk's order, and an end: what VHDX and dynamic VHD have in common.
//!
//! All places are decided before the first byte. Workers write blocks wherever they come, and runs of zeros in them are
//! holes; the file's digest is taken beside them, from its first byte to its last, and nothing is read for it.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock};

use super::flat::data_runs;
use super::held::Slots;
use super::staging::Staging;
use super::{CHUNK, Chunk, check};
use winimg_base::digest::{Algorithm, Digest, Hasher};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io::Positioned as _;
use winimg_formats::disk::{Disk as _, RawDisk};

/// Where everything is.
pub struct Layout {
    /// Bytes of a block: whole chunks.
    pub block: u64,
    /// What stands before each block.
    pub lead: Vec<u8>,
    /// Bytes of the front.
    pub start: u64,
    pub slots: Slots,
    /// Bytes of the disk: the last block ends there.
    pub len: u64,
}

impl Layout {
    /// Where the content of a block begins in the file. `None`: it is zeros and has no room.
    pub fn place(&self, block: u64) -> Option<u64> {
        let lead = self.lead.len() as u64;
        let slot = self.slots.of(block)?;
        Some(self.start + slot * (lead + self.block) + lead)
    }

    /// Where the blocks end.
    pub fn end(&self) -> u64 {
        self.start + self.slots.count() * (self.lead.len() as u64 + self.block)
    }
}

/// The file while it is written.
pub struct Blocks {
    pub layout: Layout,
    pub temporary: PathBuf,
    pub name: String,
    file: File,
    hasher: Mutex<Hasher>,
    digest: OnceLock<Digest>,
}

impl Blocks {
    pub fn new(staging: &mut Staging, name: String, layout: Layout) -> Result<Self> {
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

    /// What stands before the blocks, of which `pieces` come one after the other.
    pub fn write_front(&self, pieces: impl Iterator<Item = Vec<u8>>) -> Result<()> {
        let mut at = 0;
        for piece in pieces {
            self.write_data(&piece, at)?;
            self.hasher().update(&piece);
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn hasher(&self) -> MutexGuard<'_, Hasher> {
        // A thread that panicked ends the pass, and what it left here is not used after that.
        self.hasher.lock().unwrap_or_else(|p| p.into_inner())
    }

    fn write(&self, bytes: &[u8], at: u64) -> Result<()> {
        self.file
            .write_all_at(bytes, at)
            .map_err(|e| Error::io("write", &self.temporary, e))
    }

    /// Leaves holes where `bytes` are zeros.
    fn write_data(&self, bytes: &[u8], at: u64) -> Result<()> {
        for run in data_runs(bytes) {
            self.write(&bytes[run.clone()], at + run.start as u64)?;
        }
        Ok(())
    }

    /// Where a chunk lies in the file, and whether it is the first of its block.
    fn place(&self, chunk: &Chunk) -> Result<Option<(u64, bool)>> {
        let (block, within) = (
            chunk.offset() / self.layout.block,
            chunk.offset() % self.layout.block,
        );
        match self.layout.place(block) {
            Some(place) => Ok(Some((place + within, within == 0))),
            None if chunk.data.is_none() => Ok(None),
            None => Err(
                Error::new(Kind::Export, "the disk was written while it was exported")
                    .at(format!("offset {} of the disk", chunk.offset()))
                    .expected("zeros, as at the export's start")
                    .found("data")
                    .cure("end the program that writes it, then export again"),
            ),
        }
    }

    pub fn take(&self, chunk: &Chunk) -> Result<()> {
        let Some((at, is_first)) = self.place(chunk)? else {
            return Ok(());
        };
        let lead = &self.layout.lead;
        if is_first {
            self.write(lead, at - lead.len() as u64)?;
        }
        self.write_data(chunk.data.as_deref().unwrap_or_default(), at)
    }

    /// Chunks come in order.
    pub fn hash(&self, chunk: &Chunk) -> Result<()> {
        static ZEROS: [u8; CHUNK as usize] = [0; CHUNK as usize];
        let Some((_, is_first)) = self.place(chunk)? else {
            return Ok(());
        };
        let mut hasher = self.hasher();
        if is_first {
            hasher.update(&self.layout.lead);
        }
        hasher.update(chunk.data.as_deref().unwrap_or(&ZEROS));
        // The last block is whole in the file, whatever the disk's size.
        let end = chunk.offset() + CHUNK;
        if end == self.layout.len {
            for _ in 0..(end.next_multiple_of(self.layout.block) - end) / CHUNK {
                hasher.update(&ZEROS);
            }
        }
        Ok(())
    }

    /// Writes what stands behind the blocks.
    pub fn finish(&self, end: &[u8]) -> Result<()> {
        self.write(end, self.layout.end())?;
        self.file
            .sync_all()
            .map_err(|e| Error::io("sync", &self.temporary, e))?;
        let mut hasher = self.hasher().clone();
        hasher.update(end);
        self.digest.get_or_init(|| hasher.finish());
        Ok(())
    }

    /// The file's, once it is finished.
    pub fn digest(&self) -> Result<Digest> {
        let digest = self.digest.get().cloned();
        digest.ok_or_else(|| Error::failed("checked before finished"))
    }

    /// Reads the front back and compares it byte for byte: a reader needs only one of each pair of headers. Gives the
    /// file's length, which must be that of front, blocks and `end` bytes.
    pub fn check_front(&self, pieces: impl Iterator<Item = Vec<u8>>, end: u64) -> Result<u64> {
        let file = RawDisk::open(&self.temporary)?;
        check::same(&self.name, "size", self.layout.end() + end, file.len())?;
        let mut at = 0;
        for piece in pieces {
            let mut found = vec![0; piece.len()];
            file.read_at(at, &mut found)?;
            check::same(&self.name, "front", true, piece == found)?;
            at += piece.len() as u64;
        }
        Ok(file.len())
    }
}
