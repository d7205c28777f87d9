//! Pulls manifests and blobs from one registry, unless the store has them already.

use std::io::Write;
use std::time::Duration;

use oci_client::Reference;
use oci_client::manifest::OciDescriptor;

use super::ImagePart;
use super::manifest::may_be_elsewhere;
use crate::fetch::client::HttpFault;
use crate::fetch::failure::require_online;
use crate::fetch::policy::UrlRefusal;
use crate::fetch::registry::{self, MANIFEST_LIMIT, RegistryClient};
use crate::fetch::{FetchOptions, FetchSource};
use crate::store::{
    ExpectedBytes, PartialTransfer, ProgressWatch, ResumeRecord, Store, StoredBlob,
};
use winimg_base::digest::{Algorithm, Digest};
use winimg_base::display_text;
use winimg_base::error::{Error, Kind, Result};

const MANIFESTS: &[&str] = &[
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];

pub(super) struct ImagePuller<'a> {
    pub client: RegistryClient,
    pub reference: &'a Reference,
    pub store: &'a Store,
    /// Its name is the image's.
    pub watch: ProgressWatch,
    pub options: &'a FetchOptions,
}

/// Parses a digest that a registry sent. Only SHA-256 is supported.
pub(in crate::fetch) fn parse_digest(text: &str, name: &str) -> Result<Digest> {
    match text.parse::<Digest>() {
        Ok(digest) if digest.algorithm == Algorithm::Sha256 => Ok(digest),
        _ => Err(Error::new(
            Kind::Fetch,
            format!("{name} has a digest of an unsupported kind"),
        )
        .expected("sha256")
        .found(text)),
    }
}

