//! Reads VERSIONINFO from a program's resources.
//!
//! Version resources of all languages are read, because Windows selects one by the user's language.
//! Refuses resources that point outside their section, and an implausible number of them.

use super::{FileVersion, FoundProperties};
use crate::SignatureRefusal;
use crate::authenticode::pe::PeHeaders;
use crate::authenticode::source::SignedSource;
use crate::x509::tlv;

/// Type of a resource with VS_VERSIONINFO. (winuser.h: RT_VERSION)
const RT_VERSION: u32 = 16;
const MAX_RESOURCES: usize = 64;
const MAX_RESOURCE_SIZE: u32 = 64 << 10;
/// VS_FIXEDFILEINFO
const FIXED_FILE_INFO_SIZE: usize = 52;
const FIXED_FILE_INFO_SIGNATURE: [u8; 4] = 0xfeef_04bd_u32.to_le_bytes();

/// A section of a PE file: its RVA, and its size and offset in the file.
struct PeSection {
    address: u64,
    size: u64,
    offset: u64,
}

pub(super) fn read_properties(
    file: &mut SignedSource,
) -> Result<FoundProperties, SignatureRefusal> {
    let mut properties = FoundProperties::default();
    for (offset, size) in version_resources(file)? {
        let bytes = file.read_bytes(offset, size as usize)?;
        let bytes = bytes.ok_or_else(|| file.cut_off(offset + u64::from(size)))?;
        let (root, _) = VersionBlock::read(&bytes).ok_or_else(|| malformed("cannot be read"))?;
        read_version_info(&root, &mut properties)?;
    }
    Ok(properties)
}

fn version_resources(file: &mut SignedSource) -> Result<Vec<(u64, u32)>, SignatureRefusal> {
    let headers = PeHeaders::read(file)?;
    // The third directory is that of resources.
    let Some(resources) = headers.find_directory(2) else {
        return Ok(Vec::new());
    };
    let address = u64::from(file.read_u32(resources)?);
    if address == 0 {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for number in 0..u64::from(headers.sections) {
        let at = headers.table + number * 40;
        all.push(PeSection {
            address: file.read_u32(at + 12)?.into(),
            size: file.read_u32(at + 16)?.into(),
            offset: file.read_u32(at + 20)?.into(),
        });
    }
    let root = offset_of(&all, address, 16)?;
    let mut found = Vec::new();
    for kind in read_entries(file, root, 0)? {
        if kind.id != RT_VERSION || !kind.is_directory {
            continue;
        }
        for name in read_entries(file, root, kind.at)?
            .into_iter()
            .filter(|e| e.is_directory)
        {
            for language in read_entries(file, root, name.at)?
                .into_iter()
                .filter(|e| !e.is_directory)
            {
                let at = root + u64::from(language.at);
                let (address, size) = (file.read_u32(at)?, file.read_u32(at + 4)?);
                if size > MAX_RESOURCE_SIZE {
                    return Err(malformed("is too large"));
                }
                if found.len() == MAX_RESOURCES {
                    return Err(malformed("has too many entries"));
                }
                found.push((offset_of(&all, address.into(), size.into())?, size));
            }
        }
    }
    Ok(found)
}

/// Returns the file offset of an RVA.
fn offset_of(sections: &[PeSection], address: u64, size: u64) -> Result<u64, SignatureRefusal> {
    sections
        .iter()
        .find(|s| address >= s.address && address + size <= s.address + s.size)
        .map(|s| s.offset + (address - s.address))
        .ok_or_else(|| malformed("points outside the program"))
}

/// An entry of a resource directory.
struct ResourceEntry {
    id: u32,
    /// Offset from the start of all resources.
    at: u32,
    is_directory: bool,
}

fn read_entries(
    file: &mut SignedSource,
    root: u64,
    at: u32,
) -> Result<Vec<ResourceEntry>, SignatureRefusal> {
    let at = root + u64::from(at);
    let count = usize::from(file.read_u16(at + 12)?) + usize::from(file.read_u16(at + 14)?);
    if count > 4096 {
        return Err(malformed("has too many entries"));
    }
    let mut found = Vec::with_capacity(count);
    for number in 0..count as u64 {
        let entry = at + 16 + number * 8;
        let (id, target) = (file.read_u32(entry)?, file.read_u32(entry + 4)?);
        found.push(ResourceEntry {
            id,
            at: target & 0x7fff_ffff,
            is_directory: target & 0x8000_0000 != 0,
        });
    }
    Ok(found)
}

/// VS_VERSIONINFO or a nested block: a length, the length of a value, a key in UTF-16, the value,
/// and nested blocks.
struct VersionBlock<'a> {
    key: String,
    value: &'a [u8],
    /// The bytes from the value on.
    rest: &'a [u8],
}

