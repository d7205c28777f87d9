//! VERSIONINFO in a program's resources.
//!
//! Every version resource of every language is read, since Windows chooses one by the user's. Refuses resources that lead
//! outside of their section, and more of them than any program has.

use super::{Said, Version};
use crate::Refusal;
use crate::authenticode::source::Source;
use crate::tlv;

/// The kind of a resource that holds VS_VERSIONINFO. (winuser.h: RT_VERSION)
const RT_VERSION: u32 = 16;
const MOST_RESOURCES: usize = 64;
const LONGEST: u32 = 64 << 10;
/// VS_FIXEDFILEINFO
const FIXED: usize = 52;
const FIXED_MARK: [u8; 4] = 0xfeef_04bd_u32.to_le_bytes();

/// Where memory of a program comes from: its address, its size in the file, and its offset there.
struct Section {
    address: u64,
    size: u64,
    offset: u64,
}

pub(super) fn said(file: &mut Source) -> Result<Said, Refusal> {
    let mut said = Said::default();
    for (offset, size) in version_resources(file)? {
        let bytes = file.bytes(offset, size as usize)?;
        let bytes = bytes.ok_or_else(|| file.cut_off(offset + u64::from(size)))?;
        let (root, _) = Block::read(&bytes).ok_or_else(|| malformed("cannot be read"))?;
        info(&root, &mut said)?;
    }
    Ok(said)
}

fn version_resources(file: &mut Source) -> Result<Vec<(u64, u32)>, Refusal> {
    let start = u64::from(file.u32(0x3c)?);
    let sections = file.u16(start + 6)?;
    let optional = start + 24;
    let directories = match file.u16(optional)? {
        0x10b => optional + 96,
        _ => optional + 112,
    };
    let table = optional + u64::from(file.u16(start + 20)?);
    // The third directory is that of resources.
    if directories + 24 > table || file.u32(directories - 4)? < 3 {
        return Ok(Vec::new());
    }
    let address = u64::from(file.u32(directories + 16)?);
    if address == 0 {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for number in 0..u64::from(sections) {
        let at = table + number * 40;
        all.push(Section {
            address: file.u32(at + 12)?.into(),
            size: file.u32(at + 16)?.into(),
            offset: file.u32(at + 20)?.into(),
        });
    }
    let place = |address: u64, size: u64| {
        let inside = |s: &&Section| address >= s.address && address + size <= s.address + s.size;
        all.iter()
            .find(inside)
            .map(|s| s.offset + (address - s.address))
            .ok_or_else(|| malformed("leads outside of the program"))
    };
    let root = place(address, 16)?;
    let mut found = Vec::new();
    for kind in entries(file, root, 0)? {
        if kind.id != RT_VERSION || !kind.is_folder {
            continue;
        }
        for name in entries(file, root, kind.at)?
            .into_iter()
            .filter(|e| e.is_folder)
        {
            for language in entries(file, root, name.at)?
                .into_iter()
                .filter(|e| !e.is_folder)
            {
                let at = root + u64::from(language.at);
                let (address, size) = (file.u32(at)?, file.u32(at + 4)?);
                if size > LONGEST || found.len() == MOST_RESOURCES {
                    return Err(malformed("is larger than any is"));
                }
                found.push((place(address.into(), size.into())?, size));
            }
        }
    }
    Ok(found)
}

/// An entry of a folder of resources.
struct Entry {
    id: u32,
    /// From the beginning of all resources.
    at: u32,
    is_folder: bool,
}

fn entries(file: &mut Source, root: u64, at: u32) -> Result<Vec<Entry>, Refusal> {
    let at = root + u64::from(at);
    let count = usize::from(file.u16(at + 12)?) + usize::from(file.u16(at + 14)?);
    if count > 4096 {
        return Err(malformed("is larger than any is"));
    }
    let mut found = Vec::with_capacity(count);
    for number in 0..count as u64 {
        let place = at + 16 + number * 8;
        let (id, to) = (file.u32(place)?, file.u32(place + 4)?);
        found.push(Entry {
            id,
            at: to & 0x7fff_ffff,
            is_folder: to & 0x8000_0000 != 0,
        });
    }
    Ok(found)
}

/// VS_VERSIONINFO and what is in it: a length, the length of a value, a key in UTF-16, the value, and more such blocks.
struct Block<'a> {
    key: String,
    value: &'a [u8],
    /// From the value on.
    rest: &'a [u8],
}

impl<'a> Block<'a> {
    /// The block, and what follows it.
    fn read(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let length = usize::from(u16_at(bytes, 0)?);
        let whole = bytes.get(..length)?;
        let value = usize::from(u16_at(whole, 2)?);
        let is_text = u16_at(whole, 4)? == 1;
        let (units, _) = whole.get(6..)?.as_chunks::<2>();
        let end = units.iter().position(|unit| *unit == [0, 0])?;
        let key = utf16(units.get(..end)?);
        let start = (6 + 2 * (end + 1)).next_multiple_of(4).min(length);
        let rest = whole.get(start..)?;
        // Of text the length counts characters.
        let bytes_of = if is_text { value * 2 } else { value };
        let value = rest.get(..bytes_of.min(rest.len()))?;
        let after = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((Self { key, value, rest }, after))
    }

    fn children(&self, from: usize) -> Vec<Self> {
        let mut rest = self.rest.get(from..).unwrap_or_default();
        let mut found = Vec::new();
        while let Some((block, after)) = Block::read(rest).filter(|_| rest.len() >= 6) {
            found.push(block);
            rest = after;
        }
        found
    }
}

fn info(root: &Block<'_>, said: &mut Said) -> Result<(), Refusal> {
    if root.key != "VS_VERSION_INFO" {
        return Err(malformed("is none"));
    }
    if let Some(fixed) = root.value.first_chunk::<FIXED>() {
        if !fixed.starts_with(&FIXED_MARK) {
            return Err(malformed("is none"));
        }
        let part = |at: usize| u16::from_le_bytes([fixed[at], fixed[at + 1]]);
        said.versions
            .push(Version([part(10), part(8), part(14), part(12)]));
    }
    for strings in root.children(root.value.len().next_multiple_of(4)) {
        if strings.key != "StringFileInfo" {
            continue;
        }
        for table in strings.children(0) {
            for one in table.children(0) {
                let (units, _) = one.value.as_chunks::<2>();
                let end = units.iter().position(|unit| *unit == [0, 0]);
                let text = utf16(units.get(..end.unwrap_or(units.len())).unwrap_or_default());
                match one.key.as_str() {
                    "ProductName" => said.products.push(text.trim().to_string()),
                    "OriginalFilename" => said.original_filenames.push(text.trim().to_string()),
                    _ => {}
                }
            }
        }
    }
    Ok(())
}

fn utf16(units: &[[u8; 2]]) -> String {
    let units: Vec<u16> = units.iter().copied().map(u16::from_le_bytes).collect();
    String::from_utf16_lossy(&units)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk::<2>()?))
}

fn malformed(fact: &str) -> Refusal {
    tlv::malformed("the file's version information", fact)
}
