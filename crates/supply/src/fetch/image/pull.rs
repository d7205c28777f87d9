//! Talking to one registry: manifests and blobs, from the store where they are there already.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use oci_client::Reference;
use oci_client::errors::OciDistributionError;
use oci_client::manifest::OciDescriptor;

use super::Part;
use crate::fetch::registry::answer::{is_absent, other_bytes, shown, status};
use crate::fetch::registry::{Client, MANIFEST_LIMIT, Refusal, refusal};
use crate::fetch::{FetchOptions, failure};
use crate::store::{Expected, Resumable, Store, Watch};
use winimg_base::digest::{Algorithm, Digest};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Sink};

const MANIFESTS: &[&str] = &[
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];

pub(super) struct Registry<'a> {
    pub client: Client,
    pub reference: &'a Reference,
    pub store: &'a Store,
    pub sink: &'a Arc<dyn Sink>,
    pub cancel: &'a Cancel,
    pub options: &'a FetchOptions,
}

/// Over plain http only where the recipe writes `http://`, which it may only with a digest.
pub(super) fn client(reference: &Reference, plain: bool, options: &FetchOptions) -> Result<Client> {
    let (connect, read) = (options.connect_timeout, options.stall_timeout);
    Client::anonymous(reference, plain, connect, read)
        .map_err(|e| Error::new(Kind::Host, "https cannot be set up").found(shown(&e)))
}

/// A digest of a registry's own words. Only SHA-256 names files in an image layout here.
pub(in crate::fetch) fn digest(text: &str, name: &str) -> Result<Digest> {
    match text.parse::<Digest>() {
        Ok(digest) if digest.algorithm == Algorithm::Sha256 => Ok(digest),
        _ => Err(Error::new(
            Kind::Fetch,
            format!("{name} is described by a digest of another kind"),
        )
        .expected("sha256")
        .found(text)),
    }
}

