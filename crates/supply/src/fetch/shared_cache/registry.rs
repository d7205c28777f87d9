//! Client for the registry of a shared cache: tags, manifests and blobs, down and up, each with a
//! deadline.
//!
//! Trusts nothing: a blob's bytes match its digest, and nothing more is known of them. Follows no
//! address in a manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use oci_client::Reference;
use oci_client::manifest::{OciDescriptor, OciImageManifest};
use tokio::time::timeout;

use super::Proxies;
use super::fault::CacheFault;
use super::{CacheAddress, LoginLookup, Timeouts};
use crate::fetch::registry::{self, RegistryClient};
use crate::fetch::upload;
use crate::store::{ProgressWatch, Store};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};

pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// For manifests that need no configuration (OCI Image Format: guidance for an empty descriptor).
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
const BLOB: &str = "application/vnd.winimg.blob.v1";
const TITLE: &str = "org.opencontainers.image.title";
const BYTES: &str = "application/octet-stream";
/// Maximum number of pages of tags, and the number of tags in each.
const PAGES: usize = 50;
const PAGE: usize = 1000;

pub struct CacheRegistry {
    client: RegistryClient,
    address: CacheAddress,
    patience: Timeouts,
    /// Cure if the registry denies access.
    cure: String,
}

impl CacheRegistry {
    pub fn new(
        address: &CacheAddress,
        login: LoginLookup,
        proxies: &Proxies,
        patience: Timeouts,
    ) -> Result<Self> {
        let LoginLookup { credentials, cure } = login;
        if credentials.is_some() && address.plain && !address.is_here {
            let fact = "the password for the shared cache would be sent unencrypted";
            return Err(Error::new(Kind::Recipe, fact)
                .at(address)
                .cure("use oci://, which uses https"));
        }
        // Docker Hub has another host name than its users write.
        let named = Reference::with_tag(
            address.registry.clone(),
            address.repository.clone(),
            "latest".into(),
        );
        Ok(Self {
            client: RegistryClient::new(&named, address.plain, credentials, proxies, patience)?,
            address: address.clone(),
            patience,
            cure,
        })
    }

    pub fn describe(&self) -> String {
        self.address.to_string()
    }

    fn convert_error(&self, error: registry::RegistryError) -> CacheFault {
        CacheFault::from_registry(&self.address, error, &self.cure)
    }

    pub fn error(&self, fact: impl Into<String>) -> Error {
        Error::new(Kind::Fetch, fact).at(&self.address)
    }

    /// Returns the answer within the deadline; `None`: it does not exist.
    async fn wait_for<T>(
        &self,
        work: impl Future<Output = Result<T, registry::RegistryError>>,
    ) -> Result<Option<T>, CacheFault> {
        match timeout(self.patience.answer, work).await {
            Ok(Ok(answer)) => Ok(Some(answer)),
            Ok(Err(e)) if e.is_absent() => Ok(None),
            Ok(Err(e)) => Err(self.convert_error(e)),
            Err(_) => Err(CacheFault::from_timeout(
                &self.address,
                self.patience.answer,
            )),
        }
    }

    /// Lists every tag.
    pub async fn list_tags(&self) -> Result<BTreeSet<String>, CacheFault> {
        let mut all = BTreeSet::new();
        let mut last: Option<String> = None;
        for _ in 0..PAGES {
            let page = self.client.list_tags(PAGE, last.as_deref());
            let Some(tags) = self.wait_for(page).await? else {
                break;
            };
            let before = all.len();
            last = tags.last().cloned();
            all.extend(tags);
            // A registry may send more than a page, or the same page forever.
            if all.len() == before || all.len() >= PAGES * PAGE {
                break;
            }
        }
        Ok(all)
    }

    /// Fetches the manifest with a tag; an index is not accepted.
    pub async fn fetch_manifest(&self, tag: &str) -> Result<Option<OciImageManifest>, CacheFault> {
        let pulled = self.client.fetch_manifest(tag, &[MANIFEST]);
        let Some(bytes) = self.wait_for(pulled).await? else {
            return Ok(None);
        };
        let parsed = serde_json::from_slice(&bytes).map_err(|e| {
            let error = self.error(format!(
                "the manifest {tag} of the shared cache cannot be read"
            ));
            CacheFault::Refused(error.because(e))
        })?;
        Ok(Some(parsed))
    }

    /// Reads a blob of at most `limit` bytes, piece by piece; returns false if it is not there. The
    /// bytes match the digest only if this succeeds.
    pub async fn pull(
        &self,
        digest: &Digest,
        limit: u64,
        watch: &ProgressWatch,
        mut take: impl FnMut(&[u8], Option<u64>) -> Result<()>,
    ) -> Result<bool, CacheFault> {
        let asked = self.client.open_blob(digest);
        let Some(mut blob) = self.wait_for(asked).await? else {
            return Ok(false);
        };
        let total = blob.total;
        let mut done = 0;
        loop {
            let bytes = match blob.next().await {
                Ok(None) => return Ok(true),
                Ok(Some(bytes)) => bytes,
                Err(e) => return Err(self.convert_error(e)),
            };
            done += bytes.len() as u64;
            if done > limit {
                let error = self.error("the shared cache sent more bytes than expected");
                return Err(CacheFault::Refused(
                    error
                        .with_kind(Kind::Unproved)
                        .expected(format!("{limit} bytes at most")),
                ));
            }
            take(&bytes, total)?;
            watch.report_bytes(done, total)?;
        }
    }

