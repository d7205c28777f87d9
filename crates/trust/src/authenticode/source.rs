//! Random access to the file that is checked. Refuses to read beyond its end.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use aws_lc_rs::digest::Context;

use super::super::reading::SubjectReader;
pub(super) use super::super::reading::refuse_unreadable;
use super::super::uncovered::UncoveredRange;
use super::super::{FileSubject, RefusalReason, SignatureRefusal};

/// An opened file and its length.
#[derive(Debug)]
pub(super) struct SignedSource {
    file: File,
    length: u64,
}

impl SignedSource {
    pub(super) fn open(path: &Path) -> Result<Self, SignatureRefusal> {
        let mut file = File::open(path).map_err(refuse_unreadable)?;
        let length = file.seek(SeekFrom::End(0)).map_err(refuse_unreadable)?;
        file.rewind().map_err(refuse_unreadable)?;
        Ok(Self { file, length })
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Reads `offset..offset + length`; `None` if the file ends before. The caller must bound the
    /// length.
    pub(super) fn read_bytes(
        &mut self,
        offset: u64,
        length: usize,
    ) -> Result<Option<Vec<u8>>, SignatureRefusal> {
        let end = offset.checked_add(length as u64);
        if end.is_none_or(|end| end > self.length) {
            return Ok(None);
        }
        let mut bytes = vec![0; length];
        self.seek(SeekFrom::Start(offset))
            .map_err(refuse_unreadable)?;
        self.read_exact(&mut bytes).map_err(refuse_unreadable)?;
        Ok(Some(bytes))
    }

    /// Reads `N` bytes, or fails if the file is too short.
    pub(super) fn read_array<const N: usize>(
        &mut self,
        offset: u64,
    ) -> Result<[u8; N], SignatureRefusal> {
        let bytes = self.read_bytes(offset, N)?.and_then(|b| b.try_into().ok());
        bytes.ok_or_else(|| self.cut_off(offset.saturating_add(N as u64)))
    }

    /// Returns the refusal of a file that is shorter than `wanted` bytes.
    pub(super) fn cut_off(&self, wanted: u64) -> SignatureRefusal {
        RefusalReason::Malformed
            .refusal("the file is cut off")
            .expected(format_args!("at least {wanted} bytes"))
            .found(format_args!("{} bytes", self.length))
    }

    /// Reads a little-endian number, or fails if the file is too short.
    pub(super) fn read_u16(&mut self, offset: u64) -> Result<u16, SignatureRefusal> {
        self.read_array(offset).map(u16::from_le_bytes)
    }

    /// Reads a little-endian number, or fails if the file is too short.
    pub(super) fn read_u32(&mut self, offset: u64) -> Result<u32, SignatureRefusal> {
        self.read_array(offset).map(u32::from_le_bytes)
    }

    /// Checks that the whole file still has the digest that it was admitted with.
    pub(super) fn finish(mut self, subject: FileSubject<'_>) -> Result<(), SignatureRefusal> {
        self.rewind().map_err(refuse_unreadable)?;
        SubjectReader::from_file(self.file, subject).finish(subject)
    }

    /// Hashes everything up to `end` that is outside these ranges, which must be sorted.
    pub(super) fn hash_but(
        &mut self,
        hash: &mut Context,
        open: &[UncoveredRange],
        end: u64,
    ) -> Result<(), SignatureRefusal> {
        let mut from = 0;
        for UncoveredRange { range, .. } in open {
            self.hash(hash, from, range.start.min(end))?;
            from = range.end.max(from);
        }
        self.hash(hash, from, end)
    }

    /// Hashes `from..to`. The caller must check that the range is within the file.
    pub(super) fn hash(
        &mut self,
        hash: &mut Context,
        from: u64,
        to: u64,
    ) -> Result<(), SignatureRefusal> {
        self.seek(SeekFrom::Start(from))
            .map_err(refuse_unreadable)?;
        let mut left = to.saturating_sub(from);
        let mut buffer = vec![0; 1 << 16];
        while left > 0 {
            let want = usize::try_from(left)
                .unwrap_or(usize::MAX)
                .min(buffer.len());
            self.file
                .read_exact(&mut buffer[..want])
                .map_err(refuse_unreadable)?;
            hash.update(&buffer[..want]);
            left -= want as u64;
        }
        Ok(())
    }
}

/// Reads a little-endian number; the bytes must contain it.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// Reads a little-endian number; the bytes must contain it.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl Read for SignedSource {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }
}

impl Seek for SignedSource {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}
