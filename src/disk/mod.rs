//! Disk images that are read: raw, qcow2, fixed VHD, stream-optimised VMDK, OVA; and what lies on them.
//!
//! Nothing here writes to an image. A form that can't be read faithfully (encrypted, differencing, dynamic) is refused
//! by name, never guessed at.

pub mod gpt;
pub mod ntfs;
pub mod ova;
pub mod qcow2;
pub mod qemu_img;
pub mod raw;
pub mod reader;
pub mod security;
pub mod vhd;
pub mod vmdk;

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::{Error, Kind, Result};
use crate::event::Cancel;

pub use raw::RawDisk;
pub use reader::DiskReader;

/// Bytes of a sector in every format here.
pub const SECTOR: u64 = 512;

/// A virtual disk's content. Reading does not move a position, so threads share one.
pub trait Disk: Send + Sync {
    /// Bytes of the virtual disk.
    fn len(&self) -> u64;

    fn is_empty(&self) -> bool {
        self.len() == 0
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
    StreamVmdk,
    Ova,
}

impl Format {
    /// Looks at the magic numbers. A file with none of them is raw.
    pub fn of(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        let size = file
            .metadata()
            .map_err(|e| Error::io("look at", path, e))?
            .len();
        let mut head = [0; 512];
        let head_len = size.min(512) as usize;
        file.read_exact_at(&mut head[..head_len], 0)
            .map_err(|e| Error::io("read", path, e))?;
        let mut cookie = [0; 8];
        if size >= 512 {
            file.read_exact_at(&mut cookie, size - 512)
                .map_err(|e| Error::io("read", path, e))?;
        }
        Ok(match () {
            () if head.starts_with(b"QFI\xfb") => Self::Qcow2,
            () if head.starts_with(b"KDMV") => Self::StreamVmdk,
            () if &head[257..262] == b"ustar" => Self::Ova,
            () if cookie == *vhd::COOKIE => Self::FixedVhd,
            () if head.starts_with(vhd::COOKIE) => {
                return Err(refused(path, "a dynamic VHD without its footer"));
            }
            () if head.starts_with(b"vhdxfile") => return Err(refused(path, "a VHDX")),
            () => Self::Raw,
        })
    }
}

fn refused(path: &Path, what: &str) -> Error {
    Error::new(
        Kind::Failed,
        format!("{} is {what}, which winimg does not read", path.display()),
    )
    .cure(format!(
        "convert it first: qemu-img convert -O raw {} disk.raw",
        path.display()
    ))
}

/// Opens an image of any format here. A qcow2 must be flat: see [`qcow2::Qcow2::open`].
pub fn open(path: &Path, cancel: &Cancel) -> Result<Box<dyn Disk>> {
    Ok(match Format::of(path)? {
        Format::Raw => Box::new(RawDisk::open(path)?),
        Format::Qcow2 => Box::new(qcow2::Qcow2::open(path, cancel)?),
        Format::FixedVhd => Box::new(vhd::open(path)?.0),
        Format::StreamVmdk => Box::new(vmdk::StreamVmdk::open(RawDisk::open(path)?)?),
        Format::Ova => Box::new(ova::Ova::open(path)?.disk()?),
    })
}