impl<'a> VersionBlock<'a> {
    /// Reads a block. Returns it with the bytes after it.
    fn read(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let length = usize::from(u16_at(bytes, 0)?);
        let whole = bytes.get(..length)?;
        let value = usize::from(u16_at(whole, 2)?);
        let is_text = u16_at(whole, 4)? == 1;
        let (units, _) = whole.get(6..)?.as_chunks::<2>();
        let end = units.iter().position(|unit| *unit == [0, 0])?;
        let key = decode_utf16(units.get(..end)?);
        let start = (6 + 2 * (end + 1)).next_multiple_of(4).min(length);
        let rest = whole.get(start..)?;
        // The length of text is in characters.
        let bytes_of = if is_text { value * 2 } else { value };
        let value = rest.get(..bytes_of.min(rest.len()))?;
        let after = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((Self { key, value, rest }, after))
    }

    fn read_children(&self, from: usize) -> Vec<Self> {
        let mut rest = self.rest.get(from..).unwrap_or_default();
        let mut found = Vec::new();
        while let Some((block, after)) = VersionBlock::read(rest).filter(|_| rest.len() >= 6) {
            found.push(block);
            rest = after;
        }
        found
    }
}

fn read_version_info(
    root: &VersionBlock<'_>,
    properties: &mut FoundProperties,
) -> Result<(), SignatureRefusal> {
    if root.key != "VS_VERSION_INFO" {
        return Err(malformed("is not VS_VERSIONINFO"));
    }
    if let Some(fixed) = root.value.first_chunk::<FIXED_FILE_INFO_SIZE>() {
        if !fixed.starts_with(&FIXED_FILE_INFO_SIGNATURE) {
            return Err(malformed("is not VS_VERSIONINFO"));
        }
        // dwFileVersionMS and dwFileVersionLS: little-endian, so the high word comes second.
        properties.versions.push(FileVersion(
            [10, 8, 14, 12].map(|at| u16::from_le_bytes([fixed[at], fixed[at + 1]])),
        ));
    }
    for strings in root.read_children(root.value.len().next_multiple_of(4)) {
        if strings.key != "StringFileInfo" {
            continue;
        }
        for table in strings.read_children(0) {
            for one in table.read_children(0) {
                let (units, _) = one.value.as_chunks::<2>();
                let end = units.iter().position(|unit| *unit == [0, 0]);
                let text =
                    decode_utf16(units.get(..end.unwrap_or(units.len())).unwrap_or_default());
                match one.key.as_str() {
                    "ProductName" => properties.products.push(text.trim().to_string()),
                    "OriginalFilename" => {
                        properties.original_filenames.push(text.trim().to_string())
                    }
                    _ => {}
                }
            }
        }
    }
    Ok(())
}

fn decode_utf16(units: &[[u8; 2]]) -> String {
    let units: Vec<u16> = units.iter().copied().map(u16::from_le_bytes).collect();
    String::from_utf16_lossy(&units)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk::<2>()?))
}

fn malformed(fact: &str) -> SignatureRefusal {
    tlv::refuse_malformed("the file's version information", fact)
}
