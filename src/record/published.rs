//! `published.json`: where an image was sent, beside its manifest.
//!
//! One entry a destination, the last one of it. The schema is versioned by its name; `schemas/published-1.json` is the JSON Schema.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use winimg_base::error::{Error, Result};
use winimg_base::io;

/// The file's name.
pub const PUBLISHED: &str = "published.json";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "winimg published, version 1")]
pub struct Published {
    /// The version of this layout.
    pub schema: Schema,
    pub publications: Vec<Publication>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Schema {
    #[default]
    #[serde(rename = "winimg/published/1")]
    V1,
}

/// An image at a destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Publication {
    /// The destination, as it is typed after `--to`.
    pub to: String,
    /// RFC 3339, UTC.
    pub time: String,
    /// Of the image's manifest.json, lower-case hex.
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
    pub manifest: String,
    /// What lies there.
    pub objects: Vec<Object>,
}

/// One file there, or what a registry has in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Object {
    pub name: String,
    /// Its address.
    pub at: String,
    /// Bytes.
    pub size: u64,
    /// Lower-case hex.
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
    pub sha256: String,
    pub known: Known,
    /// The platform's name of it, such as `ami-0abc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// How it is known that the object is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Known {
    /// It was sent, and the far end computed its digest.
    Digest,
    /// It was sent, and the far end took it or names its size.
    Size,
    /// It was there before.
    Found,
}

impl Published {
    /// What stands in the folder; nothing where nothing was published.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(PUBLISHED);
        let text = match io::read_text_limited(&path, io::limit::RECORD) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            text => text.map_err(|e| Error::io("read", &path, e))?,
        };
        serde_json::from_str(&text).map_err(|e| {
            Error::failed("this is not a record of publications that winimg wrote")
                .at(path.display())
                .because(e)
                .cure("move it away; it is written again")
        })
    }

    /// Whether an earlier run sent this file to this address.
    pub fn has(&self, at: &str, sha256: &str, size: u64) -> bool {
        let objects = self.publications.iter().flat_map(|one| &one.objects);
        let mut there = objects.filter(|object| object.at == at);
        there.any(|object| object.sha256 == sha256 && object.size == size)
    }

    /// How an earlier run knew that this file is at this address.
    pub fn known(&self, at: &str, sha256: &str) -> Known {
        let objects = self.publications.iter().flat_map(|one| &one.objects);
        let mut there = objects.filter(|object| object.at == at && object.sha256 == sha256);
        there.next().map_or(Known::Found, |object| object.known)
    }

    /// Writes it with this publication in place of an earlier one to the same destination.
    pub fn write(mut self, folder: &Path, publication: Publication) -> Result<()> {
        self.publications.retain(|one| one.to != publication.to);
        self.publications.push(publication);
        let text = format!("{:#}\n", serde_json::json!(self));
        io::write_atomically(&folder.join(PUBLISHED), text.as_bytes())
    }
}

pub fn schema() -> String {
    let schema = schemars::schema_for!(Published);
    format!("{:#}\n", serde_json::json!(schema))
}
