//! Finds the parts of a containerDisk in its tar: manifest, configuration and layers. (OCI Image
//! Layout)
//!
//! Reads only the index and the manifest; layers are sent from the tar without unpacking.

use std::path::Path;

use oci_client::manifest::{OciImageIndex, OciImageManifest};

use super::super::tar_members::TarMembers;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};

pub struct ContainerDiskLayout {
    /// The manifest, byte for byte.
    pub manifest: Vec<u8>,
    pub media_type: String,
    pub blobs: Vec<LayoutBlob>,
}

/// A part that the manifest names.
pub struct LayoutBlob {
    /// Offset in the tar in bytes.
    pub start: u64,
    pub size: u64,
    pub sha256: Digest,
    pub media_type: String,
}

impl ContainerDiskLayout {
    pub fn read(path: &Path) -> Result<Self> {
        let mut members = TarMembers::open(path)?;
        let index = members.read(find_member("index.json", &members, path)?)?;
        let index: OciImageIndex =
            serde_json::from_slice(&index).map_err(|e| not_one(path).because(e))?;
        let [entry] = index.manifests.as_slice() else {
            let found = format!("{} manifests", index.manifests.len());
            return Err(not_one(path).expected("one manifest").found(found));
        };
        let manifest = blob_path(&parse_digest(&entry.digest, path)?);
        let manifest = members.read(find_member(&manifest, &members, path)?)?;
        let parsed: OciImageManifest =
            serde_json::from_slice(&manifest).map_err(|e| not_one(path).because(e))?;
        let mut blobs = Vec::new();
        for part in parsed.layers.iter().chain([&parsed.config]) {
            let sha256 = parse_digest(&part.digest, path)?;
            let (start, size) = find_member(&blob_path(&sha256), &members, path)?;
            blobs.push(LayoutBlob {
                start,
                size,
                sha256,
                media_type: part.media_type.clone(),
            });
        }
        Ok(Self {
            manifest,
            media_type: entry.media_type.clone(),
            blobs,
        })
    }
}

fn find_member(name: &str, members: &TarMembers, path: &Path) -> Result<(u64, u64)> {
    let found = members.find(name);
    found.ok_or_else(|| not_one(path).expected(format!("the member {name}")))
}

fn parse_digest(text: &str, path: &Path) -> Result<Digest> {
    let digest = text.parse();
    digest.map_err(|_| {
        not_one(path)
            .expected("digests")
            .found(winimg_base::display_text::sanitize_line(text))
    })
}

fn blob_path(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

fn not_one(path: &Path) -> Error {
    Error::new(
        Kind::Publish,
        "this is not a containerDisk written by a build",
    )
    .at(path.display())
}
