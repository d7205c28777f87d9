//! Writes VHDX files, dynamic and differencing, as [MS-VHDX] lays them down; shares nothing with the reader.
//!
//! What no reader may show (sectors that a bitmap leaves to the parent) is filled with [`JUNK`].

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use uuid::{Uuid, uuid};

const MIB: u64 = 1 << 20;
const KIB64: u64 = 64 << 10;
const TABLE: u64 = 3 * MIB;
pub const JUNK: u8 = 0xff;

#[derive(Clone)]
enum Block {
    /// A state without content, and the place that the entry keeps all the same.
    State(u64, u64),
    Held {
        bytes: Vec<u8>,
        there: Vec<bool>,
    },
}

#[derive(Clone)]
pub struct Writer {
    pub len: u64,
    pub block: u64,
    pub sector: u64,
    pub data_write: Uuid,
    pub log: Uuid,
    pub locator_kind: Uuid,
    /// Keys and values; a file with some is a differencing one.
    pub locator: Vec<(String, String)>,
    /// Whether sector bitmaps are written; without them the file is damaged.
    pub bitmaps: bool,
    blocks: BTreeMap<u64, Block>,
}

impl Writer {
    /// A dynamic disk.
    pub fn new(len: u64, block: u64) -> Self {
        Self {
            len,
            block,
            sector: 512,
            data_write: Uuid::new_v4(),
            log: Uuid::nil(),
            locator_kind: uuid!("b04aefb7-d19e-4a81-b789-25b8e9445913"),
            locator: Vec::new(),
            bitmaps: true,
            blocks: BTreeMap::new(),
        }
    }

    /// A child of the disk with this `DataWriteGuid`, at a path relative to the child's folder.
    pub fn over(len: u64, block: u64, parent: Uuid, relative: &str) -> Self {
        let mut child = Self::new(len, block);
        child.set("parent_linkage", &format!("{{{parent}}}"));
        child.set("relative_path", relative);
        child
    }

    pub fn set(&mut self, key: &str, value: &str) {
        self.locator.retain(|(k, _)| k != key);
        self.locator.push((key.into(), value.into()));
    }

