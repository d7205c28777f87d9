//! `Read + Seek` over a disk or a part of it, for the crates that parse its content.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::sync::Arc;

use super::Disk;
use winimg_base::error::Result;

/// A position over `start .. start + len` of a disk. Writing always fails.
#[derive(Clone)]
pub struct DiskReader<'d> {
    disk: &'d dyn Disk,
    start: u64,
    len: u64,
    position: u64,
    /// The ranges of the disk that may contain data, if known.
    data: Option<Arc<[Range<u64>]>>,
}

impl<'d> DiskReader<'d> {
    pub fn new(disk: &'d dyn Disk) -> Self {
        Self::with_range(disk, 0, disk.len())
    }

    /// Reads bytes `start .. start + len`, cut at the disk's end.
    pub fn with_range(disk: &'d dyn Disk, start: u64, len: u64) -> Self {
        let start = start.min(disk.len());
        Self {
            disk,
            start,
            len: len.min(disk.len() - start),
            position: 0,
            data: None,
        }
    }

    /// Returns zeros for holes without reading them, since reading holes fills the page cache. The
    /// disk must not be written meanwhile.
    pub(super) fn without_holes(self) -> Result<Self> {
        let data = Some(self.disk.data()?.into());
        Ok(Self { data, ..self })
    }

    /// Returns true if all `len` bytes at `at` of the disk are known to be zeros.
    fn is_hole(&self, at: u64, len: u64) -> bool {
        self.data.as_ref().is_some_and(|data| {
            let next = data.partition_point(|range| range.end <= at);
            data.get(next).is_none_or(|range| range.start >= at + len)
        })
    }

    /// Returns the size of the part in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }
}

impl Read for DiskReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.len.saturating_sub(self.position);
        let n = left.min(buffer.len() as u64) as usize;
        let at = self.start + self.position.min(self.len);
        if self.is_hole(at, n as u64) {
            buffer[..n].fill(0);
        } else {
            self.disk
                .read_at(at, &mut buffer[..n])
                .map_err(io::Error::other)?;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: Range<u64> = 4096..8192;

    /// 16 KiB of sevens, of which only a part may be read.
    struct Sparse;

    impl Disk for Sparse {
        fn len(&self) -> u64 {
            16384
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
            let end = offset + buffer.len() as u64;
            assert!(
                offset < DATA.end && end > DATA.start,
                "{offset}..{end} is a hole"
            );
            buffer.fill(7);
            Ok(())
        }

        fn data(&self) -> Result<Vec<Range<u64>>> {
            Ok(Vec::from([DATA]))
        }
    }

    #[test]
    fn holes_are_zeros_that_nobody_reads() {
        let reader = DiskReader::with_range(&Sparse, 1024, 15360);
        let mut reader = reader.without_holes().unwrap();
        for (at, len, expected) in [
            (0, 3072, 0),
            (3072, 4096, 7),
            (3071, 2, 7),
            (7167, 100, 7),
            (7168, 100, 0),
            (15000, 360, 0),
        ] {
            let mut read = vec![1; len];
            reader.seek(SeekFrom::Start(at)).unwrap();
            reader.read_exact(&mut read).unwrap();
            assert!(read.iter().all(|b| *b == expected), "{len} bytes at {at}");
        }
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
}
