//! A qcow2 over an image of any format: reads the overlay's own clusters, and the image's bytes
//! elsewhere.
//!
//! QEMU reads no OVA and no VHDX as winimg does, and the overlay's own backing file name is never
//! followed: the caller opens the image below with its own reader. QEMU only reports the places of
//! the overlay's own clusters (qemu-img(1), `map --output=json`).

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::qemu_img::{self, QemuImageArg};
use super::{Disk, check_bounds};
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;
use winimg_base::io::PositionedIo as _;

/// An open overlay. Nothing may write to it, or to the image below, while it is open.
pub struct OverlayDisk {
    file: File,
    path: PathBuf,
    len: u64,
    /// The overlay's own extents, ascending.
    own: Vec<OverlayExtent>,
    below: Arc<dyn Disk>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OverlayExtent {
    start: u64,
    len: u64,
    /// Offset in the file; `None`: zeros.
    host: Option<u64>,
}

#[derive(Deserialize)]
struct OverlayMapEntry {
    start: u64,
    length: u64,
    /// True if the overlay has its own bytes or its own zeros here.
    present: bool,
    zero: bool,
    offset: Option<u64>,
}

impl OverlayDisk {
    /// Opens an overlay over `below`, beyond whose end there are zeros. Fails if a machine has the
    /// overlay open.
    pub fn open(path: &Path, below: Arc<dyn Disk>, cancel: &Cancel) -> Result<Self> {
        let Some(name) = path.to_str() else {
            return Err(
                Error::failed("an overlay has a path that is not Unicode").at(path.display())
            );
        };
        let file = json!({"driver": "file", "filename": name});
        let alone = json!({"driver": "qcow2", "file": file, "backing": null});
        let map: Vec<OverlayMapEntry> =
            qemu_img::ask("map", &QemuImageArg::from_node(&alone), cancel)?;
        let mut own = Vec::new();
        for part in map.iter().filter(|part| part.present) {
            let host = (!part.zero).then_some(part.offset);
            if host == Some(None) {
                let fact = format!("{name} has compressed clusters, so it can't be read in place");
                return Err(Error::failed(fact));
            }
            own.push(OverlayExtent {
                start: part.start,
                len: part.length,
                host: host.flatten(),
            });
        }
        Ok(Self {
            file: File::open(path).map_err(|e| Error::io("open", path, e))?,
            path: path.to_owned(),
            len: map.last().map_or(0, |last| last.start + last.length),
            own,
            below,
        })
    }

    fn read_below(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let left = self.below.len().saturating_sub(offset);
        let there = left.min(buffer.len() as u64) as usize;
        let (image, beyond) = buffer.split_at_mut(there);
        beyond.fill(0);
        if image.is_empty() {
            Ok(())
        } else {
            self.below.read_at(offset, image)
        }
    }
}

impl Disk for OverlayDisk {
    fn len(&self) -> u64 {
        self.len
    }

    fn sector_size(&self) -> u64 {
        self.below.sector_size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_bounds(&self.path, offset, buffer.len() as u64, self.len)?;
        let (mut at, mut rest) = (offset, buffer);
        let first = self.own.partition_point(|e| e.start + e.len <= offset);
        let mut own = self.own[first..].iter().peekable();
        while !rest.is_empty() {
            let next = own.next_if(|e| e.start <= at);
            let end = match (next, own.peek()) {
                (Some(extent), _) => extent.start + extent.len,
                (None, Some(later)) => later.start,
                (None, None) => self.len,
            };
            let len = (end - at).min(rest.len() as u64) as usize;
            let (part, after) = std::mem::take(&mut rest).split_at_mut(len);
            match next {
                None => self.read_below(at, part)?,
                Some(OverlayExtent { host: None, .. }) => part.fill(0),
                Some(OverlayExtent {
                    start,
                    host: Some(host),
                    ..
                }) => self
                    .file
                    .read_exact_at(part, host + (at - start))
                    .map_err(|e| Error::io("read", &self.path, e))?,
            }
            at += len as u64;
            rest = after;
        }
        Ok(())
    }

    /// Includes the image's data below the overlay's own zeros.
    fn data(&self) -> Result<Vec<Range<u64>>> {
        let mut all = self.below.data()?;
        all.extend(
            self.own
                .iter()
                .filter(|e| e.host.is_some())
                .map(|e| e.start..e.start + e.len),
        );
        all.sort_by_key(|range| range.start);
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for next in all {
            match ranges.last_mut() {
                Some(last) if next.start <= last.end => last.end = last.end.max(next.end),
                _ => ranges.push(next),
            }
        }
        Ok(ranges)
    }
}
