//! The El Torito boot catalog, from which firmware boots a CD ("El Torito" Bootable CD-ROM Format
//! Specification 1.0; UEFI 2.10, 13.3.2.1).

use crate::bytes::{u16_le, u32_le};
use crate::disk::Disk;
use crate::udf::{SECTOR, read_bytes};

/// Bytes of a catalog entry.
const ENTRY: usize = 32;
/// Sectors of the catalog that are read.
const CATALOG_SECTORS: u64 = 4;

/// Platform of a boot entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootPlatform {
    /// 0x00: PC BIOS
    Bios,
    /// 0xEF
    Efi,
    Other(u8),
}

impl BootPlatform {
    fn from_byte(b: u8) -> Self {
        match b {
            0 => Self::Bios,
            0xef => Self::Efi,
            b => Self::Other(b),
        }
    }
}

/// One bootable entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootEntry {
    pub platform: BootPlatform,
    /// First sector of the image, in sectors of 2048 bytes.
    pub load_rba: u32,
    /// Virtual sectors of 512 bytes.
    pub sectors: u16,
    /// Byte offset of the entry in the medium.
    pub at: u64,
}

/// A catalog with its bootable entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootCatalog {
    /// Byte offset in the medium.
    pub at: u64,
    pub entries: Vec<BootEntry>,
}

impl BootCatalog {
    /// Reads the catalog; `None` if the medium has no boot record or its catalog is invalid.
    pub fn read(bytes: &dyn Disk) -> Option<Self> {
        let boot_record = (16..32)
            .map_while(|sector| read_bytes(bytes, sector * SECTOR, SECTOR as usize).ok())
            .take_while(|b| &b[1..6] == b"CD001" && b[0] != 255)
            .find(|b| b[0] == 0 && b[7..].starts_with(b"EL TORITO SPECIFICATION"))?;
        let at = u64::from(u32_le(&boot_record, 71)) * SECTOR;
        let length = (bytes.len().checked_sub(at)?).min(CATALOG_SECTORS * SECTOR);
        let catalog = read_bytes(bytes, at, length as usize).ok()?;
        let validation = catalog.get(..ENTRY)?;
        let sum = validation
            .chunks_exact(2)
            .fold(0u16, |s, w| s.wrapping_add(u16_le(w, 0)));
        if validation[0] != 1 || sum != 0 || validation[30..] != [0x55, 0xaa] {
            return None;
        }
        Some(Self {
            at,
            entries: parse_entries(&catalog, at),
        })
    }

    /// Returns the first bootable EFI entry.
    pub fn find_efi_entry(&self) -> Option<&BootEntry> {
        self.entries
            .iter()
            .find(|e| e.platform == BootPlatform::Efi)
    }
}

/// Parses the entries: the default entry has the validation entry's platform, each section its own.
fn parse_entries(catalog: &[u8], at: u64) -> Vec<BootEntry> {
    let mut found = Vec::new();
    let mut platform = BootPlatform::from_byte(catalog[1]);
    let (mut left, mut last_section) = (1u16, false);
    for (n, entry) in catalog.chunks_exact(ENTRY).enumerate().skip(1) {
        match entry[0] {
            // An extension record of the entry before it.
            0x44 => {}
            0x88 | 0x00 if left > 0 => {
                left -= 1;
                if entry[0] == 0x88 {
                    found.push(BootEntry {
                        platform,
                        load_rba: u32_le(entry, 8),
                        sectors: u16_le(entry, 6),
                        at: at + (n * ENTRY) as u64,
                    });
                }
            }
            header @ (0x90 | 0x91) if left == 0 && !last_section => {
                platform = BootPlatform::from_byte(entry[1]);
                left = u16_le(entry, 2);
                last_section = header == 0x91;
            }
            _ => break,
        }
    }
    found
}
