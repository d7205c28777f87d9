//! What went into a build, part after part, each with the key of the disk after it.
//!
//! Pure. Where a disk is kept under such a key is the store's affair.

use serde::{Deserialize, Serialize};

use winimg_base::digest::Digest;

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
