//! UDF media built by the letter of ECMA-167 and OSTA UDF.

use std::collections::BTreeMap;

pub const SECTOR: usize = 2048;
/// Where the partition begins, in sectors, and its length.
pub const START: usize = 300;
pub const BLOCKS: usize = 400;

/// A medium in the making.
struct Udf {
    bytes: Vec<u8>,
    /// Blocks of the metadata partition in the physical one; empty: there is none.
    metadata: Vec<usize>,
}

/// How a file's bytes are laid down.
#[derive(Clone, Copy, Debug)]
enum Lay {
    Embedded,
    /// short_ad for each run of blocks: first block, number of blocks; `None` for a hole.
    Short(&'static [(Option<usize>, usize)]),
    /// The same as long_ad, in the physical partition.
    Long(&'static [(Option<usize>, usize)]),
    /// One short_ad, then the rest in an allocation extent descriptor at this block.
    Continued(usize, &'static [(Option<usize>, usize)]),
}

fn crc(bytes: &[u8]) -> u16 {
    let mut crc = 0u16;
    for b in bytes {
        for bit in (0..8).rev() {
            let top = crc >> 15 ^ u16::from(*b >> bit & 1);
            crc = crc << 1 ^ if top == 1 { 0x1021 } else { 0 };
        }
    }
    crc
}

/// Puts a tag before a descriptor whose first 16 bytes are free.
pub fn tagged(id: u16, location: usize, mut body: Vec<u8>) -> Vec<u8> {
    let length = (body.len() - 16) as u16;
    body[..2].copy_from_slice(&id.to_le_bytes());
    body[2..4].copy_from_slice(&2u16.to_le_bytes());
    let sum = crc(&body[16..]);
    body[8..10].copy_from_slice(&sum.to_le_bytes());
    body[10..12].copy_from_slice(&length.to_le_bytes());
    body[12..16].copy_from_slice(&(location as u32).to_le_bytes());
    body[4] = 0;
    body[4] = body[..16].iter().fold(0u8, |s, b| s.wrapping_add(*b));
    body
}

pub fn put(body: &mut [u8], at: usize, bytes: &[u8]) {
    body[at..at + bytes.len()].copy_from_slice(bytes);
}

fn put32(body: &mut [u8], at: usize, n: usize) {
    put(body, at, &(n as u32).to_le_bytes());
}

fn long_ad(length: usize, block: usize, partition: u16) -> [u8; 16] {
    let mut ad = [0; 16];
    put32(&mut ad, 0, length);
    put32(&mut ad, 4, block);
    put(&mut ad, 8, &partition.to_le_bytes());
    ad
}

fn dstring(field: usize, s: &str) -> Vec<u8> {
    let mut out = vec![0; field];
    out[0] = 8;
    put(&mut out, 1, s.as_bytes());
    out[field - 1] = s.len() as u8 + 1;
    out
}

/// OSTA compressed Unicode.
fn identifier(name: &str) -> Vec<u8> {
    if name.chars().all(|c| u32::from(c) < 256) {
        let mut out = vec![8];
        out.extend(name.chars().map(|c| c as u8));
        out
    } else {
        let mut out = vec![16];
        out.extend(name.encode_utf16().flat_map(u16::to_be_bytes));
        out
    }
}

impl Udf {
    fn new(metadata: Vec<usize>, plain: bool) -> Self {
        let mut udf = Self {
            bytes: vec![0; (START + BLOCKS + 260) * SECTOR],
            metadata,
        };
        for (n, id) in [b"BEA01", b"NSR03", b"TEA01"].iter().enumerate() {
            put(&mut udf.bytes, (16 + n) * SECTOR + 1, *id);
            udf.bytes[(16 + n) * SECTOR + 6] = 1;
        }
        udf.volume(plain);
        udf
    }

    /// The reference number of the partition that holds entries.
    fn entries(&self) -> u16 {
        u16::from(!self.metadata.is_empty())
    }

    fn volume(&mut self, plain: bool) {
        let mut primary = vec![0; 512];
        put(&mut primary, 24, &dstring(32, "BUILT"));
        put(&mut primary, 56, &[1, 0, 1, 0, 2, 0, 2, 0]);
        let mut partition = vec![0; 512];
        put(&mut partition, 20, &[1, 0]);
        put(&mut partition, 25, b"+NSR03");
        put32(&mut partition, 184, 1);
        put32(&mut partition, 188, START);
        put32(&mut partition, 192, BLOCKS);
        let mut maps = vec![1, 6, 1, 0, 0, 0];
        if !self.metadata.is_empty() {
            let mut map = vec![0; 64];
            put(&mut map, 0, &[2, 64]);
            put(&mut map, 5, b"*UDF Metadata Partition");
            put(&mut map, 28, &[0x50, 2]);
            put(&mut map, 36, &[1, 0, 0, 0]);
            // Unless the medium is plain there is nothing in block 390: the mirror in 391 has to be used.
            put32(&mut map, 40, 390);
            put32(&mut map, 44, 391);
            put32(&mut map, 48, 0xffff_ffff);
            put32(&mut map, 52, 1);
            put(&mut map, 56, &[1, 0]);
            maps.extend(map);
        }
        let mut logical = vec![0; 440];
        put(&mut logical, 84, &dstring(128, "BUILT_BY_TEST"));
        put32(&mut logical, 212, SECTOR);
        put(&mut logical, 217, b"*OSTA UDF Compliant");
        put(&mut logical, 240, &[0x50, 2]);
        put(&mut logical, 248, &long_ad(SECTOR, 0, self.entries()));
        put32(&mut logical, 264, maps.len());
        put32(&mut logical, 268, 1 + usize::from(self.entries()));
        logical.extend(maps);
        for (n, (id, body)) in [
            (1, primary),
            (5, partition),
            (6, logical),
            (8, vec![0; 512]),
        ]
        .into_iter()
        .enumerate()
        {
            let mut body = body;
            put32(&mut body, 16, n);
            if id == 8 {
                put32(&mut body, 16, 0);
            }
            let body = tagged(id, 32 + n, body);
            put(&mut self.bytes, (32 + n) * SECTOR, &body);
        }
        let mut anchor = vec![0; 512];
        put32(&mut anchor, 16, 16 * SECTOR);
        put32(&mut anchor, 20, 32);
        // The reserve sequence is the same one.
        put32(&mut anchor, 24, 16 * SECTOR);
        put32(&mut anchor, 28, 32);
        let last = self.bytes.len() / SECTOR - 1;
        for at in [256, last] {
            put(&mut self.bytes, at * SECTOR, &tagged(2, at, anchor.clone()));
        }
        if !self.metadata.is_empty() {
            // One run when it is one, as mastering programs write it.
            let first = self.metadata[0];
            let count = self.metadata.len();
            let pieces = if self.metadata.iter().copied().eq(first..first + count) {
                vec![(Some(first), count)]
            } else {
                self.metadata.iter().map(|b| (Some(*b), 1)).collect()
            };
            let size = self.metadata.len() * SECTOR;
            for at in [390, 391] {
                let file = self.entry(250 + (at - 390) as u8, &pieces, size, at, false);
                if plain || at == 391 {
                    put(&mut self.bytes, (START + at) * SECTOR, &file);
                }
            }
        }
    }

    /// A block of the partition that holds entries.
    fn block(&mut self, block: usize, bytes: &[u8]) {
        let physical = self.metadata.get(block).copied().unwrap_or(block);
        put(&mut self.bytes, (START + physical) * SECTOR, bytes);
    }

    fn descriptors(pieces: &[(Option<usize>, usize)], mut left: usize, long: bool) -> Vec<u8> {
        let mut out = Vec::new();
        for (block, count) in pieces {
            let length = left.min(count * SECTOR);
            left -= length;
            let word = length | if block.is_none() { 1 << 30 } else { 0 };
            let ad = long_ad(word, block.unwrap_or(0), 0);
            out.extend(&ad[..if long { 16 } else { 8 }]);
        }
        out
    }

    fn head(&self, file_type: u8, size: usize, extended: bool, kind: u16, tail: usize) -> Vec<u8> {
        let mut body = vec![0; if extended { 216 } else { 176 }];
        put(&mut body, 20, &[4, 0, 0, 0, 1, 0, 0, file_type]);
        put(&mut body, 34, &kind.to_le_bytes());
        put32(&mut body, 48, 1);
        put32(&mut body, 56, size);
        let at = if extended { 212 } else { 172 };
        put32(&mut body, at, tail);
        body
    }

    fn entry(
        &self,
        file_type: u8,
        pieces: &[(Option<usize>, usize)],
        size: usize,
        at: usize,
        long: bool,
    ) -> Vec<u8> {
        let ads = Self::descriptors(pieces, size, long);
        let mut body = self.head(file_type, size, false, u16::from(long), ads.len());
        body.extend(ads);
        tagged(261, at, body)
    }

    /// Writes a file's entry at `at`, and its bytes.
    fn file(&mut self, at: usize, file_type: u8, content: &[u8], lay: Lay, extended: bool) {
        let (kind, tail, pieces) = match lay {
            Lay::Embedded => (3, content.to_vec(), &[][..]),
            Lay::Short(pieces) => (0, Self::descriptors(pieces, content.len(), false), pieces),
            Lay::Long(pieces) => (1, Self::descriptors(pieces, content.len(), true), pieces),
            Lay::Continued(next, pieces) => {
                let all = Self::descriptors(pieces, content.len(), false);
                let mut tail = all[..8].to_vec();
                tail.extend(&long_ad(3 << 30 | SECTOR, next, 0)[..8]);
                let mut rest = vec![0; 24];
                put32(&mut rest, 20, all.len() - 8);
                rest.extend(&all[8..]);
                let rest = tagged(258, next, rest);
                self.block(next, &rest);
                (0, tail, pieces)
            }
        };
        let tag = if extended { 266 } else { 261 };
        let mut body = self.head(file_type, content.len(), extended, kind, tail.len());
        if extended {
            put32(&mut body, 64, content.len());
        }
        body.extend(tail);
        let body = tagged(tag, at, body);
        self.block(at, &body);
        let mut done = 0;
        for (block, count) in pieces {
            let piece = &content[done..content.len().min(done + count * SECTOR)];
            match block {
                Some(block) => put(&mut self.bytes, (START + block) * SECTOR, piece),
                None => assert!(piece.iter().all(|b| *b == 0), "a hole reads as zeros"),
            }
            done += piece.len();
        }
    }

    /// The bytes of a directory.
    fn directory(&self, own: usize, children: &[(&str, usize, bool)]) -> Vec<u8> {
        let mut out = Vec::new();
        let parent = [("", own, true)];
        for (n, (name, icb, is_dir)) in parent.iter().chain(children).enumerate() {
            let id = if n == 0 { Vec::new() } else { identifier(name) };
            let mut body = vec![0; (38 + id.len()).next_multiple_of(4)];
            put(
                &mut body,
                16,
                &[
                    1,
                    0,
                    if *is_dir { 2 } else { 0 } | if n == 0 { 8 } else { 0 },
                    id.len() as u8,
                ],
            );
            put(&mut body, 20, &long_ad(SECTOR, *icb, self.entries()));
            put(&mut body, 38, &id);
            out.extend(tagged(257, own, body));
        }
        out
    }

    fn file_set(&mut self) {
        let mut set = vec![0; 512];
        put(&mut set, 112, &dstring(128, "BUILT_BY_TEST"));
        put(&mut set, 304, &dstring(32, "BUILT"));
        put(&mut set, 400, &long_ad(SECTOR, 1, self.entries()));
        put(&mut set, 417, b"*OSTA UDF Compliant");
        let set = tagged(256, 0, set);
        self.block(0, &set);
    }
}

fn noise(length: usize, seed: u8) -> Vec<u8> {
    (0..length)
        .map(|n| (n / 7) as u8 ^ (n as u8).wrapping_mul(31) ^ seed)
        .collect()
}

/// The medium, and what has to be read from it.
pub fn built(metadata: Vec<usize>, plain: bool) -> (Vec<u8>, BTreeMap<String, Vec<u8>>) {
    let mut udf = Udf::new(metadata, plain);
    udf.file_set();
    let long_name = "n".repeat(220);
    let mut hole = noise(2 * SECTOR, 4);
    hole.extend(vec![0; 3 * SECTOR]);
    hole.extend(noise(100, 5));
    let files: Vec<(&str, usize, Vec<u8>, Lay, bool)> = vec![
        (
            "small.txt",
            10,
            b"inside its own entry".to_vec(),
            Lay::Embedded,
            false,
        ),
        ("extended.txt", 11, noise(1500, 1), Lay::Embedded, true),
        // The first two pieces touch; the third lies before them.
        (
            "pieces.bin",
            12,
            noise(4 * SECTOR + 5, 2),
            Lay::Short(&[(Some(110), 2), (Some(112), 1), (Some(100), 2)]),
            false,
        ),
        (
            "long.bin",
            13,
            noise(3 * SECTOR, 3),
            Lay::Long(&[(Some(121), 1), (Some(120), 1), (Some(125), 1)]),
            true,
        ),
        (
            "hole.bin",
            14,
            hole,
            Lay::Long(&[(Some(130), 2), (None, 3), (Some(140), 1)]),
            false,
        ),
        (&long_name, 15, noise(10, 6), Lay::Embedded, false),
        (
            "\u{65e5}\u{672c}.txt",
            16,
            noise(10, 7),
            Lay::Embedded,
            false,
        ),
        ("empty", 17, Vec::new(), Lay::Embedded, false),
    ];
    let mut expected = BTreeMap::new();
    let mut children = Vec::new();
    // 7-Zip 16 reads neither holes nor continued descriptors: `plain` leaves them out.
    for (name, at, content, lay, extended) in files.iter().filter(|f| !plain || f.0 != "hole.bin") {
        // In a metadata partition a short_ad would mean metadata blocks.
        let lay = match *lay {
            Lay::Short(pieces) if udf.entries() == 1 => Lay::Long(pieces),
            lay => lay,
        };
        udf.file(*at, 5, content, lay, *extended);
        children.push((*name, *at, false));
        expected.insert((*name).to_string(), content.clone());
    }
    if udf.entries() == 0 && !plain {
        let content = noise(5 * SECTOR - 1, 8);
        let pieces = &[(Some(150), 1), (Some(153), 2), (Some(151), 2)];
        udf.file(18, 5, &content, Lay::Continued(19, pieces), false);
        children.push(("continued.bin", 18, false));
        expected.insert("continued.bin".into(), content);
    }
    let inner = udf.directory(2, &[("small.txt", 10, false)]);
    udf.file(2, 4, &inner, Lay::Embedded, false);
    expected.insert("folder/small.txt".into(), expected["small.txt"].clone());
    children.push(("folder", 2, true));
    let root = udf.directory(1, &children);
    udf.file(1, 4, &root, Lay::Embedded, false);
    (udf.bytes, expected)
}
