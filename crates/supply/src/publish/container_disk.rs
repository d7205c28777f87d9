//! The parts of a containerDisk, where they lie in its tar: a manifest, its configuration and its layers. (OCI Image Layout)
//!
//! Reads only the index and the manifest; a layer goes from the tar to the registry without being unpacked.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use oci_client::manifest::{OciImageIndex, OciImageManifest};

use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};

/// Bytes of an index or a manifest.
const LONGEST: u64 = 4 << 20;

pub struct Layout {
    /// The manifest as it is.
    pub manifest: Vec<u8>,
    pub media_type: String,
    pub blobs: Vec<Blob>,
}

/// A part that the manifest names.
pub struct Blob {
    /// Where it begins in the tar, bytes.
    pub start: u64,
    pub size: u64,
    pub sha256: Digest,
    pub media_type: String,
}

/// Offset and size of a member, bytes.
type Members = BTreeMap<String, (u64, u64)>;

impl Layout {
    pub fn read(path: &Path) -> Result<Self> {
        let unread = |e| Error::io("read", path, e);
        let mut file = File::open(path).map_err(unread)?;
        let members = members(&file).map_err(unread)?;
        let no_layout = |e: serde_json::Error| not_one(path).because(e);
        let index = whole(&mut file, "index.json", &members, path)?;
        let index: OciImageIndex = serde_json::from_slice(&index).map_err(no_layout)?;
        let [entry] = index.manifests.as_slice() else {
            let found = format!("{} manifests", index.manifests.len());
            return Err(not_one(path).expected("one manifest").found(found));
        };
        let manifest = whole(
            &mut file,
            &place(&digest(&entry.digest, path)?),
            &members,
            path,
        )?;
        let parsed: OciImageManifest = serde_json::from_slice(&manifest).map_err(no_layout)?;
        let mut blobs = Vec::new();
        for part in parsed.layers.iter().chain([&parsed.config]) {
            let sha256 = digest(&part.digest, path)?;
            let (start, size) = member(&place(&sha256), &members, path)?;
            blobs.push(Blob {
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

fn members(file: &File) -> std::io::Result<Members> {
    let mut archive = tar::Archive::new(BufReader::new(file));
    let mut members = Members::new();
    for entry in archive.entries_with_seek()? {
        let entry = entry?;
        let name = entry.path()?.to_string_lossy().into_owned();
        members.insert(name, (entry.raw_file_position(), entry.size()));
    }
    Ok(members)
}

fn member(name: &str, members: &Members, path: &Path) -> Result<(u64, u64)> {
    let found = members.get(name).copied();
    found.ok_or_else(|| not_one(path).expected(format!("the member {name}")))
}

fn whole(file: &mut File, name: &str, members: &Members, path: &Path) -> Result<Vec<u8>> {
    let (start, size) = member(name, members, path)?;
    let unread = |e| Error::io("read", path, e);
    file.seek(SeekFrom::Start(start)).map_err(unread)?;
    let mut bytes = Vec::new();
    let read = file.take(size.min(LONGEST)).read_to_end(&mut bytes);
    read.map_err(unread)?;
    Ok(bytes)
}

fn digest(text: &str, path: &Path) -> Result<Digest> {
    let digest = text.parse();
    digest.map_err(|_| {
        not_one(path)
            .expected("digests")
            .found(winimg_base::unseen::line(text))
    })
}

fn place(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

fn not_one(path: &Path) -> Error {
    Error::new(
        Kind::Publish,
        "this is not a containerDisk that a build wrote",
    )
    .at(path.display())
}
