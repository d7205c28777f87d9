//! Cells: the parts of a hive's bins. Each is within one bin and starts with its length.

use super::{BASE, Hive, describe_bytes, report_fault};
use crate::bytes::{u16_le, u32_le, utf16_le};
use winimg_base::error::{Error, Result};

/// The bytes of one cell in use, and their place.
#[derive(Clone, Copy)]
pub(super) struct HiveCell<'h> {
    /// Offset from the first bin.
    pub at: u32,
    pub bytes: &'h [u8],
}

impl Hive {
    /// Finds the cell at an offset from the first bin. Free cells are refused: nothing refers to
    /// one.
    pub(super) fn find_cell(&self, at: u32) -> Result<HiveCell<'_>> {
        let place = BASE.saturating_add(at as usize);
        let bin = self.bins.partition_point(|start| *start <= at);
        let (Some(start), Some(end)) =
            (bin.checked_sub(1).map(|b| self.bins[b]), self.bins.get(bin))
        else {
            return Err(report_fault(
                place,
                "the hive refers to a cell outside its bins",
            ));
        };
        // The first 32 bytes of a bin are its header.
        if !at.is_multiple_of(8) || at - start < 32 || end - at < 8 {
            return Err(report_fault(
                place,
                "the hive refers to an offset that is not a cell",
            ));
        }
        let size = u32_le(&self.bytes, place).cast_signed();
        let len = size.unsigned_abs();
        if size >= 0 || !len.is_multiple_of(8) || len > end - at {
            return Err(report_fault(place, "a cell of the hive is free or damaged")
                .expected(format!("a length from -{} to -8", end - at))
                .found(size));
        }
        Ok(HiveCell {
            at,
            bytes: &self.bytes[place + 4..place + len as usize],
        })
    }

    /// Returns the bytes of all bins, which limit the length of any list: every cell has one owner.
    pub(super) fn capacity(&self) -> usize {
        self.bytes.len() - BASE
    }
}

impl<'h> HiveCell<'h> {
    /// Returns the offset of the cell's content in the file.
    pub fn file_offset(&self, at: usize) -> usize {
        BASE + self.at as usize + 4 + at
    }

    pub fn report_fault(&self, at: usize, fact: impl Into<String>) -> Error {
        report_fault(self.file_offset(at), fact)
    }

    /// Checks that the cell is of this kind.
    pub fn require_kind(&self, signature: &[u8; 2], what: &str, len: usize) -> Result<()> {
        if self.bytes.starts_with(signature) && self.bytes.len() >= len {
            return Ok(());
        }
        let found = describe_bytes(&self.bytes[..2]);
        Err(self
            .report_fault(0, format!("a cell of the hive is not {what}"))
            .expected(format!(
                "\"{}\" and {len} bytes",
                String::from_utf8_lossy(signature)
            ))
            .found(format!("{found} and {} bytes", self.bytes.len())))
    }

    pub fn take_bytes(&self, at: usize, len: usize, what: &str) -> Result<&'h [u8]> {
        at.checked_add(len)
            .and_then(|end| self.bytes.get(at..end))
            .ok_or_else(|| {
                self.report_fault(at, format!("{what} does not fit into its cell"))
                    .expected(format!("{len} bytes"))
                    .found(format!("{}", self.bytes.len().saturating_sub(at)))
            })
    }

    /// Reads the name of a key or value. The short form has one byte per character (Latin-1).
    pub fn read_name(&self, at: usize, len: u16, short: bool) -> Result<String> {
        let bytes = self.take_bytes(at, len.into(), "a name")?;
        if short {
            return Ok(bytes.iter().map(|b| char::from(*b)).collect());
        }
        if !len.is_multiple_of(2) {
            return Err(self.report_fault(at, format!("a name in UTF-16 has {len} bytes")));
        }
        Ok(String::from_utf16_lossy(&utf16_le(bytes)))
    }

    pub fn read_u16(&self, at: usize) -> Result<u16> {
        self.take_bytes(at, 2, "a number").map(|b| u16_le(b, 0))
    }

    pub fn read_u32(&self, at: usize) -> Result<u32> {
        self.take_bytes(at, 4, "a number").map(|b| u32_le(b, 0))
    }
}