    /// Reads a small blob into memory.
    pub async fn read_small(
        &self,
        digest: &Digest,
        limit: u64,
        watch: &ProgressWatch,
    ) -> Result<Option<Vec<u8>>, CacheFault> {
        let mut all = Vec::new();
        let came = self.pull(digest, limit, watch, |bytes, _| {
            all.extend_from_slice(bytes);
            Ok(())
        });
        Ok(came.await?.then_some(all))
    }

    /// Downloads a blob of at most `limit` bytes to a file of the store.
    pub async fn download(
        &self,
        digest: &Digest,
        limit: u64,
        mut file: File,
        store: &Store,
        watch: &ProgressWatch,
    ) -> Result<bool, CacheFault> {
        let mut first = true;
        let came = self.pull(digest, limit, watch, |bytes, total| {
            if std::mem::take(&mut first) {
                store.check_free_space(&watch.what, total.unwrap_or(0))?;
            }
            file.write_all(bytes)
                .map_err(|e| Error::io("write to", store.folder(), e))
        });
        if !came.await? {
            return Ok(false);
        }
        file.sync_all()
            .map_err(|e| Error::io("write to", store.folder(), e))?;
        Ok(true)
    }

    /// Uploads a file as a blob, unless it is there.
    pub async fn upload(
        &self,
        path: &Path,
        digest: &Digest,
        size: u64,
        watch: &ProgressWatch,
    ) -> Result<(), CacheFault> {
        if self.has(digest).await? {
            return Ok(());
        }
        let (body, moved) = upload::open_range(path, 0, size, watch)?;
        let given = self.client.give_blob(body, digest, size);
        tokio::select! {
            given = given => given.map_err(|e| self.convert_error(e)),
            () = moved.stands_still(self.patience.stall) => {
                Err(CacheFault::from_timeout(&self.address, self.patience.stall))
            }
        }
    }

    /// Uploads a small blob; returns its descriptor.
    pub async fn upload_small(
        &self,
        media_type: &str,
        bytes: Vec<u8>,
    ) -> Result<OciDescriptor, CacheFault> {
        let digest = Digest::sha256_of(&bytes);
        let descriptor = make_descriptor(media_type, &digest, bytes.len() as u64);
        if !self.has(&digest).await? {
            let size = bytes.len() as u64;
            let given = self.client.give_blob(bytes, &digest, size);
            self.require_repository(self.wait_for(given).await?)?;
        }
        Ok(descriptor)
    }

    /// Pushes a manifest under a tag, which makes its content visible to others.
    pub async fn push_manifest(
        &self,
        tag: &str,
        manifest: OciImageManifest,
    ) -> Result<(), CacheFault> {
        let bytes = serde_json::to_vec(&manifest)
            .map_err(|e| Error::new(Kind::Failed, "a manifest cannot be written").because(e))?;
        let given = self.client.give_manifest(tag, MANIFEST, bytes);
        self.require_repository(self.wait_for(given).await?)
    }

    /// Tags an input, so that the registry does not collect it as garbage.
    pub async fn tag_blob(&self, tag: &str, digest: &Digest, size: u64) -> Result<(), CacheFault> {
        let manifest = OciImageManifest {
            media_type: Some(MANIFEST.into()),
            artifact_type: Some(BLOB.into()),
            config: self.upload_small(EMPTY, b"{}".to_vec()).await?,
            layers: vec![make_descriptor(BYTES, digest, size)],
            ..OciImageManifest::default()
        };
        self.push_manifest(tag, manifest).await
    }

    async fn has(&self, digest: &Digest) -> Result<bool, CacheFault> {
        let asked = self.client.has_blob(digest);
        Ok(self.wait_for(asked).await?.unwrap_or(false))
    }

    /// Checks the answer to a push: some registries do not create a repository on push.
    fn require_repository(&self, answer: Option<()>) -> Result<(), CacheFault> {
        answer.ok_or_else(|| {
            CacheFault::Refused(self.error("the shared cache has no such repository"))
        })
    }
}

pub fn make_descriptor(media_type: &str, digest: &Digest, size: u64) -> OciDescriptor {
    OciDescriptor {
        media_type: media_type.into(),
        digest: digest.to_string(),
        size: i64::try_from(size).unwrap_or(i64::MAX),
        ..OciDescriptor::default()
    }
}

/// Adds a file name to a descriptor (OCI Image Format: pre-defined annotation keys).
pub fn add_title(descriptor: OciDescriptor, name: &str) -> OciDescriptor {
    OciDescriptor {
        annotations: Some(BTreeMap::from([(TITLE.to_owned(), name.to_owned())])),
        ..descriptor
    }
}

/// Finds the part of a manifest with this file name.
pub fn find_part<'a>(manifest: &'a OciImageManifest, name: &str) -> Option<&'a OciDescriptor> {
    manifest.layers.iter().find(|part| {
        let annotations = part.annotations.as_ref();
        annotations
            .and_then(|all| all.get(TITLE))
            .is_some_and(|title| title == name)
    })
}
