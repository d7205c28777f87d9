//! A disk image's size and partition table, whatever its format.
//!
//! Looks at the table only: of a compressed qcow2, which is not read in place, the beginning is unpacked.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::path::Path;

use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;
use winimg_base::io::Positioned as _;
use winimg_formats::disk::{self, Disk, Format, Image, RawDisk, gpt, qcow2::Qcow2, qemu_img};

/// Holds an MBR, and a GPT with far more entries than the 128 that Windows makes.
const HEAD: &str = "count=2";

/// The virtual disk's length in bytes, and its partitions.
pub fn read(file: &Path, cancel: &Cancel) -> Result<(u64, gpt::Table)> {
    let disk: Box<dyn Disk> = match Format::of(file)? {
        Format::Qcow2 => match Qcow2::look(Image::alone(file), cancel)? {
            Some(disk) => Box::new(disk),
            None => Box::new(head(file, cancel)?),
        },
        _ => disk::open(file, cancel)?,
    };
    Ok((disk.len(), gpt::table(disk.as_ref())?))
}

/// The first 2 MiB as a raw disk of the image's full length, the rest a hole.
fn head(file: &Path, cancel: &Cancel) -> Result<RawDisk> {
    let flat =
        tempfile::NamedTempFile::new().map_err(|e| Error::io("write", std::env::temp_dir(), e))?;
    // Closed: on Windows no other program writes a file that we could write.
    let flat = flat.into_temp_path();
    let named = |key: &str, path: &Path| {
        let mut word = std::ffi::OsString::from(key);
        word.push(qemu_img::file_name(path));
        word
    };
    let (from, to) = (named("if=", file), named("of=", &flat));
    let words = ["dd", "-f", "qcow2", "-O", "raw", "bs=1M", HEAD].map(OsStr::new);
    qemu_img::run(&[&words[..], &[&from, &to]].concat(), cancel)?;
    let len = virtual_len(file)?;
    OpenOptions::new()
        .write(true)
        .open(&flat)
        .and_then(|f| f.set_len(len))
        .map_err(|e| Error::io("write", &flat, e))?;
    // The open file outlives its name.
    RawDisk::open(&flat)
}

/// Bytes 24 to 31 of the header, big-endian (QEMU: docs/interop/qcow2).
fn virtual_len(file: &Path) -> Result<u64> {
    let mut bytes = [0; 8];
    std::fs::File::open(file)
        .and_then(|f| f.read_exact_at(&mut bytes, 24))
        .map_err(|e| Error::io("read", file, e))?;
    Ok(u64::from_be_bytes(bytes))
}
