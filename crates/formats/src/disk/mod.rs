//! Disk images that are read: raw, qcow2, VHD, VHDX, VMDK in one file, OVA, VMA; and what lies on them.
//!
//! Nothing here writes to an image but zeros over what nobody reads ([`free_space`]). A form that can't be read faithfully
//! (encrypted, not closed, part of it elsewhere) is refused by name, never guessed at.

pub mod backing;
pub mod blocks;
pub mod dynamic_vhd;
pub mod foreign;
pub mod form;
pub mod free_space;
pub mod gpt;
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

use foreign::{Foreign, HEAD, TAIL};

pub use form::DiskForm;
pub use raw::RawDisk;
pub use reader::DiskReader;

/// The cure of a disk that is not whole.
const COPY_AGAIN: &str =
    "copy the disk again from where it was made, and compare its digest with the manifest's";

/// Bytes of a sector, as formats count them; a disk's own sectors may be larger.
pub const SECTOR: u64 = 512;

/// A virtual disk's content. Reading does not move a position, so threads share one.
pub trait Disk: Send + Sync {
    /// Bytes of the virtual disk.
    fn len(&self) -> u64;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the sectors in which the guest counts: its partition table is written in them.
    fn sector(&self) -> u64 {
        SECTOR
    }

    /// Fills `buffer` with the bytes at `offset`. Reading beyond the end is an error.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// The ranges that may hold something, ascending and apart; all else is known to be zeros without reading it.
    fn data(&self) -> Result<Vec<Range<u64>>> {
        let whole = 0..self.len();
        Ok(Vec::from([whole]))
    }
}

/// What an image file is, told by its first and last bytes and never by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
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

impl Format {
    /// Looks at the magic numbers. A file with a mark of a form that is not read is refused by the form's name; a file
    /// without any mark is raw.
    pub fn of(path: &Path) -> Result<Self> {
        let file = RawDisk::open(path)?;
        let (mut head, mut tail) = (vec![0; HEAD], [0; TAIL]);
        let there = file.len().min(HEAD as u64) as usize;
        file.read_at(0, &mut head[..there])?;
        if let Some(last) = file.len().checked_sub(TAIL as u64) {
            file.read_at(last, &mut tail)?;
        }
        if let Some(foreign) = Foreign::of(&head[..there], &tail) {
            return Err(foreign.refusal(path));
        }
        Ok(match () {
            () if head.starts_with(b"QFI\xfb") => Self::Qcow2,
            // Bits 16 and 17 of the flags: compressed grains, markers.
            () if head.starts_with(b"KDMV") && head[10] & 3 == 0 => Self::SparseVmdk,
            () if head.starts_with(b"KDMV") => Self::StreamVmdk,
            () if head.starts_with(b"# Disk DescriptorFile") => {
                return Err(refused(
                    path,
                    "is a VMDK's descriptor; the disk is in other files",
                ));
            }
            () if head.starts_with(b"vhdxfile") => Self::Vhdx,
            () if &head[257..262] == b"ustar" => Self::Ova,
            () if head.starts_with(vma::layout::head::MAGIC) => Self::Vma,
            () if tail.starts_with(vhd::COOKIE) && [3, 4].contains(&tail[63]) => Self::DynamicVhd,
            () if tail.starts_with(vhd::COOKIE) => Self::FixedVhd,
            () if head.starts_with(vhd::COOKIE) => {
                return Err(Error::failed(format!(
                    "{} is a dynamic VHD without its footer",
                    path.display()
                ))
                .cure("the file is cut short: write or copy it again"));
            }
            () => Self::Raw,
        })
    }
}

fn refused(path: &Path, why: &str) -> Error {
    let path = path.display();
    Error::failed(format!("{path} {why}")).cure(format!(
        "convert it first: qemu-img convert -O raw {path} disk.raw"
    ))
}

