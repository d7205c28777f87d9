//! A disk, or a part of one, as `Read + Seek` for the crates that parse what lies on it.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};

use super::Disk;

/// A position over `start .. start + len` of a disk. Writing always fails.
#[derive(Clone)]
pub struct DiskReader<'d> {
    disk: &'d dyn Disk,
    start: u64,
    len: u64,
    position: u64,
}

impl<'d> DiskReader<'d> {
    pub fn new(disk: &'d dyn Disk) -> Self {
        Self::part(disk, 0, disk.len())
    }

    /// Bytes `start .. start + len`, cut at the disk's end.
    pub fn part(disk: &'d dyn Disk, start: u64, len: u64) -> Self {
        let start = start.min(disk.len());
        Self {
            disk,
            start,
            len: len.min(disk.len() - start),
            position: 0,
        }
    }

    /// Bytes of the part.
    pub(super) fn len(&self) -> u64 {
        self.len
    }
}

impl Read for DiskReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.len.saturating_sub(self.position);
        let n = left.min(buffer.len() as u64) as usize;
        self.disk
            .read_at(self.start + self.position.min(self.len), &mut buffer[..n])
            .map_err(io::Error::other)?;
        self.position += n as u64;
        Ok(n)
    }
}

impl Seek for DiskReader<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(n) => Some(n),
            SeekFrom::End(n) => self.len.checked_add_signed(n),
            SeekFrom::Current(n) => self.position.checked_add_signed(n),
        };
        self.position = position.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.position)
    }
}

impl Write for DiskReader<'_> {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for DiskReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "disk {}+{} at {}", self.start, self.len, self.position)
    }
}
