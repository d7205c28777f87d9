//! `published.json`, beside an image's manifest: the destinations of the image.
//!
//! It has the latest publication for each destination. The schema is versioned by its name;
//! `schemas/published-1.json` is the JSON Schema.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use winimg_base::error::{Error, Result};
use winimg_base::io;

/// The file's name.
pub use crate::engine::earlier::PUBLISHED;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "winimg published, version 1")]
pub struct PublicationRecord {
    /// The version of this layout.
    pub schema: PublishedSchema,
    pub publications: Vec<Publication>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Schema")]
pub enum PublishedSchema {
    #[default]
    #[serde(rename = "winimg/published/1")]
    V1,
}

/// An image at a destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Publication {
    /// The destination, as given with `--to`.
    pub to: String,
    /// RFC 3339, UTC.
    pub time: String,
    /// SHA-256 of the image's manifest.json in lower-case hex.
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
    pub manifest: String,
    /// The objects at the destination.
    pub objects: Vec<PublicationObject>,
}

/// A file at the destination, or the registry object that replaces it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Object")]
pub struct PublicationObject {
    pub name: String,
    /// Its address.
    pub at: String,
    /// Bytes.
    pub size: u64,
    /// Lower-case hex.
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
    pub sha256: String,
    pub known: ObjectEvidence,
    /// The platform's identifier, such as `ami-0abc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// Evidence that the object exists at the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Known")]
#[serde(rename_all = "kebab-case")]
pub enum ObjectEvidence {
    /// It was sent, and the server computed its digest.
    Digest,
    /// It was sent, and the server accepted it or reports its size.
    Size,
    /// It existed before.
    Found,
}

impl PublicationRecord {
    /// Reads the record in a folder; returns an empty one if nothing was published.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(PUBLISHED);
        let text = match io::read_text_limited(&path, io::limit::RECORD) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            text => text.map_err(|e| Error::io("read", &path, e))?,
        };
        serde_json::from_str(&text).map_err(|e| {
            Error::failed("this is not a publication record of winimg")
                .at(path.display())
                .because(e)
                .cure("move it away; winimg writes a new one")
        })
    }

    /// Returns true if an earlier run sent this file to this address.
    pub fn has_object(&self, at: &str, sha256: &str, size: u64) -> bool {
        self.publications
            .iter()
            .flat_map(|one| &one.objects)
            .any(|object| object.at == at && object.sha256 == sha256 && object.size == size)
    }

    /// Returns an earlier run's evidence that this file is at this address.
    pub fn find_evidence(&self, at: &str, sha256: &str) -> ObjectEvidence {
        self.publications
            .iter()
            .flat_map(|one| &one.objects)
            .find(|object| object.at == at && object.sha256 == sha256)
            .map_or(ObjectEvidence::Found, |object| object.known)
    }

    /// Writes the record; `publication` replaces an earlier one to the same destination.
    pub fn write(mut self, folder: &Path, publication: Publication) -> Result<()> {
        self.publications.retain(|one| one.to != publication.to);
        self.publications.push(publication);
        let text = format!("{:#}\n", serde_json::json!(self));
        io::write_atomically(&folder.join(PUBLISHED), text.as_bytes())
    }
}

pub fn render_schema() -> String {
    let schema = schemars::schema_for!(PublicationRecord);
    format!("{:#}\n", serde_json::json!(schema))
}
