//! What is written down of a layer.
//!
//! A layer's key is that of its last link. Reads and writes no file: `layer` does.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use winimg_base::digest::Digest;
use winimg_recipe::plan::Link;

/// A file of a layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerFile {
    pub name: String,
    pub sha256: Digest,
    /// Bytes.
    pub size: u64,
}

/// What is written down of a layer, the same on every machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerRecord {
    pub format: u32,
    pub key: Digest,
    pub parent: Option<Digest>,
    /// The SHA-256 of the parent's disk: two disks that were made by one key are not the same, and an overlay of the one
    /// is garbage over the other.
    #[serde(default)]
    pub parent_disk: Option<Digest>,
    /// The recipe's name.
    pub recipe: String,
    /// Seconds since 1970.
    pub made: i64,
    /// The disk first.
    pub files: Vec<LayerFile>,
    /// Everything up to this layer; the last link's key is the layer's.
    pub links: Vec<Link>,
    /// What the build's own records say of the links.
    pub notes: Value,
}

impl LayerRecord {
    /// The part of the build after which it was sealed.
    pub fn after(&self) -> &str {
        self.links.last().map_or("nothing", |link| &link.name)
    }

    /// Bytes of all its files.
    pub fn size(&self) -> u64 {
        let sizes = self.files.iter().map(|f| f.size);
        sizes.fold(0, u64::saturating_add)
    }

    /// The SHA-256 of its disk.
    pub fn disk(&self) -> Option<&Digest> {
        self.files.first().map(|f| &f.sha256)
    }
}
