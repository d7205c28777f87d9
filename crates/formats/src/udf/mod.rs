//! Reads optical media: UDF 1.02 to 2.60 as Windows media use it, and ISO 9660 with or without Joliet, behind one
//! [`Medium`].
//!
//! Microsoft's install media keep their files in UDF only; their ISO 9660 tree holds a README. So UDF is preferred
//! where it is, then Joliet, then plain ISO 9660. Refuses to write, to follow virtual or sparable partitions (rewritable
//! discs, never install media), and to believe any number in the file: everything is bounds-checked and limited.
//!
//! Sources: ECMA-167 third edition, OSTA UDF 1.02 and 2.60, ECMA-119, Microsoft's Joliet specification.

mod directory;
mod icb;
mod iso9660;
mod map;
mod reader;
mod refuse;
mod volume;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, RawDisk};
use winimg_base::error::{Error, Kind, Result};

pub use reader::File;

/// Bytes in a sector of an optical medium.
pub const SECTOR: u64 = 2048;

/// Longest path that is followed, in parts.
const MAX_DEPTH: usize = 64;

/// The file system that a medium is read by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    Udf,
    Joliet,
    Iso9660,
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udf => "UDF",
            Self::Joliet => "ISO 9660 with Joliet",
            Self::Iso9660 => "ISO 9660",
        })
    }
}

/// A run of bytes of a file. `at` is the byte offset in the medium; `None` reads as zeros (allocated, never recorded).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub at: Option<u64>,
    /// Bytes.
    pub length: u64,
}

/// Where a file's bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// Inside the file entry itself (UDF, small files).
    Embedded(Vec<u8>),
    Extents(Vec<Extent>),
}

/// A file or folder of a medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name alone, in the medium's own spelling; empty for the root.
    pub name: String,
    pub is_dir: bool,
    /// Bytes.
    pub size: u64,
    pub data: Data,
}

enum Tree {
    Udf(volume::Volume),
    Iso(iso9660::Volume),
}

/// An open medium. Cheap to share: readers hold their own reference to the bytes.
pub struct Medium {
    pub path: PathBuf,
    bytes: Arc<dyn Disk>,
    tree: Tree,
    root: Entry,
    pub label: String,
    pub file_system: FileSystem,
    /// Why the medium is not read by its UDF, although it has one.
    pub remark: Option<String>,
}

impl Medium {
    /// Opens an ISO file. A file that is something else is an error that says what it is.
    pub fn open(path: &Path) -> Result<Self> {
        Self::on(Arc::new(RawDisk::open(path)?), path)
    }

    /// The same over other bytes; `path` is only named in errors.
    pub fn on(bytes: Arc<dyn Disk>, path: &Path) -> Result<Self> {
        let iso = iso9660::Descriptors::read(&*bytes);
        let udf = volume::Volume::read(&*bytes);
        let said = iso.as_ref().map_or(0, |d| d.volume_size()).max(match &udf {
            Ok(Some(v)) => v.maps.end(),
            _ => 0,
        });
        if said > bytes.len() {
            return Err(refuse::truncated(path, said, bytes.len()));
        }
        let udf = udf.and_then(|found| match found {
            Some(volume) => volume.root(&*bytes).map(|root| Some((volume, root))),
            None => Ok(None),
        });
        let mut remark = None;
        let (tree, root, label, file_system) = match (udf, iso) {
            (Ok(Some((volume, root))), _) => {
                let label = volume.label.clone();
                (Tree::Udf(volume), root, label, FileSystem::Udf)
            }
            (unread, Some(descriptors)) => {
                remark = unread
                    .err()
                    .map(|e| format!("its UDF file system cannot be read: {}", e.0));
                let volume = descriptors.preferred();
                let (root, label) = (volume.root.clone(), volume.label.clone());
                let kind = if volume.joliet {
                    FileSystem::Joliet
                } else {
                    FileSystem::Iso9660
                };
                (Tree::Iso(volume), root, label, kind)
            }
            (Err(e), None) => return Err(broken(path, &e)),
            (Ok(None), None) => return Err(refuse::not_an_iso(path, &*bytes)),
        };
        Ok(Self {
            path: path.to_owned(),
            bytes,
            tree,
            root,
            label,
            file_system,
            remark,
        })
    }

