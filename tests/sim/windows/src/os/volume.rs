//! The volume that holds the installed Windows, and the driver it needs to start from it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::machine::devices::{self, Device};
use crate::machine::sys;
use crate::setup::mount_windows;
use crate::windows::{Data, Windows};

pub struct Volume {
    pub root: PathBuf,
    pub disk: Device,
}

/// Mounts the first NTFS volume with a Windows on it. The firmware reads disks that Windows may have no driver for, so
/// the virtio modules are loaded here; `check_driver` decides afterwards.
pub fn find() -> Result<Volume, String> {
    if let Some(volume) = search() {
        return Ok(volume);
    }
    for list in ["viostor", "vioscsi"] {
        sys::load_modules(list).map_err(|e| e.to_string())?;
    }
    devices::settle(false);
    search().ok_or_else(|| "no NTFS volume holds \\Windows\\System32\\config\\SYSTEM".to_owned())
}

fn search() -> Option<Volume> {
    let root = PathBuf::from("/mnt/C");
    for disk in devices::disks() {
        for number in 1..=16 {
            let node = disk.partition(number);
            let mut sector = [0; 16];
            let read = File::open(&node).and_then(|file| file.read_exact_at(&mut sector, 0));
            if read.is_err()
                || &sector[3..11] != b"NTFS    "
                || mount_windows(&node, &root).is_err()
            {
                continue;
            }
            if root.join("Windows/System32/config/SYSTEM").exists() {
                return Some(Volume { root, disk });
            }
            let _ = sys::unmount(&root);
        }
    }
    None
}

/// A virtio disk starts Windows only when its driver is registered as boot start.
pub fn check_driver(volume: &Volume, windows: &Windows) -> Result<(), String> {
    if !volume.disk.bus.contains("/virtio") {
        return Ok(());
    }
    let service = if volume.disk.name.starts_with("vd") {
        "viostor"
    } else {
        "vioscsi"
    };
    let start = windows.value(
        &format!(r"HKLM\SYSTEM\CurrentControlSet\Services\{service}"),
        "Start",
    );
    if start == Some(Data::Dword(0)) {
        Ok(())
    } else {
        Err(format!("service {service} is not boot start ({start:?})"))
    }
}
