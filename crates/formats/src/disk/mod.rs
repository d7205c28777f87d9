//! Reads disk images (raw, qcow2, VHD, VHDX, single-file VMDK, OVA, VMA), their partitions and NTFS
//! volumes.
//!
//! Images are only written to zero unused space ([`free_space`]). An image that cannot be read
//! faithfully (encrypted, not closed, or stored partly elsewhere) is refused with the reason, never
//! guessed at.

pub mod backing;
pub mod blocks;
mod foreign;
pub mod free_space;
pub mod gpt;
pub mod machine_format;
pub mod ntfs;
pub mod ova;
pub mod overlay;
mod qcow2;
pub mod qemu_img;
pub mod raw;
pub mod reader;
pub mod security;
mod suffix;
pub mod vhd;
pub mod vhdx;
pub mod vma;
pub mod vmdk;

use std::ops::Range;
use std::path::Path;

use serde_json::Value;

use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;

use foreign::{ForeignFormat, HEAD, TAIL};
use qemu_img::QemuImageArg;

pub use machine_format::MachineDiskFormat;
pub use raw::RawDisk;
pub use reader::DiskReader;

/// Cure for an incomplete disk.
const COPY_AGAIN: &str =
    "copy the disk again from its source, and compare its digest with the manifest";

/// Sector size that formats use; a disk's own sectors may be larger.
pub const SECTOR: u64 = 512;

/// A virtual disk's content. Reads have no shared position, so threads can share a disk.
pub trait Disk: Send + Sync {
    /// Bytes of the virtual disk.
    fn len(&self) -> u64;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Size in bytes of the sectors that the guest sees and that its partition table uses.
    fn sector_size(&self) -> u64 {
        SECTOR
    }

    /// Fills `buffer` with the bytes at `offset`. Reading beyond the end is an error.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Returns the ranges that may contain data, ascending and disjoint; all else is known to be
    /// zeros.
    fn data(&self) -> Result<Vec<Range<u64>>> {
        let whole = 0..self.len();
        Ok(Vec::from([whole]))
    }
}

