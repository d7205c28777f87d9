//! Reads the size and partition table of a disk image of any format.
//!
//! Reads only the table and the beginning of each volume. A compressed qcow2 cannot be read in
//! place, so these parts are unpacked.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Mutex;

use serde_json::json;

use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;
use winimg_formats::disk::backing::BackingChain;
use winimg_formats::disk::qcow2::Qcow2Disk;
use winimg_formats::disk::qemu_img::{self, QemuImageArg};
use winimg_formats::disk::{self, Disk, DiskImage, ImageFormat, gpt};

/// Bytes to unpack at a time.
const PIECE: u64 = 64 << 10;

/// A disk of an image: its member's name if the image has several, its length in bytes, and its
/// partitions.
pub struct PartitionedDisk {
    pub name: Option<String>,
    pub bytes: u64,
    pub table: gpt::PartitionTable,
}

/// Reads all disks of an image.
pub fn read(file: &Path, cancel: &Cancel) -> Result<Vec<PartitionedDisk>> {
    let disks = match ImageFormat::detect(file)? {
        ImageFormat::Qcow2 => {
            let disk: Box<dyn Disk> =
                match Qcow2Disk::open_uncompressed(DiskImage::from_file(file), cancel)? {
                    Some(disk) => Box::new(disk),
                    None => Box::new(CompressedQcow2::open(file, cancel)?),
                };
            Vec::from([(None, disk)])
        }
        _ => disk::open_all(file, cancel)?,
    };
    disks
        .into_iter()
        .map(|(name, disk)| {
            Ok(PartitionedDisk {
                table: gpt::read_table(disk.as_ref())?,
                bytes: disk.len(),
                name,
            })
        })
        .collect()
}

/// A compressed qcow2; qemu-img unpacks the pieces that are read.
struct CompressedQcow2 {
    name: String,
    len: u64,
    pieces: Mutex<BTreeMap<u64, Vec<u8>>>,
    cancel: Cancel,
}

impl CompressedQcow2 {
    fn open(file: &Path, cancel: &Cancel) -> Result<Self> {
        let name = file.to_str().ok_or_else(|| {
            Error::failed("the path of a compressed qcow2 must be Unicode").at(file.display())
        })?;
        Ok(Self {
            name: name.into(),
            len: BackingChain::resolve(DiskImage::from_file(file), cancel)?.len,
            pieces: Mutex::default(),
            cancel: cancel.clone(),
        })
    }

    fn unpack_piece(&self, start: u64) -> Result<Vec<u8>> {
        let flat = tempfile::NamedTempFile::new()
            .map_err(|e| Error::io("write", std::env::temp_dir(), e))?;
        // Closed: on Windows, other programs cannot write a file that is open for writing.
        let flat = flat.into_temp_path();
        let file = json!({"driver": "file", "filename": self.name});
        let piece = QemuImageArg::from_node(&json!({
            "driver": "raw",
            "offset": start,
            "size": PIECE.min(self.len - start),
            "file": {"driver": "qcow2", "file": file, "backing": null},
        }));
        let words = ["convert", "-O", "raw"].map(OsStr::new);
        let to = qemu_img::file_name(&flat);
        let arguments = [&words[..], &piece.to_arguments(), &[&to]].concat();
        qemu_img::run(&arguments, &self.cancel)?;
        std::fs::read(&flat).map_err(|e| Error::io("read", &flat, e))
    }
}

impl Disk for CompressedQcow2 {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = offset.saturating_add(buffer.len() as u64);
        if end > self.len {
            return Err(Error::failed(format!("{} is truncated", self.name)));
        }
        let mut pieces = self.pieces.lock().unwrap_or_else(|e| e.into_inner());
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let start = at - at % PIECE;
            let piece = match pieces.entry(start) {
                Entry::Occupied(piece) => piece.into_mut(),
                Entry::Vacant(place) => place.insert(self.unpack_piece(start)?),
            };
            let rest = piece.get((at - start) as usize..).unwrap_or_default();
            if rest.is_empty() {
                return Err(Error::failed(format!("{} is truncated", self.name)));
            }
            let n = rest.len().min(buffer.len() - done);
            buffer[done..done + n].copy_from_slice(&rest[..n]);
            done += n;
        }
        Ok(())
    }
}
