//! Lets an install medium boot under UEFI without "Press any key to boot from CD or DVD", and
//! without changing it: an overlay or, if a plain file is needed, a copy in which the El Torito
//! entry for EFI points to the medium's own `efisys_noprompt.bin`.
//!
//! Does not guess: if anything is unexpected, the medium is used unchanged with a remark, and
//! winimg presses the key.

use std::fs::OpenOptions;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

use crate::bytes::u16_le;
use crate::udf::{Medium, MediumData, MediumEntry, MediumExtent, SECTOR, read_bytes};
use winimg_base::error::{Error, Result};
use winimg_base::io;

use super::CdImage;
use super::eltorito::{BootCatalog, BootEntry};
use super::qcow2::{self, CLUSTER};

/// Microsoft's EFI boot image without the prompt.
const NO_PROMPT_IMAGE: &str = "efi/microsoft/boot/efisys_noprompt.bin";

/// The medium to attach to a machine with UEFI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootMedium {
    pub disc: CdImage,
    /// The reason why the prompt could not be removed; `None` if it was.
    pub remark: Option<String>,
}

impl BootMedium {
    fn with_prompt(iso: &Path, remark: String) -> Self {
        Self {
            disc: CdImage {
                prompts: true,
                ..CdImage::raw(iso)
            },
            remark: Some(remark),
        }
    }
}

/// Creates the overlay for UEFI at `overlay`. Under BIOS use [`CdImage::raw`]: there is no prompt
/// with a blank disk.
///
/// An unsuitable medium is not an error: the disc is then the ISO itself with `prompts` set, and
/// the remark gives the reason.
pub fn overlay_without_prompt(iso: &Path, overlay: &Path) -> Result<BootMedium> {
    let medium = Medium::open(iso)?;
    let (cluster, data) = match build_patch(&medium) {
        Ok(patch) => patch,
        Err(remark) => return Ok(BootMedium::with_prompt(iso, remark)),
    };
    let absolute = std::path::absolute(iso).map_err(|e| Error::io("find", iso, e))?;
    let size = medium.size().next_multiple_of(512);
    io::write_atomically(
        overlay,
        &qcow2::build_overlay(&absolute, size, cluster, &data)?,
    )?;
    let disc = CdImage {
        file: overlay.to_owned(),
        format: "qcow2",
        prompts: false,
    };
    Ok(BootMedium { disc, remark: None })
}

/// Creates a full copy of the medium at `copy` for UEFI, for hypervisors that accept only a plain
/// ISO. The copy of an unsuitable medium prompts, and the remark gives the reason.
pub fn copy_without_prompt(iso: &Path, copy: &Path) -> Result<BootMedium> {
    let patch = build_patch(&Medium::open(iso)?);
    io::copy(iso, copy)?;
    let (cluster, data) = match patch {
        Ok(patch) => patch,
        Err(remark) => return Ok(BootMedium::with_prompt(copy, remark)),
    };
    write_at(copy, cluster * CLUSTER, &data).map_err(|e| Error::io("write", copy, e))?;
    let disc = CdImage::raw(copy);
    Ok(BootMedium { disc, remark: None })
}

fn write_at(file: &Path, at: u64, data: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(file)?;
    file.seek(SeekFrom::Start(at))?;
    file.write_all(data)?;
    file.sync_all()
}

/// Returns the number and the new content of the cluster with the catalog's EFI entry, or the
/// reason why there is none.
fn build_patch(medium: &Medium) -> std::result::Result<(u64, Vec<u8>), String> {
    let bytes = medium.bytes();
    let catalog = BootCatalog::read(bytes).ok_or("the medium has no El Torito boot catalog")?;
    let entry = catalog
        .find_efi_entry()
        .ok_or("the medium's boot catalog has no entry for EFI")?;
    let image = medium
        .find(NO_PROMPT_IMAGE)
        .map_err(|e| e.to_string())?
        .filter(|e| !e.is_dir)
        .ok_or(format!("the medium has no {NO_PROMPT_IMAGE}"))?;
    let sector = find_first_sector(&image)?;
    let boot = read_bytes(bytes, u64::from(sector) * SECTOR, 512).map_err(|e| e.0)?;
    if !is_fat(&boot) {
        return Err(format!(
            "{NO_PROMPT_IMAGE} does not start with a FAT boot sector"
        ));
    }
    // An entry never crosses a cluster: both are powers of two.
    let cluster = entry.at / CLUSTER;
    let from = cluster * CLUSTER;
    let length = (bytes.len() - from).min(CLUSTER) as usize;
    let mut data = read_bytes(bytes, from, length).map_err(|e| e.0)?;
    let field = &mut data[(entry.at - from) as usize..];
    patch(field, entry, sector, image.size);
    Ok((cluster, data))
}

/// Points the entry at `sector`. A count of 0 or 1 means "to the end of the disc" to EFI firmware
/// and is kept.
fn patch(field: &mut [u8], entry: &BootEntry, sector: u32, size: u64) {
    field[8..12].copy_from_slice(&sector.to_le_bytes());
    if entry.sectors > 1 {
        let count = u16::try_from(size.div_ceil(512)).unwrap_or(1);
        field[6..8].copy_from_slice(&count.to_le_bytes());
    }
}

/// Returns the first sector of an image that is one aligned extent.
fn find_first_sector(image: &MediumEntry) -> std::result::Result<u32, String> {
    let MediumData::Extents(extents) = &image.data else {
        return Err(format!("{NO_PROMPT_IMAGE} is embedded in its file entry"));
    };
    match extents.as_slice() {
        [MediumExtent { at: Some(at), .. }] if at % SECTOR == 0 => u32::try_from(at / SECTOR)
            .map_err(|_| {
                format!("{NO_PROMPT_IMAGE} is beyond the sectors that a boot catalog can address")
            }),
        [_] => Err(format!(
            "{NO_PROMPT_IMAGE} does not start at a sector boundary"
        )),
        several => Err(format!(
            "{NO_PROMPT_IMAGE} is fragmented into {} extents",
            several.len()
        )),
    }
}

/// Microsoft, "FAT: General Overview of On-Disk Format": jump, bytes per sector, sectors per
/// cluster, signature.
fn is_fat(sector: &[u8]) -> bool {
    let has_jump = sector[0] == 0xe9 || sector[0] == 0xeb && sector[2] == 0x90;
    has_jump
        && matches!(u16_le(sector, 11), 512 | 1024 | 2048 | 4096)
        && sector[13].is_power_of_two()
        && sector[510..] == [0x55, 0xaa]
}
