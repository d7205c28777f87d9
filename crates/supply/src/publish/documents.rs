//! The documents of a registry that publishing writes: descriptors, and manifests of the image and of its records. (OCI Image Format
//! Specification 1.1: image manifest, guidelines for artifact usage)

use std::collections::BTreeMap;

use oci_client::manifest::{OciDescriptor, OciImageManifest};

use super::{File, Image};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Result};

pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub const EMPTY: &str = "application/vnd.oci.empty.v1+json";
const IMAGE: &str = "application/vnd.winimg.image.v1";
const TITLE: &str = "org.opencontainers.image.title";

/// An image's files, each a layer.
pub fn artifact<'i>(image: &Image, files: impl Iterator<Item = &'i File>) -> OciImageManifest {
    let layer = |file: &File| {
        let layer = descriptor(file.media_type, &file.sha256, file.size);
        OciDescriptor {
            annotations: Some(BTreeMap::from([(TITLE.to_owned(), file.name.clone())])),
            ..layer
        }
    };
    let named = |key: &str| format!("org.opencontainers.image.{key}");
    OciImageManifest {
        media_type: Some(MANIFEST.into()),
        artifact_type: Some(IMAGE.into()),
        config: descriptor(EMPTY, &Digest::sha256_of(b"{}"), 2),
        layers: files.map(layer).collect(),
        annotations: Some(BTreeMap::from([
            (named("title"), image.name.clone()),
            (named("version"), image.version.clone()),
            (named("created"), image.created.clone()),
        ])),
        ..OciImageManifest::default()
    }
}

/// A record beside what it is about.
pub fn attached(file: &File, subject: &OciDescriptor) -> OciImageManifest {
    let title = BTreeMap::from([(TITLE.to_owned(), file.name.clone())]);
    let layer = descriptor(file.media_type, &file.sha256, file.size);
    OciImageManifest {
        media_type: Some(MANIFEST.into()),
        artifact_type: Some(file.media_type.into()),
        config: descriptor(EMPTY, &Digest::sha256_of(b"{}"), 2),
        layers: vec![OciDescriptor {
            annotations: Some(title.clone()),
            ..layer
        }],
        subject: Some(subject.clone()),
        annotations: Some(title),
        ..OciImageManifest::default()
    }
}

pub fn descriptor(media_type: &str, digest: &Digest, size: u64) -> OciDescriptor {
    OciDescriptor {
        media_type: media_type.into(),
        digest: digest.to_string(),
        size: i64::try_from(size).unwrap_or(i64::MAX),
        ..OciDescriptor::default()
    }
}

pub fn json(manifest: &OciImageManifest) -> Result<Vec<u8>> {
    let unwritten = |e| Error::failed("a manifest cannot be written").because(e);
    serde_json::to_vec(manifest).map_err(unwritten)
}
