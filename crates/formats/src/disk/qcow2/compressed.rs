//! A qcow2 with compressed clusters, which cannot be read in place: qemu-img unpacks the pieces
//! that are read.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::json;

use crate::disk::qemu_img::{self, QemuImageArg};
use crate::disk::{Disk, check_bounds};
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;

/// Bytes to unpack at a time.
const PIECE: u64 = 64 << 10;

pub struct CompressedQcow2 {
    file: PathBuf,
    len: u64,
    pieces: Mutex<BTreeMap<u64, Vec<u8>>>,
    cancel: Cancel,
}

impl CompressedQcow2 {
    /// A file without a backing file, whose disk has `len` bytes.
    pub fn new(file: &Path, len: u64, cancel: &Cancel) -> Self {
        Self {
            file: file.to_owned(),
            len,
            pieces: Mutex::default(),
            cancel: cancel.clone(),
        }
    }

    fn unpack_piece(&self, start: u64) -> Result<Vec<u8>> {
        let name = self.file.to_str().ok_or_else(|| {
            Error::failed("the path of a compressed qcow2 must be Unicode").at(self.file.display())
        })?;
        let flat = tempfile::NamedTempFile::new()
            .map_err(|e| Error::io("write", std::env::temp_dir(), e))?;
        // Closed: on Windows, other programs cannot write a file that is open for writing.
        let flat = flat.into_temp_path();
        let file = json!({"driver": "file", "filename": name});
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
        check_bounds(&self.file, offset, buffer.len() as u64, self.len)?;
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
                let fact = format!("{} is truncated", self.file.display());
                return Err(Error::failed(fact));
            }
            let n = rest.len().min(buffer.len() - done);
            buffer[done..done + n].copy_from_slice(&rest[..n]);
            done += n;
        }
        Ok(())
    }
}
