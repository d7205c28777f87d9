//! A disk image's size and partition table, whatever its format.
//!
//! Looks at the table and at the beginning of each volume only: of a compressed qcow2, which is not read in place, these parts
//! are unpacked.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Mutex;

use serde_json::json;

use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;
use winimg_formats::disk::backing::Chain;
use winimg_formats::disk::qcow2::Qcow2;
use winimg_formats::disk::qemu_img::{self, Named};
use winimg_formats::disk::{self, Disk, Format, Image, gpt};

/// Bytes that are unpacked at a time.
const PIECE: u64 = 64 << 10;

/// A disk of an image: its member's name where the image has several, its length in bytes, and its partitions.
pub struct Divided {
    pub name: Option<String>,
    pub bytes: u64,
    pub table: gpt::Table,
}

/// All disks of an image.
pub fn read(file: &Path, cancel: &Cancel) -> Result<Vec<Divided>> {
    let disks = match Format::of(file)? {
        Format::Qcow2 => {
            let disk: Box<dyn Disk> = match Qcow2::look(Image::alone(file), cancel)? {
                Some(disk) => Box::new(disk),
                None => Box::new(Packed::open(file, cancel)?),
            };
            Vec::from([(None, disk)])
        }
        _ => disk::open_all(file, cancel)?,
    };
    let divided = disks.into_iter().map(|(name, disk)| {
        Ok(Divided {
            table: gpt::table(disk.as_ref())?,
            bytes: disk.len(),
            name,
        })
    });
    divided.collect()
}

/// A compressed qcow2, of which QEMU unpacks the pieces that are asked for.
struct Packed {
    name: String,
    len: u64,
    pieces: Mutex<BTreeMap<u64, Vec<u8>>>,
    cancel: Cancel,
}

impl Packed {
    fn open(file: &Path, cancel: &Cancel) -> Result<Self> {
        let name = file.to_str().ok_or_else(|| {
            Error::failed("a compressed qcow2 has a path that is not Unicode").at(file.display())
        })?;
        Ok(Self {
            name: name.into(),
            len: Chain::of(Image::alone(file), cancel)?.len,
            pieces: Mutex::default(),
            cancel: cancel.clone(),
        })
    }

    fn unpacked(&self, start: u64) -> Result<Vec<u8>> {
        let flat = tempfile::NamedTempFile::new()
            .map_err(|e| Error::io("write", std::env::temp_dir(), e))?;
        // Closed: on Windows no other program writes a file that we could write.
        let flat = flat.into_temp_path();
        let file = json!({"driver": "file", "filename": self.name});
        let piece = Named::node(&json!({
            "driver": "raw",
            "offset": start,
            "size": PIECE.min(self.len - start),
            "file": {"driver": "qcow2", "file": file, "backing": null},
        }));
        let words = ["convert", "-O", "raw"].map(OsStr::new);
        let to = qemu_img::file_name(&flat);
        let arguments = [&words[..], &piece.arguments(), &[&to]].concat();
        qemu_img::run(&arguments, &self.cancel)?;
        std::fs::read(&flat).map_err(|e| Error::io("read", &flat, e))
    }
}

impl Disk for Packed {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = offset.saturating_add(buffer.len() as u64);
        if end > self.len {
            return Err(Error::failed(format!("{} ends too early", self.name)));
        }
        let mut pieces = self.pieces.lock().unwrap_or_else(|e| e.into_inner());
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let start = at - at % PIECE;
            let piece = match pieces.entry(start) {
                Entry::Occupied(piece) => piece.into_mut(),
                Entry::Vacant(place) => place.insert(self.unpacked(start)?),
            };
            let rest = piece.get((at - start) as usize..).unwrap_or_default();
            if rest.is_empty() {
                return Err(Error::failed(format!("{} ends too early", self.name)));
            }
            let n = rest.len().min(buffer.len() - done);
            buffer[done..done + n].copy_from_slice(&rest[..n]);
            done += n;
        }
        Ok(())
    }
}
