//! A finished image, its files, and the objects that a destination makes of them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bytes::Bytes;

use super::RemoteObject;
use super::body::ObjectBody;
use winimg_base::digest::Digest;
use winimg_base::display_text;
use winimg_base::error::{Error, Kind};
use winimg_recipe::{Firmware, OutputFormat};

/// A finished image, as its manifest lists it.
pub struct PublishImage {
    /// The recipe's name.
    pub name: String,
    /// Windows version.
    pub version: String,
    /// RFC 3339.
    pub created: String,
    /// Firmware of the machine; `None`: the manifest does not say.
    pub firmware: Option<Firmware>,
    /// Properties for Nova; empty for every destination but Glance.
    pub properties: BTreeMap<String, String>,
    pub files: Vec<PublishFile>,
}

/// One file of an image, or of its records.
pub struct PublishFile {
    pub name: String,
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    pub sha256: Digest,
    pub media_type: &'static str,
    pub role: FileRole,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileRole {
    /// An output of the build, by the name of its kind in the manifest.
    Output(String),
    /// A record that describes the image.
    Record,
}

impl PublishFile {
    pub fn is_output(&self, format: OutputFormat) -> bool {
        matches!(&self.role, FileRole::Output(kind) if kind == format.name())
    }
}

/// An object to publish. Objects are sent in order; the last one marks the image as complete.
pub struct PublishObject {
    /// Name for users.
    pub name: String,
    /// Address at the destination.
    pub at: String,
    /// Bytes.
    pub size: u64,
    pub sha256: Digest,
    /// Action in messages: "to be …".
    pub done: &'static str,
    pub(super) media_type: String,
    pub(super) body: ObjectBody,
    pub(super) remote: RemoteObject,
}

impl PublishObject {
    /// Creates the object that is a file of the image.
    pub(super) fn from_file(file: &PublishFile, at: String, remote: RemoteObject) -> Self {
        Self {
            name: file.name.clone(),
            at,
            size: file.size,
            sha256: file.sha256.clone(),
            done: "sent",
            media_type: file.media_type.to_owned(),
            body: ObjectBody::from_file(&file.path),
            remote,
        }
    }

    /// Reports that the destination has other bytes than were sent.
    pub(super) fn report_corrupt(&self, place: &str, expected: &str, found: &str) -> Error {
        let fact = format!("{} is corrupt in {place}", self.name);
        Error::new(Kind::Publish, fact)
            .at(&self.at)
            .expected(expected)
            .found(display_text::sanitize_line(found))
    }

    /// Compares the object with the size and the SHA-256, in hex, that the destination names.
    pub(super) fn compare_metadata(
        &self,
        size: Option<&str>,
        sha256: Option<&str>,
    ) -> ObjectStatus {
        let (size, sha256) = (size.unwrap_or("unknown"), sha256.unwrap_or("unknown"));
        if size == self.size.to_string() && sha256 == self.sha256.hex() {
            return ObjectStatus::Same(None);
        }
        let found = format!("{size} bytes, SHA-256 {sha256}");
        ObjectStatus::Other(display_text::sanitize_line(&found))
    }

    /// Creates an object without a body: its destination makes it, or reads the bytes itself.
    pub(super) fn from_remote(
        name: String,
        at: String,
        sha256: Digest,
        remote: RemoteObject,
    ) -> Self {
        Self {
            name,
            at,
            size: 0,
            sha256,
            done: "sent",
            media_type: String::new(),
            body: ObjectBody::Made(Bytes::new()),
            remote,
        }
    }
}

/// Current state of an object at the destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectStatus {
    Absent,
    /// The same object, with the platform's name of it.
    Same(Option<String>),
    /// A different object; a short description.
    Other(String),
    /// An object of this size in bytes and unknown digest.
    Unknown {
        size: Option<u64>,
    },
}

/// Verification of an object at the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownBy {
    /// The destination computed its digest, which matches.
    Digest,
    /// Only its size matches.
    Size,
}

/// An object that was published.
pub struct PublishedObject {
    pub known: KnownBy,
    /// The platform's name of it, such as `ami-0abc`.
    pub id: Option<String>,
}

impl From<KnownBy> for PublishedObject {
    fn from(known: KnownBy) -> Self {
        Self { known, id: None }
    }
}