    /// Bytes of the whole medium.
    pub fn size(&self) -> u64 {
        self.bytes.len()
    }

    /// The raw bytes, for structures outside the file systems such as the El Torito catalog.
    pub fn bytes(&self) -> &dyn Disk {
        &*self.bytes
    }

    /// For errors about what it is: its path, file system and label.
    pub fn described(&self) -> String {
        let (path, label) = (self.path.display(), &self.label);
        format!("{path} ({}, label \"{label}\")", self.file_system)
    }

    /// The entry at a path such as `sources/install.wim`; parts are separated by `/` or `\` and compared without case.
    pub fn find(&self, path: &str) -> Result<Option<Entry>> {
        let parts: Vec<&str> = path.split(['/', '\\']).filter(|p| !p.is_empty()).collect();
        if parts.len() > MAX_DEPTH {
            return Ok(None);
        }
        let mut here = self.root.clone();
        for part in parts {
            if !here.is_dir {
                return Ok(None);
            }
            let wanted = part.to_lowercase();
            let children = self.children(&here)?;
            match children
                .into_iter()
                .find(|e| e.name.to_lowercase() == wanted)
            {
                Some(next) => here = next,
                None => return Ok(None),
            }
        }
        Ok(Some(here))
    }

    /// What stands in a folder, sorted by name without case. A path that is no folder is an error.
    pub fn read_dir(&self, path: &str) -> Result<Vec<Entry>> {
        match self.find(path)? {
            Some(entry) if entry.is_dir => self.children(&entry),
            Some(_) => Err(self.complaint(format!("{path} is a file, not a folder"))),
            None => Err(self.complaint(format!("there is no folder {path}"))),
        }
    }

    /// A reader over a file's bytes that outlives the borrow of the medium.
    pub fn file(&self, entry: &Entry) -> File {
        File::new(Arc::clone(&self.bytes), entry.data.clone(), entry.size)
    }

    /// A whole small file; more than `limit` bytes are an error.
    pub fn read(&self, entry: &Entry, limit: u64) -> Result<Vec<u8>> {
        if entry.size > limit {
            return Err(self.complaint(format!(
                "{} has {} bytes, more than the {limit} that such a file can have",
                entry.name, entry.size
            )));
        }
        let mut out = Vec::new();
        std::io::Read::read_to_end(&mut self.file(entry), &mut out).map_err(|e| {
            self.complaint(format!("cannot read {}", entry.name))
                .because(e)
        })?;
        Ok(out)
    }

    fn children(&self, dir: &Entry) -> Result<Vec<Entry>> {
        let found = match &self.tree {
            Tree::Udf(volume) => directory::read(&volume.maps, &*self.bytes, dir),
            Tree::Iso(volume) => volume.read_dir(&*self.bytes, dir),
        };
        let mut entries = found.map_err(|e| broken(&self.path, &e))?;
        entries.sort_by_cached_key(|e| (e.name.to_lowercase(), e.name.clone()));
        Ok(entries)
    }

    fn complaint(&self, fact: String) -> Error {
        Error::new(Kind::Unproved, fact).at(self.path.display())
    }
}

impl fmt::Debug for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.described())
    }
}

/// What is wrong with a file system, in words, with the byte offset.
#[derive(Debug)]
pub(crate) struct Damage(pub String);

impl From<String> for Damage {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Damage {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

/// `length` bytes of a medium, which may not have them. The caller has limited `length`.
pub(crate) fn take(bytes: &dyn Disk, offset: u64, length: usize) -> Result<Vec<u8>, Damage> {
    let (size, end) = (bytes.len(), offset.checked_add(length as u64));
    if end.is_none_or(|end| end > size) {
        let fact = format!("{length} bytes at offset {offset} lie beyond the end at {size}");
        return Err(Damage(fact));
    }
    let mut taken = vec![0; length];
    let read = bytes.read_at(offset, &mut taken);
    read.map_err(|e| e.with_causes())?;
    Ok(taken)
}

impl From<std::io::Error> for Damage {
    fn from(e: std::io::Error) -> Self {
        Self(e.to_string())
    }
}

fn broken(path: &Path, damage: &Damage) -> Error {
    Error::new(
        Kind::Unproved,
        format!("the file system of this medium is damaged: {}", damage.0),
    )
    .at(path.display())
    .cure("fetch the file again and compare its digest with the publisher's")
}
