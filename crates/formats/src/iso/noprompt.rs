//! Lets an install medium boot under UEFI without "Press any key to boot from CD or DVD", and without changing it: an overlay
//! or, where it must be a plain file, a copy in which the El Torito entry for EFI points at the medium's own `efisys_noprompt.bin`.
//!
//! Refuses to guess: whatever is not as expected leaves the medium as it is, says why, and leaves the key to the machine.

use std::fs::OpenOptions;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

use crate::bytes::u16_le;
use crate::udf::{Data, Entry, Extent, Medium, SECTOR, take};
use winimg_base::error::{Error, Result};
use winimg_base::io;

use super::Disc;
use super::eltorito::{BootEntry, Catalog};
use super::qcow2::{self, CLUSTER};

/// Microsoft's own EFI boot image whose `cdboot` does not ask.
const IMAGE: &str = "efi/microsoft/boot/efisys_noprompt.bin";

/// How the medium is to be attached for UEFI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPrompt {
    pub disc: Disc,
    /// Why the prompt could not be left out; `None` when it was.
    pub remark: Option<String>,
}

impl NoPrompt {
    fn prompting(iso: &Path, remark: String) -> Self {
        let disc = Disc::raw(iso);
        Self {
            disc: Disc {
                prompts: true,
                ..disc
            },
            remark: Some(remark),
        }
    }
}

/// Makes the overlay for UEFI at `overlay`. Under BIOS use [`Disc::raw`]: a blank disk gets no prompt.
///
/// A medium that cannot be treated this way is no error: the disc is then the ISO itself with `prompts` set, and the
/// remark says why.
pub fn without_prompt(iso: &Path, overlay: &Path) -> Result<NoPrompt> {
    let medium = Medium::open(iso)?;
    let (cluster, data) = match patched(&medium) {
        Ok(patch) => patch,
        Err(remark) => return Ok(NoPrompt::prompting(iso, remark)),
    };
    let whole = std::path::absolute(iso).map_err(|e| Error::io("find", iso, e))?;
    let size = medium.size().next_multiple_of(512);
    io::write_atomically(overlay, &qcow2::overlay(&whole, size, cluster, &data)?)?;
    let disc = Disc {
        file: overlay.to_owned(),
        format: "qcow2",
        prompts: false,
    };
    Ok(NoPrompt { disc, remark: None })
}

/// Makes a whole copy of the medium at `copy` for UEFI, for hypervisors that take nothing but a plain ISO. The copy of a
/// medium that cannot be treated this way prompts, and the remark says why.
pub fn copy_without_prompt(iso: &Path, copy: &Path) -> Result<NoPrompt> {
    let patch = patched(&Medium::open(iso)?);
    io::copy(iso, copy)?;
    let (cluster, data) = match patch {
        Ok(patch) => patch,
        Err(remark) => return Ok(NoPrompt::prompting(copy, remark)),
    };
    overwrite(copy, cluster * CLUSTER, &data).map_err(|e| Error::io("write", copy, e))?;
    let disc = Disc::raw(copy);
    Ok(NoPrompt { disc, remark: None })
}

fn overwrite(file: &Path, at: u64, data: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(file)?;
    file.seek(SeekFrom::Start(at))?;
    file.write_all(data)?;
    file.sync_all()
}

/// The number and the new content of the cluster that holds the catalog's EFI entry; or why there is none.
fn patched(medium: &Medium) -> std::result::Result<(u64, Vec<u8>), String> {
    let bytes = medium.bytes();
    let catalog = Catalog::read(bytes).ok_or("the medium has no El Torito boot catalog")?;
    let entry = catalog
        .efi()
        .ok_or("the medium's boot catalog has no entry for EFI")?;
    let image = medium
        .find(IMAGE)
        .map_err(|e| e.to_string())?
        .filter(|e| !e.is_dir)
        .ok_or(format!("the medium has no {IMAGE}"))?;
    let sector = start(&image)?;
    let boot = take(bytes, u64::from(sector) * SECTOR, 512).map_err(|e| e.0)?;
    if !is_fat(&boot) {
        return Err(format!("{IMAGE} does not begin with a FAT boot sector"));
    }
    // An entry never crosses a cluster: both are powers of two.
    let cluster = entry.at / CLUSTER;
    let from = cluster * CLUSTER;
    let length = (bytes.len() - from).min(CLUSTER) as usize;
    let mut data = take(bytes, from, length).map_err(|e| e.0)?;
    let field = &mut data[(entry.at - from) as usize..];
    patch(field, entry, sector, image.size);
    Ok((cluster, data))
}

/// Points the entry at `sector`. A count of 0 or 1 means "to the end of the disc" to EFI firmware and stays as it is.
fn patch(field: &mut [u8], entry: &BootEntry, sector: u32, size: u64) {
    field[8..12].copy_from_slice(&sector.to_le_bytes());
    if entry.sectors > 1 {
        let count = u16::try_from(size.div_ceil(512)).unwrap_or(1);
        field[6..8].copy_from_slice(&count.to_le_bytes());
    }
}

/// The sector of an image that lies in one aligned piece.
fn start(image: &Entry) -> std::result::Result<u32, String> {
    let Data::Extents(extents) = &image.data else {
        return Err(format!("{IMAGE} is embedded in its file entry"));
    };
    match extents.as_slice() {
        [Extent { at: Some(at), .. }] if at % SECTOR == 0 => u32::try_from(at / SECTOR)
            .map_err(|_| format!("{IMAGE} lies beyond what a boot catalog can name")),
        [_] => Err(format!("{IMAGE} does not begin at a sector")),
        several => Err(format!("{IMAGE} lies in {} pieces", several.len())),
    }
}

/// Microsoft, "FAT: General Overview of On-Disk Format": jump, bytes per sector, sectors per cluster, signature.
fn is_fat(sector: &[u8]) -> bool {
    let jump = sector[0] == 0xe9 || sector[0] == 0xeb && sector[2] == 0x90;
    jump && matches!(u16_le(sector, 11), 512 | 1024 | 2048 | 4096)
        && sector[13].is_power_of_two()
        && sector[510..] == [0x55, 0xaa]
}
