//! VHDX, Hyper-V's disk format: fixed, dynamic, and differencing over the files below.
//!
//! A differencing disk names its parent, and that name comes from its author: parents are followed only where the caller
//! says so ([`super::backing`] has the rules). Refused: disks whose log is not empty (the log is part of the content until
//! it is replayed), and a parent that is not what it was when its child was made. [`create`] begins new ones.
//!
//! Source: Microsoft, [MS-VHDX] (little-endian; checksums are CRC-32C with their own field taken as zero).

pub mod create;
mod erase;
mod header;
mod layer;
mod parent;
mod region;

use std::collections::HashSet;
use std::ops::Range;

use uuid::Uuid;

use super::backing::{DEEPEST, canonical};
use super::blocks::{self, part, refused};
use super::{Disk, Image, RawDisk, join, within};
use layer::{Holder, Layer};
use winimg_base::error::{Error, Result};

pub use erase::zero_in_place;

const FORMAT: &str = "VHDX";
const MIB: u64 = 1 << 20;
const KIB64: u64 = 64 << 10;

/// An open VHDX and the files below it. None of them may be written by anyone while this lives.
pub struct Vhdx {
    /// The topmost first; at least that one.
    layers: Vec<Layer>,
}

/// Opens the file and, where it may, its parents. All their tables are read and judged.
pub fn open(image: Image<'_>) -> Result<Vhdx> {
    let mut layers = vec![Layer::open(image.file)?];
    let mut seen = HashSet::from([canonical(image.file)?]);
    loop {
        let child = &layers[layers.len() - 1];
        if !child.differencing {
            return Ok(Vhdx { layers });
        }
        let Some(within) = image.layers else {
            return Err(refused(
                &child.file,
                "is a differencing VHDX: part of the disk is in its parent",
                "merge it first: Merge-VHD",
            ));
        };
        let locator = child.locator()?;
        let path = parent::find(&child.file, &locator, within)?;
        if !seen.insert(path.clone()) {
            return Err(parent::refused(&child.file, path.display())
                .expected("a chain with an end")
                .found("a file that stands above it"));
        }
        if layers.len() == DEEPEST {
            return Err(parent::refused(&child.file, path.display())
                .expected(format!("at most {DEEPEST} files in a chain"))
                .found("more")
                .cure("merge some of them: Merge-VHD"));
        }
        let below = layer::open_parent(child, &locator, &path)?;
        layers.push(below);
    }
}

impl Vhdx {
    /// How many files the disk is made of.
    pub fn files(&self) -> usize {
        self.layers.len()
    }

    /// What changes with the content of the topmost file.
    pub fn data_write(&self) -> Uuid {
        self.leaf().header.data_write()
    }

    fn leaf(&self) -> &Layer {
        &self.layers[0]
    }

    /// The parts of `ranges` whose bytes are in the topmost file itself.
    pub fn held(&self, ranges: &[Range<u64>]) -> Result<Vec<Range<u64>>> {
        let mut held = Vec::new();
        for range in ranges {
            let mut at = range.start;
            while at < range.end.min(self.len()) {
                let (holder, len) = self.leaf().holder(at, range.end - at)?;
                if let Holder::Here(_) = holder {
                    join(&mut held, at..at + len);
                }
                at += len;
            }
        }
        Ok(held)
    }

    /// Reads what the file at `depth` and those below it say. There are at most [`DEEPEST`].
    fn fill(&self, depth: usize, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let rest = &mut buffer[done..];
            // What lies below may be smaller: a disk grows in its topmost file. Beyond its end it has zeros.
            let Some(layer) = self.layers.get(depth).filter(|l| at < l.len) else {
                rest.fill(0);
                return Ok(());
            };
            let (holder, len) = layer.holder(at, rest.len() as u64)?;
            let part = &mut rest[..len as usize];
            match holder {
                Holder::Here(place) => layer.file.read_at(place, part)?,
                Holder::Zero => part.fill(0),
                Holder::Below => self.fill(depth + 1, at, part)?,
            }
            done += len as usize;
        }
        Ok(())
    }
}

impl Disk for Vhdx {
    fn len(&self) -> u64 {
        self.leaf().len
    }

    fn sector(&self) -> u64 {
        self.leaf().sector
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        within(
            self.leaf().file.path(),
            offset,
            buffer.len() as u64,
            self.len(),
        )?;
        self.fill(0, offset, buffer)
    }

    /// By blocks: one that a file holds in part counts as held, whatever its bitmap says.
    fn data(&self) -> Result<Vec<Range<u64>>> {
        let mut data = Vec::new();
        let whole = 0..self.len();
        let mut open = vec![whole];
        for layer in &self.layers {
            let mut below = Vec::new();
            for range in open {
                let end = range.end.min(layer.len);
                let mut at = range.start;
                while at < end {
                    let to = (at - at % layer.block + layer.block).min(end);
                    match layer.block_holder(at) {
                        Holder::Here(_) => join(&mut data, at..to),
                        Holder::Below => join(&mut below, at..to),
                        Holder::Zero => {}
                    }
                    at = to;
                }
            }
            open = below;
        }
        data.sort_by_key(|r| r.start);
        let mut joined = Vec::new();
        for range in data {
            join(&mut joined, range);
        }
        Ok(joined)
    }
}

/// `len` bytes of a structure, called `what`.
fn read(file: &RawDisk, at: u64, len: u64, what: &str) -> Result<Vec<u8>> {
    part(file, FORMAT, at, len, what)
}

/// The file is not what the format demands.
fn damaged(file: &RawDisk, at: u64, why: impl Into<String>) -> Error {
    blocks::damaged(file, FORMAT, at, why)
}

/// The GUID in the first 16 bytes.
fn guid(bytes: &[u8]) -> Uuid {
    let mut guid = [0; 16];
    guid.copy_from_slice(&bytes[..16]);
    Uuid::from_bytes_le(guid)
}
