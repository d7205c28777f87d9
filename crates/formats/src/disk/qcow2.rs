//! A qcow2, alone or over the layers below it, read at the places that `qemu-img map` tells.
//!
//! QEMU keeps the knowledge of the format; we read the clusters ourselves, which costs a few short processes instead of a
//! server and a copy (QEMU: qemu-img(1), `map --output=json`). What a chain may consist of is decided in [`super::backing`];
//! compressed clusters, whose bytes are not in the file as they are on the disk, are refused, or flattened first.

use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;

use serde::Deserialize;

use super::backing::Chain;
use super::{Disk, Image, join, qemu_img, within};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io::Positioned as _;

/// An open qcow2. No file of it may be written by anyone while this lives.
#[derive(Debug)]
pub struct Qcow2 {
    /// The overlay first.
    files: Vec<(File, PathBuf)>,
    len: u64,
    /// Data only, ascending.
    extents: Vec<Extent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    start: u64,
    len: u64,
    /// In which of the files it lies, and where.
    depth: usize,
    host: u64,
}

#[derive(Deserialize)]
struct Mapped {
    start: u64,
    length: u64,
    depth: usize,
    zero: bool,
    data: bool,
    offset: Option<u64>,
    /// QEMU 8.2 and later say it; earlier ones give no `offset` for a compressed extent.
    #[serde(default)]
    compressed: bool,
}

impl Qcow2 {
    /// Refuses what can't be read in place, with the cure. `qemu-img` also refuses an image that a machine has open.
    pub fn open(image: Image<'_>, cancel: &Cancel) -> Result<Self> {
        Self::look(image, cancel)?.ok_or_else(|| {
            let path = image.file.display();
            Error::failed(format!(
                "{path} has compressed clusters, so it can't be read in place"
            ))
            .cure(format!(
                "flatten it first: qemu-img convert -O qcow2 {path} flat.qcow2"
            ))
        })
    }

    /// As `open`, but `None` when there are compressed clusters: a copy without them can be read.
    pub fn look(image: Image<'_>, cancel: &Cancel) -> Result<Option<Self>> {
        let chain = Chain::of(image, cancel)?;
        chain.check(cancel)?;
        let map: Vec<Mapped> = qemu_img::ask("map", &chain.named()?, cancel)?;
        let paths = chain.files();
        let Some(extents) = extents(&map) else {
            return Ok(None);
        };
        if extents.iter().any(|e| e.depth >= paths.len()) {
            return Err(Error::new(
                Kind::Host,
                "qemu-img map names a file below the last of a chain",
            )
            .at(image.file.display())
            .cure("use QEMU 7.2 or later"));
        }
        let open = |path| match File::open(path) {
            Ok(file) => Ok((file, PathBuf::from(path))),
            Err(e) => Err(Error::io("open", path, e)),
        };
        Ok(Some(Self {
            files: paths.map(open).collect::<Result<_>>()?,
            len: chain.len,
            extents,
        }))
    }
}

/// The extents with data; `None` when one is compressed.
fn extents(map: &[Mapped]) -> Option<Vec<Extent>> {
    let mut extents: Vec<Extent> = Vec::new();
    for m in map.iter().filter(|m| m.data && !m.zero) {
        let (false, Some(host)) = (m.compressed, m.offset) else {
            return None;
        };
        match extents.last_mut() {
            Some(last) if last.goes_on(m, host) => last.len += m.length,
            _ => extents.push(Extent {
                start: m.start,
                len: m.length,
                depth: m.depth,
                host,
            }),
        }
    }
    Some(extents)
}

impl Extent {
    /// Whether `m`, at `host` in its file, is the continuation.
    fn goes_on(&self, m: &Mapped, host: u64) -> bool {
        let follows = self.start + self.len == m.start && self.host + self.len == host;
        follows && self.depth == m.depth
    }
}

impl Disk for Qcow2 {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let len = buffer.len() as u64;
        within(&self.files[0].1, offset, len, self.len)?;
        let end = offset + len;
        let mut at = offset;
        let first = self.extents.partition_point(|e| e.start + e.len <= offset);
        for extent in &self.extents[first..] {
            if extent.start >= end {
                break;
            }
            let from = extent.start.max(at);
            let to = (extent.start + extent.len).min(end);
            buffer[(at - offset) as usize..(from - offset) as usize].fill(0);
            let part = &mut buffer[(from - offset) as usize..(to - offset) as usize];
            let (file, path) = &self.files[extent.depth];
            file.read_exact_at(part, extent.host + (from - extent.start))
                .map_err(|e| Error::io("read", path, e))?;
            at = to;
        }
        buffer[(at - offset) as usize..].fill(0);
        Ok(())
    }

    fn data(&self) -> Result<Vec<Range<u64>>> {
        let mut ranges = Vec::new();
        for e in &self.extents {
            join(&mut ranges, e.start..e.start + e.len);
        }
        Ok(ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(text: &str) -> Vec<Mapped> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn neighbours_in_a_file_are_one_extent() {
        let map = mapped(
            r#"[
            {"start":0,"length":65536,"depth":0,"present":true,"zero":false,"data":true,"offset":327680},
            {"start":65536,"length":65536,"depth":0,"present":true,"zero":false,"data":true,"offset":393216},
            {"start":131072,"length":65536,"depth":1,"present":true,"zero":false,"data":true,"offset":458752},
            {"start":196608,"length":65536,"depth":0,"present":false,"zero":true,"data":false},
            {"start":262144,"length":65536,"depth":1,"present":true,"zero":false,"data":true,"offset":589824}]"#,
        );
        let extent = |start, len, depth, host| Extent {
            start,
            len,
            depth,
            host,
        };
        assert_eq!(
            extents(&map).unwrap(),
            [
                extent(0, 131072, 0, 327680),
                extent(131072, 65536, 1, 458752),
                extent(262144, 65536, 1, 589824)
            ]
        );
    }

    #[test]
    fn compressed_clusters_are_known_whatever_the_version_of_qemu() {
        let old =
            r#"[{"start":0,"length":65536,"depth":0,"present":true,"zero":false,"data":true}]"#;
        let new = r#"[{"start":0,"length":65536,"depth":0,"present":true,"zero":false,"data":true,"compressed":true,"offset":9}]"#;
        assert_eq!(extents(&mapped(old)), None);
        assert_eq!(extents(&mapped(new)), None);
    }
}