    /// Writes whole sectors, as a guest does.
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        assert!(at.is_multiple_of(self.sector) && (bytes.len() as u64).is_multiple_of(self.sector));
        let differencing = !self.locator.is_empty();
        for (i, sector) in bytes.chunks(self.sector as usize).enumerate() {
            let at = at + i as u64 * self.sector;
            let within = (at % self.block) as usize;
            let fresh = || Block::Held {
                bytes: vec![if differencing { JUNK } else { 0 }; self.block as usize],
                there: vec![!differencing; (self.block / self.sector) as usize],
            };
            let block = self.blocks.entry(at / self.block).or_insert_with(fresh);
            let Block::Held { bytes, there } = block else {
                panic!("a block without content is written");
            };
            bytes[within..within + sector.len()].copy_from_slice(sector);
            there[within / self.sector as usize] = true;
        }
    }

    /// Gives a block a state without content; `place` in MiB stands in its entry.
    pub fn state(&mut self, block: u64, state: u64, place: u64) {
        self.blocks.insert(block, Block::State(state, place));
    }

    pub fn save(&self, path: &Path) {
        let file = fs::File::create(path).expect("a file");
        let put = |at: u64, bytes: &[u8]| file.write_all_at(bytes, at).expect("written");
        put(0, b"vhdxfile");
        for (number, at) in [(7, KIB64), (8, 2 * KIB64)] {
            put(at, &self.header(number));
        }
        let table = self.table_len();
        for at in [3 * KIB64, 4 * KIB64] {
            put(at, &regions(table));
        }
        put(2 * MIB, &self.metadata());
        let ratio = (1 << 23) * self.sector / self.block;
        let mut end = TABLE + table;
        // The last block first: nothing may rest on their order.
        for (block, content) in self.blocks.iter().rev() {
            let entry = match content {
                Block::State(state, place) => state | place << 20,
                Block::Held { bytes, there } => {
                    put(end, bytes);
                    end += self.block;
                    let whole = there.iter().all(|t| *t);
                    (end - self.block) | if whole { 6 } else { 7 }
                }
            };
            put(TABLE + (block + block / ratio) * 8, &entry.to_le_bytes());
        }
        for (chunk, bits) in self.chunks(ratio) {
            put(end, &bits);
            let entry = end | 6;
            put(
                TABLE + (chunk * (ratio + 1) + ratio) * 8,
                &entry.to_le_bytes(),
            );
            end += MIB;
        }
        file.set_len(end).expect("its length");
    }

    fn table_len(&self) -> u64 {
        let ratio = (1 << 23) * self.sector / self.block;
        let entries = self.len.div_ceil(self.block).div_ceil(ratio) * (ratio + 1);
        (entries * 8).next_multiple_of(MIB)
    }

    /// The sector bitmaps: bit 0 of byte 0 is the first sector's.
    fn chunks(&self, ratio: u64) -> BTreeMap<u64, Vec<u8>> {
        let mut chunks = BTreeMap::new();
        for (block, content) in &self.blocks {
            let Block::Held { there, .. } = content else {
                continue;
            };
            if !self.bitmaps || there.iter().all(|t| *t) {
                continue;
            }
            let bits: &mut Vec<u8> = chunks
                .entry(block / ratio)
                .or_insert_with(|| vec![0; MIB as usize]);
            let first = (block % ratio) as usize * there.len();
            for (i, _) in there.iter().enumerate().filter(|(_, t)| **t) {
                bits[(first + i) / 8] |= 1 << ((first + i) % 8);
            }
        }
        chunks
    }

    fn header(&self, number: u64) -> Vec<u8> {
        let mut header = vec![0; 4096];
        header[..4].copy_from_slice(b"head");
        header[8..16].copy_from_slice(&number.to_le_bytes());
        header[16..32].copy_from_slice(&Uuid::new_v4().to_bytes_le());
        header[32..48].copy_from_slice(&self.data_write.to_bytes_le());
        header[48..64].copy_from_slice(&self.log.to_bytes_le());
        header[66] = 1;
        header[68..72].copy_from_slice(&(MIB as u32).to_le_bytes());
        header[72..80].copy_from_slice(&MIB.to_le_bytes());
        sealed(header)
    }

    fn metadata(&self) -> Vec<u8> {
        let differencing = !self.locator.is_empty();
        let parameters = [self.block as u32, if differencing { 2 } else { 0 }];
        let mut items = vec![
            (
                uuid!("caa16737-fa36-4d43-b3b6-33f0aa44e76b"),
                4,
                parameters.iter().flat_map(|n| n.to_le_bytes()).collect(),
            ),
            (
                uuid!("2fa54224-cd1b-4876-b211-5dbed83bf4b8"),
                6,
                self.len.to_le_bytes().to_vec(),
            ),
            (
                uuid!("beca12ab-b2e6-4523-93ef-c309e000c746"),
                6,
                Uuid::from_u128(0x77).to_bytes_le().to_vec(),
            ),
            (
                uuid!("8141bf1d-a96f-4709-ba47-f233a8faab5f"),
                6,
                (self.sector as u32).to_le_bytes().to_vec(),
            ),
            (
                uuid!("cda348c7-445d-4471-9cc9-e9885251c556"),
                6,
                4096_u32.to_le_bytes().to_vec(),
            ),
        ];
        if differencing {
            items.push((
                uuid!("a8d35f2d-b30b-454d-abf7-d3d84834ab0c"),
                4,
                self.locator_bytes(),
            ));
        }
        let mut bytes = vec![0; MIB as usize];
        bytes[..8].copy_from_slice(b"metadata");
        bytes[10] = items.len() as u8;
        let mut offset = KIB64 as usize;
        for (i, (id, flags, content)) in items.iter().enumerate() {
            let entry = &mut bytes[32 + i * 32..][..32];
            entry[..16].copy_from_slice(&id.to_bytes_le());
            entry[16..20].copy_from_slice(&(offset as u32).to_le_bytes());
            entry[20..24].copy_from_slice(&(content.len() as u32).to_le_bytes());
            entry[24] = *flags;
            bytes[offset..offset + content.len()].copy_from_slice(content);
            offset += content.len();
        }
        bytes
    }

    fn locator_bytes(&self) -> Vec<u8> {
        let mut head = self.locator_kind.to_bytes_le().to_vec();
        head.extend([0, 0]);
        head.extend((self.locator.len() as u16).to_le_bytes());
        let mut text = Vec::new();
        let start = 20 + 12 * self.locator.len();
        for (key, value) in &self.locator {
            let [key, value] = [key, value].map(|t| -> Vec<u8> {
                let units = t.encode_utf16();
                units.flat_map(u16::to_le_bytes).collect()
            });
            let at = (start + text.len()) as u32;
            head.extend(at.to_le_bytes());
            head.extend((at + key.len() as u32).to_le_bytes());
            head.extend((key.len() as u16).to_le_bytes());
            head.extend((value.len() as u16).to_le_bytes());
            text.extend(key);
            text.extend(value);
        }
        head.extend(text);
        head
    }
}

fn regions(table: u64) -> Vec<u8> {
    let mut bytes = vec![0; KIB64 as usize];
    bytes[..4].copy_from_slice(b"regi");
    bytes[8] = 2;
    let known = [
        (uuid!("2dc27766-f623-4200-9d64-115e9bfd4a08"), TABLE, table),
        (uuid!("8b7ca206-4790-4b9a-b8fe-575f050f886e"), 2 * MIB, MIB),
    ];
    for (i, (id, start, len)) in known.into_iter().enumerate() {
        let entry = &mut bytes[16 + i * 32..][..32];
        entry[..16].copy_from_slice(&id.to_bytes_le());
        entry[16..24].copy_from_slice(&start.to_le_bytes());
        entry[24..28].copy_from_slice(&(len as u32).to_le_bytes());
        entry[28] = 1;
    }
    sealed(bytes)
}

fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = crc::Crc::<u32>::new(&crc::CRC_32_ISCSI).checksum(&bytes);
    bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The headers of a file: number, FileWriteGuid, DataWriteGuid; all must be whole.
pub fn headers(path: &Path) -> [(u64, Uuid, Uuid); 2] {
    let file = fs::File::open(path).expect("a file");
    [KIB64, 2 * KIB64].map(|at| {
        let mut bytes = vec![0; 4096];
        file.read_exact_at(&mut bytes, at).expect("a header");
        let mut blank = bytes.clone();
        blank[4..8].fill(0);
        assert!(sealed(blank) == bytes, "the checksum at {at}");
        let id = |at: usize| Uuid::from_slice_le(&bytes[at..at + 16]).expect("16 bytes");
        let number = u64::from_le_bytes(bytes[8..16].try_into().expect("8 bytes"));
        (number, id(16), id(32))
    })
}

/// The DataWriteGuid that counts.
pub fn data_write(path: &Path) -> Uuid {
    let newest = headers(path).into_iter().max_by_key(|h| h.0);
    newest.expect("two headers").2
}
