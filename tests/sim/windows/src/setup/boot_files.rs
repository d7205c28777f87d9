//! What bcdboot writes: the boot manager on the partition the firmware starts from, and its NVRAM entry.

use std::fs;
use std::path::{Path, PathBuf};

use super::Setup;
use super::apply::{Target, mount_windows};
use crate::answer::plan::Install;
use crate::layout::SECTOR;
use crate::machine::{Firmware, firmware, sys};

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let made = to.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::copy(from, to))
        .map(drop)
        .map_err(|e| format!("{} to {}: {e}", from.display(), to.display()))
}

pub fn write(setup: &Setup, install: &Install, target: &Target) -> Result<(), String> {
    let shared = install.system == install.partition;
    let root = if shared {
        target.root.clone()
    } else {
        PathBuf::from("/mnt/system")
    };
    let node = target.disk.partition(target.system.number);
    match setup.firmware {
        Firmware::Uefi => {
            sys::load_modules("efi").map_err(|e| e.to_string())?;
            sys::mount(&node, &root, "vfat", 0, "")
                .map_err(|e| format!("the EFI system partition: {e}"))?;
            efi(setup, &root, target)?;
        }
        Firmware::Bios => {
            if !shared {
                mount_windows(&node, &root)?;
            }
            bios(setup, &root)?;
        }
    }
    if !shared {
        sys::unmount(&root).map_err(|e| format!("the system partition can't be unmounted: {e}"))?;
    }
    if setup.firmware == Firmware::Uefi {
        let partition = firmware::SystemPartition {
            number: target.system.number,
            start: target.system.start / SECTOR,
            sectors: target.system.length / SECTOR,
            guid: target.system_id,
        };
        firmware::register(&partition)
            .map_err(|e| format!("NVRAM entry Windows Boot Manager: {e}"))?;
    }
    Ok(())
}

fn efi(setup: &Setup, root: &Path, target: &Target) -> Result<(), String> {
    let loader = setup.root.join("efi/boot/bootx64.efi");
    copy(&loader, &target.root.join("Windows/Boot/EFI/bootmgfw.efi"))?;
    copy(&loader, &root.join("EFI/Microsoft/Boot/bootmgfw.efi"))?;
    copy(&loader, &root.join("EFI/Boot/bootx64.efi"))?;
    copy(
        &setup.root.join("bootmgr"),
        &root.join("EFI/Microsoft/Boot/BCD"),
    )?;
    system(setup, &root.join("EFI/Microsoft/Boot/standin"))
}

fn bios(setup: &Setup, root: &Path) -> Result<(), String> {
    copy(&setup.root.join("bootmgr"), &root.join("bootmgr"))?;
    copy(&setup.root.join("bootmgr"), &root.join("Boot/BCD"))?;
    system(setup, &root.join("Boot/standin"))
}

/// The kernel and initrd that play the installed Windows.
fn system(setup: &Setup, directory: &Path) -> Result<(), String> {
    for name in ["vmlinuz", "initrd"] {
        copy(
            &setup.root.join("boot/standin").join(name),
            &directory.join(name),
        )?;
    }
    Ok(())
}
