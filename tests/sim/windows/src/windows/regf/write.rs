//! Writing a hive file.

use std::io::Write;
use std::path::Path;

use super::{Key, SEGMENT, Value, checksum, utf16};

/// Most subkeys in one leaf; more are listed through an index root ("ri").
const LEAF: usize = 507;
const NIL: u32 = u32::MAX;

struct Bins {
    bytes: Vec<u8>,
    /// Where the next cell of the open bin starts, and where that bin ends (offsets from the first bin).
    next: usize,
    end: usize,
}

impl Bins {
    fn alloc(&mut self, len: usize) -> u32 {
        let need = (len + 4).next_multiple_of(8);
        if self.next + need > self.end {
            self.close();
            let size = (need + 32).next_multiple_of(4096);
            let start = self.bytes.len();
            self.bytes.resize(start + size, 0);
            self.bytes[start..start + 4].copy_from_slice(b"hbin");
            self.put32(start + 4, start as u32);
            self.put32(start + 8, size as u32);
            (self.next, self.end) = (start + 32, start + size);
        }
        let cell = self.next;
        self.put32(cell, (-(need as i32)) as u32);
        self.next += need;
        cell as u32
    }

    /// The rest of the open bin becomes one free cell.
    fn close(&mut self) {
        if self.next < self.end {
            self.put32(self.next, (self.end - self.next) as u32);
        }
    }

    fn store(&mut self, data: &[u8]) -> u32 {
        let cell = self.alloc(data.len());
        self.write(cell, data);
        cell
    }

    fn write(&mut self, cell: u32, data: &[u8]) {
        let at = cell as usize + 4;
        self.bytes[at..at + data.len()].copy_from_slice(data);
    }

