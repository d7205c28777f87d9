//! The volume's bytes as the `ntfs` crate gets them, for one question about it.
//!
//! The crate takes a read that fails within a structure for impossible and panics, and follows an index that leads back
//! to itself without end. So a read never fails here: what cannot be read is zeros, which nothing takes for a structure,
//! and the first such read makes the whole answer an error. Neither does it go on for ever.

use std::cell::{Cell, RefCell};
use std::io::{self, Read, Seek, SeekFrom};

use super::{DiskReader, Error, Result};

/// Reads for one question, content apart. A directory of a million names needs a tenth of this.
const MOST_READS: u64 = 1 << 19;
/// Reads for opening a volume: its table of capitals is read letter by letter.
const MOST_READS_OPENING: u64 = 1 << 21;

/// A reader that notes what went wrong instead of failing.
pub(super) struct Fs<'d> {
    inner: DiskReader<'d>,
    left: Cell<u64>,
    /// Bytes of the volume.
    len: u64,
    fault: RefCell<Option<String>>,
}

impl<'d> Fs<'d> {
    pub fn new(volume: &DiskReader<'d>) -> Self {
        Self {
            len: volume.len(),
            inner: volume.clone(),
            left: Cell::new(MOST_READS),
            fault: RefCell::new(None),
        }
    }

    pub fn opening(volume: &DiskReader<'d>) -> Self {
        let fs = Self::new(volume);
        fs.left.set(MOST_READS_OPENING);
        fs
    }

    /// Bytes of the volume.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Reads of content are as many as the content's length asks for: they are not counted.
    pub fn content(&self) {
        self.left.set(u64::MAX);
    }

    /// The answer, unless a read went wrong on the way to it.
    pub fn end<T>(&self, path: &str, answer: Result<T>) -> Result<T> {
        match self.fault.take() {
            None => answer,
            Some(fault) => Err(
                Error::failed(format!("{path} on the NTFS volume can't be read"))
                    .because(fault)
                    .cure("check the volume in that Windows: chkdsk /f"),
            ),
        }
    }

    fn note(&self, fault: impl FnOnce() -> String) {
        let mut noted = self.fault.borrow_mut();
        if noted.is_none() {
            *noted = Some(fault());
        }
    }
}

impl Read for Fs<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        match self.left.get().checked_sub(1) {
            Some(left) => self.left.set(left),
            None => {
                self.note(|| "its structures lead in a circle".into());
                buffer.fill(0);
                return Ok(buffer.len());
            }
        }
        let at = self.inner.stream_position().unwrap_or(u64::MAX);
        match self.inner.read(buffer) {
            Ok(n) if n > 0 => Ok(n),
            Ok(_) => {
                self.note(|| format!("offset {at:#x} of the volume lies beyond its end"));
                buffer.fill(0);
                Ok(buffer.len())
            }
            Err(e) => {
                self.note(|| e.to_string());
                buffer.fill(0);
                Ok(buffer.len())
            }
        }
    }
}

impl Seek for Fs<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}
