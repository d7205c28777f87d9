//! Reads optical media: UDF 1.02 to 2.60 as Windows media use it, and ISO 9660 with or without
//! Joliet, behind one [`Medium`].
//!
//! Microsoft's install media have their files in UDF only; their ISO 9660 tree has just a README.
//! So UDF is preferred, then Joliet, then plain ISO 9660. Read-only. Virtual and sparable
//! partitions (rewritable discs, never install media) are refused, and every number in the file is
//! bounds-checked and limited.
//!
//! Sources: ECMA-167 third edition, OSTA UDF 1.02 and 2.60, ECMA-119, Microsoft's Joliet
//! specification.

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

pub use reader::MediumFileReader;

/// Bytes in a sector of an optical medium.
pub const SECTOR: u64 = 2048;

/// Maximum number of parts of a path.
const MAX_DEPTH: usize = 64;

/// The file system used to read a medium.
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

/// A run of bytes of a file. `at` is the byte offset in the medium; `None` reads as zeros
/// (allocated, never recorded).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediumExtent {
    pub at: Option<u64>,
    /// Bytes.
    pub length: u64,
}

/// Location of a file's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediumData {
    /// Inside the file entry itself (UDF, small files).
    Embedded(Vec<u8>),
    Extents(Vec<MediumExtent>),
}

/// A file or folder of a medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediumEntry {
    /// The name alone, in the medium's own spelling; empty for the root.
    pub name: String,
    pub is_dir: bool,
    /// Bytes.
    pub size: u64,
    pub data: MediumData,
}

enum MediumTree {
    Udf(volume::UdfVolume),
    Iso(iso9660::IsoVolume),
}

/// An open medium. Readers have their own reference to the bytes.
pub struct Medium {
    pub path: PathBuf,
    bytes: Arc<dyn Disk>,
    tree: MediumTree,
    root: MediumEntry,
    pub label: String,
    pub file_system: FileSystem,
    /// The reason why an existing UDF file system is not used.
    pub remark: Option<String>,
}

impl Medium {
    /// Opens an ISO file. For a file of another kind, the error names the kind.
    pub fn open(path: &Path) -> Result<Self> {
        Self::from_bytes(Arc::new(RawDisk::open(path)?), path)
    }

