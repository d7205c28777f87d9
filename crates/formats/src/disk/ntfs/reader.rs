//! Reader that passes the volume's bytes to the `ntfs` crate for one query.
//!
//! The crate panics if a read fails within a structure or an index is damaged, and loops forever in
//! an index with a cycle. So reads never fail here: unreadable bytes are returned as zeros, which
//! are no valid structure, and the first such read turns the result into an error. The number of
//! reads is limited.

use std::io::{self, Read, Seek, SeekFrom};

use super::index_check::has_broken_index;
use super::{DiskReader, NtfsFault, Result};

/// Maximum reads of one query, except content. A directory of a million names needs a tenth of
/// this.
const MAX_READS: u64 = 1 << 19;
/// Maximum reads for opening a volume, whose upcase table is read character by character.
const MAX_READS_OPENING: u64 = 1 << 21;

/// Maximum bytes of a structure.
const STRUCTURE: usize = 64 << 10;

/// A reader that records the first fault instead of failing.
pub(super) struct NtfsReader<'d> {
    inner: DiskReader<'d>,
    left: u64,
    fault: Option<String>,
    /// True while a file's content is read, which may look like any structure.
    is_content: bool,
}

impl<'d> NtfsReader<'d> {
    pub fn new(volume: &DiskReader<'d>) -> Self {
        Self {
            inner: volume.clone(),
            left: MAX_READS,
            fault: None,
            is_content: false,
        }
    }

    pub fn with_open_limit(volume: &DiskReader<'d>) -> Self {
        let left = MAX_READS_OPENING;
        Self {
            left,
            ..Self::new(volume)
        }
    }

    /// Returns the size of the volume in bytes.
    pub fn len(&self) -> u64 {
        self.inner.len()
    }

    /// Switches to reading content. Its length limits the number of reads, so they are not counted.
    pub fn allow_content(&mut self) {
        self.left = u64::MAX;
        self.is_content = true;
    }

    /// Reads a whole structure at once, so that it can be checked.
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = self.inner.read(buffer)?;
        while done > 0 && done < buffer.len() && buffer.len() <= STRUCTURE {
            match self.inner.read(&mut buffer[done..])? {
                0 => break,
                n => done += n,
            }
        }
        Ok(done)
    }

    /// Returns the answer, or the fault of a read that led to it.
    pub fn finish<T>(self, path: &str, answer: Result<T>) -> Result<T> {
        match self.fault {
            None => answer,
            Some(fault) => Err(NtfsFault::Broken(fault)
                .into_error(path)
                .cure("check the volume in that Windows: chkdsk /f")),
        }
    }
}

impl Read for NtfsReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let fault = match self.left.checked_sub(1) {
            None => "its structures form a cycle".into(),
            Some(left) => {
                self.left = left;
                let at = self.inner.stream_position().unwrap_or(u64::MAX);
                match self.fill(buffer) {
                    Ok(n) if n > 0 && !self.is_content && has_broken_index(&buffer[..n]) => {
                        format!("the index at offset {at:#x} of the volume is damaged")
                    }
                    Ok(n) if n > 0 => return Ok(n),
                    Ok(_) => format!("offset {at:#x} of the volume is beyond its end"),
                    Err(e) => e.to_string(),
                }
            }
        };
        self.fault.get_or_insert(fault);
        buffer.fill(0);
        Ok(buffer.len())
    }
}

impl Seek for NtfsReader<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}