/// A format that disks are read from: one row of [`FORMATS`], stated by the format's own module.
#[derive(Clone, Copy, Debug)]
pub struct ImageFormat {
    /// Name in messages: `fixed VHD`.
    pub name: &'static str,
    /// Name in lists of formats, shared by the kinds of one format: `VHD`. In any case it is the
    /// suffix of their files.
    family: &'static str,
    mark: FormatMark,
    open: fn(DiskImage<'_>, &Cancel) -> Result<OpenedImage>,
    /// Describes the image to qemu-img; `None` if it can't read the image or would misread it.
    to_qemu: fn(DiskImage<'_>, &Cancel) -> Result<Option<QemuImageArg>>,
    /// Describes a file with a disk of that many bytes as QMP's `BlockdevOptions`; `None` if QEMU
    /// has no driver for it.
    to_node: Option<fn(&Path, u64) -> Result<Value>>,
}

/// The place of a format's magic number. The one at the beginning counts: what follows it may end
/// like another format.
#[derive(Clone, Copy, Debug)]
enum FormatMark {
    Beginning(fn(&FileEnds) -> bool),
    End(fn(&FileEnds) -> bool),
    /// None: a file without any mark is a raw disk.
    Missing,
}

/// Readable formats, in the order of lists in messages.
static FORMATS: [ImageFormat; 9] = [
    raw::FORMAT,
    qcow2::FORMAT,
    vhd::FIXED_FORMAT,
    vhd::dynamic::FORMAT,
    vhdx::FORMAT,
    vmdk::stream::FORMAT,
    vmdk::sparse::FORMAT,
    ova::FORMAT,
    vma::FORMAT,
];

impl PartialEq for ImageFormat {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl ImageFormat {
    /// Detects the format from the file's first and last bytes. A file of an unsupported format is
    /// refused by the format's name, and so is one without any magic number whose suffix names a
    /// format.
    pub fn detect(path: &Path) -> Result<&'static Self> {
        let ends = FileEnds::read(path)?;
        if let Some(foreign) = ForeignFormat::detect(&ends) {
            return Err(foreign.to_error(path));
        }
        let found = FORMATS
            .iter()
            .find(|format| matches!(format.mark, FormatMark::Beginning(is) if is(&ends)))
            .or_else(|| {
                FORMATS
                    .iter()
                    .find(|format| matches!(format.mark, FormatMark::End(is) if is(&ends)))
            });
        if let Some(found) = found {
            return Ok(found);
        }
        match suffix::find_format_of_suffix(path) {
            Some(named) => Err(suffix::misnamed_file_error(named, path, &ends)),
            None => Ok(&raw::FORMAT),
        }
    }

    /// Returns true if a file of the format has no magic number, so that it could be anything.
    pub fn is_unmarked(&self) -> bool {
        matches!(self.mark, FormatMark::Missing)
    }

    /// Describes a file with a disk of `bytes` to QEMU as `BlockdevOptions`; `None` if QEMU has no
    /// driver for the format.
    pub fn to_node(&self, file: &Path, bytes: u64) -> Result<Option<Value>> {
        self.to_node.map(|to_node| to_node(file, bytes)).transpose()
    }

    /// Lists all formats: `raw, qcow2, VHD`.
    pub fn list() -> String {
        join_families(FORMATS.iter())
    }

    /// Lists the formats that QEMU has a driver for.
    pub fn list_for_qemu() -> String {
        join_families(FORMATS.iter().filter(|format| format.to_node.is_some()))
    }
}

fn join_families<'f>(formats: impl Iterator<Item = &'f ImageFormat>) -> String {
    let mut names: Vec<&str> = formats.map(|format| format.family).collect();
    names.dedup();
    names.join(", ")
}

/// The beginning and the end of a file, by which its format is recognized.
pub struct FileEnds {
    /// Shorter than [`foreign::HEAD`] if the file is.
    head: Vec<u8>,
    /// Zeros if the file is shorter.
    tail: [u8; TAIL],
}

impl FileEnds {
    fn read(path: &Path) -> Result<Self> {
        let file = RawDisk::open(path)?;
        let mut head = vec![0; file.len().min(HEAD as u64) as usize];
        let mut tail = [0; TAIL];
        file.read_at(0, &mut head)?;
        if let Some(last) = file.len().checked_sub(TAIL as u64) {
            file.read_at(last, &mut tail)?;
        }
        Ok(Self { head, tail })
    }

    /// Returns true if the file has these bytes at the offset `at`.
    fn has(&self, at: usize, magic: &[u8]) -> bool {
        self.head
            .get(at..)
            .is_some_and(|rest| rest.starts_with(magic))
    }
}

fn refuse_image(path: &Path, why: &str) -> Error {
    Error::failed(format!("{} {why}", path.display())).cure(conversion_cure(path))
}

/// Returns the cure for an image that QEMU may read.
fn conversion_cure(path: &Path) -> String {
    let path = path.display();
    format!("convert it first: qemu-img convert -O raw {path} disk.raw")
}

/// An image file, and the permission to read the files that it references.
#[derive(Clone, Copy, Debug)]
pub struct DiskImage<'a> {
    pub file: &'a Path,
    /// Backing files and parents are read only below this folder, which the caller owns. `None`: an
    /// image with a backing file or parent is refused.
    pub layers: Option<&'a Path>,
}

/// A disk, with the name of its member if the image has several.
pub type NamedDisk = (Option<String>, Box<dyn Disk>);

/// An open image.
pub enum OpenedImage {
    /// Its disks can be read at their places in the file.
    InPlace(Vec<NamedDisk>),
    /// Every read has to unpack something. Flatten the image first ([`qemu_img::flatten`]), unless
    /// little is read.
    Compressed(Box<dyn Disk>),
}