impl Registry<'_> {
    fn watch(&self, name: &str) -> Watch {
        Watch::new(name, Arc::clone(self.sink), self.cancel.clone())
    }

    fn must_be_online(&self, what: &str, digest: Option<&Digest>) -> Result<()> {
        match self.options.offline {
            true => Err(failure::offline(what, &self.reference.whole(), digest)),
            false => Ok(()),
        }
    }

    /// A manifest or an index: by its digest where that is known, by the reference's tag otherwise.
    pub async fn manifest(&self, name: &str, pinned: Option<&Digest>) -> Result<Part> {
        let watch = self.watch(name);
        if let Some(digest) = pinned
            && let Some(blob) = self.store.find(Expected::Digest(digest.clone()), &watch)?
        {
            return Ok(Part {
                media_type: media_type(&blob)?,
                blob,
            });
        }
        self.must_be_online(name, pinned)?;
        let wanted = match pinned {
            Some(digest) => self.reference.clone_with_digest(digest.to_string()),
            None => self.reference.clone(),
        };
        let bytes = self
            .again(name, async || {
                let name = wanted.digest().or(wanted.tag()).unwrap_or("latest");
                self.client.manifest(name, MANIFESTS).await
            })
            .await?;
        let expected = match pinned {
            Some(digest) => Expected::Digest(digest.clone()),
            None => Expected::Unverified {
                reason: format!("the tag of {wanted}"),
            },
        };
        let partial = self
            .store
            .partial(&wanted.to_string(), self.cancel, |_| {})?;
        let mut file = partial.begin(&Resumable::default())?;
        file.write_all(&bytes)
            .and_then(|()| file.sync_all())
            .map_err(|e| Error::new(Kind::Failed, "a manifest cannot be written").because(e))?;
        let blob = self.store.admit(partial.candidate(), &expected, &watch)?;
        partial.discard()?;
        Ok(Part {
            media_type: media_type(&blob)?,
            blob,
        })
    }

    /// Refuses an image that is longer than any input may be, before it is fetched.
    pub fn check_length(&self, name: &str, parts: &[OciDescriptor]) -> Result<()> {
        // Negative sizes are refused at their part.
        let sizes = parts
            .iter()
            .map(|part| u64::try_from(part.size).unwrap_or(0));
        let (total, longest) = (sizes.fold(0, u64::saturating_add), self.options.longest);
        if total <= longest {
            return Ok(());
        }
        let fact = format!("{name} is longer than any image may be");
        Err(Error::new(Kind::Fetch, fact)
            .at(self.reference.whole())
            .expected(format!("{longest} bytes at most"))
            .found(format!("{total} bytes by its manifest")))
    }

    /// The configuration or a layer.
    pub async fn blob(&self, name: &str, descriptor: &OciDescriptor) -> Result<Part> {
        let digest = digest(&descriptor.digest, name)?;
        let what = format!("{name} {}", &digest.to_string()[..19]);
        let watch = self.watch(&what);
        let expected = Expected::Digest(digest.clone());
        let part = |blob| Part {
            media_type: descriptor.media_type.clone(),
            blob,
        };
        if let Some(blob) = self.store.find(&expected, &watch)? {
            return Ok(part(blob));
        }
        self.must_be_online(&what, Some(&digest))?;
        let holder = |who: &str| watch.note(format!("{what}: {who} is fetching it already"));
        let partial = self
            .store
            .partial(&digest.to_string(), self.cancel, holder)?;
        if let Some(blob) = self.store.find(&expected, &watch)? {
            return Ok(part(blob));
        }
        self.again(&what, async || {
            self.stream(descriptor, &digest, &partial, &watch).await
        })
        .await?;
        let blob = self.store.admit(partial.candidate(), &expected, &watch)?;
        partial.discard()?;
        Ok(part(blob))
    }

    async fn stream(
        &self,
        descriptor: &OciDescriptor,
        digest: &Digest,
        partial: &crate::store::Partial,
        watch: &Watch,
    ) -> Result<(), OciDistributionError> {
        let broken = |e: Error| OciDistributionError::IoError(std::io::Error::other(e.to_string()));
        let size = u64::try_from(descriptor.size);
        let negative = |_| OciDistributionError::SpecViolationError("a negative size".into());
        let total = Some(size.map_err(negative)?);
        let mut file = partial.begin(&Resumable::default()).map_err(broken)?;
        let mut blob = self.client.blob(digest).await?;
        let mut done = 0;
        while let Some(bytes) = blob.next().await? {
            done += bytes.len() as u64;
            if total.is_some_and(|total| done > total) {
                let fact = "more bytes than the manifest says";
                return Err(OciDistributionError::SpecViolationError(fact.into()));
            }
            file.write_all(&bytes)?;
            watch.bytes(done, total).map_err(broken)?;
        }
        file.sync_all()?;
        Ok(())
    }

    /// Tries until it is done, or until the answer will not change.
    async fn again<T>(
        &self,
        name: &str,
        work: impl AsyncFn() -> Result<T, OciDistributionError>,
    ) -> Result<T> {
        let mut wait = self.options.first_wait;
        for tries_left in (0..self.options.tries.max(1)).rev() {
            match work().await {
                Ok(done) => return Ok(done),
                Err(error) if tries_left > 0 && passing(&error) => {
                    self.cancel.check()?;
                    let seconds = wait.as_secs_f64();
                    self.sink.note(format!(
                        "{name}: {}; once more in {seconds:.0} s",
                        shown(&error)
                    ));
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(Duration::from_secs(30));
                }
                Err(error) => return Err(self.failure(name, &error)),
            }
        }
        Err(Error::new(Kind::Fetch, format!("{name} cannot be fetched")))
    }

    fn failure(&self, name: &str, error: &OciDistributionError) -> Error {
        if other_bytes(error) {
            return Error::new(
                Kind::Unproved,
                format!("{name} is not what its digest says"),
            )
            .at(self.reference.whole())
            .found(shown(error))
            .cure("the registry gives other bytes than its manifest names: ask its owner");
        }
        let told = Error::new(Kind::Fetch, format!("{name} cannot be fetched"))
            .at(self.reference.whole())
            .found(shown(error));
        match error {
            error if matches!(refusal(error), Some(Refusal::Insecure { .. })) => {
                told.cure("what comes over http may be anybody's, so it is not followed: ask the registry's owner")
            }
            OciDistributionError::UnauthorizedError { .. }
            | OciDistributionError::AuthenticationFailure(_) => {
                told.cure("registries are asked without credentials: use one that allows that")
            }
            error if is_absent(error) => {
                told.cure("look at the tag, or at the digest, in the registry")
            }
            _ => told,
        }
    }
}

/// Whether another try makes sense.
fn passing(error: &OciDistributionError) -> bool {
    match (error, status(error)) {
        _ if refusal(error).is_some() => false,
        (_, Some(code)) => code >= 500 || code == 429,
        (OciDistributionError::RequestError(e), None) => !e.is_redirect(),
        (OciDistributionError::IoError(_), None) => true,
        _ => false,
    }
}

/// What a manifest says it is; the fields that tell the kinds apart where it does not say.
fn media_type(blob: &crate::store::Blob) -> Result<String> {
    // An index of strangers may name any blob of the store as a manifest.
    if blob.size() > MANIFEST_LIMIT as u64 {
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
