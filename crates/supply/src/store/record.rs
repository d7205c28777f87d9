//! Record of a layer.
//!
//! The key of a layer is that of its last link. Reads and writes no file: `layer` does.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use winimg_base::digest::Digest;
use winimg_recipe::plan::ChainLink;

/// A file of a layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerFile {
    pub name: String,
    pub sha256: Digest,
    /// Bytes.
    pub size: u64,
}

/// Record of a layer, identical on every machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerRecord {
    pub format: u32,
    pub key: Digest,
    pub parent: Option<Digest>,
    /// SHA-256 of the parent's disk: disks with the same key may differ, and an overlay over one is
    /// invalid over the other.
    #[serde(default)]
    pub parent_disk: Option<Digest>,
    /// The recipe's name.
    pub recipe: String,
    /// Seconds since 1970.
    pub made: i64,
    /// The disk first.
    pub files: Vec<LayerFile>,
    /// All links up to this layer; the key of the last one is the layer's.
    pub links: Vec<ChainLink>,
    /// Notes of the build about the links.
    pub notes: Value,
}

impl LayerRecord {
    /// Returns the name of the part of the build after which it was sealed.
    pub fn last_link_name(&self) -> &str {
        self.links.last().map_or("nothing", |link| &link.name)
    }

    /// Returns the total size of its files in bytes.
    pub fn size(&self) -> u64 {
        let sizes = self.files.iter().map(|f| f.size);
        sizes.fold(0, u64::saturating_add)
    }

    /// Returns the SHA-256 of its disk.
    pub fn disk_digest(&self) -> Option<&Digest> {
        self.files.first().map(|f| &f.sha256)
    }
}
