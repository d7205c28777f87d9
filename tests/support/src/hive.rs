//! A hive written from nothing, in the forms that Windows and other writers leave.

pub const SEGMENT: usize = 16344;
const NIL: u32 = u32::MAX;

/// How a key's subkeys are listed.
#[derive(Clone, Copy)]
pub enum List {
    /// With hashes of the names.
    Lh,
    /// With the first four letters of the names.
    Lf,
    /// Plain.
    Li,
    /// An index of leaves with so many keys each.
    Ri(usize),
}

pub struct Key {
    pub name: &'static str,
    pub list: List,
    pub values: Vec<(&'static str, u32, Vec<u8>)>,
    pub keys: Vec<Key>,
}

impl Key {
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            list: List::Lh,
            values: Vec::new(),
            keys: Vec::new(),
        }
    }

    pub fn value(mut self, name: &'static str, kind: u32, data: &[u8]) -> Self {
        self.values.push((name, kind, data.to_vec()));
        self
    }

    pub fn keys(mut self, list: List, keys: impl IntoIterator<Item = Key>) -> Self {
        self.list = list;
        self.keys.extend(keys);
        self
    }
}

pub fn sz(text: &str) -> Vec<u8> {
    let units = text.encode_utf16().chain([0]);
    units.flat_map(u16::to_le_bytes).collect()
}

/// One bin that grows; cells are laid one after another.
struct Bin(Vec<u8>);

/// The one security cell, which all keys share, is the first in the bin.
const SECURITY: u32 = 32;

impl Bin {
    fn cell(&mut self, content: &[u8]) -> u32 {
        let at = self.0.len();
        let len = (content.len() + 4).next_multiple_of(8);
        self.0.extend((-(len as i32)).to_le_bytes());
        self.0.extend(content);
        self.0.resize(at + len, 0);
        at as u32
    }

    fn put(&mut self, at: u32, content: &[u8]) {
        let at = at as usize + 4;
        self.0[at..at + content.len()].copy_from_slice(content);
    }

    fn key(&mut self, key: &Key, parent: u32) -> u32 {
        let (name, short) = name(key.name);
        let cell = self.cell(&vec![0; 76 + name.len()]);
        let values: Vec<u32> = key.values.iter().map(|v| self.value(v)).collect();
        let values = match values.len() {
            0 => NIL,
            _ => self.cell(&words(&values)),
        };
        let children: Vec<(u32, [u8; 4])> = key
            .keys
            .iter()
            .map(|k| (self.key(k, cell), hint(key.list, k.name)))
            .collect();
        let list = match (children.len(), key.list) {
            (0, _) => NIL,
            (_, List::Ri(each)) => {
                let leaves = children.chunks(each);
                let leaves: Vec<u32> = leaves.map(|part| self.leaf(List::Lh, part)).collect();
                let mut ri = b"ri".to_vec();
                ri.extend((leaves.len() as u16).to_le_bytes());
                ri.extend(words(&leaves));
                self.cell(&ri)
            }
            (_, list) => self.leaf(list, &children),
        };
        let mut nk = b"nk".to_vec();
        let root = if parent == NIL { 0x0c } else { 0 };
        nk.extend((root | if short { 0x20_u16 } else { 0 }).to_le_bytes());
        nk.extend([0; 12]);
        let (keys, count) = (key.keys.len() as u32, key.values.len() as u32);
        nk.extend(words(&[
            parent, keys, 0, list, NIL, count, values, SECURITY, NIL,
        ]));
        nk.extend([0; 20]);
        nk.extend((name.len() as u16).to_le_bytes());
        nk.extend([0; 2]);
        nk.extend(name);
        self.put(cell, &nk);
        cell
    }

    fn leaf(&mut self, list: List, children: &[(u32, [u8; 4])]) -> u32 {
        let mut leaf = match list {
            List::Li => b"li",
            List::Lf => b"lf",
            _ => b"lh",
        }
        .to_vec();
        leaf.extend((children.len() as u16).to_le_bytes());
        for (at, hint) in children {
            leaf.extend(at.to_le_bytes());
            if !matches!(list, List::Li) {
                leaf.extend(hint);
            }
        }
        self.cell(&leaf)
    }

