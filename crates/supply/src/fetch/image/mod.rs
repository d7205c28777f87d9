//! Pulls container images from an OCI registry to the host and verifies every blob by its digest
//! (OCI Distribution and Image Format Specifications).
//!
//! Pulls without credentials. Follows a tag only if the recipe gives a reason. Takes one Windows
//! manifest from an index. Foreign layers must be in the registry: addresses in a manifest (`urls`)
//! are not followed.

mod archive;
mod manifest;
pub(super) mod pull;

use std::path::Path;
use std::sync::Arc;

use super::registry::RegistryClient;
use super::{FetchOptions, FetchSource};
use crate::runtime;
use crate::store::{ProgressWatch, Store, StoredBlob, UrlRecord, changed_since_locked};
use winimg_base::error::Result;
use winimg_base::event::{Cancel, Sink};
use winimg_recipe::{ContainerImage, ImageProof, InputId};

pub use manifest::list_digests;

/// One complete image in the store.
#[derive(Clone, Debug)]
pub struct FetchedImage {
    /// Name in `[images]`.
    pub name: String,
    /// Reference in containerd, such as `registry.k8s.io/pause:3.10.2`.
    pub reference: String,
    /// Windows version if the index has it, such as `10.0.20348.2113`.
    pub os_version: Option<String>,
    /// The index or manifest that the reference named.
    pub top: ImagePart,
    pub manifest: ImagePart,
    /// The configuration, then the layers in their order.
    pub parts: Vec<ImagePart>,
}

/// A blob with its media type.
#[derive(Clone, Debug)]
pub struct ImagePart {
    pub media_type: String,
    pub blob: StoredBlob,
    pub from: FetchSource,
}

impl FetchedImage {
    /// Writes an OCI image layout as a reproducible tar file for `ctr images import`.
    pub fn write(&self, path: &Path) -> Result<()> {
        archive::write(self, path)
    }

    /// Returns the source of the configuration and layers: the network if any came from there. The
    /// manifest does not count, since a tag is resolved each time.
    pub fn from(&self) -> FetchSource {
        let mut all = self.parts.iter().map(|part| part.from);
        all.find(|from| *from != FetchSource::Cache)
            .unwrap_or(FetchSource::Cache)
    }

    /// Returns the size of all blobs in bytes.
    pub fn size(&self) -> u64 {
        let parts = std::iter::once(&self.manifest).chain(&self.parts);
        parts.map(|p| p.blob.size()).sum()
    }
}

/// Fetches the images one after the other. `release` is the Windows build to find in an index
/// (`10.0.20348`) unless the recipe names one.
pub fn fetch_images(
    specs: &[ContainerImage],
    release: &str,
    store: &Store,
    sink: &Arc<dyn Sink>,
    cancel: &Cancel,
    options: &FetchOptions,
) -> Result<Vec<FetchedImage>> {
    if specs.is_empty() {
        return Ok(Vec::new());
    }
    runtime::run(cancel, async {
        let mut images = Vec::with_capacity(specs.len());
        for spec in specs {
            let wanted = spec.os_version.as_deref().unwrap_or(release);
            let name = InputId::Image(spec.name.value.clone()).to_string();
            let watch = ProgressWatch::new(name, Arc::clone(sink), cancel.clone());
            let image = fetch_image(spec, wanted, store, watch, options).await;
            images.push(image.map_err(|e| e.or_place(&spec.reference.place))?);
        }
        Ok(images)
    })?
}

async fn fetch_image(
    spec: &ContainerImage,
    wanted: &str,
    store: &Store,
    watch: ProgressWatch,
    options: &FetchOptions,
) -> Result<FetchedImage> {
    let name = watch.what.clone();
    let own = &spec.reference.value;
    let mirror = options.mirrors.resolve_image(own);
    let asked = mirror.as_ref().unwrap_or(own);
    let reference = asked.reference();
    let pinned = match &spec.proof {
        ImageProof::Digest(digest) => Some(&digest.value),
        ImageProof::Unverified { reason } => {
            let reason = &reason.value;
            watch.warn(format!("{name} is not pinned to a digest: {reason}"));
            // The lock has the digest of the tag, which need not be resolved.
            spec.locked.as_ref().map(|locked| &locked.top)
        }
    };
    if !options.offline {
        super::proxy::warn_of_unusable(&options.proxies, |text| watch.warn(text));
    }
    // Plain http only if the recipe writes `http://`, which it may only with a digest.
    let plain = asked.is_plain_http();
    let registry = pull::ImagePuller {
        client: RegistryClient::new(reference, plain, None, &options.proxies, options.patience)?,
        reference,
        store,
        watch,
        options,
    };
    let top = registry.fetch_manifest(pinned).await?;
    let (manifest, os_version) = match manifest::choose_entry(&top, wanted, &name)? {
        Some(chosen) => {
            let digest = pull::parse_digest(&chosen.digest, &name)?;
            let manifest = registry.fetch_manifest(Some(&digest)).await?;
            (manifest, chosen.os_version)
        }
        None => (top.clone(), None),
    };
    let found = manifest.blob.digest();
    if let Some(locked) = spec.locked.as_ref().filter(|l| l.manifest != *found) {
        let lock = &locked.source;
        let fact = format!(
            "{name} is not the image that {} names: its tag was moved",
            lock.name
        );
        let error = changed_since_locked(fact, lock, &locked.manifest, found);
        return Err(error.at(&spec.reference.value));
    }
    let described = manifest::read_parts(&manifest, &name)?;
    registry.check_length(&described)?;
    let mut parts = Vec::with_capacity(described.len());
    for descriptor in described {
        parts.push(registry.fetch_blob(&descriptor).await?);
    }
    let image = FetchedImage {
        name: spec.name.value.clone(),
        reference: own.kept_as(),
        os_version,
        top,
        manifest,
        parts,
    };
    if image.from() == FetchSource::Network {
        let seen = UrlRecord {
            url: asked.kept_as(),
            etag: None,
            last_modified: None,
            sha256: image.manifest.blob.digest().clone(),
            size: image.size(),
        };
        store.record_seen(&image.reference, &seen)?;
    }
    Ok(image)
}
