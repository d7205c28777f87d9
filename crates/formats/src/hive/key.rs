//! Keys: their names, their subkeys through the four kinds of lists, their values.

use std::collections::BTreeSet;

use super::cell::Cell;
use super::{Data, Hive, same_name};
use winimg_base::error::Result;

/// Microsoft, "Registry Element Size Limits": a registry tree can be 512 levels deep.
const DEEPEST: u32 = 512;
/// Bytes in each segment of a value that is kept in several.
const SEGMENT: usize = 16344;
/// Bytes of a key's cell before its name, and of a value's.
const KEY: usize = 76;
const VALUE: usize = 20;

/// One key of a hive.
pub struct Key<'h> {
    hive: &'h Hive,
    cell: Cell<'h>,
    name: String,
    depth: u32,
}

impl<'h> Key<'h> {
    pub(super) fn root(hive: &'h Hive, at: u32) -> Result<Self> {
        Self::at(hive, at, 0)
    }

    fn at(hive: &'h Hive, at: u32, depth: u32) -> Result<Self> {
        let cell = hive.cell(at)?;
        cell.is(b"nk", "a key", KEY)?;
        let len = cell.half(72)?;
        let short = cell.half(2)? & 0x20 != 0;
        Ok(Self {
            name: cell.name(KEY, len, short)?,
            hive,
            cell,
            depth,
        })
    }

    /// The name as it was first written; of the root, whatever Windows calls it (`ROOT`, `CsiTool-CreateHive-…`).
    pub fn name(&self) -> String {
        self.name.clone()
    }

    /// The subkeys, in the hive's order: by name.
    pub fn keys(&self) -> Result<Vec<Key<'h>>> {
        let mut keys = Vec::new();
        let mut budget = self.hive.capacity();
        for at in self.places()? {
            let key = self.child(at)?;
            spend(&mut budget, key.cell.bytes.len(), &key.cell)?;
            keys.push(key);
        }
        Ok(keys)
    }

    /// The key at a path below this one, without regard to case. The empty path is this key.
    pub fn key(&self, path: &str) -> Result<Option<Key<'h>>> {
        let mut key = Self::at(self.hive, self.cell.at, self.depth)?;
        for name in path.split('\\').filter(|n| !n.is_empty()) {
            let mut next = None;
            for at in key.places()? {
                let child = key.child(at)?;
                if same_name(&child.name, name) {
                    next = Some(child);
                    break;
                }
            }
            match next {
                Some(found) => key = found,
                None => return Ok(None),
            }
        }
        Ok(Some(key))
    }

    /// Names and data of the values, in the order they were made. The default value has the empty name.
    pub fn values(&self) -> Result<Vec<(String, Data)>> {
        let mut values = Vec::new();
        let mut budget = self.hive.capacity();
        for cell in self.value_cells()? {
            let cell = cell?;
            let name = value_name(&cell)?;
            let (len, _) = length(&cell)?;
            spend(&mut budget, cell.bytes.len().saturating_add(len), &cell)?;
            values.push((name, self.data(&cell)?));
        }
        Ok(values)
    }

    /// The value of that name, without regard to case; `""` is the default value.
    pub fn value(&self, name: &str) -> Result<Option<Data>> {
        for cell in self.value_cells()? {
            let cell = cell?;
            if same_name(&value_name(&cell)?, name) {
                return self.data(&cell).map(Some);
            }
        }
        Ok(None)
    }

    /// A subkey. Each names its parent, and the root is nobody's child: so a hive can't lead in a circle.
    fn child(&self, at: u32) -> Result<Key<'h>> {
        let key = Self::at(self.hive, at, self.depth + 1)?;
        let parent = key.cell.word(16)?;
        if parent != self.cell.at || at == self.hive.root {
            return Err(key
                .cell
                .fault(16, "a key of the hive stands under another than its parent")
                .expected(format!("{:#x}", self.cell.at))
                .found(format!("{parent:#x}")));
        }
        if key.depth > DEEPEST {
            return Err(key
                .cell
                .fault(0, format!("keys lie more than {DEEPEST} deep")));
        }
        Ok(key)
    }

    /// Where the subkeys are. The lists must hold as many as the key says, each once.
    fn places(&self) -> Result<Vec<u32>> {
        let count = self.cell.word(20)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let list = self.hive.cell(self.cell.word(28)?)?;
        let mut places = Vec::new();
        if list.bytes.starts_with(b"ri") {
            for i in 0..list.half(2)? {
                let leaf = self.hive.cell(list.word(4 + 4 * usize::from(i))?)?;
                leaf_places(&leaf, &mut places)?;
                if places.len() > count as usize {
                    break;
                }
            }
        } else {
            leaf_places(&list, &mut places)?;
        }
        if places.len() != count as usize {
            return Err(self
                .cell
                .fault(20, "a key of the hive and its list of subkeys disagree")
                .expected(format!("{count} subkeys"))
                .found(places.len()));
        }
        let once: BTreeSet<_> = places.iter().collect();
        if once.len() != places.len() {
            return Err(list.fault(0, "a list of subkeys names one key twice"));
        }
        Ok(places)
    }

    fn value_cells(&self) -> Result<impl Iterator<Item = Result<Cell<'h>>> + use<'h>> {
        let count = self.cell.word(36)? as usize;
        let hive = self.hive;
        let list = if count == 0 {
            None
        } else {
            let list = hive.cell(self.cell.word(40)?)?;
            list.part(0, count.saturating_mul(4), "a list of values")?;
            Some(list)
        };
        let places = list.into_iter().flat_map(move |list| {
            (0..count).map(move |i| {
                let cell = hive.cell(list.word(4 * i)?)?;
                cell.is(b"vk", "a value", VALUE)?;
                Ok(cell)
            })
        });
        Ok(places)
    }

    fn data(&self, cell: &Cell<'h>) -> Result<Data> {
        let kind = cell.word(12)?;
        let bytes = match length(cell)? {
            (len, true) => cell.part(8, len, "a short value")?.to_vec(),
            (0, false) => Vec::new(),
            (len, false) => self.stored(cell.word(8)?, len)?,
        };
        Ok(Data::of(kind, bytes))
    }

    /// Data in a cell of its own, or cut into segments as hives since version 1.4 keep what is larger than one.
    fn stored(&self, at: u32, len: usize) -> Result<Vec<u8>> {
        let cell = self.hive.cell(at)?;
        let cut = len > SEGMENT && self.hive.minor >= 4;
        if !cut || cell.bytes.len() >= len {
            return cell.part(0, len, "a value").map(<[u8]>::to_vec);
        }
        cell.is(b"db", "a list of a value's segments", 8)?;
        let count = usize::from(cell.half(2)?);
        if count != len.div_ceil(SEGMENT) || len > self.hive.capacity() {
            return Err(cell
                .fault(2, "a large value is not cut as its length demands")
                .expected(format!(
                    "{} segments for {len} bytes",
                    len.div_ceil(SEGMENT)
                ))
                .found(count));
        }
        let list = self.hive.cell(cell.word(4)?)?;
        let mut bytes = Vec::with_capacity(len);
        for i in 0..count {
            let segment = self.hive.cell(list.word(4 * i)?)?;
            let part = SEGMENT.min(len - bytes.len());
            bytes.extend(segment.part(0, part, "a segment of a value")?);
        }
        Ok(bytes)
    }
}

