//! A raw disk: a file or a window of one (a fixed VHD without its footer, a member of a tar).

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::qemu_img::{self, QemuImageArg};
use super::{Disk, FormatMark, ImageFormat, OpenedImage, check_bounds};
use winimg_base::error::{Error, Result};
use winimg_base::io::{PositionedIo as _, find_data};

pub(super) const FORMAT: ImageFormat = ImageFormat {
    name: "raw",
    family: "raw",
    mark: FormatMark::Missing,
    open: |image, _| Ok(OpenedImage::from_disk(RawDisk::open(image.file)?)),
    to_qemu: |image, _| Ok(Some(QemuImageArg::from_path(image.file, "raw"))),
    to_node: Some(|file, _| Ok(qemu_img::build_node("raw", file))),
};

/// Bytes `start .. start + len` of a file.
#[derive(Debug)]
pub struct RawDisk {
    file: File,
    path: PathBuf,
    start: u64,
    len: u64,
}

impl RawDisk {
    /// Opens the whole file.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        let len = file
            .metadata()
            .map_err(|e| Error::io("read", path, e))?
            .len();
        Ok(Self {
            file,
            path: path.to_owned(),
            start: 0,
            len,
        })
    }

    /// Narrows the disk to a part of it, in bytes, which must be inside.
    pub fn into_window(mut self, start: u64, len: u64) -> Result<Self> {
        check_bounds(&self.path, start, len, self.len)
            .map_err(|e| e.cure("the file is truncated: write or copy it again"))?;
        self.start += start;
        self.len = len;
        Ok(self)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A disk in memory.
impl Disk for Vec<u8> {
    fn len(&self) -> u64 {
        self.as_slice().len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_bounds(
            Path::new("memory"),
            offset,
            buffer.len() as u64,
            Disk::len(self),
        )?;
        buffer.copy_from_slice(&self[offset as usize..][..buffer.len()]);
        Ok(())
    }
}

impl Disk for RawDisk {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_bounds(&self.path, offset, buffer.len() as u64, self.len)?;
        self.file
            .read_exact_at(buffer, self.start + offset)
            .map_err(|e| Error::io("read", &self.path, e))
    }

    /// Asks the file system for holes.
    fn data(&self) -> Result<Vec<Range<u64>>> {
        let found = find_data(&self.file, self.start..self.start + self.len)
            .map_err(|e| Error::io("look for holes in", &self.path, e))?;
        Ok(found
            .into_iter()
            .map(|r| r.start - self.start..r.end - self.start)
            .collect())
    }
}
