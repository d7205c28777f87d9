//! A disk through its chain of files: the leaf first, then its parents.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::file::Vhdx;
use super::format::{FULLY, NOT_PRESENT, PARTIALLY, SECTOR, ZERO, offset, state};
use super::{Fault, found_parent};
use crate::at::{At as _, held_ranges};

/// Longer chains are loops, or nobody's.
const DEEPEST: usize = 64;
/// Holes of a raw copy are made of pieces of this size.
const PIECE: usize = 64 << 10;

pub struct Chain {
    files: Vec<Vhdx>,
}

impl Chain {
    /// Opens the file and every parent; each has to be the one that its child was made of.
    pub fn open(path: &Path) -> Result<Chain, Fault> {
        Chain::opened(path, false)
    }

    /// The same, and what is absorbed goes into `path`; its parents stay as they are.
    pub fn open_to_write(path: &Path) -> Result<Chain, Fault> {
        Chain::opened(path, true)
    }

    fn opened(path: &Path, writable: bool) -> Result<Chain, Fault> {
        let mut files = vec![Vhdx::open(path, writable)?];
        while let Some((child, locator)) = files
            .last()
            .and_then(|file| Some((&file.path, file.metadata.parent.clone()?)))
        {
            let place = found_parent(child, &locator);
            if !place.exists() {
                return Err(Fault::NoParent(place));
            }
            let parent = Vhdx::open(&place, false)?;
            if parent.header.data_write != locator.linkage {
                return Err(Fault::Mismatch(place));
            }
            if files.len() == DEEPEST {
                let what = format!("more than {DEEPEST} parents");
                return Err(Fault::Broken(format!("{}: {what}", path.display())));
            }
            files.push(parent);
        }
        Ok(Chain { files })
    }

    pub(super) fn leaf(&self) -> &Vhdx {
        &self.files[0]
    }

    pub fn size(&self) -> u64 {
        self.leaf().metadata.size
    }

    /// The files, the leaf first.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.files.iter().map(|file| file.path.clone()).collect()
    }

    /// What the disk holds from `at` on; past its end are zeros.
    pub fn read(&self, at: u64, length: usize) -> Result<Vec<u8>, Fault> {
        self.read_from(0, at, length)
    }

    /// `level` only grows, so the recursion is no deeper than the chain.
    fn read_from(&self, level: usize, at: u64, length: usize) -> Result<Vec<u8>, Fault> {
        let mut bytes = vec![0; length];
        let Some(file) = self.files.get(level) else {
            return Ok(bytes);
        };
        let block = file.block_size();
        let end = (at + length as u64).min(file.metadata.size);
        let mut from = at;
        while from < end {
            let (number, within) = (from / block, from % block);
            let take = (block - within).min(end - from) as usize;
            let place = (from - at) as usize;
            let piece = &mut bytes[place..place + take];
            match state(file.entry(number)) {
                FULLY => piece.copy_from_slice(&file.payload(number, within, take)?),
                NOT_PRESENT => piece.copy_from_slice(&self.read_from(level + 1, from, take)?),
                PARTIALLY => {
                    piece.copy_from_slice(&self.read_from(level + 1, from, take)?);
                    let own = file.payload(number, within, take)?;
                    let bits = file.bits(number)?;
                    for index in 0..take {
                        let sector = (within as usize + index) / SECTOR as usize;
                        if bits[sector / 8] >> (sector % 8) & 1 == 1 {
                            piece[index] = own[index];
                        }
                    }
                }
                _ => {}
            }
            from += take as u64;
        }
        Ok(bytes)
    }

    /// Whether a file may hold something in this range that is not zero.
    fn is_held(&self, at: u64, length: u64) -> bool {
        for file in &self.files {
            let block = file.block_size();
            let last = (at + length).min(file.metadata.size).div_ceil(block);
            let mut decided = true;
            for number in at / block..last {
                match state(file.entry(number)) {
                    FULLY | PARTIALLY => return true,
                    NOT_PRESENT => decided = false,
                    _ => {}
                }
            }
            if decided {
                return false;
            }
        }
        false
    }

    /// Writes the whole disk into an empty file, with holes where it is zero.
    pub fn flatten(&self, raw: &File) -> Result<(), Fault> {
        let io = |e: io::Error| Fault::Io(format!("the raw copy: {e}"));
        raw.set_len(self.size()).map_err(io)?;
        let block = self.leaf().block_size();
        for number in 0..self.leaf().table.blocks {
            let at = number * block;
            if !self.is_held(at, block) {
                continue;
            }
            let bytes = self.read(at, block.min(self.size() - at) as usize)?;
            for (index, piece) in bytes.chunks(PIECE).enumerate() {
                if piece.iter().any(|byte| *byte != 0) {
                    raw.write_all_at(piece, at + (index * PIECE) as u64)
                        .map_err(io)?;
                }
            }
        }
        Ok(())
    }

    /// Brings the leaf to what `raw` holds: only what differs is written. Doing it again changes nothing.
    pub fn absorb(mut self, raw: &File) -> Result<(), Fault> {
        let io = |e: io::Error| Fault::Io(format!("the raw copy: {e}"));
        let block = self.leaf().block_size();
        let data = held_ranges(raw, self.size()).map_err(io)?;
        let mut next = 0;
        for number in 0..self.leaf().table.blocks {
            let at = number * block;
            let length = block.min(self.size() - at);
            while data.get(next).is_some_and(|(_, end)| *end <= at) {
                next += 1;
            }
            let in_raw = data
                .get(next)
                .is_some_and(|(start, _)| *start < at + length);
            if !in_raw && !self.is_held(at, length) {
                continue;
            }
            let mut after = vec![0; length as usize];
            if in_raw {
                raw.read_exact_at(&mut after, at).map_err(io)?;
            }
            let before = self.read(at, length as usize)?;
            if before != after {
                change(&mut self.files[0], number, &before, &after)?;
            }
        }
        self.files.swap_remove(0).close()
    }
}

