//! Reads disk images (raw, qcow2, VHD, VHDX, single-file VMDK, OVA, VMA), their partitions and NTFS
//! volumes.
//!
//! Images are only written to zero unused space ([`free_space`]). An image that cannot be read
//! faithfully (encrypted, not closed, or stored partly elsewhere) is refused with the reason, never
//! guessed at.

pub mod backing;
pub mod blocks;
pub mod dynamic_vhd;
pub mod foreign;
pub mod free_space;
pub mod gpt;
pub mod machine_format;
pub mod ntfs;
pub mod ova;
pub mod overlay;
pub mod qcow2;
pub mod qemu_img;
pub mod raw;
pub mod reader;
pub mod security;
pub mod sparse_vmdk;
pub mod vhd;
pub mod vhdx;
pub mod vma;
pub mod vmdk;

use std::ops::Range;
use std::path::Path;

use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;

use foreign::{ForeignFormat, HEAD, TAIL};

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

/// Format of an image file, detected from its first and last bytes and never from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFormat {
    Raw,
    Qcow2,
    FixedVhd,
    DynamicVhd,
    Vhdx,
    StreamVmdk,
    SparseVmdk,
    Ova,
    Vma,
}

impl ImageFormat {
    /// Detects the format by its magic number. A file of an unsupported format is refused by the
    /// format's name; a file without a magic number is raw.
    pub fn detect(path: &Path) -> Result<Self> {
        let file = RawDisk::open(path)?;
        let (mut head, mut tail) = (vec![0; HEAD], [0; TAIL]);
        let there = file.len().min(HEAD as u64) as usize;
        file.read_at(0, &mut head[..there])?;
        if let Some(last) = file.len().checked_sub(TAIL as u64) {
            file.read_at(last, &mut tail)?;
        }
        if let Some(foreign) = ForeignFormat::detect(&head[..there], &tail) {
            return Err(foreign.to_error(path));
        }
        Ok(if head.starts_with(b"QFI\xfb") {
            Self::Qcow2
        } else if head.starts_with(b"KDMV") {
            // Bits 16 and 17 of the flags: compressed grains, markers.
            if head[10] & 3 == 0 {
                Self::SparseVmdk
            } else {
                Self::StreamVmdk
            }
        } else if head.starts_with(b"# Disk DescriptorFile") {
            let why = "is a VMDK descriptor; the disk is in other files";
            return Err(refuse_image(path, why));
        } else if head.starts_with(b"vhdxfile") {
            Self::Vhdx
        } else if &head[257..262] == b"ustar" {
            Self::Ova
        } else if head.starts_with(vma::layout::head::MAGIC) {
            Self::Vma
        } else if tail.starts_with(vhd::COOKIE) && [3, 4].contains(&tail[63]) {
            Self::DynamicVhd
        } else if tail.starts_with(vhd::COOKIE) {
            Self::FixedVhd
        } else if head.starts_with(vhd::COOKIE) {
            let fact = format!("{} is a dynamic VHD without its footer", path.display());
            return Err(Error::failed(fact).cure("the file is truncated: write or copy it again"));
        } else {
            Self::Raw
        })
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

    /// Opens the image. A qcow2 must not be compressed: see [`qcow2::Qcow2::open`].
    pub fn open(self, cancel: &Cancel) -> Result<Box<dyn Disk>> {
        let path = self.file;
        Ok(match ImageFormat::detect(path)? {
            ImageFormat::Raw => Box::new(RawDisk::open(path)?),
            ImageFormat::Qcow2 => Box::new(qcow2::Qcow2Disk::open(self, cancel)?),
            ImageFormat::FixedVhd => Box::new(vhd::open(path)?.0),
            ImageFormat::DynamicVhd => Box::new(dynamic_vhd::open(path)?),
            ImageFormat::Vhdx => Box::new(vhdx::open(self)?),
            ImageFormat::SparseVmdk => Box::new(sparse_vmdk::open(path)?),
            ImageFormat::StreamVmdk => {
                let opened = vmdk::StreamVmdk::open(RawDisk::open(path)?);
                Box::new(opened.map_err(|e| e.or_cure(conversion_cure(path)))?)
            }
            ImageFormat::Ova => expect_one_disk(path, ova::OvaFile::open(path)?.check(cancel)?)?,
            ImageFormat::Vma => Box::new(vma::open(path)?),
        })
    }
}

/// Returns the only disk of an OVA. An OVA with several is refused, since the others would be lost.
fn expect_one_disk(path: &Path, disks: Vec<(String, vmdk::StreamVmdk)>) -> Result<Box<dyn Disk>> {
    let names: Vec<String> = disks.iter().map(|(name, _)| name.clone()).collect();
    match <[_; 1]>::try_from(disks) {
        Ok([(_, disk)]) => Ok(Box::new(disk)),
        Err(_) => Err(
            Error::failed(format!("{} has several disks", path.display()))
                .expected("an image with one disk")
                .found(format!("{}: {}", names.len(), names.join(", ")))
                .cure("unpack it with tar, and pass the disk that you want"),
        ),
    }
}

/// A disk, with the name of its member if the image is an OVA.
pub type NamedDisk = (Option<String>, Box<dyn Disk>);

/// Opens all disks of an image: those of an OVA, otherwise one without a name.
pub fn open_all(path: &Path, cancel: &Cancel) -> Result<Vec<NamedDisk>> {
    if ImageFormat::detect(path)? != ImageFormat::Ova {
        return Ok(Vec::from([(None, open(path, cancel)?)]));
    }
    let disks = ova::OvaFile::open(path)?.check(cancel)?;
    let has_several = disks.len() > 1;
    Ok(disks
        .into_iter()
        .map(|(name, disk)| {
            let disk: Box<dyn Disk> = Box::new(disk);
            (has_several.then_some(name), disk)
        })
        .collect())
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
