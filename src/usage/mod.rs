//! `disk-usage.json`: disk usage of an image's Windows volume by folder, and what each sealed layer
//! added.
//!
//! The schema is versioned by its name; `schemas/disk-usage-1.json` is the JSON Schema. Fields may
//! be added within a version, but are never renamed or removed. Small folders are counted in their
//! parent folder.

mod change;
mod read;

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;

pub use change::{FolderChange, compare_folders};
pub use read::{SealedUsage, from_layers, read_disk};

/// File name of the record, beside the manifest.
pub const FILE: &str = "disk-usage.json";
/// The value of `schema`.
const SCHEMA: &str = "winimg/disk-usage/1";

/// Disk usage of an image's Windows volume. All sizes are bytes in whole clusters; hard-linked
/// files count once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "winimg disk usage, version 1")]
pub struct DiskUsage {
    /// The version of this layout.
    pub schema: UsageSchema,
    /// Size of the volume in bytes.
    pub total: u64,
    /// Free bytes.
    pub free: u64,
    /// Bytes marked as used that belong to no file.
    pub unclaimed: u64,
    /// NTFS's own files, the largest first.
    pub metadata: Vec<NtfsMetadataFile>,
    /// Minimum size of a listed folder: half a percent of the used bytes.
    pub smallest: u64,
    /// The root folder.
    pub root: UsageFolder,
    /// Disk usage when each layer was sealed, oldest first; the finished disk is last. Empty if the
    /// build sealed none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerUsage>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UsageSchema {
    #[default]
    #[serde(rename = "winimg/disk-usage/1")]
    V1,
}

/// An internal file of NTFS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NtfsMetadataFile {
    /// `$MFT`
    pub name: String,
    pub bytes: u64,
}

/// A folder with everything below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsageFolder {
    /// Empty for the root.
    pub name: String,
    pub bytes: u64,
    /// Number of files below it; hard-linked files count once.
    pub files: u64,
    /// Subfolders that are not small, the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<UsageFolder>,
}

/// Disk usage when a layer was sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LayerUsage {
    /// The part of the build after which it was sealed.
    pub after: String,
    /// Used bytes.
    pub used: u64,
    /// Changes since the previous layer, the largest first.
    pub changes: Vec<FolderChange>,
}

impl DiskUsage {
    pub fn used(&self) -> u64 {
        self.total - self.free
    }

    /// Returns true if the parts do not exceed the whole, so that adding them cannot overflow.
    fn is_consistent(&self) -> bool {
        let metadata = self.metadata.iter().map(|file| file.bytes);
        let parts = metadata.chain([self.free, self.unclaimed, self.root.bytes]);
        fits_into(parts, self.total) && self.root.is_consistent()
    }

    /// Returns pretty-printed JSON with a final newline.
    pub fn to_json(&self) -> String {
        format!("{:#}\n", serde_json::json!(self))
    }

    /// Reads a record; fails if it has a different version.
    pub fn read(path: &Path) -> Result<Self> {
        let text = io::read_text_limited(path, io::limit::RECORD)
            .map_err(|e| Error::io("read", path, e))?;
        let usage: Self = serde_json::from_str(&text).map_err(|e| {
            Error::new(Kind::Failed, "this is not a winimg disk usage record")
                .at(path.display())
                .expected(format!("\"schema\": {SCHEMA:?}"))
                .because(e)
        })?;
        if !usage.is_consistent() {
            return Err(
                Error::new(Kind::Failed, "this disk usage record is inconsistent")
                    .at(path.display()),
            );
        }
        Ok(usage)
    }
}

/// Writes the record into a build's folder and returns its path; removes an earlier one if there is
/// no usage.
pub fn write(folder: &Path, usage: Option<&DiskUsage>) -> Result<Option<PathBuf>> {
    let path = folder.join(FILE);
    match usage {
        Some(usage) => {
            io::write_atomically(&path, usage.to_json().as_bytes())?;
            Ok(Some(path))
        }
        None => io::remove_if_exists(&path).map(|()| None),
    }
}

impl UsageFolder {
    fn is_consistent(&self) -> bool {
        let parts = self.folders.iter().map(|folder| folder.bytes);
        fits_into(parts, self.bytes) && self.folders.iter().all(Self::is_consistent)
    }
}

fn fits_into(mut parts: impl Iterator<Item = u64>, whole: u64) -> bool {
    parts.try_fold(whole, u64::checked_sub).is_some()
}

/// Returns the JSON Schema that `schemas/disk-usage-1.json` contains.
pub fn generate_schema() -> String {
    format!("{:#}\n", schemars::schema_for!(DiskUsage).as_value())
}
