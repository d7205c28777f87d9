//! Bytes of a file at a place, and the places where it has any, on either system. The file's own position means nothing here.

use std::fs::File;
use std::io;

/// On Unix these calls are the standard library's.
#[cfg(unix)]
pub use std::os::unix::fs::FileExt as At;

#[cfg(windows)]
pub trait At {
    fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()>;
    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;
}

#[cfg(windows)]
impl At for File {
    fn read_exact_at(&self, mut buffer: &mut [u8], mut at: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            let read = std::os::windows::fs::FileExt::seek_read(self, buffer, at)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer = &mut buffer[read..];
            at += read as u64;
        }
        Ok(())
    }

    fn write_all_at(&self, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = std::os::windows::fs::FileExt::seek_write(self, bytes, at)?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = &bytes[written..];
            at += written as u64;
        }
        Ok(())
    }
}

/// Where a sparse file has data, as far as its file system tells.
#[cfg(unix)]
pub fn held_ranges(raw: &File, size: u64) -> io::Result<Vec<(u64, u64)>> {
    use std::os::fd::AsRawFd as _;

    let seek = |at: u64, how: libc::c_int| -> io::Result<Option<u64>> {
        // SAFETY: an open descriptor and two numbers.
        let found = unsafe { libc::lseek(raw.as_raw_fd(), at as libc::off_t, how) };
        match u64::try_from(found) {
            Ok(found) => Ok(Some(found)),
            Err(_) => {
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    Some(libc::ENXIO) => Ok(None),
                    _ => Err(error),
                }
            }
        }
    };
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < size
        && let Some(start) = seek(at, libc::SEEK_DATA)?
    {
        let end = seek(start, libc::SEEK_HOLE)?.unwrap_or(size);
        ranges.push((start, end));
        at = end.max(start + 1);
    }
    Ok(ranges)
}

/// All of it: the disks that are tried there are small.
#[cfg(windows)]
pub fn held_ranges(_: &File, size: u64) -> io::Result<Vec<(u64, u64)>> {
    Ok(vec![(0, size)])
}