/// The keys that a leaf lists: `lf` and `lh` carry a hint beside each, `li` does not. An index of indexes is refused.
fn leaf_places(leaf: &Cell<'_>, places: &mut Vec<u32>) -> Result<()> {
    let step = match leaf.bytes {
        [b'l', b'f' | b'h', ..] => 8,
        [b'l', b'i', ..] => 4,
        _ => {
            leaf.is(b"lh", "a list of subkeys", 4)?;
            8
        }
    };
    for i in 0..leaf.half(2)? {
        places.push(leaf.word(4 + step * usize::from(i))?);
    }
    Ok(())
}

fn value_name(cell: &Cell<'_>) -> Result<String> {
    cell.name(VALUE, cell.half(2)?, cell.half(16)? & 1 != 0)
}

/// Bytes of a value's data, and whether they stand in place of the data's offset.
fn length(cell: &Cell<'_>) -> Result<(usize, bool)> {
    let word = cell.word(4)?;
    let (len, short) = (word & 0x7fff_ffff, word & 0x8000_0000 != 0);
    if short && len > 4 {
        return Err(cell
            .fault(4, "a short value is too long")
            .expected("at most 4 bytes")
            .found(len));
    }
    Ok((len as usize, short))
}

/// Cells have one owner each; lists that add up to more than the hive would fill the memory.
fn spend(budget: &mut usize, len: usize, cell: &Cell<'_>) -> Result<()> {
    *budget = budget.checked_sub(len).ok_or_else(|| {
        cell.fault(
            0,
            "a list of the hive adds up to more than the hive has: its cells are used twice",
        )
    })?;
    Ok(())
}
