//! A standalone qcow2, read at the places that `qemu-img map` tells.
//!
//! QEMU keeps the knowledge of the format; we read the clusters ourselves, which costs one short process instead of a
//! server and a copy (QEMU: qemu-img(1), `map --output=json`). A compressed, encrypted or layered image has bytes that
//! are not in the file as they are on the disk: those are refused, or flattened first.

use std::ffi::OsStr;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Disk, qemu_img};
use crate::error::{Error, Kind, Result};
use crate::event::Cancel;

/// An open qcow2. Must not be written by anyone while this lives.
#[derive(Debug)]
pub struct Qcow2 {
    file: File,
    path: PathBuf,
    len: u64,
    /// Data only, ascending.
    extents: Vec<Extent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    start: u64,
    len: u64,
    /// Where it lies in the file.
    host: u64,
}

#[derive(Deserialize)]
struct Info {
    format: String,
    #[serde(rename = "virtual-size")]
    virtual_size: u64,
    #[serde(rename = "backing-filename")]
    backing: Option<String>,
    #[serde(default)]
    encrypted: bool,
    #[serde(rename = "format-specific")]
    specific: Option<Specific>,
}

#[derive(Deserialize)]
struct Specific {
    data: SpecificData,
}

#[derive(Deserialize)]
struct SpecificData {
    #[serde(rename = "data-file")]
    data_file: Option<String>,
    #[serde(default)]
    corrupt: bool,
}

#[derive(Deserialize)]
struct Mapped {
    start: u64,
    length: u64,
    depth: u64,
    zero: bool,
    data: bool,
    offset: Option<u64>,
    /// QEMU 8.2 and later say it; earlier ones give no `offset` for a compressed extent.
    #[serde(default)]
    compressed: bool,
}

impl Qcow2 {
    /// Refuses what can't be read in place, with the cure. `qemu-img` also refuses an image that a machine has open.
    pub fn open(path: &Path, cancel: &Cancel) -> Result<Self> {
        match Self::look(path, cancel)? {
            Ok(disk) => Ok(disk),
            Err(why) => Err(Error::new(
                Kind::Failed,
                format!("{} {why}, so it can't be read in place", path.display()),
            )
            .cure(format!(
                "flatten it first: qemu-img convert -O qcow2 {} flat.qcow2",
                path.display()
            ))),
        }
    }

    /// As `open`; the inner error says in a few words why the image can't be read in place.
    pub fn look(path: &Path, cancel: &Cancel) -> Result<Result<Self, String>> {
        let info: Info = ask("info", path, cancel)?;
        if info.format != "qcow2" {
            return Err(
                Error::new(Kind::Failed, format!("{} is not a qcow2", path.display()))
                    .found(info.format),
            );
        }
        let specific = info.specific.map(|s| s.data);
        if specific.as_ref().is_some_and(|s| s.corrupt) {
            return Err(Error::new(
                Kind::Failed,
                format!("{} is marked corrupt", path.display()),
            )
            .cure("look at it with qemu-img check; build the image again"));
        }
        if info.encrypted {
            return Ok(Err("is encrypted".into()));
        }
        if let Some(backing) = info.backing {
            return Ok(Err(format!("is an overlay over {backing}")));
        }
        if let Some(data) = specific.and_then(|s| s.data_file) {
            return Ok(Err(format!("keeps its data in {data}")));
        }
        let map: Vec<Mapped> = ask("map", path, cancel)?;
        let extents = match extents(&map) {
            Ok(extents) => extents,
            Err(why) => return Ok(Err(why)),
        };
        let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        Ok(Ok(Self {
            file,
            path: path.to_owned(),
            len: info.virtual_size,
            extents,
        }))
    }
}

/// Runs `qemu-img info|map` on `path` and reads the JSON.
fn ask<T: for<'de> Deserialize<'de>>(what: &str, path: &Path, cancel: &Cancel) -> Result<T> {
    let name = qemu_img::file_name(path);
    let arguments = [what, "-f", "qcow2", "--output=json"].map(OsStr::new);
    let output = qemu_img::run(&[&arguments[..], &[&name]].concat(), cancel)?;
    serde_json::from_slice(&output).map_err(|e| {
        Error::new(
            Kind::Host,
            format!("qemu-img {what} answered in a form unknown to winimg"),
        )
        .at(path.display())
        .because(e)
        .cure("use QEMU 7.2 or later")
    })
}

/// The extents with data. The error says in a few words why there is none to read in place.
fn extents(map: &[Mapped]) -> Result<Vec<Extent>, String> {
    let mut extents: Vec<Extent> = Vec::new();
    for m in map.iter().filter(|m| m.data && !m.zero) {
        if m.depth > 0 {
            return Err("has its data in a backing file".into());
        }
        let (false, Some(host)) = (m.compressed, m.offset) else {
            return Err("has compressed clusters".into());
        };
        match extents.last_mut() {
            Some(last) if last.start + last.len == m.start && last.host + last.len == host => {
                last.len += m.length;
            }
            _ => extents.push(Extent {
                start: m.start,
                len: m.length,
                host,
            }),
        }
    }
    Ok(extents)
}

impl Disk for Qcow2 {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = offset + buffer.len() as u64;
        if end > self.len {
            return Err(Error::new(
                Kind::Failed,
                format!("{} ends too early", self.path.display()),
            )
            .at(format!("offset {offset}"))
            .expected(format!("{} bytes", buffer.len()))
            .found(format!("{} bytes in all", self.len)));
        }
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
            self.file
                .read_exact_at(part, extent.host + (from - extent.start))
                .map_err(|e| Error::io("read", &self.path, e))?;
            at = to;
        }
        buffer[(at - offset) as usize..].fill(0);
        Ok(())
    }

    fn data(&self) -> Result<Vec<Range<u64>>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for e in &self.extents {
            match ranges.last_mut() {
                Some(last) if last.end == e.start => last.end += e.len,
                _ => ranges.push(e.start..e.start + e.len),
            }
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
    fn neighbours_in_the_file_are_one_extent() {
        let map = mapped(
            r#"[
            {"start":0,"length":65536,"depth":0,"present":true,"zero":false,"data":true,"offset":327680},
            {"start":65536,"length":65536,"depth":0,"present":true,"zero":false,"data":true,"offset":393216},
            {"start":131072,"length":65536,"depth":0,"present":false,"zero":true,"data":false},
            {"start":196608,"length":65536,"depth":0,"present":true,"zero":false,"data":true,"offset":524288}]"#,
        );
        let extent = |start, len, host| Extent { start, len, host };
        assert_eq!(
            extents(&map).unwrap(),
            [extent(0, 131072, 327680), extent(196608, 65536, 524288)]
        );
    }

    #[test]
    fn data_that_is_not_in_the_file_as_it_is_on_the_disk_is_refused() {
        let old =
            r#"[{"start":0,"length":65536,"depth":0,"present":true,"zero":false,"data":true}]"#;
        let new = r#"[{"start":0,"length":65536,"depth":0,"present":true,"zero":false,"data":true,"compressed":true,"offset":9}]"#;
        let deep = r#"[{"start":0,"length":65536,"depth":1,"present":true,"zero":false,"data":true,"offset":65536}]"#;
        assert_eq!(
            extents(&mapped(old)).unwrap_err(),
            "has compressed clusters"
        );
        assert_eq!(
            extents(&mapped(new)).unwrap_err(),
            "has compressed clusters"
        );
        assert_eq!(
            extents(&mapped(deep)).unwrap_err(),
            "has its data in a backing file"
        );
    }
}