/// Writes what differs in one block.
fn change(leaf: &mut Vhdx, number: u64, before: &[u8], after: &[u8]) -> Result<(), Fault> {
    if after.iter().all(|byte| *byte == 0) {
        return leaf.set_state(number, ZERO);
    }
    let sector = SECTOR as usize;
    let differs: Vec<bool> = before
        .chunks(sector)
        .zip(after.chunks(sector))
        .map(|(before, after)| before != after)
        .collect();
    let whole = differs.iter().all(|differs| *differs);
    match state(leaf.entry(number)) {
        FULLY => return write_runs(leaf, number, &differs, after),
        PARTIALLY if whole => leaf.set_state(number, offset(leaf.entry(number)) | FULLY)?,
        PARTIALLY => {
            write_runs(leaf, number, &differs, after)?;
            let bits = with_bits(leaf.bits(number)?, &differs);
            return leaf.set_bits(number, &bits);
        }
        NOT_PRESENT if leaf.is_differencing() && !whole => {
            leaf.allocate(number, PARTIALLY)?;
            write_runs(leaf, number, &differs, after)?;
            let bits = with_bits(leaf.bits(number)?, &differs);
            return leaf.set_bits(number, &bits);
        }
        _ => leaf.allocate(number, FULLY)?,
    }
    leaf.write(number, 0, after)
}

fn with_bits(mut bits: Vec<u8>, set: &[bool]) -> Vec<u8> {
    for (sector, _) in set.iter().enumerate().filter(|(_, set)| **set) {
        bits[sector / 8] |= 1 << (sector % 8);
    }
    bits
}

fn write_runs(leaf: &mut Vhdx, number: u64, differs: &[bool], after: &[u8]) -> Result<(), Fault> {
    let sector = SECTOR as usize;
    let mut from = 0;
    for run in differs.chunk_by(|a, b| a == b) {
        let (start, end) = (
            from * sector,
            ((from + run.len()) * sector).min(after.len()),
        );
        if run[0] {
            leaf.write(number, start as u64, &after[start..end])?;
        }
        from += run.len();
    }
    Ok(())
}
