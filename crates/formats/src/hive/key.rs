//! Keys: their names, their values, and their subkeys in the four kinds of lists.

use std::collections::BTreeSet;

use super::cell::HiveCell;
use super::{Hive, HiveValueData, same_name};
use winimg_base::error::Result;

/// Microsoft, "Registry Element Size Limits": a registry tree can be 512 levels deep.
const DEEPEST: u32 = 512;
/// Bytes in each segment of a value stored in several.
const SEGMENT: usize = 16344;
/// Bytes of a key's cell before its name, and of a value's.
const KEY: usize = 76;
const VALUE: usize = 20;

/// One key of a hive.
pub struct HiveKey<'h> {
    hive: &'h Hive,
    cell: HiveCell<'h>,
    name: String,
    depth: u32,
}

impl<'h> HiveKey<'h> {
    pub(super) fn open_root(hive: &'h Hive, at: u32) -> Result<Self> {
        Self::open_at(hive, at, 0)
    }

    fn open_at(hive: &'h Hive, at: u32, depth: u32) -> Result<Self> {
        let cell = hive.find_cell(at)?;
        cell.is(b"nk", "a key", KEY)?;
        let len = cell.read_half(72)?;
        let short = cell.read_half(2)? & 0x20 != 0;
        Ok(Self {
            name: cell.name(KEY, len, short)?,
            hive,
            cell,
            depth,
        })
    }

    /// Returns the name as first written; for the root an arbitrary name (`ROOT`,
    /// `CsiTool-CreateHive-…`).
    pub fn name(&self) -> String {
        self.name.clone()
    }

    /// Reads the subkeys, in the hive's order: by name.
    pub fn read_keys(&self) -> Result<Vec<HiveKey<'h>>> {
        let mut keys = Vec::new();
        let mut budget = self.hive.capacity();
        for at in self.read_places()? {
            let key = self.read_child(at)?;
            consume_budget(&mut budget, key.cell.bytes.len(), &key.cell)?;
            keys.push(key);
        }
        Ok(keys)
    }

    /// Finds the key at a path below this one, ignoring case. The empty path is this key.
    pub fn find_key(&self, path: &str) -> Result<Option<HiveKey<'h>>> {
        let mut key = Self::open_at(self.hive, self.cell.at, self.depth)?;
        for name in path.split('\\').filter(|n| !n.is_empty()) {
            let mut next = None;
            for at in key.read_places()? {
                let child = key.read_child(at)?;
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

    /// Reads the names and data of the values, in creation order. The default value has the empty
    /// name.
    pub fn read_values(&self) -> Result<Vec<(String, HiveValueData)>> {
        let mut values = Vec::new();
        let mut budget = self.hive.capacity();
        for cell in self.value_cells()? {
            let cell = cell?;
            let name = value_name(&cell)?;
            let (len, _) = read_length(&cell)?;
            consume_budget(&mut budget, cell.bytes.len().saturating_add(len), &cell)?;
            values.push((name, self.read_data(&cell)?));
        }
        Ok(values)
    }

    /// Finds a value by name, ignoring case; `""` is the default value.
    pub fn find_value(&self, name: &str) -> Result<Option<HiveValueData>> {
        for cell in self.value_cells()? {
            let cell = cell?;
            if same_name(&value_name(&cell)?, name) {
                return self.read_data(&cell).map(Some);
            }
        }
        Ok(None)
    }

    /// Reads a subkey. Each refers to its parent, and the root has none, so there can be no cycle.
    fn read_child(&self, at: u32) -> Result<HiveKey<'h>> {
        let key = Self::open_at(self.hive, at, self.depth + 1)?;
        let parent = key.cell.read_word(16)?;
        if parent != self.cell.at || at == self.hive.root {
            return Err(key
                .cell
                .report_fault(
                    16,
                    "a key of the hive is listed under a key that is not its parent",
                )
                .expected(format!("{:#x}", self.cell.at))
                .found(format!("{parent:#x}")));
        }
        if key.depth > DEEPEST {
            return Err(key.cell.report_fault(
                0,
                format!("keys are nested more than {DEEPEST} levels deep"),
            ));
        }
        Ok(key)
    }

    /// Reads the offsets of the subkeys. The lists must have the key's number of subkeys, each
    /// once.
    fn read_places(&self) -> Result<Vec<u32>> {
        let count = self.cell.read_word(20)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let list = self.hive.find_cell(self.cell.read_word(28)?)?;
        let mut places = Vec::new();
        if list.bytes.starts_with(b"ri") {
            for i in 0..list.read_half(2)? {
                let leaf = self
                    .hive
                    .find_cell(list.read_word(4 + 4 * usize::from(i))?)?;
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
                .report_fault(20, "a key of the hive and its list of subkeys disagree")
                .expected(format!("{count} subkeys"))
                .found(places.len()));
        }
        let once: BTreeSet<_> = places.iter().collect();
        if once.len() != places.len() {
            return Err(list.report_fault(0, "a list of subkeys has one key twice"));
        }
        Ok(places)
    }

    fn value_cells(&self) -> Result<impl Iterator<Item = Result<HiveCell<'h>>> + use<'h>> {
        let count = self.cell.read_word(36)? as usize;
        let hive = self.hive;
        let list = if count == 0 {
            None
        } else {
            let list = hive.find_cell(self.cell.read_word(40)?)?;
            list.take_bytes(0, count.saturating_mul(4), "a list of values")?;
            Some(list)
        };
        let places = list.into_iter().flat_map(move |list| {
            (0..count).map(move |i| {
                let cell = hive.find_cell(list.read_word(4 * i)?)?;
                cell.is(b"vk", "a value", VALUE)?;
                Ok(cell)
            })
        });
        Ok(places)
    }

    fn read_data(&self, cell: &HiveCell<'h>) -> Result<HiveValueData> {
        let kind = cell.read_word(12)?;
        let bytes = match read_length(cell)? {
            (len, true) => cell.take_bytes(8, len, "a short value")?.to_vec(),
            (0, false) => Vec::new(),
            (len, false) => self.read_stored(cell.read_word(8)?, len)?,
        };
        Ok(HiveValueData::decode(kind, bytes))
    }

    /// Reads data from its own cell, or from segments if it is larger than one (since hive version
    /// 1.4).
    fn read_stored(&self, at: u32, len: usize) -> Result<Vec<u8>> {
        let cell = self.hive.find_cell(at)?;
        let has_segments = len > SEGMENT && self.hive.minor >= 4;
        if !has_segments || cell.bytes.len() >= len {
            return cell.take_bytes(0, len, "a value").map(<[u8]>::to_vec);
        }
        cell.is(b"db", "a list of a value's segments", 8)?;
        let count = usize::from(cell.read_half(2)?);
        if count != len.div_ceil(SEGMENT) || len > self.hive.capacity() {
            return Err(cell
                .report_fault(2, "a large value has a wrong number of segments")
                .expected(format!(
                    "{} segments for {len} bytes",
                    len.div_ceil(SEGMENT)
                ))
                .found(count));
        }
        let list = self.hive.find_cell(cell.read_word(4)?)?;
        let mut bytes = Vec::with_capacity(len);
        for i in 0..count {
            let segment = self.hive.find_cell(list.read_word(4 * i)?)?;
            let part = SEGMENT.min(len - bytes.len());
            bytes.extend(segment.take_bytes(0, part, "a segment of a value")?);
        }
        Ok(bytes)
    }
}