impl OpenedImage {
    /// An image with one disk.
    fn from_disk(disk: impl Disk + 'static) -> Self {
        Self::InPlace(Vec::from([(None, Box::new(disk) as Box<dyn Disk>)]))
    }

    /// Returns all disks, however slow.
    pub fn into_disks(self) -> Vec<NamedDisk> {
        match self {
            Self::InPlace(disks) => disks,
            Self::Compressed(disk) => Vec::from([(None, disk)]),
        }
    }
}

impl<'a> DiskImage<'a> {
    /// An image in a single file, as required for images from elsewhere.
    pub fn from_file(file: &'a Path) -> Self {
        Self { file, layers: None }
    }

    /// A qcow2 or VHDX that may have backing files or parents below `layers`.
    pub fn with_layers(file: &'a Path, layers: &'a Path) -> Self {
        Self {
            file,
            layers: Some(layers),
        }
    }

    /// Opens the image with all its disks.
    pub fn open_all(self, cancel: &Cancel) -> Result<OpenedImage> {
        (ImageFormat::detect(self.file)?.open)(self, cancel)
    }

    /// Opens an image that has one disk and can be read in place.
    pub fn open(self, cancel: &Cancel) -> Result<Box<dyn Disk>> {
        match self.open_all(cancel)? {
            OpenedImage::InPlace(disks) => take_only_disk(self.file, disks),
            OpenedImage::Compressed(_) => {
                let path = self.file.display();
                let fact = format!("{path} has compressed clusters, so it can't be read in place");
                Err(Error::failed(fact).cure(format!(
                    "flatten it first: qemu-img convert -O qcow2 {path} flat.qcow2"
                )))
            }
        }
    }

    /// Copies the disk into a single uncompressed qcow2.
    pub fn flatten(self, to: &Path, cancel: &Cancel) -> Result<()> {
        match self.to_qemu(cancel)? {
            Some(image) => qemu_img::flatten(&image, to, cancel),
            None => Err(refuse_image(self.file, "cannot be read by qemu-img")),
        }
    }

    /// Describes the image to qemu-img; `None` if it can't read it, such as a VHDX with a parent.
    pub fn to_qemu(self, cancel: &Cancel) -> Result<Option<QemuImageArg>> {
        (ImageFormat::detect(self.file)?.to_qemu)(self, cancel)
    }
}

/// Returns the only disk of an image. An image with several is refused, since the others would be
/// lost.
pub fn take_only_disk(path: &Path, disks: Vec<NamedDisk>) -> Result<Box<dyn Disk>> {
    let names: Vec<String> = disks.iter().filter_map(|(name, _)| name.clone()).collect();
    match <[_; 1]>::try_from(disks) {
        Ok([(_, disk)]) => Ok(disk),
        Err(_) => Err(
            Error::failed(format!("{} has several disks", path.display()))
                .expected("an image with one disk")
                .found(format!("{}: {}", names.len(), names.join(", ")))
                .cure("unpack it with tar, and pass the disk that you want"),
        ),
    }
}

/// Opens a single-file image of any supported format. An overlay is refused.
pub fn open(path: &Path, cancel: &Cancel) -> Result<Box<dyn Disk>> {
    DiskImage::from_file(path).open(cancel)
}

/// Checks that a disk of `all` bytes has `len` bytes at `offset`.
fn check_bounds(path: &Path, offset: u64, len: u64, all: u64) -> Result<()> {
    if offset.checked_add(len).is_some_and(|end| end <= all) {
        return Ok(());
    }
    Err(Error::failed(format!("{} ends too early", path.display()))
        .at(format!("offset {offset}"))
        .expected(format!("{len} bytes"))
        .found(format!("{all} bytes in total")))
}

/// Appends a range, or extends the last one if they are adjacent.
pub fn join<T: PartialEq>(ranges: &mut Vec<Range<T>>, next: Range<T>) {
    match ranges.last_mut() {
        Some(last) if last.end == next.start => last.end = next.end,
        _ => ranges.push(next),
    }
}
