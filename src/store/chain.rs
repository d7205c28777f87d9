//! What went into a build, part after part, and what is written down of the layer that stands behind a part.
//!
//! A layer's key is that of its last link. Reads and writes no file: `layer` does.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Digest;

/// Part of every key: raised when the same inputs would make another layer.
pub const FORMAT: u32 = 1;

/// One thing that went into a part of a build, in words that a person knows: `version`, `1.36.1`. Never a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ingredient {
    pub what: String,
    pub value: String,
}

impl Ingredient {
    pub fn new(what: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            value: value.into(),
        }
    }
}

/// A part of a build that changes the disk: the installation, then step after step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// ``the installation``, ``step `kubelet` ``
    pub name: String,
    /// Of the disk after this part: everything up to here is in it.
    pub key: Digest,
    pub ingredients: Vec<Ingredient>,
}

/// All parts of a build, each with the key of the disk after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain(Vec<Link>);

impl Chain {
    /// The next part. Its name is for people and not in the key.
    pub fn push(&mut self, name: impl Into<String>, ingredients: Vec<Ingredient>) {
        let before = self.0.last().map(|link| &link.key);
        let all = serde_json::json!([FORMAT, before, ingredients]);
        let key = Digest::sha256_of(all.to_string().as_bytes());
        self.0.push(Link {
            name: name.into(),
            key,
            ingredients,
        });
    }

    pub fn links(&self) -> &[Link] {
        &self.0
    }
}

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
    /// What the build's own records tell of the links.
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
