//! Zeroes parts of a closed VHDX in place.
//!
//! Only the topmost file is written, only in its own blocks for those bytes and between its
//! structures. Blocks keep their places and their states. Existing children of the file become
//! invalid, since its `DataWriteGuid` changes as the format requires ([MS-VHDX] 2.2.2).

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use super::layer::{BlockHolder, VhdxLayer};
use super::report_damaged;
use crate::disk::{Disk, DiskImage, join};
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;
use winimg_base::io::PositionedIo as _;

const BUFFER: usize = 1 << 20;

/// Zeroes `ranges` of the disk, as far as the topmost file has space for them, and the gaps between
/// that file's structures: bytes of released blocks. Existing zeros are not written again. Refuses
/// a file that was not closed.
pub fn zero_in_place(image: DiskImage<'_>, ranges: &[Range<u64>], cancel: &Cancel) -> Result<()> {
    let disk = super::open(image)?;
    let leaf = disk.leaf();
    let mut places = find_unused(leaf)?;
    for range in ranges {
        if range.end > leaf.len {
            return Err(Error::failed(format!(
                "cannot zero beyond the end of {}",
                image.file.display()
            ))
            .at(format!("offset {}", range.end))
            .found(format!("{} bytes in total", leaf.len)));
        }
        places.extend(find_space(leaf, range));
    }
    let mut target = EraseTarget::open(image.file, leaf)?;
    for place in places {
        target.zero(place, cancel)?;
    }
    target.sync()
}

/// Finds the file's space for a range of the disk. In a partially present block this includes the
/// absent sectors: they are never read, and old data in them must be removed too.
fn find_space(leaf: &VhdxLayer, range: &Range<u64>) -> Vec<Range<u64>> {
    let mut rooms = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let to = (at - at % leaf.block + leaf.block).min(range.end);
        if let BlockHolder::InFile(place) = leaf.block_holder(at) {
            join(&mut rooms, place..place + (to - at));
        }
        at = to;
    }
    rooms
}

/// Finds the ranges outside all structures of the file.
fn find_unused(leaf: &VhdxLayer) -> Result<Vec<Range<u64>>> {
    let mut unused = Vec::new();
    let mut end = 0;
    let last = leaf.file.len();
    for used in leaf.list_used()? {
        if used.start > end {
            unused.push(end..used.start.min(last));
        }
        end = used.end;
    }
    if end < last {
        unused.push(end..last);
    }
    unused.retain(|r| !r.is_empty());
    Ok(unused)
}

struct EraseTarget<'a> {
    file: File,
    path: &'a Path,
    leaf: &'a VhdxLayer,
    buffer: Vec<u8>,
    written: bool,
}

impl<'a> EraseTarget<'a> {
    fn open(path: &'a Path, leaf: &'a VhdxLayer) -> Result<Self> {
        let file = File::options()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|e| Error::io("open", path, e))?;
        Ok(Self {
            file,
            path,
            leaf,
            buffer: vec![0; BUFFER],
            written: false,
        })
    }

    fn zero(&mut self, place: Range<u64>, cancel: &Cancel) -> Result<()> {
        let mut at = place.start;
        while at < place.end {
            cancel.check()?;
            let len = (place.end - at).min(BUFFER as u64) as usize;
            let part = &mut self.buffer[..len];
            self.file
                .read_exact_at(part, at)
                .map_err(|e| Error::io("read", self.path, e))?;
            if part.iter().any(|b| *b != 0) {
                part.fill(0);
                self.update_headers()?;
                self.put(at, &vec![0; len])?;
            }
            at += len as u64;
        }
        Ok(())
    }

    fn put(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all_at(bytes, at)
            .map_err(|e| Error::io("write", self.path, e))
    }

    /// Before the first change writes new ids to the older header, then to the other one, and syncs
    /// after each ([MS-VHDX] 2.2.2.1).
    fn update_headers(&mut self) -> Result<()> {
        if self.written {
            return Ok(());
        }
        self.written = true;
        let first = self.leaf.header.with_new_ids();
        let (Some(first), Some(second)) = (first.clone(), first.and_then(|h| h.next())) else {
            let why = "the headers' sequence number is at its maximum";
            return Err(report_damaged(&self.leaf.file, 0, why));
        };
        for header in [first, second] {
            let (at, bytes) = header.encode();
            self.put(at, &bytes)?;
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.file
            .sync_all()
            .map_err(|e| Error::io("write", self.path, e))
    }
}
