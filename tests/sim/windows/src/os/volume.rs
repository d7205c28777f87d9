//! The volume that holds the installed Windows, and the driver it needs to start from it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::machine::devices::{self, Device};
use crate::machine::sys;
use crate::setup::mount_windows;
use crate::windows::{Data, Windows};

pub struct Volume {
    pub root: PathBuf,
    pub disk: Device,
    /// Number of C:'s partition.
    pub partition: u32,
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
                return Some(Volume {
                    root,
                    disk,
                    partition: number,
                });
            }
            let _ = sys::unmount(&root);
        }
    }
    None
}

/// The service of the driver that Windows starts from this disk with; `None`: one that no Windows is without (IDE).
///
/// `class` is the PCI class of the disk's controller: 0x0106 is AHCI, 0x0101 IDE.
fn driver_of(name: &str, bus: &str, class: &str) -> Option<&'static str> {
    match () {
        () if bus.contains("/virtio") && name.starts_with("vd") => Some("viostor"),
        () if bus.contains("/virtio") => Some("vioscsi"),
        () if name.starts_with("nvme") => Some("stornvme"),
        () if class.starts_with("0x0106") => Some("storahci"),
        () => None,
    }
}

/// Why the kernel would not load this driver when the loader starts Windows.
///
/// `StartOverride\0` is what Windows sets for boot drivers that it did not need (Microsoft: boot-start drivers); 0 is boot.
fn unusable(
    service: &str,
    start: Option<u32>,
    overridden: Option<u32>,
    file: bool,
) -> Option<String> {
    match (start, overridden) {
        (None, _) => Some(format!("service {service} is not there")),
        (Some(0), None | Some(0)) if file => None,
        (Some(0), None | Some(0)) => Some(format!(
            r"C:\Windows\System32\drivers\{service}.sys is not there"
        )),
        (Some(0), Some(start)) => Some(format!(
            "service {service} is not boot start (StartOverride {start})"
        )),
        (Some(start), _) => Some(format!("service {service} is not boot start ({start})")),
    }
}

/// The PCI class of the controller that a disk hangs on.
fn controller_class(bus: &str) -> String {
    let read = |folder: &Path| std::fs::read_to_string(folder.join("class")).ok();
    let classes = Path::new(bus).ancestors().filter_map(read);
    classes
        .map(|class| class.trim().to_owned())
        .find(|class| class.starts_with("0x01"))
        .unwrap_or_default()
}

/// Windows starts from a disk only when the driver of its controller is a boot driver, and is there.
pub fn check_driver(volume: &Volume, windows: &Windows) -> Result<(), String> {
    let disk = &volume.disk;
    let Some(service) = driver_of(&disk.name, &disk.bus, &controller_class(&disk.bus)) else {
        return Ok(());
    };
    let key = format!(r"HKLM\SYSTEM\CurrentControlSet\Services\{service}");
    let number = |key: &str, name: &str| match windows.value(key, name) {
        Some(Data::Dword(number)) => Some(number),
        _ => None,
    };
    let file = windows.host_path(&format!(r"C:\Windows\System32\drivers\{service}.sys"));
    let overridden = number(&format!(r"{key}\StartOverride"), "0");
    let start = number(&key, "Start");
    unusable(service, start, overridden, file.is_some()).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_controller_has_its_driver() {
        let pci = "/sys/devices/pci0000:00/0000:00";
        for (name, bus, class, driver) in [
            (
                "vda",
                ":04.0/virtio1/block/vda",
                "0x010000",
                Some("viostor"),
            ),
            (
                "sda",
                ":04.0/virtio1/host0/block/sda",
                "0x010000",
                Some("vioscsi"),
            ),
            (
                "nvme0n1",
                ":04.0/nvme/nvme0/nvme0n1",
                "0x010802",
                Some("stornvme"),
            ),
            (
                "sda",
                ":1f.2/ata1/host0/block/sda",
                "0x010601",
                Some("storahci"),
            ),
            ("sda", ":01.1/ata1/host0/block/sda", "0x010180", None),
        ] {
            assert_eq!(
                driver_of(name, &format!("{pci}{bus}"), class),
                driver,
                "{bus}"
            );
        }
    }

    #[test]
    fn a_driver_has_to_be_a_boot_driver_and_there() {
        for (start, overridden, file, why) in [
            (Some(0), None, true, None),
            (Some(0), Some(0), true, None),
            (
                Some(3),
                None,
                true,
                Some("service stornvme is not boot start (3)"),
            ),
            (
                Some(0),
                Some(3),
                true,
                Some("service stornvme is not boot start (StartOverride 3)"),
            ),
            (
                Some(0),
                None,
                false,
                Some(r"C:\Windows\System32\drivers\stornvme.sys is not there"),
            ),
            (None, None, true, Some("service stornvme is not there")),
        ] {
            assert_eq!(
                unusable("stornvme", start, overridden, file).as_deref(),
                why
            );
        }
    }
}
