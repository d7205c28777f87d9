//! Keys: their names, their values, and their subkeys in the four kinds of lists.

use std::collections::BTreeSet;

use super::cell::HiveCell;
use super::{Hive, HiveValueData, same_name};
use winimg_base::error::Result;

/// Maximum depth of a registry tree (Microsoft: Registry Element Size Limits).
const MAX_DEPTH: u32 = 512;
/// Bytes in each segment of a value that is stored in segments.
const SEGMENT: usize = 16344;
/// Bytes before the name in the cell of a key, and of a value.
const KEY_HEADER: usize = 76;
const VALUE_HEADER: usize = 20;

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
        cell.require_kind(b"nk", "a key", KEY_HEADER)?;
        let len = cell.read_u16(72)?;
        let short = cell.read_u16(2)? & 0x20 != 0;
        Ok(Self {
            name: cell.read_name(KEY_HEADER, len, short)?,
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
        for at in self.read_subkey_offsets()? {
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
            for at in key.read_subkey_offsets()? {
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
        let parent = key.cell.read_u32(16)?;
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
        if key.depth > MAX_DEPTH {
            return Err(key.cell.report_fault(
                0,
                format!("keys are nested more than {MAX_DEPTH} levels deep"),
            ));
        }
        Ok(key)
    }

    /// Reads the offsets of the subkeys. The lists must have the key's number of subkeys, each
    /// once.
    fn read_subkey_offsets(&self) -> Result<Vec<u32>> {
        let count = self.cell.read_u32(20)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let list = self.hive.find_cell(self.cell.read_u32(28)?)?;
        let mut offsets = Vec::new();
        if list.bytes.starts_with(b"ri") {
            for i in 0..list.read_u16(2)? {
                let leaf = self
                    .hive
                    .find_cell(list.read_u32(4 + 4 * usize::from(i))?)?;
                collect_leaf_offsets(&leaf, &mut offsets)?;
                if offsets.len() > count as usize {
                    break;
                }
            }
        } else {
            collect_leaf_offsets(&list, &mut offsets)?;
        }
        if offsets.len() != count as usize {
            return Err(self
                .cell
                .report_fault(20, "a key of the hive and its list of subkeys disagree")
                .expected(format!("{count} subkeys"))
                .found(offsets.len()));
        }
        let distinct: BTreeSet<_> = offsets.iter().collect();
        if distinct.len() != offsets.len() {
            return Err(list.report_fault(0, "a list of subkeys has the same key twice"));
        }
        Ok(offsets)
    }

    fn value_cells(&self) -> Result<impl Iterator<Item = Result<HiveCell<'h>>> + use<'h>> {
        let count = self.cell.read_u32(36)? as usize;
        let hive = self.hive;
        let list = if count == 0 {
            None
        } else {
            let list = hive.find_cell(self.cell.read_u32(40)?)?;
            list.take_bytes(0, count.saturating_mul(4), "a list of values")?;
            Some(list)
        };
        let offsets = list.into_iter().flat_map(move |list| {
            (0..count).map(move |i| {
                let cell = hive.find_cell(list.read_u32(4 * i)?)?;
                cell.require_kind(b"vk", "a value", VALUE_HEADER)?;
                Ok(cell)
            })
        });
        Ok(offsets)
    }

    fn read_data(&self, cell: &HiveCell<'h>) -> Result<HiveValueData> {
        let kind = cell.read_u32(12)?;
        let bytes = match read_length(cell)? {
            (len, true) => cell.take_bytes(8, len, "a short value")?.to_vec(),
            (0, false) => Vec::new(),
            (len, false) => self.read_large(cell.read_u32(8)?, len)?,
        };
        Ok(HiveValueData::decode(kind, bytes))
    }

    /// Reads data from its own cell, or from segments if it is larger than one (since hive version
    /// 1.4).
    fn read_large(&self, at: u32, len: usize) -> Result<Vec<u8>> {
        let cell = self.hive.find_cell(at)?;
        let has_segments = len > SEGMENT && self.hive.minor >= 4;
        if !has_segments || cell.bytes.len() >= len {
            return cell.take_bytes(0, len, "a value").map(<[u8]>::to_vec);
        }
        cell.require_kind(b"db", "a list of a value's segments", 8)?;
        let count = usize::from(cell.read_u16(2)?);
        if count != len.div_ceil(SEGMENT) || len > self.hive.capacity() {
            return Err(cell
                .report_fault(2, "a large value has a wrong number of segments")
                .expected(format!(
                    "{} segments for {len} bytes",
                    len.div_ceil(SEGMENT)
                ))
                .found(count));
        }
        let list = self.hive.find_cell(cell.read_u32(4)?)?;
        let mut bytes = Vec::with_capacity(len);
        for i in 0..count {
            let segment = self.hive.find_cell(list.read_u32(4 * i)?)?;
            let part = SEGMENT.min(len - bytes.len());
            bytes.extend(segment.take_bytes(0, part, "a segment of a value")?);
        }
        Ok(bytes)
    }
}

/// Collects the keys of a leaf: `lf` and `lh` have a hint beside each, `li` does not. An index of
/// indexes is refused.
fn collect_leaf_offsets(leaf: &HiveCell<'_>, offsets: &mut Vec<u32>) -> Result<()> {
    let step = match leaf.bytes {
        [b'l', b'f' | b'h', ..] => 8,
        [b'l', b'i', ..] => 4,
        _ => {
            leaf.require_kind(b"lh", "a list of subkeys", 4)?;
            8
        }
    };
    for i in 0..leaf.read_u16(2)? {
        offsets.push(leaf.read_u32(4 + step * usize::from(i))?);
    }
    Ok(())
}

fn value_name(cell: &HiveCell<'_>) -> Result<String> {
    cell.read_name(VALUE_HEADER, cell.read_u16(2)?, cell.read_u16(16)? & 1 != 0)
}

/// Reads the length of a value's data, and returns true if the data replaces its offset.
fn read_length(cell: &HiveCell<'_>) -> Result<(usize, bool)> {
    let word = cell.read_u32(4)?;
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
