//! The archive's header as it is read: its id, and its devices. The machine's configuration is not looked at.

use std::collections::BTreeMap;

use super::layout::head::{
    ARCHIVE, DEVICE, DEVICES, FIXED, LEN, MAGIC, SIZE, SUM, TEXTS, TEXTS_LEN, VERSION,
};
use super::layout::sum_of;
use super::{FORMAT, damaged};
use crate::bytes::{u16_le, u32_be, u64_be};
use crate::disk::{Disk as _, RawDisk, blocks};
use winimg_base::error::Result;

/// Bytes of the largest header: 256 names, 256 configurations and 255 names of devices, each of 64 KiB, are fewer.
const LARGEST: u64 = 64 << 20;

pub struct Head {
    pub archive: [u8; 16],
    /// Where the first extent begins.
    pub len: u64,
    /// By their numbers.
    pub devices: BTreeMap<u8, Device>,
}

pub struct Device {
    /// `drive-scsi0`
    pub name: String,
    /// Bytes, not 0.
    pub len: u64,
}

impl Device {
    /// `vmstate` has no size of its own, and its clusters no end (vma-reader.c).
    pub fn is_memory(&self) -> bool {
        self.name == "vmstate"
    }

    /// Whether it is neither that nor the variables of the firmware or the state of the TPM.
    pub fn is_disk(&self) -> bool {
        let state = ["drive-efidisk", "drive-tpmstate"];
        !self.is_memory() && !state.iter().any(|s| self.name.starts_with(s))
    }
}

impl Head {
    pub fn read(file: &RawDisk) -> Result<Self> {
        let head = whole(file)?;
        let bad = |at: usize, why: &str| Err(damaged(file, at as u64, why));
        if head[SUM] != sum_of(&head, SUM) {
            return bad(SUM.start, "a header with a wrong sum");
        }
        let (start, len) = (u32_be(&head, TEXTS), u32_be(&head, TEXTS_LEN));
        let (start, len) = (start as usize, len as usize);
        let texts = match start.checked_add(len).and_then(|end| head.get(start..end)) {
            Some(texts) if start >= FIXED => texts,
            _ => return bad(TEXTS, "texts outside the header"),
        };
        let mut devices = BTreeMap::new();
        // There is none with the number 0.
        for number in 1..=u8::MAX {
            let at = DEVICES + DEVICE * usize::from(number);
            let len = u64_be(&head, at + SIZE);
            if len == 0 {
                continue;
            }
            let Some(name) = name(texts, u32_be(&head, at) as usize) else {
                return bad(at, "a device without a name");
            };
            devices.insert(number, Device { name, len });
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

/// All bytes of the header.
fn whole(file: &RawDisk) -> Result<Vec<u8>> {
    let short = || damaged(file, file.len(), "the file ends within its header");
    let mut head = vec![0; FIXED];
    if file.len() < FIXED as u64 {
        return Err(short());
    }
    file.read_at(0, &mut head)?;
    if !head.starts_with(MAGIC) {
        return Err(damaged(file, 0, "no header"));
    }
    let version = u32_be(&head, MAGIC.len());
    if version != VERSION {
        return Err(blocks::refused(
            file,
            format!("is a {FORMAT} of version {version}; winimg knows {VERSION}"),
            "restore it on a Proxmox VE: qmrestore",
        ));
    }
    let len = u64::from(u32_be(&head, LEN));
    if len <= FIXED as u64 || len > LARGEST {
        return Err(damaged(
            file,
            LEN as u64,
            format!("a header of {len} bytes"),
        ));
    }
    if len > file.len() {
        return Err(short());
    }
    head.resize(len as usize, 0);
    file.read_at(FIXED as u64, &mut head[FIXED..])?;
    Ok(head)
}

/// A text behind its length that ends with a zero. There is none at 0.
fn name(texts: &[u8], at: usize) -> Option<String> {
    let len = usize::from(u16_le(texts, at));
    let start = at.checked_add(2).filter(|_| at != 0)?;
    let name = texts
        .get(start..start.checked_add(len)?)?
        .strip_suffix(b"\0")?;
    Some(String::from_utf8_lossy(name).into_owned())
}
