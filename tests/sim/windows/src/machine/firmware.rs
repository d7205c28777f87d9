//! NVRAM: the boot option "Windows Boot Manager", first in BootOrder, as bcdboot leaves it.
//!
//! Source: UEFI Specification 2.10, 3.1.3 (load options), 10.3.5 (media device paths); Linux efivarfs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Firmware, sys};

const GLOBAL: &str = "8be4df61-93ca-11d2-aa0d-00e098032b8c";
const ATTRIBUTES: [u8; 4] = [7, 0, 0, 0]; // non-volatile, boot service, runtime
const LOADER: &str = r"\EFI\Microsoft\Boot\bootmgfw.efi";
const DESCRIPTION: &str = "Windows Boot Manager";

/// The EFI system partition that the option points to.
pub struct SystemPartition {
    pub number: u32,
    /// In sectors of 512 bytes.
    pub start: u64,
    pub sectors: u64,
    /// Unique partition GUID as it lies on disk.
    pub guid: [u8; 16],
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16()
        .chain([0])
        .flat_map(u16::to_le_bytes)
        .collect()
}

/// An EFI_LOAD_OPTION for the boot manager on `partition`.
pub fn load_option(partition: &SystemPartition) -> Vec<u8> {
    let mut path = vec![4, 1, 42, 0]; // hard drive media device path
    path.extend(partition.number.to_le_bytes());
    path.extend(partition.start.to_le_bytes());
    path.extend(partition.sectors.to_le_bytes());
    path.extend(partition.guid);
    path.extend([2, 2]); // GPT, GUID signature
    let file = utf16(LOADER);
    path.extend([4, 4]);
    path.extend((file.len() as u16 + 4).to_le_bytes());
    path.extend(file);
    path.extend([0x7F, 0xFF, 4, 0]);
    let mut option = 1u32.to_le_bytes().to_vec(); // active
    option.extend((path.len() as u16).to_le_bytes());
    option.extend(utf16(DESCRIPTION));
    option.extend(path);
    option
}

fn variable(root: &Path, name: &str) -> PathBuf {
    root.join(format!("{name}-{GLOBAL}"))
}

fn read(root: &Path, name: &str) -> Option<Vec<u8>> {
    fs::read(variable(root, name))
        .ok()?
        .get(4..)
        .map(<[u8]>::to_vec)
}

fn write(root: &Path, name: &str, data: &[u8]) -> io::Result<()> {
    fs::write(variable(root, name), [&ATTRIBUTES[..], data].concat())
}

/// Mounts the variables.
fn variables() -> io::Result<&'static Path> {
    let root = Path::new("/sys/firmware/efi/efivars");
    sys::load_modules("efi")?;
    let _ = sys::mount("efivarfs", root, "efivarfs", 0, "");
    Ok(root)
}

/// Whether the firmware starts signed programs alone, by its own word (UEFI Specification 2.10, 3.3: SecureBoot). `None` without UEFI.
pub fn secure_boot() -> Option<bool> {
    if Firmware::running() == Firmware::Bios {
        return None;
    }
    let value = read(variables().ok()?, "SecureBoot")?;
    Some(value == [1])
}

/// Writes the option (over an older one of the same name) and puts it first in BootOrder.
pub fn register(partition: &SystemPartition) -> io::Result<()> {
    let root = variables()?;
    let named = |number: &u16| {
        read(root, &format!("Boot{number:04X}")).is_some_and(|option| {
            option
                .get(6..)
                .is_some_and(|rest| rest.starts_with(&utf16(DESCRIPTION)))
        })
    };
    let number = (0..0x100)
        .find(named)
        .or_else(|| (0..0x100).find(|n| !variable(root, &format!("Boot{n:04X}")).exists()));
    let number = number.ok_or_else(|| io::Error::other("no free boot option"))?;
    write(root, &format!("Boot{number:04X}"), &load_option(partition))?;
    let mut order = number.to_le_bytes().to_vec();
    for held in read(root, "BootOrder")
        .unwrap_or_default()
        .chunks_exact(2)
        .filter(|held| **held != number.to_le_bytes())
    {
        order.extend(held);
    }
    write(root, "BootOrder", &order)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Laid out by hand from the specification's tables.
    #[test]
    fn the_load_option_names_partition_and_loader() {
        let partition = SystemPartition {
            number: 1,
            start: 0x800,
            sectors: 0x82000,
            guid: [0xAB; 16],
        };
        let option = load_option(&partition);
        let title = utf16("Windows Boot Manager");
        let file = utf16(r"\EFI\Microsoft\Boot\bootmgfw.efi");
        assert_eq!(option[..4], [1, 0, 0, 0]);
        assert_eq!(usize::from(option[4]), 42 + 4 + file.len() + 4);
        assert_eq!(option[6..6 + title.len()], title);
        let disk = &option[6 + title.len()..];
        assert_eq!(disk[..8], [4, 1, 42, 0, 1, 0, 0, 0]);
        assert_eq!(
            disk[8..24],
            [0, 8, 0, 0, 0, 0, 0, 0, 0, 0x20, 8, 0, 0, 0, 0, 0]
        );
        assert_eq!(disk[24..42], [&[0xAB; 16][..], &[2, 2]].concat());
        assert!(disk[42..].ends_with(&[0x7F, 0xFF, 4, 0]));
    }
}
