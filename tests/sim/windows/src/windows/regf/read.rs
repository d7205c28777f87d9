//! Reading a hive file.

use super::{Key, SEGMENT, Value, checksum};

const MAX_DEPTH: usize = 512;

struct Hive<'a>(&'a [u8]);

/// The key tree of a hive file and the sequence number of its last write.
pub fn parse(file: &[u8]) -> Result<(Key, u32), String> {
    if file.len() < 4096 || &file[..4] != b"regf" {
        return Err("not a registry hive: no regf header".into());
    }
    let word = |at: usize| u32::from_le_bytes([file[at], file[at + 1], file[at + 2], file[at + 3]]);
    if word(508) != checksum(file) {
        return Err(format!(
            "hive header checksum is {:08x}, expected {:08x}",
            word(508),
            checksum(file)
        ));
    }
    if word(4) != word(8) {
        return Err(format!(
            "hive is dirty: sequence numbers {} and {} differ",
            word(4),
            word(8)
        ));
    }
    let len = word(40) as usize;
    let bins = file
        .get(4096..4096 + len)
        .ok_or_else(|| format!("hive is cut short: its bins need {len} bytes"))?;
    let mut root = Hive(bins).key(word(36), 0)?;
    root.name = "ROOT".into();
    Ok((root, word(4)))
}

impl<'a> Hive<'a> {
    fn cell(&self, at: u32) -> Result<&'a [u8], String> {
        let fault = || format!("hive cell at {at:#x} is outside the bins or free");
        let start = at as usize;
        let head = self.0.get(start..start + 4).ok_or_else(fault)?;
        let size = i32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let size = usize::try_from(-i64::from(size)).map_err(|_| fault())?;
        self.0.get(start + 4..start + size).ok_or_else(fault)
    }

    fn key(&self, at: u32, depth: usize) -> Result<Key, String> {
        let nk = self.cell(at)?;
        if nk.len() < 76 || &nk[..2] != b"nk" || depth > MAX_DEPTH {
            return Err(format!("hive cell at {at:#x} is not a key"));
        }
        let name = nk
            .get(76..76 + half(nk, 72))
            .ok_or("key name outside its cell")?;
        let mut key = Key::new(&decode(name, half(nk, 2) & 0x20 != 0));
        if word(nk, 36) > 0 {
            let list = self.cell(word(nk, 40))?;
            for i in 0..word(nk, 36) as usize {
                key.values.push(self.value(take32(list, 4 * i)?)?);
            }
        }
        if word(nk, 20) > 0 {
            self.leaves(word(nk, 28), depth, &mut key)?;
        }
        Ok(key)
    }

    fn leaves(&self, at: u32, depth: usize, key: &mut Key) -> Result<(), String> {
        let list = self.cell(at)?;
        let step = match list.get(..2) {
            Some(b"lf" | b"lh") => 8,
            Some(b"li" | b"ri") => 4,
            _ => return Err(format!("hive cell at {at:#x} is not a list of subkeys")),
        };
        for i in 0..half(list, 2) {
            let child = take32(list, 4 + step * i)?;
            if &list[..2] == b"ri" {
                self.leaves(child, depth + 1, key)?;
            } else {
                let child = self.key(child, depth + 1)?;
                key.subkeys.insert(child.name.to_uppercase(), child);
            }
        }
        Ok(())
    }

    fn value(&self, at: u32) -> Result<Value, String> {
        let vk = self.cell(at)?;
        if vk.len() < 20 || &vk[..2] != b"vk" {
            return Err(format!("hive cell at {at:#x} is not a value"));
        }
        let name = vk
            .get(20..20 + half(vk, 2))
            .ok_or("value name outside its cell")?;
        let (size, place) = (word(vk, 4), word(vk, 8));
        let len = (size & 0x7fff_ffff) as usize;
        let data = if size & 0x8000_0000 != 0 {
            vk[8..8 + len.min(4)].to_vec()
        } else if len <= SEGMENT {
            self.cell(place)?
                .get(..len)
                .ok_or("value data outside its cell")?
                .to_vec()
        } else {
            self.big(place, len)?
        };
        Ok(Value {
            name: decode(name, half(vk, 16) & 1 != 0),
            kind: word(vk, 12),
            data,
        })
    }

    fn big(&self, at: u32, len: usize) -> Result<Vec<u8>, String> {
        let db = self.cell(at)?;
        if db.get(..2) != Some(b"db") {
            return Err(format!("hive cell at {at:#x} is not big data"));
        }
        let list = self.cell(take32(db, 4)?)?;
        let mut data = Vec::with_capacity(len);
        for i in 0..half(db, 2) {
            let part = self.cell(take32(list, 4 * i)?)?;
            data.extend(&part[..part.len().min(SEGMENT).min(len - data.len())]);
        }
        if data.len() == len {
            Ok(data)
        } else {
            Err("big value data is cut short".into())
        }
    }
}

fn word(cell: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([cell[at], cell[at + 1], cell[at + 2], cell[at + 3]])
}

fn half(cell: &[u8], at: usize) -> usize {
    cell.get(at..at + 2)
        .map_or(0, |b| u16::from_le_bytes([b[0], b[1]]).into())
}

fn take32(cell: &[u8], at: usize) -> Result<u32, String> {
    cell.get(at..at + 4)
        .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .ok_or("list entry outside its cell".into())
}

fn decode(name: &[u8], compressed: bool) -> String {
    if compressed {
        name.iter().map(|&b| char::from(b)).collect()
    } else {
        let units: Vec<u16> = name
            .chunks_exact(2)
            .map(|b| u16::from_le_bytes([b[0], b[1]]))
            .collect();
        String::from_utf16_lossy(&units)
    }
}
