//! A raw disk, or a window of a file that holds one (a fixed VHD without its footer, a member of a tar).

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::{Disk, within};
use winimg_base::error::{Error, Result};
use winimg_base::io::{Positioned as _, data_within};

/// Bytes `start .. start + len` of a file.
#[derive(Debug)]
pub struct RawDisk {
    file: File,
    path: PathBuf,
    start: u64,
    len: u64,
}

impl RawDisk {
    /// The whole file.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        let len = file
            .metadata()
            .map_err(|e| Error::io("look at", path, e))?
            .len();
        Ok(Self {
            file,
            path: path.to_owned(),
            start: 0,
            len,
        })
    }

    /// A part of this one. Both numbers are bytes; the part must lie inside.
    pub fn window(mut self, start: u64, len: u64) -> Result<Self> {
        within(&self.path, start, len, self.len)
            .map_err(|e| e.cure("the file is cut short: write or copy it again"))?;
        self.start += start;
        self.len = len;
        Ok(self)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A disk in memory.
impl Disk for Vec<u8> {
    fn len(&self) -> u64 {
        self.as_slice().len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        within(
            Path::new("memory"),
            offset,
            buffer.len() as u64,
            Disk::len(self),
        )?;
        buffer.copy_from_slice(&self[offset as usize..][..buffer.len()]);
        Ok(())
    }
}

impl Disk for RawDisk {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        within(&self.path, offset, buffer.len() as u64, self.len)?;
        self.file
            .read_exact_at(buffer, self.start + offset)
            .map_err(|e| Error::io("read", &self.path, e))
    }

    /// Asks the file system for holes.
    fn data(&self) -> Result<Vec<Range<u64>>> {
        let found = data_within(&self.file, self.start..self.start + self.len)
            .map_err(|e| Error::io("look for holes in", &self.path, e))?;
        let ranges = found.into_iter();
        Ok(ranges
            .map(|r| r.start - self.start..r.end - self.start)
            .collect())
    }
}
