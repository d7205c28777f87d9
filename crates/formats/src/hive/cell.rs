//! Cells: the pieces that a hive's bins are cut into. Each lies wholly in one bin and says its own length.

use super::{BASE, Hive, fault, shown};
use crate::bytes::{u16_le, u32_le, utf16_le};
use winimg_base::error::{Error, Result};

/// The bytes of one cell in use, and where they are.
#[derive(Clone, Copy)]
pub(super) struct Cell<'h> {
    /// From the first bin.
    pub at: u32,
    pub bytes: &'h [u8],
}

impl Hive {
    /// The cell at an offset from the first bin. Free cells are refused: nothing points at one.
    pub(super) fn cell(&self, at: u32) -> Result<Cell<'_>> {
        let place = BASE.saturating_add(at as usize);
        let bin = self.bins.partition_point(|start| *start <= at);
        let (Some(start), Some(end)) =
            (bin.checked_sub(1).map(|b| self.bins[b]), self.bins.get(bin))
        else {
            return Err(fault(place, "the hive points at a cell outside its bins"));
        };
        // The first 32 bytes of a bin are its header.
        if !at.is_multiple_of(8) || at - start < 32 || end - at < 8 {
            return Err(fault(place, "the hive points at something that is no cell"));
        }
        let size = u32_le(&self.bytes, place).cast_signed();
        let len = size.unsigned_abs();
        if size >= 0 || !len.is_multiple_of(8) || len > end - at {
            return Err(fault(place, "a cell of the hive is free or damaged")
                .expected(format!("a length from -{} to -8", end - at))
                .found(size));
        }
        Ok(Cell {
            at,
            bytes: &self.bytes[place + 4..place + len as usize],
        })
    }

    /// Bytes of all bins. Every cell has one owner, so no list of owners can hold more than that.
    pub(super) fn capacity(&self) -> usize {
        self.bytes.len() - BASE
    }
}

impl<'h> Cell<'h> {
    /// Where the cell's content is in the file.
    pub fn place(&self, at: usize) -> usize {
        BASE + self.at as usize + 4 + at
    }

    pub fn fault(&self, at: usize, fact: impl Into<String>) -> Error {
        fault(self.place(at), fact)
    }

    /// Refuses a cell that is not of this kind.
    pub fn is(&self, signature: &[u8; 2], what: &str, len: usize) -> Result<()> {
        if self.bytes.starts_with(signature) && self.bytes.len() >= len {
            return Ok(());
        }
        let found = shown(&self.bytes[..2]);
        Err(self
            .fault(0, format!("a cell of the hive is not {what}"))
            .expected(format!(
                "\"{}\" and {len} bytes",
                String::from_utf8_lossy(signature)
            ))
            .found(format!("{found} and {} bytes", self.bytes.len())))
    }

    pub fn part(&self, at: usize, len: usize, what: &str) -> Result<&'h [u8]> {
        at.checked_add(len)
            .and_then(|end| self.bytes.get(at..end))
            .ok_or_else(|| {
                self.fault(at, format!("{what} does not fit into its cell"))
                    .expected(format!("{len} bytes"))
                    .found(format!("{}", self.bytes.len().saturating_sub(at)))
            })
    }

    /// A name of a key or value. The short form has one byte a character, which is Latin-1.
    pub fn name(&self, at: usize, len: u16, short: bool) -> Result<String> {
        let bytes = self.part(at, len.into(), "a name")?;
        if short {
            return Ok(bytes.iter().map(|b| char::from(*b)).collect());
        }
        if !len.is_multiple_of(2) {
            return Err(self.fault(at, format!("a name in UTF-16 has {len} bytes")));
        }
        Ok(String::from_utf16_lossy(&utf16_le(bytes)))
    }

    pub fn half(&self, at: usize) -> Result<u16> {
        self.part(at, 2, "a number").map(|b| u16_le(b, 0))
    }

    pub fn word(&self, at: usize) -> Result<u32> {
        self.part(at, 4, "a number").map(|b| u32_le(b, 0))
    }
}
