//! The parent of a differencing VHDX: parses the child's locator and finds the file.
//!
//! Source: Microsoft, [MS-VHDX] 2.6.2.6 (Parent Locator).

use std::fmt;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::{MIB, parse_guid, read, report_damaged};
use crate::bytes::{u16_le, u32_le, utf16_le};
use crate::disk::blocks::refuse_file;
use crate::disk::{RawDisk, backing};
use winimg_base::error::{Error, Result};

/// The only defined kind of locator.
const VHDX: Uuid = Uuid::from_u128(0xb04aefb7_d19e_4a81_b789_25b8e9445913);
const RELATIVE: &str = "relative_path";
/// The keys with a path, in the order in which they are tried.
const PLACES: [&str; 3] = [RELATIVE, "volume_path", "absolute_win32_path"];
/// The second is only present while a child is being merged into its parent.
const LINKAGES: [&str; 2] = ["parent_linkage", "parent_linkage2"];

/// A child's reference to its parent.
#[derive(Debug, PartialEq, Eq)]
pub struct ParentLocator {
    /// Accepted values of the parent's `DataWriteGuid`.
    pub linkages: Vec<Uuid>,
    /// Key and path, in the order in which they are tried.
    places: Vec<(&'static str, String)>,
}

impl ParentLocator {
    pub fn read(file: &RawDisk, item: &Range<u64>) -> Result<Self> {
        let len = item.end - item.start;
        if len > MIB {
            let why = format!("a parent locator of {len} bytes");
            return Err(report_damaged(file, item.start, why));
        }
        let bytes = read(file, item.start, len, "the parent locator")?;
        if bytes.len() >= 20 && parse_guid(&bytes) != VHDX {
            return Err(refuse_file(
                file,
                format!(
                    "is a differencing VHDX with an unknown kind of parent, {}",
                    parse_guid(&bytes)
                ),
                "merge it first: Merge-VHD",
            ));
        }
        Self::parse(&bytes).map_err(|why| report_damaged(file, item.start, why))
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() < 20 {
            return Err(format!("a parent locator of {} bytes", bytes.len()));
        }
        let count = usize::from(u16_le(bytes, 18));
        let entries = bytes[20..].chunks_exact(12);
        if count > entries.len() {
            return Err(format!("a parent locator with {count} entries"));
        }
        let entries: Vec<&[u8]> = entries.take(count).collect();
        let mut linkages = Vec::new();
        for key in LINKAGES {
            let Some(text) = find_value(bytes, &entries, key)? else {
                continue;
            };
            let id = Uuid::parse_str(&text).map_err(|_| format!("{key} is {text:?}"))?;
            linkages.push(id);
        }
        let mut places = Vec::new();
        for key in PLACES {
            places.extend(find_value(bytes, &entries, key)?.map(|text| (key, text)));
        }
        if find_value(bytes, &entries, LINKAGES[0])?.is_none() || places.is_empty() {
            return Err("a parent locator without the parent's id or path".into());
        }
        linkages.retain(|id| !id.is_nil());
        Ok(Self { linkages, places })
    }
}

/// Finds the text of a key, which is optional. Other keys are not decoded.
fn find_value(bytes: &[u8], entries: &[&[u8]], key: &str) -> Result<Option<String>, String> {
    let wanted: Vec<u8> = key.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut found = None;
    for entry in entries {
        if slice_at(bytes, u32_le(entry, 0), u16_le(entry, 8)) != Some(&wanted) {
            continue;
        }
        let raw = slice_at(bytes, u32_le(entry, 4), u16_le(entry, 10))
            .ok_or_else(|| format!("{key} is outside the parent locator"))?;
        let text = String::from_utf16(&utf16_le(raw))
            .ok()
            .filter(|t| !t.is_empty() && !t.contains('\0') && raw.len().is_multiple_of(2))
            .ok_or_else(|| format!("{key} is not text"))?;
        if found.replace(text).is_some() {
            return Err(format!("{key} appears twice in the parent locator"));
        }
    }
    Ok(found)
}

fn slice_at(bytes: &[u8], offset: u32, len: u16) -> Option<&[u8]> {
    let start = offset as usize;
    bytes.get(start..start.checked_add(usize::from(len))?)
}

pub fn refuse_parent(child: &RawDisk, name: impl fmt::Display) -> Error {
    Error::failed(format!("the parent {name} is refused")).at(child.path().display())
}

/// Finds the parent's file: the first existing one of the locator's paths, which must be below
/// `within`.
pub fn find(child: &RawDisk, locator: &ParentLocator, within: &Path) -> Result<PathBuf> {
    let mut tried = Vec::new();
    for (key, name) in &locator.places {
        let path = match *key {
            RELATIVE => {
                let folder = child.path().parent().unwrap_or(Path::new(""));
                folder.join(name.replace('\\', "/"))
            }
            _ => PathBuf::from(name),
        };
        // Except on Windows, `\\?\d:\disk.vhdx` would be the name of a file in the current folder.
        if *key != RELATIVE && !path.is_absolute() {
            tried.push(format!("{key} {name}: not a path on this host"));
            continue;
        }
        match path.canonicalize() {
            Ok(path) => {
                return backing::plain_below(&path, within)
                    .map(|()| path)
                    .map_err(|why| {
                        refuse_parent(child, format!("{name:?}"))
                            .expected(why.expected)
                            .found(why.found)
                    });
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {
                tried.push(format!("{key} {name}: no such file"));
            }
            Err(e) => return Err(Error::io("find", &path, e).or_at(child.path().display())),
        }
    }
    Err(Error::failed(format!(
        "the parent of {} does not exist",
        child.path().display()
    ))
    .lines(tried)
    .cure("restore it to a path that its child names, or rebuild the image"))
}
