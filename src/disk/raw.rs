//! A raw disk, or a window of a file that holds one (a fixed VHD without its footer, a member of a tar).

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::unistd::{Whence, lseek};

use super::Disk;
use crate::error::{Error, Kind, Result};

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
        if start.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(self
                .outside(start, len)
                .cure("the file is cut short: write or copy it again"));
        }
        self.start += start;
        self.len = len;
        Ok(self)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn outside(&self, offset: u64, len: u64) -> Error {
        Error::new(
            Kind::Failed,
            format!("{} ends too early", self.path.display()),
        )
        .at(format!("offset {offset}"))
        .expected(format!("{len} bytes"))
        .found(format!("{} bytes in all", self.len))
    }

    /// The next data or hole at or after `from`, counted in the file. `None`: nothing more (or the file system can't say).
    fn seek(&self, from: u64, whence: Whence) -> Result<Option<u64>> {
        match lseek(&self.file, from as i64, whence) {
            Ok(at) => Ok(Some(at as u64)),
            Err(Errno::ENXIO) => Ok(None),
            Err(e) => Err(Error::io("look for holes in", &self.path, e.into())),
        }
    }
}

impl Disk for RawDisk {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let len = buffer.len() as u64;
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(self.outside(offset, len));
        }
        self.file
            .read_exact_at(buffer, self.start + offset)
            .map_err(|e| Error::io("read", &self.path, e))
    }

    /// Asks the file system for holes (Linux lseek(2), SEEK_DATA and SEEK_HOLE).
    fn data(&self) -> Result<Vec<Range<u64>>> {
        let mut ranges = Vec::new();
        let end = self.start + self.len;
        let mut at = self.start;
        while at < end {
            let Some(data) = self.seek(at, Whence::SeekData)? else {
                break;
            };
            if data >= end {
                break;
            }
            let hole = self.seek(data, Whence::SeekHole)?.unwrap_or(end).min(end);
            ranges.push(data - self.start..hole - self.start);
            at = hole;
        }
        Ok(ranges)
    }
}