/// An image file, and whether files that it names may be read with it.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    pub file: &'a Path,
    /// Backing files and parents are read when they lie below this folder, which is the caller's own. `None`: an image that
    /// has one is refused.
    pub layers: Option<&'a Path>,
}

impl<'a> Image<'a> {
    /// An image that is one file: the only thing to take from elsewhere.
    pub fn alone(file: &'a Path) -> Self {
        Self { file, layers: None }
    }

    /// A qcow2 or VHDX that may stand over files below `layers`.
    pub fn layered(file: &'a Path, layers: &'a Path) -> Self {
        Self {
            file,
            layers: Some(layers),
        }
    }

    /// A qcow2 must not be compressed: see [`qcow2::Qcow2::open`].
    pub fn open(self, cancel: &Cancel) -> Result<Box<dyn Disk>> {
        let path = self.file;
        Ok(match Format::of(path)? {
            Format::Raw => Box::new(RawDisk::open(path)?),
            Format::Qcow2 => Box::new(qcow2::Qcow2::open(self, cancel)?),
            Format::FixedVhd => Box::new(vhd::open(path)?.0),
            Format::DynamicVhd => Box::new(dynamic_vhd::open(path)?),
            Format::Vhdx => Box::new(vhdx::open(self)?),
            Format::SparseVmdk => Box::new(sparse_vmdk::open(path)?),
            Format::StreamVmdk => Box::new(vmdk::StreamVmdk::open(RawDisk::open(path)?)?),
            Format::Ova => only(path, ova::Ova::open(path)?.checked(cancel)?)?,
            Format::Vma => Box::new(vma::open(path)?),
        })
    }
}

/// The disk of an OVA that has one. With several, reading one would lose the others.
fn only(path: &Path, disks: Vec<(String, vmdk::StreamVmdk)>) -> Result<Box<dyn Disk>> {
    let names: Vec<String> = disks.iter().map(|(name, _)| name.clone()).collect();
    match <[_; 1]>::try_from(disks) {
        Ok([(_, disk)]) => Ok(Box::new(disk)),
        Err(_) => Err(
            Error::failed(format!("{} has several disks", path.display()))
                .expected("an image with one disk")
                .found(format!("{}: {}", names.len(), names.join(", ")))
                .cure("unpack it with tar, and give the disk that is meant"),
        ),
    }
}

/// A disk, with the name of the member that holds it where the image is an OVA.
pub type NamedDisk = (Option<String>, Box<dyn Disk>);

/// Opens all disks of an image: several of an OVA, otherwise one without a name.
pub fn open_all(path: &Path, cancel: &Cancel) -> Result<Vec<NamedDisk>> {
    if Format::of(path)? != Format::Ova {
        return Ok(Vec::from([(None, open(path, cancel)?)]));
    }
    let disks = ova::Ova::open(path)?.checked(cancel)?;
    let several = disks.len() > 1;
    let disks = disks.into_iter().map(|(name, disk)| {
        let disk: Box<dyn Disk> = Box::new(disk);
        (several.then_some(name), disk)
    });
    Ok(disks.collect())
}

/// Opens an image of any format here, which must be one file: an overlay is refused.
pub fn open(path: &Path, cancel: &Cancel) -> Result<Box<dyn Disk>> {
    Image::alone(path).open(cancel)
}

/// Refuses `len` bytes at `offset` of a disk that has `all`.
fn within(path: &Path, offset: u64, len: u64, all: u64) -> Result<()> {
    if offset.checked_add(len).is_some_and(|end| end <= all) {
        return Ok(());
    }
    Err(Error::failed(format!("{} ends too early", path.display()))
        .at(format!("offset {offset}"))
        .expected(format!("{len} bytes"))
        .found(format!("{all} bytes in all")))
}

/// Appends a range, or lengthens the last one that it continues.
pub fn join<T: PartialEq>(ranges: &mut Vec<Range<T>>, next: Range<T>) {
    match ranges.last_mut() {
        Some(last) if last.end == next.start => last.end = next.end,
        _ => ranges.push(next),
    }
}
