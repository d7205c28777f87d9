//! Container images from an OCI registry, on the host, every blob proved by its digest (OCI Distribution and Image
//! Format Specifications).
//!
//! Registries are asked without credentials. A tag is only followed where the recipe says why that is accepted; of an
//! index one Windows manifest is taken. Foreign layers have to be in the registry: no address that a manifest names (`urls`)
//! is followed.

mod archive;
mod choice;
pub(super) mod pull;

use std::path::Path;
use std::sync::Arc;

use super::registry::Client;
use super::{CameFrom, FetchOptions};
use crate::store::{Blob, Seen, Store, Watch, changed_since_locked};
use winimg_base::error::Result;
use winimg_base::event::{Cancel, Sink};
use winimg_recipe::recipe::{ContainerImage, ImageProof, InputId};

pub use choice::named;

/// One image, whole, in the store.
#[derive(Clone, Debug)]
pub struct Image {
    /// Of `[images]`.
    pub name: String,
    /// As containerd knows it: `registry.k8s.io/pause:3.10.2`.
    pub reference: String,
    /// `10.0.20348.2113`, where the index says it.
    pub os_version: Option<String>,
    /// What the reference named: an index, or the manifest itself.
    pub top: Part,
    pub manifest: Part,
    /// The configuration, then the layers in their order.
    pub parts: Vec<Part>,
}

/// A blob with what the registry says of it.
#[derive(Clone, Debug)]
pub struct Part {
    pub media_type: String,
    pub blob: Blob,
    pub from: CameFrom,
}

impl Image {
    /// Writes what `ctr images import` reads: an OCI image layout as a tar file, the same bytes every time.
    pub fn write(&self, path: &Path) -> Result<()> {
        archive::write(self, path)
    }

    /// Where its configuration and layers came from: the network when any of them did. A tag's manifest is asked for each time.
    pub fn from(&self) -> CameFrom {
        let mut all = self.parts.iter().map(|part| part.from);
        all.find(|from| *from != CameFrom::Cache)
            .unwrap_or(CameFrom::Cache)
    }

    /// Bytes of all blobs.
    pub fn size(&self) -> u64 {
        let parts = std::iter::once(&self.manifest).chain(&self.parts);
        parts.map(|p| p.blob.size()).sum()
    }
}

/// Fetches the images one after the other; `release` is the Windows build that an index is searched for
/// (`10.0.20348`) unless the recipe names one.
pub fn images(
    specs: &[ContainerImage],
    release: &str,
    store: &Store,
    sink: &Arc<dyn Sink>,
    cancel: &Cancel,
    options: &FetchOptions,
) -> Result<Vec<Image>> {
    if specs.is_empty() {
        return Ok(Vec::new());
    }
    super::block_on("images", cancel, async {
        let mut images = Vec::with_capacity(specs.len());
        for spec in specs {
            let wanted = spec.os_version.as_deref().unwrap_or(release);
            let name = InputId::Image(spec.name.value.clone()).to_string();
            let watch = Watch::new(name, Arc::clone(sink), cancel.clone());
            let image = one(spec, wanted, store, watch, options).await;
            images.push(image.map_err(|e| e.from_place(&spec.reference.place))?);
        }
        Ok(images)
    })?
}

async fn one(
    spec: &ContainerImage,
    wanted: &str,
    store: &Store,
    watch: Watch,
    options: &FetchOptions,
) -> Result<Image> {
    let name = watch.what.clone();
    let own = &spec.reference.value;
    let mirror = options.mirrors.image(own);
    let asked = mirror.as_ref().unwrap_or(own);
    let reference = asked.reference();
    let pinned = match &spec.proof {
        ImageProof::Digest(digest) => Some(&digest.value),
        ImageProof::Unverified { reason } => {
            let reason = &reason.value;
            watch.warn(format!("{name} is not pinned to a digest: {reason}"));
            // What the tag named then; it need not be followed.
            spec.locked.as_ref().map(|locked| &locked.top)
        }
    };
    if !options.offline {
        super::proxy::warn_of_broken(&options.proxies, |text| watch.warn(text));
    }
    // Over plain http only where the recipe writes `http://`, which it may only with a digest.
    let plain = asked.is_plain_http();
    let registry = pull::Registry {
        client: Client::new(reference, plain, None, &options.proxies, options.patience)?,
        reference,
        store,
        watch,
        options,
    };
    let top = registry.manifest(pinned).await?;
    let (manifest, os_version) = match choice::entry(&top, wanted, &name)? {
        Some(chosen) => {
            let digest = pull::digest(&chosen.digest, &name)?;
            let manifest = registry.manifest(Some(&digest)).await?;
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
    let described = choice::parts(&manifest, &name)?;
    registry.check_length(&described)?;
    let mut parts = Vec::with_capacity(described.len());
    for descriptor in described {
        parts.push(registry.blob(&descriptor).await?);
    }
    let image = Image {
        name: spec.name.value.clone(),
        reference: own.kept_as(),
        os_version,
        top,
        manifest,
        parts,
    };
    if image.from() == CameFrom::Network {
        let seen = Seen {
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