    fn put32(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
}

/// The whole hive file; `name` is the file name recorded in its header, `sequence` counts its writes.
pub fn serialize(root: &Key, name: &str, sequence: u32, filetime: u64) -> Vec<u8> {
    let mut bins = Bins {
        bytes: Vec::new(),
        next: 0,
        end: 0,
    };
    let security = bins.alloc(20 + DESCRIPTOR.len());
    let mut keys = 0;
    let root_cell = put_key(&mut bins, root, NIL, security, filetime, &mut keys);
    let mut sk = Vec::from(*b"sk\0\0");
    for word in [security, security, keys, DESCRIPTOR.len() as u32] {
        sk.extend(word.to_le_bytes());
    }
    sk.extend(DESCRIPTOR);
    bins.write(security, &sk);
    bins.close();

    let mut file = vec![0; 4096];
    file[..4].copy_from_slice(b"regf");
    for (at, word) in [
        (4, sequence),
        (8, sequence),
        (20, 1),
        (24, 5),
        (28, 0),
        (32, 1),
    ] {
        file[at..at + 4].copy_from_slice(&u32::to_le_bytes(word));
    }
    file[12..20].copy_from_slice(&filetime.to_le_bytes());
    for (at, word) in [(36, root_cell), (40, bins.bytes.len() as u32), (44, 1)] {
        file[at..at + 4].copy_from_slice(&u32::to_le_bytes(word));
    }
    let units: Vec<u16> = name.encode_utf16().collect();
    for (i, unit) in units[units.len().saturating_sub(31)..].iter().enumerate() {
        file[48 + 2 * i..50 + 2 * i].copy_from_slice(&unit.to_le_bytes());
    }
    let sum = checksum(&file);
    file[508..512].copy_from_slice(&sum.to_le_bytes());
    file.extend(bins.bytes);
    file
}

/// Owner Administrators, group SYSTEM; SYSTEM and Administrators full control, Users read; inherited by subkeys.
const DESCRIPTOR: [u8; 128] = {
    const SYSTEM: [u8; 12] = [1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0];
    const ADMINISTRATORS: [u8; 16] = [1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 0x20, 2, 0, 0];
    const USERS: [u8; 16] = [1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 0x21, 2, 0, 0];
    let mut sd = [0u8; 128];
    const fn put<const N: usize>(mut to: [u8; 128], at: usize, from: [u8; N]) -> [u8; 128] {
        let mut i = 0;
        while i < N {
            to[at + i] = from[i];
            i += 1;
        }
        to
    }
    // Revision 1, self-relative with a DACL; owner at 96, group at 112, DACL at 20.
    sd = put(
        sd,
        0,
        [
            1, 0, 4, 0x80, 96, 0, 0, 0, 112, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0,
        ],
    );
    sd = put(sd, 20, [2, 0, 76, 0, 3, 0, 0, 0]);
    sd = put(sd, 28, [0, 2, 20, 0, 0x3f, 0, 0x0f, 0]);
    sd = put(sd, 36, SYSTEM);
    sd = put(sd, 48, [0, 2, 24, 0, 0x3f, 0, 0x0f, 0]);
    sd = put(sd, 56, ADMINISTRATORS);
    sd = put(sd, 72, [0, 2, 24, 0, 0x19, 0, 0x02, 0]);
    sd = put(sd, 80, USERS);
    sd = put(sd, 96, ADMINISTRATORS);
    put(sd, 112, SYSTEM)
};

/// A name's bytes and whether they are the compressed (Latin-1) form.
fn name_bytes(name: &str) -> (Vec<u8>, bool) {
    if name.chars().all(|c| (c as u32) < 256) {
        (name.chars().map(|c| c as u8).collect(), true)
    } else {
        (utf16(name), false)
    }
}

fn put_key(
    bins: &mut Bins,
    key: &Key,
    parent: u32,
    security: u32,
    filetime: u64,
    count: &mut u32,
) -> u32 {
    *count += 1;
    let (name, compressed) = name_bytes(&key.name);
    let cell = bins.alloc(76 + name.len());
    let values = put_values(bins, key);
    let children: Vec<(u32, u32)> = key
        .subkeys
        .values()
        .map(|child| {
            (
                put_key(bins, child, cell, security, filetime, count),
                hash(&child.name),
            )
        })
        .collect();
    let list = put_leaves(bins, &children);
    let widest = |lens: &mut dyn Iterator<Item = usize>| lens.max().unwrap_or(0) as u32;
    let mut nk = Vec::from(*b"nk");
    let flags = if parent == NIL { 0x0c } else { 0 } | if compressed { 0x20u16 } else { 0 };
    nk.extend(flags.to_le_bytes());
    nk.extend(filetime.to_le_bytes());
    let words = [
        0,
        if parent == NIL { 0 } else { parent },
        children.len() as u32,
        0,
        list,
        NIL,
        key.values.len() as u32,
        values,
        security,
        NIL,
        widest(
            &mut key
                .subkeys
                .values()
                .map(|k| k.name.encode_utf16().count() * 2),
        ),
        0,
        widest(&mut key.values.iter().map(|v| v.name.encode_utf16().count() * 2)),
        widest(&mut key.values.iter().map(|v| v.data.len())),
        0,
    ];
    words
        .iter()
        .for_each(|word: &u32| nk.extend(word.to_le_bytes()));
    nk.extend((name.len() as u16).to_le_bytes());
    nk.extend([0, 0]);
    nk.extend(name);
    bins.write(cell, &nk);
    cell
}

/// The hash of a key name in an "lh" leaf: upper-cased UTF-16 units, base 37.
fn hash(name: &str) -> u32 {
    name.to_uppercase().encode_utf16().fold(0u32, |hash, unit| {
        hash.wrapping_mul(37).wrapping_add(unit.into())
    })
}

fn put_leaves(bins: &mut Bins, children: &[(u32, u32)]) -> u32 {
    if children.is_empty() {
        return NIL;
    }
    let leaves: Vec<u32> = children
        .chunks(LEAF)
        .map(|part| {
            let mut lh = Vec::from(*b"lh");
            lh.extend((part.len() as u16).to_le_bytes());
            part.iter().for_each(|(cell, hash)| {
                lh.extend(cell.to_le_bytes());
                lh.extend(hash.to_le_bytes());
            });
            bins.store(&lh)
        })
        .collect();
    if let [only] = leaves[..] {
        return only;
    }
    let mut ri = Vec::from(*b"ri");
    ri.extend((leaves.len() as u16).to_le_bytes());
    leaves.iter().for_each(|leaf| ri.extend(leaf.to_le_bytes()));
    bins.store(&ri)
}

fn put_values(bins: &mut Bins, key: &Key) -> u32 {
    if key.values.is_empty() {
        return NIL;
    }
    let cells: Vec<u8> = key
        .values
        .iter()
        .flat_map(|value| put_value(bins, value).to_le_bytes())
        .collect();
    bins.store(&cells)
}

fn put_value(bins: &mut Bins, value: &Value) -> u32 {
    let (name, compressed) = name_bytes(&value.name);
    let (size, place) = match value.data.len() {
        len @ 0..=4 => {
            let mut inline = [0; 4];
            inline[..len].copy_from_slice(&value.data);
            (len as u32 | 0x8000_0000, u32::from_le_bytes(inline))
        }
        len if len <= SEGMENT => (len as u32, bins.store(&value.data)),
        len => (len as u32, put_big(bins, &value.data)),
    };
    let mut vk = Vec::from(*b"vk");
    vk.extend((name.len() as u16).to_le_bytes());
    [size, place, value.kind]
        .iter()
        .for_each(|word| vk.extend(word.to_le_bytes()));
    vk.extend(u16::from(compressed && !name.is_empty()).to_le_bytes());
    vk.extend([0, 0]);
    vk.extend(name);
    bins.store(&vk)
}

fn put_big(bins: &mut Bins, data: &[u8]) -> u32 {
    let parts: Vec<u32> = data.chunks(SEGMENT).map(|part| bins.store(part)).collect();
    let list: Vec<u8> = parts.iter().flat_map(|cell| cell.to_le_bytes()).collect();
    let list = bins.store(&list);
    let mut db = Vec::from(*b"db");
    db.extend((parts.len() as u16).to_le_bytes());
    db.extend(list.to_le_bytes());
    bins.store(&db)
}

/// Writes `bytes` beside `path`, makes them durable and renames them into place.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let fault = |what: &str, e: std::io::Error| format!("{what} {}: {e}", path.display());
    let beside = path.with_extension("winimg-new");
    let mut file = std::fs::File::create(&beside).map_err(|e| fault("can't write beside", e))?;
    file.write_all(bytes)
        .and_then(|()| file.sync_all())
        .map_err(|e| fault("can't write", e))?;
    std::fs::rename(&beside, path).map_err(|e| fault("can't replace", e))
}
