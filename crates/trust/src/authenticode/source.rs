//! A file that is judged, read where the format points. Refuses to read what is not there, and more than was said.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use aws_lc_rs::digest::Context;

use super::super::place::Open;
use super::super::reading::Reading;
pub(super) use super::super::reading::unreadable;
use super::super::{Reason, Refusal, Subject};

/// An opened file and its length.
#[derive(Debug)]
pub(super) struct Source {
    file: File,
    length: u64,
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Self, Refusal> {
        let mut file = File::open(path).map_err(unreadable)?;
        let length = file.seek(SeekFrom::End(0)).map_err(unreadable)?;
        file.rewind().map_err(unreadable)?;
        Ok(Self { file, length })
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// The bytes of `offset..offset + length`; `None` when the file ends before. Give it only lengths that were bounded.
    pub(super) fn bytes(&mut self, offset: u64, length: usize) -> Result<Option<Vec<u8>>, Refusal> {
        let end = offset.checked_add(length as u64);
        if end.is_none_or(|end| end > self.length) {
            return Ok(None);
        }
        let mut bytes = vec![0; length];
        self.seek(SeekFrom::Start(offset)).map_err(unreadable)?;
        self.read_exact(&mut bytes).map_err(unreadable)?;
        Ok(Some(bytes))
    }

    /// `N` bytes that have to be there.
    pub(super) fn exactly<const N: usize>(&mut self, offset: u64) -> Result<[u8; N], Refusal> {
        let bytes = self.bytes(offset, N)?.and_then(|b| b.try_into().ok());
        bytes.ok_or_else(|| self.cut_off(offset.saturating_add(N as u64)))
    }

    /// The refusal of a file that has to have this many bytes.
    pub(super) fn cut_off(&self, wanted: u64) -> Refusal {
        Reason::Malformed
            .refusal("the file is cut off")
            .expected(format_args!("{wanted} bytes at least"))
            .found(format_args!("{} bytes", self.length))
    }

    /// A little-endian number that has to be there.
    pub(super) fn u16(&mut self, offset: u64) -> Result<u16, Refusal> {
        self.exactly(offset).map(u16::from_le_bytes)
    }

    /// A little-endian number that has to be there.
    pub(super) fn u32(&mut self, offset: u64) -> Result<u32, Refusal> {
        self.exactly(offset).map(u32::from_le_bytes)
    }

    /// The whole file, as it is now, has the digest that it was admitted by.
    pub(super) fn finish(mut self, subject: Subject<'_>) -> Result<(), Refusal> {
        self.rewind().map_err(unreadable)?;
        Reading::of(self.file, subject).finish(subject)
    }

    /// Feeds everything up to `end` to a hash that stands in none of these places, which are in their order.
    pub(super) fn hash_but(
        &mut self,
        hash: &mut Context,
        open: &[Open],
        end: u64,
    ) -> Result<(), Refusal> {
        let mut from = 0;
        for Open { range, .. } in open {
            self.hash(hash, from, range.start.min(end))?;
            from = range.end.max(from);
        }
        self.hash(hash, from, end)
    }

    /// Feeds `from..to` to a hash. The caller has checked that the range lies inside.
    pub(super) fn hash(&mut self, hash: &mut Context, from: u64, to: u64) -> Result<(), Refusal> {
        self.seek(SeekFrom::Start(from)).map_err(unreadable)?;
        let mut left = to.saturating_sub(from);
        let mut buffer = vec![0; 1 << 16];
        while left > 0 {
            let want = usize::try_from(left)
                .unwrap_or(usize::MAX)
                .min(buffer.len());
            self.file
                .read_exact(&mut buffer[..want])
                .map_err(unreadable)?;
            hash.update(&buffer[..want]);
            left -= want as u64;
        }
        Ok(())
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }
}

impl Seek for Source {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}
