//! The parent of a differencing VHDX: how the child names it, where it is, and whether it is still the one.
//!
//! Source: Microsoft, [MS-VHDX] 2.6.2.6 (Parent Locator).

use std::fmt;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::{MIB, damaged, guid, read};
use crate::bytes::{u16_le, u32_le, utf16_le};
use crate::disk::blocks::refused as unreadable;
use crate::disk::{RawDisk, backing};
use winimg_base::error::{Error, Result};

/// The only kind of locator there is.
const VHDX: Uuid = Uuid::from_u128(0xb04aefb7_d19e_4a81_b789_25b8e9445913);
const RELATIVE: &str = "relative_path";
/// The keys that name a place, in the order in which they are tried.
const PLACES: [&str; 3] = [RELATIVE, "volume_path", "absolute_win32_path"];
/// The second is there while a child is being merged into its parent.
const LINKAGES: [&str; 2] = ["parent_linkage", "parent_linkage2"];

/// What a child says of its parent.
#[derive(Debug, PartialEq, Eq)]
pub struct Locator {
    /// The parent's `DataWriteGuid` is one of them.
    pub linkages: Vec<Uuid>,
    /// Key and path, in the order in which they are tried.
    places: Vec<(&'static str, String)>,
}

impl Locator {
    pub fn read(file: &RawDisk, item: &Range<u64>) -> Result<Self> {
        let len = item.end - item.start;
        if len > MIB {
            let why = format!("a parent locator of {len} bytes");
            return Err(damaged(file, item.start, why));
        }
        let bytes = read(file, item.start, len, "the parent locator")?;
        if bytes.len() >= 20 && guid(&bytes) != VHDX {
            return Err(unreadable(
                file,
                format!(
                    "is a differencing VHDX whose parent is of another kind, {}",
                    guid(&bytes)
                ),
                "merge it first: Merge-VHD",
            ));
        }
        Self::parse(&bytes).map_err(|why| damaged(file, item.start, why))
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
            let Some(text) = value(bytes, &entries, key)? else {
                continue;
            };
            let id = Uuid::parse_str(&text).map_err(|_| format!("{key} is {text:?}"))?;
            linkages.push(id);
        }
        let mut places = Vec::new();
        for key in PLACES {
            places.extend(value(bytes, &entries, key)?.map(|text| (key, text)));
        }
        if value(bytes, &entries, LINKAGES[0])?.is_none() || places.is_empty() {
            return Err("a parent locator that lacks the parent's id or its place".into());
        }
        linkages.retain(|id| !id.is_nil());
        Ok(Self { linkages, places })
    }
}

/// The text of a key, which may not be there. Only the keys that are asked for are decoded.
fn value(bytes: &[u8], entries: &[&[u8]], key: &str) -> Result<Option<String>, String> {
    let wanted: Vec<u8> = key.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let part = |offset: u32, len: u16| {
        let start = offset as usize;
        bytes.get(start..start.checked_add(usize::from(len))?)
    };
    let mut found = None;
    for entry in entries {
        if part(u32_le(entry, 0), u16_le(entry, 8)) != Some(&wanted) {
            continue;
        }
        let raw = part(u32_le(entry, 4), u16_le(entry, 10))
            .ok_or_else(|| format!("{key} lies outside the parent locator"))?;
        let text = String::from_utf16(&utf16_le(raw)).ok();
        let text = text.filter(|t| !t.is_empty() && !t.contains('\0'));
        let Some(text) = text.filter(|_| raw.len().is_multiple_of(2)) else {
            return Err(format!("{key} is not text"));
        };
        if found.replace(text).is_some() {
            return Err(format!("{key} stands twice in the parent locator"));
        }
    }
    Ok(found)
}

pub fn refused(child: &RawDisk, name: impl fmt::Display) -> Error {
    Error::failed(format!("the parent {name} is refused")).at(child.path().display())
}

/// The parent's file: the first of the named places where there is one. It has to lie below `within`.
pub fn find(child: &RawDisk, locator: &Locator, within: &Path) -> Result<PathBuf> {
    let mut tried = Vec::new();
    for (key, name) in &locator.places {
        let path = match *key {
            RELATIVE => {
                let folder = child.path().parent().unwrap_or(Path::new(""));
                folder.join(name.replace('\\', "/"))
            }
            _ => PathBuf::from(name),
        };
        // Elsewhere than on Windows `\\?\d:\disk.vhdx` would be the name of a file in the current folder.
        if *key != RELATIVE && !path.is_absolute() {
            tried.push(format!("{key} {name}: not a place on this host"));
            continue;
        }
        match path.canonicalize() {
            Ok(path) => {
                return backing::plain_below(&path, within)
                    .map(|()| path)
                    .map_err(|why| {
                        refused(child, format!("{name:?}"))
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
        "the parent of {} is not there",
        child.path().display()
    ))
    .lines(tried)
    .cure("bring it back to where its child names it, or build the image again"))
}
