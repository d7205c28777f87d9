//! VHDX, Hyper-V's disk format: fixed, dynamic, and differencing with its parents.
//!
//! A differencing disk names its parent, and that name comes from its author: parents are followed
//! only if the caller allows it ([`super::backing`] has the rules). Refuses disks with a log that
//! is not empty (the log is part of the content until it is replayed), and parents that changed
//! since their child was created. [`create`] builds new disks.
//!
//! Source: Microsoft, [MS-VHDX] (little-endian; checksums are CRC-32C with their own field taken as
//! zero).

pub mod create;
mod erase;
mod header;
mod layer;
mod parent;
mod region;

use std::collections::HashSet;
use std::ops::Range;

use uuid::Uuid;

use super::backing::{DEEPEST, resolve_path};
use super::blocks::{self, read_part, refuse_file};
use super::qemu_img::{self, QemuImageArg};
use super::{Disk, DiskImage, FormatMark, ImageFormat, OpenedImage, RawDisk, check_bounds, join};
use layer::{BlockHolder, VhdxLayer};
use winimg_base::error::{Error, Result};

pub use erase::zero_in_place;

pub(super) const FORMAT: ImageFormat = ImageFormat {
    name: NAME,
    family: NAME,
    mark: FormatMark::Beginning(|ends| ends.has(0, b"vhdxfile")),
    open: |image, _| Ok(OpenedImage::from_disk(open(image)?)),
    // QEMU does not read parents.
    to_qemu: |image, _| {
        let is_alone = open(image)?.layers.len() == 1;
        Ok(is_alone.then(|| QemuImageArg::from_path(image.file, "vhdx")))
    },
    to_node: Some(|file, _| Ok(qemu_img::build_node("vhdx", file))),
};

const NAME: &str = "VHDX";
const MIB: u64 = 1 << 20;
const KIB64: u64 = 64 << 10;

/// An open VHDX and its parents. Nothing may write to any of them while it is open.
pub struct VhdxDisk {
    /// The topmost first; never empty.
    layers: Vec<VhdxLayer>,
}

/// Opens the file and its parents, if allowed, and checks all their tables.
pub fn open(image: DiskImage<'_>) -> Result<VhdxDisk> {
    let mut layers = vec![VhdxLayer::open(image.file)?];
    let mut seen = HashSet::from([resolve_path(image.file)?]);
    loop {
        let child = &layers[layers.len() - 1];
        if !child.has_parent {
            return Ok(VhdxDisk { layers });
        }
        let Some(within) = image.layers else {
            return Err(refuse_file(
                &child.file,
                "is a differencing VHDX: part of the disk is in its parent",
                "merge it first: Merge-VHD",
            ));
        };
        let locator = child.read_locator()?;
        let path = parent::find(&child.file, &locator, within)?;
        if !seen.insert(path.clone()) {
            return Err(parent::refuse_parent(&child.file, path.display())
                .expected("a chain without cycles")
                .found("a file that is already in the chain"));
        }
        if layers.len() == DEEPEST {
            return Err(parent::refuse_parent(&child.file, path.display())
                .expected(format!("at most {DEEPEST} files in a chain"))
                .found("more")
                .cure("merge some of them: Merge-VHD"));
        }
        let below = layer::open_parent(child, &locator, &path)?;
        layers.push(below);
    }
}

impl VhdxDisk {
    /// Returns the id that changes with the content of the topmost file.
    pub fn data_write(&self) -> Uuid {
        self.leaf().header.data_write()
    }

    fn leaf(&self) -> &VhdxLayer {
        &self.layers[0]
    }

    /// Returns the parts of `ranges` with bytes in the topmost file itself.
    pub fn find_held(&self, ranges: &[Range<u64>]) -> Result<Vec<Range<u64>>> {
        let mut held = Vec::new();
        for range in ranges {
            let mut at = range.start;
            while at < range.end.min(self.len()) {
                let (holder, len) = self.leaf().find_holder(at, range.end - at)?;
                if let BlockHolder::InFile(_) = holder {
                    join(&mut held, at..at + len);
                }
                at += len;
            }
        }
        Ok(held)
    }

    /// Reads from the file at `depth` and its parents, at most [`DEEPEST`] files.
    fn fill(&self, depth: usize, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let rest = &mut buffer[done..];
            // A parent may be smaller, since a disk grows in its topmost file. Beyond its end are
            // zeros.
            let Some(layer) = self.layers.get(depth).filter(|l| at < l.len) else {
                rest.fill(0);
                return Ok(());
            };
            let (holder, len) = layer.find_holder(at, rest.len() as u64)?;
            let part = &mut rest[..len as usize];
            match holder {
                BlockHolder::InFile(place) => layer.file.read_at(place, part)?,
                BlockHolder::Zero => part.fill(0),
                BlockHolder::InParent => self.fill(depth + 1, at, part)?,
            }
            done += len as usize;
        }
        Ok(())
    }
}

impl Disk for VhdxDisk {
    fn len(&self) -> u64 {
        self.leaf().len
    }

    fn sector_size(&self) -> u64 {
        self.leaf().sector
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_bounds(
            self.leaf().file.path(),
            offset,
            buffer.len() as u64,
            self.len(),
        )?;
        self.fill(0, offset, buffer)
    }

    /// Works in whole blocks: a partially present block counts as data, whatever its bitmap says.
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
                        BlockHolder::InFile(_) => join(&mut data, at..to),
                        BlockHolder::InParent => join(&mut below, at..to),
                        BlockHolder::Zero => {}
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

/// Reads `len` bytes of a structure, called `what`.
fn read(file: &RawDisk, at: u64, len: u64, what: &str) -> Result<Vec<u8>> {
    read_part(file, NAME, at, len, what)
}

/// Reports a file that violates the format.
fn report_damaged(file: &RawDisk, at: u64, why: impl Into<String>) -> Error {
    blocks::report_damaged(file, NAME, at, why)
}

/// Parses the GUID in the first 16 bytes.
fn parse_guid(bytes: &[u8]) -> Uuid {
    let mut guid = [0; 16];
    guid.copy_from_slice(&bytes[..16]);
    Uuid::from_bytes_le(guid)
}
