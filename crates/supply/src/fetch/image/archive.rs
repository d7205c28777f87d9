//! An image as one tar file in the OCI image layout, which `ctr images import` reads (OCI Image Layout Specification;
//! containerd: docs/ops.md). The same blobs give the same bytes.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

use serde_json::json;
use tar::{Builder, EntryType, Header};

use super::{Image, Part};
use winimg_base::digest::{Digest, Hasher};
use winimg_base::error::{Error, Result};

pub(super) fn write(image: &Image, path: &Path) -> Result<()> {
    let unwritten = |e| Error::io("write", path, e);
    let file = File::create(path).map_err(unwritten)?;
    let mut tar = Builder::new(BufWriter::new(file));
    add(&mut tar, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#).map_err(unwritten)?;
    add(&mut tar, "index.json", index(image).as_bytes()).map_err(unwritten)?;
    let mut seen: Vec<&Digest> = Vec::new();
    for part in std::iter::once(&image.manifest).chain(&image.parts) {
        let digest = part.blob.digest();
        if seen.contains(&digest) {
            continue;
        }
        seen.push(digest);
        let file = File::open(part.blob.path());
        let file = file.map_err(|e| Error::io("read", part.blob.path(), e))?;
        let mut file = Hashing {
            inner: file,
            hasher: Hasher::new(digest.algorithm),
        };
        let name = format!("blobs/sha256/{}", digest.hex());
        let mut header = header(part.blob.size());
        let added = tar.append_data(&mut header, name, &mut file);
        added.map_err(unwritten)?;
        part.blob.same_bytes(&file.hasher.finish())?;
    }
    let mut out = tar.into_inner().map_err(unwritten)?;
    out.flush().map_err(unwritten)?;
    out.get_ref().sync_all().map_err(unwritten)
}

/// Hashes what is read through it, so that what was copied is what was compared.
struct Hashing<R> {
    inner: R,
    hasher: Hasher,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..n]);
        Ok(n)
    }
}

/// containerd takes the image's name from its own annotation.
fn index(image: &Image) -> String {
    let Part {
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
    tar.append_data(&mut header(bytes.len() as u64), name, bytes)
}

fn header(size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_mtime(0);
    header
}
