//! OCI documents for publishing: descriptors, and manifests of the image and its records. (OCI
//! Image Format Specification 1.1: image manifest, guidelines for artifact usage)

use std::collections::BTreeMap;

use oci_client::manifest::{OciDescriptor, OciImageManifest};

use super::super::{PublishFile, PublishImage};
use crate::fetch::shared_cache::make_descriptor;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Result};

pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub const EMPTY: &str = "application/vnd.oci.empty.v1+json";
const IMAGE: &str = "application/vnd.winimg.image.v1";
const TITLE: &str = "org.opencontainers.image.title";
const VERSION: &str = "org.opencontainers.image.version";
const CREATED: &str = "org.opencontainers.image.created";

/// Builds the manifest of an image with each file as a layer.
pub fn build_artifact<'i>(
    image: &PublishImage,
    files: impl Iterator<Item = &'i PublishFile>,
) -> OciImageManifest {
    OciImageManifest {
        media_type: Some(MANIFEST.into()),
        artifact_type: Some(IMAGE.into()),
        config: make_descriptor(EMPTY, &Digest::sha256_of(b"{}"), 2),
        layers: files.map(make_layer).collect(),
        annotations: Some(BTreeMap::from([
            (TITLE.to_owned(), image.name.clone()),
            (VERSION.to_owned(), image.version.clone()),
            (CREATED.to_owned(), image.created.clone()),
        ])),
        ..OciImageManifest::default()
    }
}

fn make_layer(file: &PublishFile) -> OciDescriptor {
    OciDescriptor {
        annotations: Some(BTreeMap::from([(TITLE.to_owned(), file.name.clone())])),
        ..make_descriptor(file.media_type, &file.sha256, file.size)
    }
}

/// Builds the manifest of a record that refers to a subject.
pub fn attach_record(file: &PublishFile, subject: &OciDescriptor) -> OciImageManifest {
    let title = BTreeMap::from([(TITLE.to_owned(), file.name.clone())]);
    OciImageManifest {
        media_type: Some(MANIFEST.into()),
        artifact_type: Some(file.media_type.into()),
        config: make_descriptor(EMPTY, &Digest::sha256_of(b"{}"), 2),
        layers: vec![make_layer(file)],
        subject: Some(subject.clone()),
        annotations: Some(title),
        ..OciImageManifest::default()
    }
}

pub fn to_json(manifest: &OciImageManifest) -> Result<Vec<u8>> {
    serde_json::to_vec(manifest)
        .map_err(|e| Error::failed("a manifest cannot be written").because(e))
}