impl ImagePuller<'_> {
    /// Fetches a manifest or an index by its digest if that is known, otherwise by the tag.
    pub async fn fetch_manifest(&self, pinned: Option<&Digest>) -> Result<ImagePart> {
        let (name, watch) = (&self.watch.what, &self.watch);
        if let Some(digest) = pinned
            && let Some(blob) = self
                .store
                .find(ExpectedBytes::Digest(digest.clone()), watch)?
        {
            return Ok(ImagePart {
                media_type: media_type(&blob)?,
                blob,
                from: FetchSource::Cache,
            });
        }
        require_online(self.options, name, &self.reference.whole(), pinned)?;
        let wanted = match pinned {
            Some(digest) => self.reference.clone_with_digest(digest.to_string()),
            None => self.reference.clone(),
        };
        let bytes = self
            .retry(name, async || {
                let name = wanted.digest().or(wanted.tag()).unwrap_or("latest");
                self.client.fetch_manifest(name, MANIFESTS).await
            })
            .await
            .map_err(|e| self.explain_failure(name, e))?;
        let expected = match pinned {
            Some(digest) => ExpectedBytes::Digest(digest.clone()),
            None => ExpectedBytes::Unverified {
                reason: format!("the tag of {wanted}"),
            },
        };
        let key = wanted.to_string();
        let blob = self.store.admit_bytes(&key, &bytes, expected, watch)?;
        Ok(ImagePart {
            media_type: media_type(&blob)?,
            blob,
            from: FetchSource::Network,
        })
    }

    /// Refuses an image that exceeds the maximum size of an input, before it is fetched.
    pub fn check_length(&self, parts: &[OciDescriptor]) -> Result<()> {
        // Negative sizes are refused when their part is fetched.
        let sizes = parts
            .iter()
            .map(|part| u64::try_from(part.size).unwrap_or(0));
        let (total, longest) = (sizes.fold(0, u64::saturating_add), self.options.longest);
        if total <= longest {
            return Ok(());
        }
        let fact = format!("{} exceeds the maximum image size", self.watch.what);
        Err(Error::new(Kind::Fetch, fact)
            .at(self.reference.whole())
            .expected(format!("{longest} bytes at most"))
            .found(format!("{total} bytes by its manifest")))
    }

    /// Fetches the configuration or a layer.
    pub async fn fetch_blob(&self, descriptor: &OciDescriptor) -> Result<ImagePart> {
        let name = &self.watch.what;
        let digest = parse_digest(&descriptor.digest, name)?;
        let what = format!("{name} {}", &digest.to_string()[..19]);
        let watch = self.watch.with_name(what.as_str());
        let expected = ExpectedBytes::Digest(digest.clone());
        let part = |blob, from| ImagePart {
            media_type: descriptor.media_type.clone(),
            blob,
            from,
        };
        if let Some(blob) = self.store.find(expected.clone(), &watch)? {
            return Ok(part(blob, FetchSource::Cache));
        }
        require_online(self.options, &what, &self.reference.whole(), Some(&digest))?;
        let partial = self.store.lock_partial(&digest.to_string(), &watch)?;
        if let Some(blob) = self.store.find(expected.clone(), &watch)? {
            return Ok(part(blob, FetchSource::Cache));
        }
        self.retry(&what, async || {
            self.write_blob(descriptor, &digest, &partial, &watch).await
        })
        .await
        .map_err(|e| {
            if e.is_absent() && may_be_elsewhere(&descriptor.media_type) {
                self.report_foreign_layer(descriptor, e)
            } else {
                self.explain_failure(&what, e)
            }
        })?;
        let blob = self.store.admit(partial.to_candidate(), expected, &watch)?;
        partial.discard()?;
        Ok(part(blob, FetchSource::Network))
    }

    async fn write_blob(
        &self,
        descriptor: &OciDescriptor,
        digest: &Digest,
        partial: &PartialTransfer,
        watch: &ProgressWatch,
    ) -> Result<(), registry::RegistryError> {
        let total = u64::try_from(descriptor.size)
            .map_err(|_| registry::RegistryError::Unexpected("a negative size".into()))?;
        let mut file = partial.begin(&ResumeRecord::default())?;
        let mut blob = self.client.open_blob(digest).await?;
        let mut done = 0;
        while let Some(bytes) = blob.next().await? {
            done += bytes.len() as u64;
            if done > total {
                let fact = "more bytes than the manifest says";
                return Err(registry::RegistryError::Unexpected(fact.into()));
            }
            file.write_all(&bytes)
                .map_err(|e| Error::io("write", partial.path(), e))?;
            watch.report_bytes(done, Some(total))?;
        }
        file.sync_all()
            .map_err(|e| Error::io("write", partial.path(), e))?;
        Ok(())
    }

    /// Retries the work until it succeeds or fails for good.
    async fn retry<T>(
        &self,
        name: &str,
        work: impl AsyncFn() -> Result<T, registry::RegistryError>,
    ) -> Result<T, registry::RegistryError> {
        let mut wait = self.options.first_wait;
        let mut tries_left = self.options.tries.max(1);
        loop {
            tries_left -= 1;
            match work().await {
                Ok(done) => return Ok(done),
                Err(error) if tries_left > 0 && error.is_passing() => {
                    self.watch.cancel.check()?;
                    let seconds = wait.as_secs_f64();
                    let text = format!("{name}: {error}; trying again in {seconds:.0} s");
                    self.watch.note(text);
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(Duration::from_secs(30));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Builds the error for a foreign layer that the registry does not have.
    fn report_foreign_layer(
        &self,
        descriptor: &OciDescriptor,
        error: registry::RegistryError,
    ) -> Error {
        let fact = format!(
            "{} has a foreign layer, and its registry does not have it",
            self.watch.what
        );
        Error::new(Kind::Fetch, fact)
            .at(self.reference.whole())
            .expected(&descriptor.digest)
            .found(error)
            .lines([format!(
                "the layer's type: {}",
                display_text::sanitize_line(&descriptor.media_type)
            )])
            .cure(
                "use a later tag of the image, which may have its base layers in the registry; or \
                 push it with its base layers to your own registry: docker does so if that \
                 registry is in `allow-nondistributable-artifacts` of its daemon.json",
            )
    }

    fn explain_failure(&self, name: &str, error: registry::RegistryError) -> Error {
        let cannot = format!("{name} cannot be fetched");
        let refused = Error::new(Kind::Fetch, cannot).at(self.reference.whole());
        let refused = refused.found(&error);
        match error {
            registry::RegistryError::Own(error) => error,
            registry::RegistryError::OtherBytes { expected, found } => {
                let fact = format!("{name} does not match its digest");
                Error::new(Kind::Unproved, fact)
                    .at(self.reference.whole())
                    .expected(expected)
                    .found(found)
                    .cure("the registry serves other bytes than its manifest names: ask its owner")
            }
            registry::RegistryError::Http(HttpFault::Host(error)) => error,
            registry::RegistryError::Http(HttpFault::Refused(UrlRefusal::Insecure { .. })) => {
                refused.cure("http is not secure, so it is not followed: ask the registry's owner")
            }
            registry::RegistryError::Http(HttpFault::Refused(UrlRefusal::Reach { .. })) => {
                refused.cure(UrlRefusal::REACH_CURE)
            }
            registry::RegistryError::Unauthorized | registry::RegistryError::NoToken(_) => {
                refused.cure("images are pulled without credentials: use a registry that allows it")
            }
            error if error.is_absent() => {
                refused.cure("check the tag or the digest in the registry")
            }
            _ => refused,
        }
    }
}

/// Reads the media type of a manifest; without one, its fields show the kind.
fn media_type(blob: &StoredBlob) -> Result<String> {
    // An untrusted index may name any blob of the store as a manifest.
    if blob.size() > MANIFEST_LIMIT {
        return Err(Error::new(Kind::Fetch, "a manifest is too long")
            .expected(format!("{MANIFEST_LIMIT} bytes at most"))
            .found(format!("{} bytes", blob.size())));
    }
    let bytes = std::fs::read(blob.path()).map_err(|e| Error::io("read", blob.path(), e))?;
    let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
    Ok(match value["mediaType"].as_str() {
        Some(text) => text.to_owned(),
        None if value.get("manifests").is_some() => MANIFESTS[0].to_owned(),
        None => MANIFESTS[2].to_owned(),
    })
}
