//! An image as one tar file in the OCI image layout, which `ctr images import` reads (OCI Image Layout Specification;
//! containerd: docs/ops.md). The same blobs give the same bytes.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::json;
use tar::{Builder, EntryType, Header};

use super::{Image, Part};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Result};

pub(super) fn write(image: &Image, path: &Path) -> Result<()> {
    let file = File::create(path).map_err(|e| Error::io("write", path, e))?;
    let written = layout(image, BufWriter::new(file)).and_then(|mut out| {
        out.flush()?;
        out.get_ref().sync_all()
    });
    written.map_err(|e| Error::io("write", path, e))
}

fn layout<W: Write>(image: &Image, out: W) -> std::io::Result<W> {
    let mut tar = Builder::new(out);
    add(&mut tar, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    add(&mut tar, "index.json", index(image).as_bytes())?;
    let mut seen: Vec<&Digest> = Vec::new();
    for part in std::iter::once(&image.manifest).chain(&image.parts) {
        let digest = part.blob.digest();
        if seen.contains(&digest) {
            continue;
        }
        seen.push(digest);
        let mut file = File::open(part.blob.path())?;
        let mut header = header(part.blob.size());
        tar.append_data(
            &mut header,
            format!("blobs/sha256/{}", digest.hex()),
            &mut file,
        )?;
    }
    tar.into_inner()
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
