//! `disk-usage.json`: what the clusters of an image's Windows volume hold, by folder, and what each sealed layer added.
//!
//! The schema is versioned by its name; `schemas/disk-usage-1.json` is the JSON Schema. A field may be added within a version,
//! none is renamed or removed. Small folders are left out, and count in those that they lie in.

mod change;
mod read;

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;

pub use change::{Change, changes};
pub use read::{Sealed, of_disk, of_layers};

/// The record's name, beside the manifest.
pub const FILE: &str = "disk-usage.json";
/// The value of `schema`.
const SCHEMA: &str = "winimg/disk-usage/1";

/// What the Windows volume of one image holds. All sizes are bytes in whole clusters; a file with several names counts once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "winimg disk usage, version 1")]
pub struct DiskUsage {
    /// The version of this layout.
    pub schema: Schema,
    /// Bytes of the volume.
    pub total: u64,
    /// Bytes that no file has.
    pub free: u64,
    /// Bytes that are marked as used although no file has them.
    pub unclaimed: u64,
    /// NTFS's own files, the largest first.
    pub metadata: Vec<Own>,
    /// The folders with at least this many bytes are listed, half a percent of what is used.
    pub smallest: u64,
    /// The root folder.
    pub root: Folder,
    /// What was used when each layer was sealed, the first one first, the finished disk last. Empty: the build sealed none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<Layer>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Schema {
    #[default]
    #[serde(rename = "winimg/disk-usage/1")]
    V1,
}

/// A file of the file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Own {
    /// `$MFT`
    pub name: String,
    pub bytes: u64,
}

/// A folder with everything below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Folder {
    /// Empty: the root.
    pub name: String,
    pub bytes: u64,
    /// Files below it, each once.
    pub files: u64,
    /// Those that are not small, the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<Folder>,
}

/// The disk as it was when a layer was sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Layer {
    /// The part of the build after which it was sealed.
    pub after: String,
    /// Bytes that files have.
    pub used: u64,
    /// Against the layer before, the largest first.
    pub changes: Vec<Change>,
}

impl DiskUsage {
    pub fn used(&self) -> u64 {
        self.total - self.free
    }

    /// Whether no part is larger than the whole, so that parts can be added.
    fn adds_up(&self) -> bool {
        let own = self.metadata.iter().map(|own| own.bytes);
        let parts = own.chain([self.free, self.unclaimed, self.root.bytes]);
        fit(parts, self.total) && self.root.adds_up()
    }

    /// Pretty JSON with a final newline.
    pub fn to_json(&self) -> String {
        format!("{:#}\n", serde_json::json!(self))
    }

    /// Reads a record of this version; another version is named in the error.
    pub fn read(path: &Path) -> Result<Self> {
        let text = io::read_text_limited(path, io::limit::RECORD)
            .map_err(|e| Error::io("read", path, e))?;
        let not_one = |e| {
            Error::new(Kind::Failed, "this is not a winimg record of disk usage")
                .at(path.display())
                .expected(format!("\"schema\": {SCHEMA:?}"))
                .because(e)
        };
        let usage: Self = serde_json::from_str(&text).map_err(not_one)?;
        match usage.adds_up() {
            true => Ok(usage),
            false => Err(
                Error::new(Kind::Failed, "this record of disk usage contradicts itself")
                    .at(path.display()),
            ),
        }
    }
}

/// Writes the record into a build's folder, or removes an earlier one; its path.
pub fn write(folder: &Path, usage: Option<&DiskUsage>) -> Result<Option<PathBuf>> {
    let path = folder.join(FILE);
    match usage {
        Some(usage) => {
            io::write_atomically(&path, usage.to_json().as_bytes())?;
            Ok(Some(path))
        }
        None => io::remove_if_there(&path).map(|()| None),
    }
}

impl Folder {
    fn adds_up(&self) -> bool {
        let parts = self.folders.iter().map(|folder| folder.bytes);
        fit(parts, self.bytes) && self.folders.iter().all(Self::adds_up)
    }
}

fn fit(mut parts: impl Iterator<Item = u64>, whole: u64) -> bool {
    let left = parts.try_fold(whole, u64::checked_sub);
    left.is_some()
}

/// The JSON Schema, as `schemas/disk-usage-1.json` holds it.
pub fn schema() -> String {
    format!("{:#}\n", schemars::schema_for!(DiskUsage).as_value())
}
