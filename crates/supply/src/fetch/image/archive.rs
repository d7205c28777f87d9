//! Writes an image as one tar file in the OCI image layout, which `ctr images import` reads (OCI
//! Image Layout Specification; containerd: docs/ops.md). The output is reproducible.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

use serde_json::json;
use tar::{Builder, EntryType, Header};

use super::{FetchedImage, ImagePart};
use winimg_base::digest::{Digest, Hasher};
use winimg_base::error::{Error, Result};

pub(super) fn write(image: &FetchedImage, path: &Path) -> Result<()> {
    let file = File::create(path).map_err(|e| Error::io("write", path, e))?;
    let mut tar = Builder::new(BufWriter::new(file));
    add(&mut tar, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)
        .and_then(|()| add(&mut tar, "index.json", index(image).as_bytes()))
        .map_err(|e| Error::io("write", path, e))?;
    let mut seen: Vec<&Digest> = Vec::new();
    for part in std::iter::once(&image.manifest).chain(&image.parts) {
        let digest = part.blob.digest();
        if seen.contains(&digest) {
            continue;
        }
        seen.push(digest);
        let blob = File::open(part.blob.path());
        let blob = blob.map_err(|e| Error::io("read", part.blob.path(), e))?;
        let mut reader = BlobHasher {
            inner: blob,
            hasher: Hasher::new(digest.algorithm),
        };
        let name = format!("blobs/sha256/{}", digest.hex());
        let mut header = make_header(part.blob.size());
        let added = tar.append_data(&mut header, name, &mut reader);
        added.map_err(|e| Error::io("write", path, e))?;
        part.blob.same_bytes(&reader.hasher.finish())?;
    }
    tar.into_inner()
        .and_then(|mut out| {
            out.flush()?;
            out.get_ref().sync_all()
        })
        .map_err(|e| Error::io("write", path, e))
}

/// A reader that hashes what is read through it, so that the copied bytes are the verified ones.
struct BlobHasher<R> {
    inner: R,
    hasher: Hasher,
}

impl<R: Read> Read for BlobHasher<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..n]);
        Ok(n)
    }
}

/// Renders `index.json`. containerd takes the image's name from its own annotation.
fn index(image: &FetchedImage) -> String {
    let ImagePart {
        media_type, blob, ..
    } = &image.manifest;
    let mut platform = json!({ "architecture": "amd64", "os": "windows" });
    if let Some(version) = &image.os_version {
        platform["os.version"] = json!(version);
    }
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{
            "mediaType": media_type,
            "digest": blob.digest().to_string(),
            "size": blob.size(),
            "annotations": {
                "io.containerd.image.name": image.reference,
                "org.opencontainers.image.ref.name": image.reference,
            },
            "platform": platform,
        }],
    });
    index.to_string()
}

fn add<W: Write>(tar: &mut Builder<W>, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    tar.append_data(&mut make_header(bytes.len() as u64), name, bytes)
}

fn make_header(size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_mtime(0);
    header
}
