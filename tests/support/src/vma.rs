//! Writes VMAs as Proxmox' vma_spec.txt lays them down, good ones and bad ones; shares nothing with the reader.
//!
//! What no reader may show (the rest of a device's last block) is filled with [`JUNK`].

use std::fs;
use std::path::Path;

use md5::{Digest as _, Md5};

pub const CLUSTER: usize = 65536;
pub const BLOCK: usize = 4096;
pub const JUNK: u8 = 0xee;

pub struct Device {
    pub number: u8,
    pub name: String,
    /// As the header says it.
    pub size: u64,
    pub content: Vec<u8>,
}

/// A cluster as an extent names it: device, number, a bit for each stored block.
pub type Named = (u8, u32, u16);

pub struct Writer {
    pub archive: [u8; 16],
    pub devices: Vec<Device>,
    /// The clusters of each extent, in the file's order.
    pub extents: Vec<Vec<Named>>,
}

impl Writer {
    /// The machine's only disk, each of whose clusters is named, 59 in an extent.
    pub fn of_disk(content: &[u8]) -> Self {
        let mut writer = Self {
            archive: *b"an archive's id.",
            devices: Vec::new(),
            extents: Vec::new(),
        };
        writer.add(1, "drive-scsi0", content);
        writer
    }

    /// One more device, in extents of its own behind those that are there.
    pub fn add(&mut self, number: u8, name: &str, content: &[u8]) {
        let clusters = (0..).zip(content.chunks(CLUSTER));
        let named: Vec<Named> = clusters
            .map(|(n, bytes): (u32, _)| (number, n, held(bytes)))
            .collect();
        self.extents.extend(named.chunks(59).map(<[Named]>::to_vec));
        self.devices.push(Device {
            number,
            name: name.to_owned(),
            size: content.len() as u64,
            content: content.to_vec(),
        });
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut file = self.head();
        for extent in &self.extents {
            let at = file.len();
            file.resize(at + 512, 0);
            file[at..at + 4].copy_from_slice(b"VMAE");
            file[at + 8..at + 24].copy_from_slice(&self.archive);
            for (n, (device, cluster, blocks)) in extent.iter().enumerate() {
                let place = at + 40 + 8 * n;
                file[place..place + 2].copy_from_slice(&blocks.to_be_bytes());
                file[place + 3] = *device;
                file[place + 4..place + 8].copy_from_slice(&cluster.to_be_bytes());
                self.store(&mut file, *device, *cluster, *blocks);
            }
            let blocks = ((file.len() - at - 512) / BLOCK) as u16;
            file[at + 6..at + 8].copy_from_slice(&blocks.to_be_bytes());
        }
        seal(&mut file);
        file
    }

    pub fn save(&self, path: &Path) {
        fs::write(path, self.bytes()).expect("written");
    }

    fn head(&self) -> Vec<u8> {
        let mut head = vec![0; 12288];
        let mut texts = vec![0];
        head[..8].copy_from_slice(b"VMA\0\0\0\0\x01");
        head[8..24].copy_from_slice(&self.archive);
        for device in &self.devices {
            let at = 4096 + 32 * usize::from(device.number);
            head[at..at + 4].copy_from_slice(&(texts.len() as u32).to_be_bytes());
            head[at + 8..at + 16].copy_from_slice(&device.size.to_be_bytes());
            texts.extend((device.name.len() as u16 + 1).to_le_bytes());
            texts.extend(device.name.as_bytes());
            texts.push(0);
        }
        for (at, text) in [(2044, &b"qemu-server.conf\0"[..]), (3068, b"cores: 2\n")] {
            head[at..at + 4].copy_from_slice(&(texts.len() as u32).to_be_bytes());
            texts.extend((text.len() as u16).to_le_bytes());
            texts.extend(text);
        }
        let len = (12288 + texts.len()).next_multiple_of(512);
        for (at, number) in [(48, 12288), (52, texts.len()), (56, len)] {
            head[at..at + 4].copy_from_slice(&(number as u32).to_be_bytes());
        }
        head.extend(texts);
        head.resize(len, 0);
        head
    }

    fn store(&self, file: &mut Vec<u8>, device: u8, cluster: u32, blocks: u16) {
        let found = self.devices.iter().find(|d| d.number == device);
        let content = found.map_or(&[][..], |d| &d.content);
        for block in (0..16).filter(|n| blocks >> n & 1 == 1) {
            let start = (cluster as usize * CLUSTER + block * BLOCK).min(content.len());
            let end = (start + BLOCK).min(content.len());
            let at = file.len();
            file.extend(&content[start..end]);
            file.resize(at + BLOCK, JUNK);
        }
    }
}

/// A bit for each block of a cluster that is not zeros.
pub fn held(cluster: &[u8]) -> u16 {
    let blocks = cluster.chunks(BLOCK).enumerate();
    blocks.fold(0, |bits, (n, block)| {
        bits | u16::from(block.iter().any(|b| *b != 0)) << n
    })
}

/// Makes the sums right: that of the header, and those of the extents, one after the other.
pub fn seal(file: &mut [u8]) {
    let number = |file: &[u8], range: std::ops::Range<usize>| {
        let bytes = file.get(range)?;
        Some(bytes.iter().fold(0, |n, b| n << 8 | usize::from(*b)))
    };
    let Some(head) = number(file, 56..60) else {
        return;
    };
    seal_part(file, 0, head, 32);
    let mut at = head;
    while let Some(blocks) = number(file, at + 6..at + 8) {
        seal_part(file, at, 512, 24);
        at += 512 + blocks * BLOCK;
    }
}

fn seal_part(file: &mut [u8], at: usize, len: usize, sum: usize) {
    if let Some(part) = file.get_mut(at..at + len).filter(|p| p.len() >= sum + 16) {
        part[sum..sum + 16].fill(0);
        let md5 = Md5::digest(&*part);
        part[sum..sum + 16].copy_from_slice(&md5);
    }
}
