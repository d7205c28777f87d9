//! The archive's header: its devices, and the machine as Proxmox' own configuration file has it.

use uuid::Uuid;

use crate::export::Job;
use winimg_formats::disk::vma::layout::head::{
    ARCHIVE, CONFIGS, DEVICE, DEVICES, FIXED, LEN, MAGIC, NAMES, SIZE, SUM, TEXTS, TEXTS_LEN, TIME,
    VERSION,
};
use winimg_formats::disk::vma::layout::sum_of;
use winimg_formats::wim::Release;
use winimg_recipe::recipe::Firmware;

const CONFIG_NAME: &[u8] = b"qemu-server.conf\0";

/// Where the machine has its disk: on virtio-scsi, whatever the image was built on. Proxmox has no NVMe, and its guides take this one;
/// the target `proxmox` sees to the driver.
pub const DISK: &str = "scsi0";
/// Where it has the variables of its firmware.
pub const EFI: &str = "efidisk0";

/// A disk of the machine.
pub struct Device {
    pub number: u8,
    /// As the configuration calls it.
    pub slot: &'static str,
    /// Bytes.
    pub len: u64,
}

impl Device {
    pub fn new(number: u8, slot: &'static str, len: u64) -> Self {
        Self { number, slot, len }
    }

    /// As vzdump names it in the archive.
    fn name(&self) -> String {
        format!("drive-{}", self.slot)
    }
}

pub struct Head {
    pub archive: Uuid,
    /// Unix seconds.
    pub time: i64,
    pub config: String,
    pub devices: Vec<Device>,
}

/// Texts, each behind its length, which the header points at. The first byte is in no use: an offset of 0 means none.
struct Texts(Vec<u8>);

impl Texts {
    fn add(&mut self, text: &[u8]) -> u32 {
        let at = self.0.len() as u32;
        // A configuration has some hundred bytes.
        self.0.extend((text.len() as u16).to_le_bytes());
        self.0.extend(text);
        at
    }
}

impl Head {
    pub fn bytes(&self) -> Vec<u8> {
        let mut head = vec![0; FIXED];
        let mut texts = Texts(vec![0]);
        let put = |head: &mut Vec<u8>, at: usize, bytes: &[u8]| {
            head[at..at + bytes.len()].copy_from_slice(bytes);
        };
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

/// The machine. It has no network card: only who restores it knows the bridge, and a card in here would have one MAC address for all.
/// `qmrestore` finds by the last lines which device of the archive is which disk, and puts the storage's own name in.
///
/// Sources: Proxmox VE: qm.conf(5); pve-qemu-server: PVE/VZDump/QemuServer.pm (`#qmdump#map`), PVE/QemuServer.pm (restore).
pub fn config(job: &Job<'_>, devices: &[Device]) -> String {
    let bios = match job.firmware {
        Firmware::Uefi => "ovmf",
        Firmware::Bios => "seabios",
    };
    // "win10: Microsoft Windows 10/2016/2019", "win11: Microsoft Windows 11/2022/2025" (qm.conf)
    let ostype = match job.guest.release {
        Release::Server2019 => "win10",
        Release::Server2022 | Release::Server2025 => "win11",
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

/// Proxmox takes a machine's name by the rules of DNS.
fn dns_name(name: &str) -> String {
    let name = name.replace('_', "-");
    name.trim_matches(['-', '.']).chars().take(63).collect()
}
