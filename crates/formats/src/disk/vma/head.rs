//! Reads the archive's header: its id and its devices. The machine's configuration is ignored.

use std::collections::BTreeMap;

use super::layout::head::{
    ARCHIVE, DEVICE, DEVICES, FIXED, LEN, MAGIC, SIZE, SUM, TEXTS, TEXTS_LEN, VERSION,
};
use super::layout::sum_of;
use super::{NAME, report_damaged};
use crate::bytes::{u16_le, u32_be, u64_be};
use crate::disk::{Disk as _, RawDisk, blocks};
use winimg_base::error::Result;

/// Bytes of the largest header: 256 names, 256 configurations and 255 device names of 64 KiB fit.
const LARGEST: u64 = 64 << 20;

pub struct VmaArchiveHead {
    pub archive: [u8; 16],
    /// Offset of the first extent.
    pub len: u64,
    /// By their numbers.
    pub devices: BTreeMap<u8, VmaArchiveDevice>,
}

pub struct VmaArchiveDevice {
    /// `drive-scsi0`
    pub name: String,
    /// Bytes, not 0.
    pub len: u64,
}

impl VmaArchiveDevice {
    /// Returns true for `vmstate`, whose size and number of clusters are not fixed (vma-reader.c).
    pub fn is_memory(&self) -> bool {
        self.name == "vmstate"
    }

    /// Returns true unless it is memory, firmware variables or TPM state.
    pub fn is_disk(&self) -> bool {
        let state = ["drive-efidisk", "drive-tpmstate"];
        !self.is_memory() && !state.iter().any(|s| self.name.starts_with(s))
    }
}

impl VmaArchiveHead {
    pub fn read(file: &RawDisk) -> Result<Self> {
        let head = read_whole(file)?;
        if head[SUM] != sum_of(&head, SUM) {
            let why = "a header with a wrong checksum";
            return Err(report_damaged(file, SUM.start as u64, why));
        }
        let start = u32_be(&head, TEXTS) as usize;
        let len = u32_be(&head, TEXTS_LEN) as usize;
        let texts = match start.checked_add(len).and_then(|end| head.get(start..end)) {
            Some(texts) if start >= FIXED => texts,
            _ => {
                return Err(report_damaged(
                    file,
                    TEXTS as u64,
                    "texts outside the header",
                ));
            }
        };
        let mut devices = BTreeMap::new();
        // Device numbers start at 1.
        for number in 1..=u8::MAX {
            let at = DEVICES + DEVICE * usize::from(number);
            let len = u64_be(&head, at + SIZE);
            if len == 0 {
                continue;
            }
            let Some(name) = name(texts, u32_be(&head, at) as usize) else {
                return Err(report_damaged(file, at as u64, "a device without a name"));
            };
            devices.insert(number, VmaArchiveDevice { name, len });
        }
        let mut archive = [0; 16];
        archive.copy_from_slice(&head[ARCHIVE]);
        Ok(Self {
            archive,
            len: head.len() as u64,
            devices,
        })
    }
}

/// Reads all bytes of the header.
fn read_whole(file: &RawDisk) -> Result<Vec<u8>> {
    const SHORT: &str = "the file ends within its header";
    let mut head = vec![0; FIXED];
    if file.len() < FIXED as u64 {
        return Err(report_damaged(file, file.len(), SHORT));
    }
    file.read_at(0, &mut head)?;
    if !head.starts_with(MAGIC) {
        return Err(report_damaged(file, 0, "no header"));
    }
    let version = u32_be(&head, MAGIC.len());
    if version != VERSION {
        return Err(blocks::refuse_file(
            file,
            format!("is a {NAME} of version {version}; winimg supports {VERSION}"),
            "restore it on Proxmox VE: qmrestore",
        ));
    }
    let len = u64::from(u32_be(&head, LEN));
    if len <= FIXED as u64 || len > LARGEST {
        return Err(report_damaged(
            file,
            LEN as u64,
            format!("a header of {len} bytes"),
        ));
    }
    if len > file.len() {
        return Err(report_damaged(file, file.len(), SHORT));
    }
    head.resize(len as usize, 0);
    file.read_at(FIXED as u64, &mut head[FIXED..])?;
    Ok(head)
}

/// Reads a zero-terminated text that follows its length. Offset 0 means that there is none.
fn name(texts: &[u8], at: usize) -> Option<String> {
    let len = usize::from(u16_le(texts, at));
    let start = at.checked_add(2).filter(|_| at != 0)?;
    let name = texts
        .get(start..start.checked_add(len)?)?
        .strip_suffix(b"\0")?;
    Some(String::from_utf8_lossy(name).into_owned())
}
