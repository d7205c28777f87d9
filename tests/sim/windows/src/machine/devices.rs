//! Disks and CD drives, numbered and lettered as Windows PE numbers them.
//!
//! Field evidence for the order: AHCI and NVMe targets keep number 0 beside a USB stick; the stick comes before
//! virtio disks. CD drives get letters from D: on in bus order.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::layout::{DiskFacts, SECTOR};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Kernel name, e.g. `sda`.
    pub name: String,
    /// Path of the device below /sys, which names the bus.
    pub bus: String,
    pub bytes: u64,
    pub removable: bool,
}

impl Device {
    pub fn node(&self) -> String {
        format!("/dev/{}", self.name)
    }

    /// Device node of partition `number`.
    pub fn partition(&self, number: u32) -> String {
        let between = if self.name.ends_with(|c: char| c.is_ascii_digit()) {
            "p"
        } else {
            ""
        };
        format!("/dev/{}{between}{number}", self.name)
    }

    pub fn is_usb(&self) -> bool {
        self.bus.contains("/usb")
    }

    fn rank(&self) -> u8 {
        match () {
            () if self.is_usb() => 1,
            () if self.bus.contains("/virtio") => 2,
            () => 0,
        }
    }
}

/// Splits digits from the rest, so that `ata10` comes after `ata9`.
fn natural(text: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let (mut word, mut digits) = (String::new(), String::new());
    for c in text.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
        } else {
            if !digits.is_empty() {
                parts.push((std::mem::take(&mut word), digits.parse().unwrap_or(0)));
                digits.clear();
            }
            word.push(c);
        }
    }
    parts.push((word, digits.parse().unwrap_or(0)));
    parts
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn block_devices(keep: impl Fn(&str) -> bool) -> Vec<Device> {
    let entries = std::fs::read_dir("/sys/block")
        .into_iter()
        .flatten()
        .flatten();
    let mut devices: Vec<Device> = entries
        .map(|entry| {
            (
                entry.file_name().to_string_lossy().into_owned(),
                entry.path(),
            )
        })
        .filter(|(name, _)| keep(name))
        .map(|(name, path)| Device {
            bus: std::fs::canonicalize(&path)
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            bytes: read(&path.join("size")).parse::<u64>().unwrap_or(0) * SECTOR,
            removable: read(&path.join("removable")) == "1",
            name,
        })
        .collect();
    devices.sort_by_key(|device| (device.rank(), natural(&device.bus)));
    devices
}

/// Disks in the order of their numbers.
pub fn disks() -> Vec<Device> {
    let is_disk = |name: &str| {
        ["sd", "nvme", "vd"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    block_devices(is_disk)
        .into_iter()
        .filter(|device| device.bytes > 0)
        .collect()
}

/// CD drives in bus order.
pub fn cd_drives() -> Vec<Device> {
    block_devices(|name| name.starts_with("sr"))
}

pub fn facts(disk: &Device) -> DiskFacts {
    let mut sector = [0; 512];
    let read = File::open(disk.node())
        .and_then(|file| file.read_exact_at(&mut sector, 0))
        .is_ok();
    let partitioned =
        read && sector[510..] == [0x55, 0xAA] && sector[446..510].iter().any(|byte| *byte != 0);
    DiskFacts {
        bytes: disk.bytes,
        partitioned,
    }
}

/// A TPM 2.0 that its driver talks to. The driver finds it by its ACPI id.
pub fn has_tpm() -> bool {
    let version = std::fs::read_to_string("/sys/class/tpm/tpm0/tpm_version_major");
    Path::new("/sys/bus/acpi/devices/MSFT0101:00").exists()
        && version.is_ok_and(|version| version.trim() == "2")
}

/// Waits until the set of drives has not changed for a while (drivers look for them on their own).
pub fn settle(at_least_one_cd: bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut last = (Vec::new(), Instant::now());
    loop {
        let now: Vec<String> = block_devices(|_| true)
            .into_iter()
            .map(|device| device.bus)
            .collect();
        if now != last.0 {
            last = (now, Instant::now());
        }
        let quiet = last.1.elapsed() > Duration::from_millis(500) && links_up();
        let enough = !at_least_one_cd || !cd_drives().is_empty();
        if (quiet && enough) || Instant::now() > deadline {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Every SATA port that found a device has shown it.
fn links_up() -> bool {
    let waiting = std::fs::read_dir("/sys/class/ata_link")
        .into_iter()
        .flatten()
        .flatten()
        .any(|link| {
            read(&link.path().join("sata_spd")).contains("Gbps") && {
                // link N belongs to port N and host N-1.
                let name = link.file_name().to_string_lossy().replace("link", "");
                let device = read(Path::new(&format!(
                    "/sys/class/ata_device/dev{name}.0/class"
                )));
                device.is_empty() || device == "unknown"
            }
        });
    !waiting
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_partitions() {
        let device = |name: &str| Device {
            name: name.into(),
            bus: String::new(),
            bytes: 0,
            removable: false,
        };
        assert_eq!(device("sda").partition(3), "/dev/sda3");
        assert_eq!(device("nvme0n1").partition(3), "/dev/nvme0n1p3");
    }

    #[test]
    fn ports_sort_by_number() {
        assert!(natural("ata9/host8") < natural("ata10/host9"));
    }
}
