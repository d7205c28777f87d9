//! Finds the parts of a file with data, as reported by its file system; all other parts are zeros.
//!
//! Only a hint: a file system without this information reports everything as data.

use std::fs::File;
use std::io;
use std::ops::Range;

use super::PositionedIo as _;
use crate::digest::{Algorithm, Digest, Hasher};

/// Returns the parts of `within` with data, in order (Linux: lseek(2), SEEK_DATA and SEEK_HOLE).
#[cfg(unix)]
pub fn find_data(file: &File, within: Range<u64>) -> io::Result<Vec<Range<u64>>> {
    use nix::unistd::Whence;

    let mut ranges = Vec::new();
    let mut at = within.start;
    while at < within.end {
        let data = match seek_to(file, at, Whence::SeekData)? {
            Some(data) if data < within.end => data,
            _ => break,
        };
        let hole = seek_to(file, data, Whence::SeekHole)?;
        at = hole.unwrap_or(within.end).min(within.end);
        ranges.push(data..at);
    }
    Ok(ranges)
}

/// Finds the next data or hole at or after `from`; `None` if there is no more data.
#[cfg(unix)]
fn seek_to(file: &File, from: u64, whence: nix::unistd::Whence) -> io::Result<Option<u64>> {
    match nix::unistd::lseek(file, from as i64, whence) {
        Ok(at) => Ok(Some(at as u64)),
        Err(nix::errno::Errno::ENXIO) => Ok(None),
        Err(e) => Err(io::Error::from(e)),
    }
}

/// Returns the parts of `within` with data, in order (Microsoft: FSCTL_QUERY_ALLOCATED_RANGES).
#[cfg(windows)]
pub fn find_data(file: &File, within: Range<u64>) -> io::Result<Vec<Range<u64>>> {
    use windows_sys::Win32::Foundation::{
        ERROR_CALL_NOT_IMPLEMENTED, ERROR_INVALID_FUNCTION, ERROR_INVALID_PARAMETER,
        ERROR_NOT_SUPPORTED,
    };

    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut at = within.start;
    while at < within.end {
        let (found, has_more) = match query_allocated_ranges(file, at..within.end) {
            Ok(answer) => answer,
            Err(e) => match e.raw_os_error().map(i32::cast_unsigned) {
                // FAT, some network file systems, and Wine.
                Some(
                    ERROR_INVALID_FUNCTION
                    | ERROR_NOT_SUPPORTED
                    | ERROR_CALL_NOT_IMPLEMENTED
                    | ERROR_INVALID_PARAMETER,
                ) => return Ok(vec![within]),
                _ => return Err(e),
            },
        };
        let Some(last) = found.last() else { break };
        at = last.end;
        ranges.extend(found);
        if !has_more {
            break;
        }
    }
    Ok(ranges)
}

/// Returns some allocated, non-empty ranges inside the given one, and true if there are more.
#[cfg(windows)]
fn query_allocated_ranges(file: &File, within: Range<u64>) -> io::Result<(Vec<Range<u64>>, bool)> {
    use std::os::windows::io::AsRawHandle as _;
    use std::ptr::{from_mut, from_ref, null_mut};

    use windows_sys::Win32::Foundation::ERROR_MORE_DATA;
    use windows_sys::Win32::System::IO::DeviceIoControl;
    use windows_sys::Win32::System::Ioctl::{
        FILE_ALLOCATED_RANGE_BUFFER, FSCTL_QUERY_ALLOCATED_RANGES,
    };

    const RANGE_SIZE: usize = size_of::<FILE_ALLOCATED_RANGE_BUFFER>();
    let query = FILE_ALLOCATED_RANGE_BUFFER {
        FileOffset: within.start as i64,
        Length: (within.end - within.start) as i64,
    };
    let mut answer = [FILE_ALLOCATED_RANGE_BUFFER::default(); 256];
    let mut bytes = 0;
    // SAFETY: both buffers outlive the call and have the given lengths; without an OVERLAPPED the
    // call is synchronous.
    let done = unsafe {
        DeviceIoControl(
            file.as_raw_handle(),
            FSCTL_QUERY_ALLOCATED_RANGES,
            from_ref(&query).cast(),
            RANGE_SIZE as u32,
            from_mut(&mut answer).cast(),
            size_of_val(&answer) as u32,
            &mut bytes,
            null_mut(),
        )
    };
    let has_more = match done {
        0 => match io::Error::last_os_error() {
            e if e.raw_os_error() == Some(ERROR_MORE_DATA.cast_signed()) => true,
            e => return Err(e),
        },
        _ => false,
    };
    let ranges = answer
        .iter()
        .take(bytes as usize / RANGE_SIZE)
        .map(|r| {
            let start = (r.FileOffset.max(0) as u64).max(within.start);
            let end = r.FileOffset.saturating_add(r.Length).max(0) as u64;
            start..end.min(within.end)
        })
        .filter(|r| r.start < r.end)
        .collect();
    Ok((ranges, has_more))
}

/// Computes the SHA-256 of a file's first `size` bytes, reading only the parts with data. Also
/// returns `size`.
pub(super) fn compute_sha256(file: &File, size: u64) -> io::Result<(Digest, u64)> {
    const CHUNK: u64 = 1 << 20;
    let mut buffer = vec![0; CHUNK as usize];
    let mut hasher = Hasher::new(Algorithm::Sha256);
    let mut at = 0;
    for data in find_data(file, 0..size)? {
        hasher.update_zeros(data.start - at);
        at = data.end;
        for from in data.clone().step_by(CHUNK as usize) {
            let length = CHUNK.min(data.end - from) as usize;
            file.read_exact_at(&mut buffer[..length], from)?;
            hasher.update(&buffer[..length]);
        }
    }
    hasher.update_zeros(size - at);
    Ok((hasher.finish(), size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_over_holes_is_that_of_the_bytes_that_are_read() {
        let hashed = |size: u64, written: &[u64]| {
            let file = tempfile::NamedTempFile::new().unwrap();
            file.as_file().set_len(size).unwrap();
            for at in written {
                file.as_file().write_all_at(b"data", *at).unwrap();
            }
            let whole = std::fs::read(file.path()).unwrap();
            let expected = (Digest::sha256_of(&whole), whole.len() as u64);
            assert_eq!(crate::io::compute_sha256(file.path()).unwrap(), expected);
        };
        hashed(0, &[]);
        hashed(3, &[]);
        hashed(5 << 20, &[]);
        hashed(5 << 20, &[0]);
        hashed((5 << 20) + 13, &[(5 << 20) + 9]);
        hashed((9 << 20) + 1, &[(1 << 20) - 2, 4 << 20, 6 << 20]);
    }

    #[test]
    fn all_that_was_written_lies_in_data_and_all_data_in_the_range() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(64 << 20).unwrap();
        for at in [1 << 20, 40 << 20] {
            file.write_all_at(&[1; 4096], at).unwrap();
        }
        for within in [0..64 << 20, (1 << 20) + 10..41 << 20] {
            let data = find_data(&file, within.clone()).unwrap();
            assert!(data.iter().all(|r| r.start < r.end), "{data:?}");
            assert!(data.windows(2).all(|w| w[0].end <= w[1].start), "{data:?}");
            assert!(data[0].start >= within.start, "{data:?}");
            assert!(data[data.len() - 1].end <= within.end, "{data:?}");
            for at in [(1 << 20) + 10, (40 << 20) + 4095] {
                assert!(data.iter().any(|r| r.contains(&at)), "{at} in {data:?}");
            }
        }
    }
}