    /// Opens a medium that consists of these bytes; `path` is only used in errors.
    pub fn from_bytes(bytes: Arc<dyn Disk>, path: &Path) -> Result<Self> {
        let iso = iso9660::IsoDescriptors::read(&*bytes);
        let udf = volume::UdfVolume::read(&*bytes);
        let declared_size = iso.as_ref().map_or(0, |d| d.volume_size()).max(match &udf {
            Ok(Some(v)) => v.maps.end(),
            _ => 0,
        });
        if declared_size > bytes.len() {
            return Err(refuse::refuse_truncated(path, declared_size, bytes.len()));
        }
        let udf = udf.and_then(|found| match found {
            Some(volume) => volume.read_root(&*bytes).map(|root| Some((volume, root))),
            None => Ok(None),
        });
        let mut remark = None;
        let (tree, root, label, file_system) = match (udf, iso) {
            (Ok(Some((volume, root))), _) => {
                let label = volume.label.clone();
                (MediumTree::Udf(volume), root, label, FileSystem::Udf)
            }
            (udf, Some(descriptors)) => {
                remark = udf
                    .err()
                    .map(|e| format!("its UDF file system cannot be read: {}", e.0));
                let volume = descriptors.choose_volume();
                let (root, label) = (volume.root.clone(), volume.label.clone());
                let kind = if volume.is_joliet {
                    FileSystem::Joliet
                } else {
                    FileSystem::Iso9660
                };
                (MediumTree::Iso(volume), root, label, kind)
            }
            (Err(e), None) => return Err(report_damage(path, &e)),
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

    /// Returns the size of the medium in bytes.
    pub fn size(&self) -> u64 {
        self.bytes.len()
    }

    /// Returns the raw bytes, for structures outside the file systems such as the El Torito
    /// catalog.
    pub fn bytes(&self) -> &dyn Disk {
        &*self.bytes
    }

    /// Describes the medium for errors: path, file system and label.
    pub fn describe(&self) -> String {
        let (path, label) = (self.path.display(), &self.label);
        format!("{path} ({}, label \"{label}\")", self.file_system)
    }

    /// Finds the entry at a path such as `sources/install.wim`; parts are separated by `/` or `\`
    /// and compared ignoring case.
    pub fn find(&self, path: &str) -> Result<Option<MediumEntry>> {
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
            let children = self.read_children(&here)?;
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

    /// Reads a folder, sorted by name ignoring case. A path that is not a folder is an error.
    pub fn read_dir(&self, path: &str) -> Result<Vec<MediumEntry>> {
        match self.find(path)? {
            Some(entry) if entry.is_dir => self.read_children(&entry),
            Some(_) => Err(self.report_problem(format!("{path} is a file, not a folder"))),
            None => Err(self.report_problem(format!("there is no folder {path}"))),
        }
    }

    /// Opens a reader over a file's bytes that outlives the borrow of the medium.
    pub fn open_file(&self, entry: &MediumEntry) -> MediumFileReader {
        MediumFileReader::new(Arc::clone(&self.bytes), entry.data.clone(), entry.size)
    }

    /// Reads a whole small file; more than `limit` bytes are an error.
    pub fn read(&self, entry: &MediumEntry, limit: u64) -> Result<Vec<u8>> {
        if entry.size > limit {
            return Err(self.report_problem(format!(
                "{} has {} bytes, more than the limit of {limit}",
                entry.name, entry.size
            )));
        }
        let mut out = Vec::new();
        std::io::Read::read_to_end(&mut self.open_file(entry), &mut out).map_err(|e| {
            self.report_problem(format!("cannot read {}", entry.name))
                .because(e)
        })?;
        Ok(out)
    }

    fn read_children(&self, dir: &MediumEntry) -> Result<Vec<MediumEntry>> {
        let found = match &self.tree {
            MediumTree::Udf(volume) => directory::read(&volume.maps, &*self.bytes, dir),
            MediumTree::Iso(volume) => volume.read_dir(&*self.bytes, dir),
        };
        let mut entries = found.map_err(|e| report_damage(&self.path, &e))?;
        entries.sort_by_cached_key(|e| (e.name.to_lowercase(), e.name.clone()));
        Ok(entries)
    }

    fn report_problem(&self, fact: String) -> Error {
        Error::new(Kind::Unproved, fact).at(self.path.display())
    }
}

impl fmt::Debug for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

/// Description of damage in a file system, with the byte offset.
#[derive(Debug)]
pub(crate) struct MediumDamage(pub String);

impl From<String> for MediumDamage {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for MediumDamage {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

/// Reads `length` bytes at an offset, which may be beyond the end. The caller limits `length`.
pub(crate) fn read_bytes(
    bytes: &dyn Disk,
    offset: u64,
    length: usize,
) -> Result<Vec<u8>, MediumDamage> {
    let (size, end) = (bytes.len(), offset.checked_add(length as u64));
    if end.is_none_or(|end| end > size) {
        let fact = format!("{length} bytes at offset {offset} are beyond the end at {size}");
        return Err(MediumDamage(fact));
    }
    let mut buffer = vec![0; length];
    bytes
        .read_at(offset, &mut buffer)
        .map_err(|e| e.fact_with_causes())?;
    Ok(buffer)
}

impl From<std::io::Error> for MediumDamage {
    fn from(e: std::io::Error) -> Self {
        Self(e.to_string())
    }
}

fn report_damage(path: &Path, damage: &MediumDamage) -> Error {
    Error::new(
        Kind::Unproved,
        format!("the file system of this medium is damaged: {}", damage.0),
    )
    .at(path.display())
    .cure("fetch the file again and compare its digest with the publisher's")
}
