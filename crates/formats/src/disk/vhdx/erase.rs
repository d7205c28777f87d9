//! Zeros over parts of a closed VHDX, in place.
//!
//! Only the topmost file is written, only where it has room of its own for those bytes, and where no structure of it lies.
//! Blocks keep their places and their states. A file that children were made over loses them: its `DataWriteGuid` changes,
//! as the format demands ([MS-VHDX] 2.2.2).

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use super::damaged;
use super::layer::{Holder, Layer};
use crate::disk::{Disk, Image, join};
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;
use winimg_base::io::Positioned as _;

const BUFFER: usize = 1 << 20;

/// Zeros over `ranges` of the disk, as far as the topmost file has them, and over what lies in that file between its
/// structures: bytes of blocks that were given up. Nothing is written where zeros are already. Refuses a file that was not
/// closed.
pub fn zero_in_place(image: Image<'_>, ranges: &[Range<u64>], cancel: &Cancel) -> Result<()> {
    let disk = super::open(image)?;
    let leaf = disk.leaf();
    let mut places = unused(leaf)?;
    for range in ranges {
        if range.end > leaf.len {
            return Err(
                Error::failed(format!("zeros beyond the end of {}", image.file.display()))
                    .at(format!("offset {}", range.end))
                    .found(format!("{} bytes in all", leaf.len)),
            );
        }
        places.extend(rooms(leaf, range));
    }
    let mut target = Target::open(image.file, leaf)?;
    for place in places {
        target.zero(place, cancel)?;
    }
    target.sync()
}

/// Where the file has room for a range of the disk. In a block that it holds in part also the sectors that it does not
/// hold: nobody reads those, and what was left there must go too.
fn rooms(leaf: &Layer, range: &Range<u64>) -> Vec<Range<u64>> {
    let mut rooms = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let to = (at - at % leaf.block + leaf.block).min(range.end);
        if let Holder::Here(place) = leaf.block_holder(at) {
            join(&mut rooms, place..place + (to - at));
        }
        at = to;
    }
    rooms
}

/// What no structure of the file takes.
fn unused(leaf: &Layer) -> Result<Vec<Range<u64>>> {
    let mut unused = Vec::new();
    let mut end = 0;
    let last = leaf.file.len();
    for used in leaf.used()? {
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

struct Target<'a> {
    file: File,
    path: &'a Path,
    leaf: &'a Layer,
    buffer: Vec<u8>,
    written: bool,
}

impl<'a> Target<'a> {
    fn open(path: &'a Path, leaf: &'a Layer) -> Result<Self> {
        let file = File::options().read(true).write(true).open(path);
        Ok(Self {
            file: file.map_err(|e| Error::io("open", path, e))?,
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
                self.renew()?;
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

    /// Before the first change: new ids in the older header, then the same in the other, each on the disk before what
    /// follows it ([MS-VHDX] 2.2.2.1).
    fn renew(&mut self) -> Result<()> {
        if self.written {
            return Ok(());
        }
        self.written = true;
        let first = self.leaf.header.renewed();
        let (Some(first), Some(second)) = (first.clone(), first.and_then(|h| h.next())) else {
            let why = "the headers' number is the largest there is";
            return Err(damaged(&self.leaf.file, 0, why));
        };
        for header in [first, second] {
            let (at, bytes) = header.written();
            self.put(at, &bytes)?;
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let synced = self.file.sync_all();
        synced.map_err(|e| Error::io("write", self.path, e))
    }
}
