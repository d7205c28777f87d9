//! The volume's bytes as the `ntfs` crate gets them, for one question about it.
//!
//! The crate takes a read that fails within a structure for impossible and panics, and follows an index that leads back
//! to itself without end; an index that is not sound it does not even survive. So a read never fails here: what cannot be read is zeros, which nothing takes for a structure,
//! and the first such read makes the whole answer an error. Neither does it go on for ever.

use std::io::{self, Read, Seek, SeekFrom};

use super::sound::has_broken_index;
use super::{DiskReader, Fault, Result};

/// Reads for one question, content apart. A directory of a million names needs a tenth of this.
const MOST_READS: u64 = 1 << 19;
/// Reads for opening a volume: its table of capitals is read letter by letter.
const MOST_READS_OPENING: u64 = 1 << 21;

/// A structure is not longer, bytes.
const STRUCTURE: usize = 64 << 10;

/// A reader that notes what went wrong instead of failing.
pub(super) struct Fs<'d> {
    inner: DiskReader<'d>,
    left: u64,
    fault: Option<String>,
    /// A file's own bytes are read, which may look like anything.
    is_content: bool,
}

impl<'d> Fs<'d> {
    pub fn new(volume: &DiskReader<'d>) -> Self {
        Self {
            inner: volume.clone(),
            left: MOST_READS,
            fault: None,
            is_content: false,
        }
    }

    pub fn opening(volume: &DiskReader<'d>) -> Self {
        let left = MOST_READS_OPENING;
        Self {
            left,
            ..Self::new(volume)
        }
    }

    /// Bytes of the volume.
    pub fn len(&self) -> u64 {
        self.inner.len()
    }

    /// Reads of content are as many as the content's length asks for: they are not counted.
    pub fn content(&mut self) {
        self.left = u64::MAX;
        self.is_content = true;
    }

    /// Reads a whole structure at once, so that it can be judged.
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

    /// The answer, unless a read went wrong on the way to it.
    pub fn end<T>(self, path: &str, answer: Result<T>) -> Result<T> {
        match self.fault {
            None => answer,
            Some(fault) => Err(Fault::Broken(fault)
                .of(path)
                .cure("check the volume in that Windows: chkdsk /f")),
        }
    }
}

impl Read for Fs<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let fault = match self.left.checked_sub(1) {
            None => "its structures lead in a circle".into(),
            Some(left) => {
                self.left = left;
                let at = self.inner.stream_position().unwrap_or(u64::MAX);
                match self.fill(buffer) {
                    Ok(n) if n > 0 && !self.is_content && has_broken_index(&buffer[..n]) => {
                        format!("the index at offset {at:#x} of the volume is damaged")
                    }
                    Ok(n) if n > 0 => return Ok(n),
                    Ok(_) => format!("offset {at:#x} of the volume lies beyond its end"),
                    Err(e) => e.to_string(),
                }
            }
        };
        self.fault.get_or_insert(fault);
        buffer.fill(0);
        Ok(buffer.len())
    }
}

impl Seek for Fs<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}