    fn value(&mut self, (text, kind, data): &(&str, u32, Vec<u8>)) -> u32 {
        let (name, short) = name(text);
        let len = data.len() as u32;
        let (len, place) = match data.len() {
            n @ 0..=4 => {
                let mut four = [0; 4];
                four[..n].copy_from_slice(data);
                (len | 0x8000_0000, u32::from_le_bytes(four))
            }
            n if n <= SEGMENT => (len, self.cell(data)),
            _ => {
                // Windows leaves four bytes behind each segment, and libhivex counts on them.
                let spaced = data.chunks(SEGMENT).map(|p| [p, &[0; 4]].concat());
                let parts: Vec<u32> = spaced.map(|p| self.cell(&p)).collect();
                let list = self.cell(&words(&parts));
                let mut db = b"db".to_vec();
                db.extend((parts.len() as u16).to_le_bytes());
                db.extend(list.to_le_bytes());
                (len, self.cell(&db))
            }
        };
        let mut vk = b"vk".to_vec();
        vk.extend((name.len() as u16).to_le_bytes());
        vk.extend(words(&[len, place, *kind]));
        vk.extend(u16::from(short && !name.is_empty()).to_le_bytes());
        vk.extend([0; 2]);
        vk.extend(name);
        self.cell(&vk)
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn name(text: &str) -> (Vec<u8>, bool) {
    if text.chars().all(|c| (c as u32) < 256) {
        (text.chars().map(|c| c as u8).collect(), true)
    } else {
        let units = text.encode_utf16();
        (units.flat_map(u16::to_le_bytes).collect(), false)
    }
}

fn hint(list: List, name: &str) -> [u8; 4] {
    if let List::Lf = list {
        let mut letters = name.bytes().chain([0; 4]);
        return std::array::from_fn(|_| letters.next().unwrap());
    }
    let units = name.to_uppercase();
    let hash = units.encode_utf16().fold(0_u32, |sum, unit| {
        sum.wrapping_mul(37).wrapping_add(unit.into())
    });
    hash.to_le_bytes()
}

/// A clean hive of version 1.5.
pub fn hive(root: &Key) -> Vec<u8> {
    let mut bin = Bin(vec![0; 32]);
    let mut sk = b"sk\0\0".to_vec();
    sk.extend(words(&[SECURITY, SECURITY, 1, 20]));
    // Self-relative, without owner, group and lists.
    sk.extend([1, 0, 0, 0x80].into_iter().chain([0; 16]));
    bin.cell(&sk);
    let root = bin.key(root, NIL);
    let mut bin = bin.0;
    let used = bin.len();
    let size = (used + 8).next_multiple_of(4096);
    bin.resize(size, 0);
    bin[used..used + 4].copy_from_slice(&((size - used) as u32).to_le_bytes());
    bin[..4].copy_from_slice(b"hbin");
    bin[8..12].copy_from_slice(&(size as u32).to_le_bytes());
    let mut file = vec![0; 4096];
    file[..4].copy_from_slice(b"regf");
    for (at, word) in [(4, 1), (8, 1), (20, 1), (24, 5), (32, 1), (36, root)] {
        file[at..at + 4].copy_from_slice(&u32::to_le_bytes(word));
    }
    file[40..44].copy_from_slice(&(size as u32).to_le_bytes());
    file[44] = 1;
    file.extend(bin);
    seal(&mut file);
    file
}

/// Makes the header's sum right again.
pub fn seal(file: &mut [u8]) {
    let words = file[..508].chunks_exact(4);
    let sum = words.fold(0, |sum, w| {
        sum ^ u32::from_le_bytes([w[0], w[1], w[2], w[3]])
    });
    let sum = match sum {
        u32::MAX => u32::MAX - 1,
        0 => 1,
        sum => sum,
    };
    file[508..512].copy_from_slice(&sum.to_le_bytes());
}