/// Collects the keys of a leaf: `lf` and `lh` have a hint beside each, `li` does not. An index of
/// indexes is refused.
fn leaf_places(leaf: &HiveCell<'_>, places: &mut Vec<u32>) -> Result<()> {
    let step = match leaf.bytes {
        [b'l', b'f' | b'h', ..] => 8,
        [b'l', b'i', ..] => 4,
        _ => {
            leaf.is(b"lh", "a list of subkeys", 4)?;
            8
        }
    };
    for i in 0..leaf.read_half(2)? {
        places.push(leaf.read_word(4 + step * usize::from(i))?);
    }
    Ok(())
}

fn value_name(cell: &HiveCell<'_>) -> Result<String> {
    cell.name(VALUE, cell.read_half(2)?, cell.read_half(16)? & 1 != 0)
}

/// Reads the length of a value's data, and returns true if the data replaces its offset.
fn read_length(cell: &HiveCell<'_>) -> Result<(usize, bool)> {
    let word = cell.read_word(4)?;
    let (len, short) = (word & 0x7fff_ffff, word & 0x8000_0000 != 0);
    if short && len > 4 {
        return Err(cell
            .report_fault(4, "a short value is too long")
            .expected("at most 4 bytes")
            .found(len));
    }
    Ok((len as usize, short))
}

/// Limits the total of a list to the size of the hive, since each cell has one owner.
fn consume_budget(budget: &mut usize, len: usize, cell: &HiveCell<'_>) -> Result<()> {
    *budget = budget.checked_sub(len).ok_or_else(|| {
        cell.report_fault(
            0,
            "a list of the hive is larger than the hive: its cells are used twice",
        )
    })?;
    Ok(())
}
