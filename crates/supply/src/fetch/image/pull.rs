//! Talking to one registry: manifests and blobs, from the store where they are there already.

use std::io::Write;
use std::time::Duration;

use oci_client::Reference;
use oci_client::manifest::OciDescriptor;

use super::Part;
use super::choice::may_be_elsewhere;
use crate::fetch::client::Fault;
use crate::fetch::failure::must_be_online;
use crate::fetch::policy::Refusal;
use crate::fetch::registry::{self, Client, MANIFEST_LIMIT};
use crate::fetch::{CameFrom, FetchOptions};
use crate::store::{Blob, Expected, Partial, Resumable, Store, Watch};
use winimg_base::digest::{Algorithm, Digest};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::unseen;

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
    /// Named as the image is.
    pub watch: Watch,
    pub options: &'a FetchOptions,
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
    /// A manifest or an index: by its digest where that is known, by the reference's tag otherwise.
    pub async fn manifest(&self, pinned: Option<&Digest>) -> Result<Part> {
        let (name, watch) = (&self.watch.what, &self.watch);
        if let Some(digest) = pinned
            && let Some(blob) = self.store.find(Expected::Digest(digest.clone()), watch)?
        {
            return Ok(Part {
                media_type: media_type(&blob)?,
                blob,
                from: CameFrom::Cache,
            });
        }
        must_be_online(self.options, name, &self.reference.whole(), pinned)?;
        let wanted = match pinned {
            Some(digest) => self.reference.clone_with_digest(digest.to_string()),
            None => self.reference.clone(),
        };
        let bytes = self
            .again(name, async || {
                let name = wanted.digest().or(wanted.tag()).unwrap_or("latest");
                self.client.manifest(name, MANIFESTS).await
            })
            .await
            .map_err(|e| self.failure(name, e))?;
        let expected = match pinned {
            Some(digest) => Expected::Digest(digest.clone()),
            None => Expected::Unverified {
                reason: format!("the tag of {wanted}"),
            },
        };
        let key = wanted.to_string();
        let blob = self.store.admit_bytes(&key, &bytes, expected, watch)?;
        Ok(Part {
            media_type: media_type(&blob)?,
            blob,
            from: CameFrom::Network,
        })
    }

    /// Refuses an image that is longer than any input may be, before it is fetched.
    pub fn check_length(&self, parts: &[OciDescriptor]) -> Result<()> {
        // Negative sizes are refused at their part.
        let sizes = parts
            .iter()
            .map(|part| u64::try_from(part.size).unwrap_or(0));
        let (total, longest) = (sizes.fold(0, u64::saturating_add), self.options.longest);
        if total <= longest {
            return Ok(());
        }
        let fact = format!("{} is longer than any image may be", self.watch.what);
        Err(Error::new(Kind::Fetch, fact)
            .at(self.reference.whole())
            .expected(format!("{longest} bytes at most"))
            .found(format!("{total} bytes by its manifest")))
    }

    /// The configuration or a layer.
    pub async fn blob(&self, descriptor: &OciDescriptor) -> Result<Part> {
        let name = &self.watch.what;
        let digest = digest(&descriptor.digest, name)?;
        let what = format!("{name} {}", &digest.to_string()[..19]);
        let watch = self.watch.named(what.as_str());
        let expected = || Expected::Digest(digest.clone());
        let part = |blob, from| Part {
            media_type: descriptor.media_type.clone(),
            blob,
            from,
        };
        if let Some(blob) = self.store.find(expected(), &watch)? {
            return Ok(part(blob, CameFrom::Cache));
        }
        must_be_online(self.options, &what, &self.reference.whole(), Some(&digest))?;
        let partial = self.store.partial(&digest.to_string(), &watch)?;
        if let Some(blob) = self.store.find(expected(), &watch)? {
            return Ok(part(blob, CameFrom::Cache));
        }
        self.again(&what, async || {
            self.stream(descriptor, &digest, &partial, &watch).await
        })
        .await
        .map_err(|e| {
            if e.is_absent() && may_be_elsewhere(&descriptor.media_type) {
                self.elsewhere(descriptor, e)
            } else {
                self.failure(&what, e)
            }
        })?;
        let blob = self.store.admit(partial.candidate(), expected(), &watch)?;
        partial.discard()?;
        Ok(part(blob, CameFrom::Network))
    }

    async fn stream(
        &self,
        descriptor: &OciDescriptor,
        digest: &Digest,
        partial: &Partial,
        watch: &Watch,
    ) -> Result<(), registry::Error> {
        let unexpected = |fact: &str| registry::Error::Unexpected(fact.into());
        let unwritten = |e| Error::io("write", partial.path(), e);
        let total = u64::try_from(descriptor.size).map_err(|_| unexpected("a negative size"))?;
        let mut file = partial.begin(&Resumable::default())?;
        let mut blob = self.client.blob(digest).await?;
        let mut done = 0;
        while let Some(bytes) = blob.next().await? {
            done += bytes.len() as u64;
            if done > total {
                return Err(unexpected("more bytes than the manifest says"));
            }
            file.write_all(&bytes).map_err(unwritten)?;
            watch.bytes(done, Some(total))?;
        }
        Ok(file.sync_all().map_err(unwritten)?)
    }

    /// Tries until it is done, or until the answer will not change.
    async fn again<T>(
        &self,
        name: &str,
        work: impl AsyncFn() -> Result<T, registry::Error>,
    ) -> Result<T, registry::Error> {
        let mut wait = self.options.first_wait;
        let mut tries_left = self.options.tries.max(1);
        loop {
            tries_left -= 1;
            match work().await {
                Ok(done) => return Ok(done),
                Err(error) if tries_left > 0 && error.is_passing() => {
                    self.watch.cancel.check()?;
                    let seconds = wait.as_secs_f64();
                    let text = format!("{name}: {error}; once more in {seconds:.0} s");
                    self.watch.note(text);
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(Duration::from_secs(30));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// A layer that the registry does not have, and need not have.
    fn elsewhere(&self, descriptor: &OciDescriptor, error: registry::Error) -> Error {
        let fact = format!(
            "{} has a foreign layer, and its registry does not have it",
            self.watch.what
        );
        Error::new(Kind::Fetch, fact)
            .at(self.reference.whole())
            .expected(&descriptor.digest)
            .found(error)
            .lines([format!("the layer's type: {}", unseen::line(&descriptor.media_type))])
            .cure(
                "take a later tag of the image, which may have its base layers in the registry; or push it to a registry of yours with its base layers: \
                 docker does so with `allow-nondistributable-artifacts` for that registry in its daemon.json",
            )
    }

    fn failure(&self, name: &str, error: registry::Error) -> Error {
        let cannot = format!("{name} cannot be fetched");
        let refused = Error::new(Kind::Fetch, cannot).at(self.reference.whole());
        let refused = refused.found(&error);
        match error {
            registry::Error::Own(error) => error,
            registry::Error::OtherBytes { expected, found } => {
                let fact = format!("{name} is not what its digest says");
                Error::new(Kind::Unproved, fact)
                    .at(self.reference.whole())
                    .expected(expected)
                    .found(found)
                    .cure("the registry gives other bytes than its manifest names: ask its owner")
            }
            registry::Error::Http(Fault::Host(error)) => error,
            registry::Error::Http(Fault::Refused(Refusal::Insecure { .. })) => refused.cure(
                "what comes over http may be anybody's, so it is not followed: ask the registry's owner",
            ),
            registry::Error::Http(Fault::Refused(Refusal::Reach { .. })) => {
                refused.cure(Refusal::REACH_CURE)
            }
            registry::Error::Unauthorized | registry::Error::NoToken(_) => {
                refused.cure("registries are asked without credentials: use one that allows that")
            }
            error if error.is_absent() => {
                refused.cure("look at the tag, or at the digest, in the registry")
            }
            _ => refused,
        }
    }
}

/// What a manifest says it is; where it does not say, its fields show the kind.
fn media_type(blob: &Blob) -> Result<String> {
    // An index of strangers may name any blob of the store as a manifest.
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
