//! Reads a qcow2, with or without backing files, at the offsets that `qemu-img map` reports.
//!
//! QEMU interprets the format and we read the clusters, which takes a few short processes instead
//! of a server and a copy (QEMU: qemu-img(1), `map --output=json`). [`super::backing`] decides
//! which files a chain may have. `compressed` reads one with compressed clusters.

mod compressed;

use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;

use serde::Deserialize;

use super::backing::BackingChain;
use super::{Disk, DiskImage, FormatMark, ImageFormat, OpenedImage, check_bounds, join, qemu_img};
use compressed::CompressedQcow2;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io::PositionedIo as _;

pub(super) const FORMAT: ImageFormat = ImageFormat {
    name: "qcow2",
    family: "qcow2",
    mark: FormatMark::Beginning(|ends| ends.has(0, b"QFI\xfb")),
    open: |image, cancel| {
        let chain = BackingChain::resolve(image, cancel)?;
        chain.check(cancel)?;
        Ok(match Qcow2Disk::open(image, &chain, cancel)? {
            Some(disk) => OpenedImage::from_disk(disk),
            None => {
                let disk = CompressedQcow2::new(image.file, chain.len, cancel);
                OpenedImage::Compressed(Box::new(disk))
            }
        })
    },
    to_qemu: |image, cancel| {
        BackingChain::resolve(image, cancel)?
            .to_image_arg()
            .map(Some)
    },
    to_node: Some(|file, _| Ok(qemu_img::build_node("qcow2", file))),
};

/// An open qcow2. Nothing may write to any of its files while it is open.
#[derive(Debug)]
struct Qcow2Disk {
    /// The overlay first.
    files: Vec<(File, PathBuf)>,
    len: u64,
    /// Extents with data, ascending.
    extents: Vec<Qcow2Extent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Qcow2Extent {
    start: u64,
    len: u64,
    /// Index of its file, and the offset there.
    depth: usize,
    host: u64,
}

#[derive(Deserialize)]
struct Qcow2MapEntry {
    start: u64,
    length: u64,
    depth: usize,
    zero: bool,
    data: bool,
    offset: Option<u64>,
    /// Present since QEMU 8.2; earlier versions give no `offset` for a compressed extent.
    #[serde(default)]
    compressed: bool,
}

impl Qcow2Disk {
    /// Opens an image with its backing files; `None` if there are compressed clusters. `qemu-img`
    /// refuses an image that a machine has open.
    fn open(image: DiskImage<'_>, chain: &BackingChain, cancel: &Cancel) -> Result<Option<Self>> {
        let map: Vec<Qcow2MapEntry> = qemu_img::ask("map", &chain.to_image_arg()?, cancel)?;
        let paths = chain.files();
        let Some(extents) = collect_extents(&map) else {
            return Ok(None);
        };
        if extents.iter().any(|e| e.depth >= paths.len()) {
            return Err(Error::new(
                Kind::Host,
                "qemu-img map reports a file beyond the end of the chain",
            )
            .at(image.file.display())
            .cure("use QEMU 7.2 or later"));
        }
        let mut files = Vec::new();
        for path in paths {
            let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
            files.push((file, PathBuf::from(path)));
        }
        Ok(Some(Self {
            files,
            len: chain.len,
            extents,
        }))
    }
}

/// Collects the extents with data; `None` if one is compressed.
fn collect_extents(map: &[Qcow2MapEntry]) -> Option<Vec<Qcow2Extent>> {
    let mut extents: Vec<Qcow2Extent> = Vec::new();
    for m in map.iter().filter(|m| m.data && !m.zero) {
        let (false, Some(host)) = (m.compressed, m.offset) else {
            return None;
        };
        match extents.last_mut() {
            Some(last) if last.goes_on(m, host) => last.len += m.length,
            _ => extents.push(Qcow2Extent {
                start: m.start,
                len: m.length,
                depth: m.depth,
                host,
            }),
        }
    }
    Some(extents)
}

impl Qcow2Extent {
    /// Returns true if `m`, at `host` in its file, directly continues this extent.
    fn goes_on(&self, m: &Qcow2MapEntry, host: u64) -> bool {
        let follows = self.start + self.len == m.start && self.host + self.len == host;
        follows && self.depth == m.depth
    }
}

impl Disk for Qcow2Disk {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let len = buffer.len() as u64;
        check_bounds(&self.files[0].1, offset, len, self.len)?;
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

    fn mapped(text: &str) -> Vec<Qcow2MapEntry> {
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
        let extent = |start, len, depth, host| Qcow2Extent {
            start,
            len,
            depth,
            host,
        };
        assert_eq!(
            collect_extents(&map).unwrap(),
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
        assert_eq!(collect_extents(&mapped(old)), None);
        assert_eq!(collect_extents(&mapped(new)), None);
    }
}
