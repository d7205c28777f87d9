//! The archive's header: its devices, and the VM's configuration file for Proxmox.

use uuid::Uuid;

use crate::export::ExportJob;
use winimg_formats::disk::vma::layout::head::{
    ARCHIVE, CONFIGS, DEVICE, DEVICES, FIXED, LEN, MAGIC, NAMES, SIZE, SUM, TEXTS, TEXTS_LEN, TIME,
    VERSION,
};
use winimg_formats::disk::vma::layout::sum_of;
use winimg_formats::wim::WindowsRelease;
use winimg_recipe::Firmware;

const CONFIG_NAME: &[u8] = b"qemu-server.conf\0";

/// Slot of the VM's disk: always virtio-scsi. Proxmox has no NVMe, and its guides recommend this
/// one; the target `proxmox` provides the driver.
pub const DISK: &str = "scsi0";
/// Slot of the firmware's variables.
pub const EFI: &str = "efidisk0";

/// A disk of the VM.
pub struct VmaDevice {
    pub number: u8,
    /// Name in the configuration.
    pub slot: &'static str,
    /// Size in bytes.
    pub len: u64,
}

impl VmaDevice {
    pub fn new(number: u8, slot: &'static str, len: u64) -> Self {
        Self { number, slot, len }
    }

    /// Returns vzdump's name for the device in the archive.
    fn name(&self) -> String {
        format!("drive-{}", self.slot)
    }
}

pub struct VmaHeader {
    pub archive: Uuid,
    /// Unix seconds.
    pub time: i64,
    pub config: String,
    pub devices: Vec<VmaDevice>,
}

/// Texts with a length prefix, referenced from the header. The first byte is unused, because an
/// offset of 0 means none.
struct VmaTextTable(Vec<u8>);

impl VmaTextTable {
    fn add(&mut self, text: &[u8]) -> u32 {
        let at = self.0.len() as u32;
        // Fits in 16 bits: a configuration has a few hundred bytes.
        self.0.extend((text.len() as u16).to_le_bytes());
        self.0.extend(text);
        at
    }
}

impl VmaHeader {
    pub fn encode(&self) -> Vec<u8> {
        let mut head = vec![0; FIXED];
        let mut texts = VmaTextTable(vec![0]);
        put(&mut head, 0, MAGIC);
        put(&mut head, MAGIC.len(), &VERSION.to_be_bytes());
        put(&mut head, ARCHIVE.start, self.archive.as_bytes());
        put(&mut head, TIME, &self.time.to_be_bytes());
        put(&mut head, NAMES, &texts.add(CONFIG_NAME).to_be_bytes());
        put(
            &mut head,
            CONFIGS,
            &texts.add(self.config.as_bytes()).to_be_bytes(),
        );
        for device in &self.devices {
            let at = DEVICES + DEVICE * usize::from(device.number);
            let name = texts.add(format!("{}\0", device.name()).as_bytes());
            put(&mut head, at, &name.to_be_bytes());
            put(&mut head, at + SIZE, &device.len.to_be_bytes());
        }
        let len = (FIXED + texts.0.len()).next_multiple_of(512);
        put(&mut head, TEXTS, &(FIXED as u32).to_be_bytes());
        put(&mut head, TEXTS_LEN, &(texts.0.len() as u32).to_be_bytes());
        put(&mut head, LEN, &(len as u32).to_be_bytes());
        head.extend(texts.0);
        head.resize(len, 0);
        let sum = sum_of(&head, SUM);
        head[SUM].copy_from_slice(&sum);
        head
    }
}

fn put(head: &mut [u8], at: usize, bytes: &[u8]) {
    head[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Renders the VM's configuration.
///
/// It has no network card: the bridge is known only when the archive is restored, and a card in
/// here would have the same MAC address everywhere. The last lines tell `qmrestore` which device of
/// the archive is which disk; it inserts the storage's own name.
///
/// Sources: Proxmox VE: qm.conf(5); pve-qemu-server: PVE/VZDump/QemuServer.pm (`#qmdump#map`),
/// PVE/QemuServer.pm (restore).
pub fn render_config(job: &ExportJob<'_>, devices: &[VmaDevice]) -> String {
    let bios = match job.firmware {
        Firmware::Uefi => "ovmf",
        Firmware::Bios => "seabios",
    };
    // "win10: Microsoft Windows 10/2016/2019", "win11: Microsoft Windows 11/2022/2025" (qm.conf)
    let ostype = match job.guest.release {
        WindowsRelease::Server2019 => "win10",
        WindowsRelease::Server2022 | WindowsRelease::Server2025 => "win11",
    };
    let mut lines = vec![
        "agent: 1".to_owned(),
        format!("bios: {bios}"),
        format!("boot: order={DISK}"),
        format!("cores: {}", job.cpus),
        "cpu: host".to_owned(),
        "machine: q35".to_owned(),
        format!("memory: {}", job.memory >> 20),
        format!("name: {}", dns_name(job.name)),
        format!("ostype: {ostype}"),
        "scsihw: virtio-scsi-pci".to_owned(),
    ];
    for (n, device) in devices.iter().enumerate() {
        let kind = if device.slot == EFI {
            ",efitype=4m"
        } else {
            ""
        };
        let (slot, kib) = (device.slot, device.len >> 10);
        lines.push(format!("{slot}: local:vm-100-disk-{n}{kind},size={kib}K"));
    }
    lines.sort();
    let maps = devices
        .iter()
        .map(|d| format!("#qmdump#map:{}:{}::raw:", d.slot, d.name()));
    lines.extend(maps);
    lines.join("\n") + "\n"
}

/// Converts a name to one that is valid in DNS, as Proxmox requires.
fn dns_name(name: &str) -> String {
    let name = name.replace('_', "-");
    name.trim_matches(['-', '.']).chars().take(63).collect()
}
