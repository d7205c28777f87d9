//! The words of one registry: tags, manifests, blobs down and up, each with a deadline.
//!
//! Believes nothing: a blob's bytes are those of its digest, and that is all that is known of them. Follows no address that
//! a manifest names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use oci_client::Reference;
use oci_client::manifest::{OciDescriptor, OciImageManifest};
use tokio::time::timeout;

use super::Proxies;
use super::fault::Fault;
use super::{Address, Lookup, Patience};
use crate::fetch::registry::{self, Client};
use crate::fetch::upload;
use crate::store::{Store, Watch};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};

pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// For manifests that need no configuration (OCI Image Format: guidance for an empty descriptor).
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
const BLOB: &str = "application/vnd.winimg.blob.v1";
const TITLE: &str = "org.opencontainers.image.title";
const BYTES: &str = "application/octet-stream";
/// Tags are asked for by the thousand, and so often at most.
const PAGES: usize = 50;
const PAGE: usize = 1000;

pub struct Registry {
    client: Client,
    address: Address,
    patience: Patience,
    /// What helps where the registry denies access.
    cure: String,
}

impl Registry {
    pub fn new(
        address: &Address,
        login: Lookup,
        proxies: &Proxies,
        patience: Patience,
    ) -> Result<Self> {
        let Lookup { credentials, cure } = login;
        if credentials.is_some() && address.plain && !address.is_here {
            let fact = "a password for the shared cache would be readable on its way";
            return Err(Error::new(Kind::Recipe, fact)
                .at(address)
                .cure("use oci://, which is https"));
        }
        // Docker Hub answers under another name than its users write.
        let named = Reference::with_tag(
            address.registry.clone(),
            address.repository.clone(),
            "latest".into(),
        );
        Ok(Self {
            client: Client::new(&named, address.plain, credentials, proxies, patience)?,
            address: address.clone(),
            patience,
            cure,
        })
    }

    pub fn shown(&self) -> String {
        self.address.to_string()
    }

    fn fault(&self, error: registry::Error) -> Fault {
        Fault::of(&self.address, error, &self.cure)
    }

    pub fn error(&self, fact: impl Into<String>) -> Error {
        Error::new(Kind::Fetch, fact).at(&self.address)
    }

    /// What it says within the deadline; `None`: it has no such thing.
    async fn answer<T>(
        &self,
        work: impl Future<Output = Result<T, registry::Error>>,
    ) -> Result<Option<T>, Fault> {
        match timeout(self.patience.answer, work).await {
            Ok(Ok(answer)) => Ok(Some(answer)),
            Ok(Err(e)) if e.is_absent() => Ok(None),
            Ok(Err(e)) => Err(self.fault(e)),
            Err(_) => Err(Fault::silent(&self.address, self.patience.answer)),
        }
    }

    /// Every tag.
    pub async fn tags(&self) -> Result<BTreeSet<String>, Fault> {
        let mut all = BTreeSet::new();
        let mut last: Option<String> = None;
        for _ in 0..PAGES {
            let page = self.client.tags(PAGE, last.as_deref());
            let Some(tags) = self.answer(page).await? else {
                break;
            };
            let before = all.len();
            last = tags.last().cloned();
            all.extend(tags);
            // A registry may send more than a page, or the same one for ever.
            if all.len() == before || all.len() >= PAGES * PAGE {
                break;
            }
        }
        Ok(all)
    }

    /// The manifest that a tag names; an index is none.
    pub async fn manifest(&self, tag: &str) -> Result<Option<OciImageManifest>, Fault> {
        let pulled = self.client.manifest(tag, &[MANIFEST]);
        let Some(bytes) = self.answer(pulled).await? else {
            return Ok(None);
        };
        let parsed = serde_json::from_slice(&bytes).map_err(|e| {
            let error = self.error(format!(
                "the manifest {tag} of the shared cache cannot be read"
            ));
            Fault::Refused(error.because(e))
        })?;
        Ok(Some(parsed))
    }

    /// A blob of at most `limit` bytes, piece by piece; whether it is there. Its bytes are those of the digest only when
    /// this ends well.
    pub async fn pull(
        &self,
        digest: &Digest,
        limit: u64,
        watch: &Watch,
        mut take: impl FnMut(&[u8], Option<u64>) -> Result<()>,
    ) -> Result<bool, Fault> {
        let asked = self.client.blob(digest);
        let Some(mut blob) = self.answer(asked).await? else {
            return Ok(false);
        };
        let total = blob.total;
        let mut done = 0;
        loop {
            let bytes = match blob.next().await {
                Ok(None) => return Ok(true),
                Ok(Some(bytes)) => bytes,
                Err(e) => return Err(self.fault(e)),
            };
            done += bytes.len() as u64;
            if done > limit {
                let error = self.error("the shared cache sent more bytes than expected");
                return Err(Fault::Refused(
                    error
                        .of_kind(Kind::Unproved)
                        .expected(format!("{limit} bytes at most")),
                ));
            }
            take(&bytes, total)?;
            watch.bytes(done, total)?;
        }
    }

    /// A small blob, whole.
    pub async fn small(
        &self,
        digest: &Digest,
        limit: u64,
        watch: &Watch,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let mut all = Vec::new();
        let came = self.pull(digest, limit, watch, |bytes, _| {
            all.extend_from_slice(bytes);
            Ok(())
        });
        Ok(came.await?.then_some(all))
    }

    /// A blob of at most `limit` bytes into a file of the store.
    pub async fn download(
        &self,
        digest: &Digest,
        limit: u64,
        mut file: File,
        store: &Store,
        watch: &Watch,
    ) -> Result<bool, Fault> {
        let unwritten = |e| Error::io("write to", store.folder(), e);
        let mut first = true;
        let came = self.pull(digest, limit, watch, |bytes, total| {
            if std::mem::take(&mut first) {
                store.check_room(&watch.what, total.unwrap_or(0))?;
            }
            file.write_all(bytes).map_err(unwritten)
        });
        if !came.await? {
            return Ok(false);
        }
        file.sync_all().map_err(unwritten)?;
        Ok(true)
    }

    /// Gives a file as a blob, unless it is there.
    pub async fn upload(
        &self,
        path: &Path,
        digest: &Digest,
        size: u64,
        watch: &Watch,
    ) -> Result<(), Fault> {
        if self.has(digest).await? {
            return Ok(());
        }
        let (body, moved) = upload::body(path, 0, size, watch)?;
        let given = self.client.give_blob(body, digest, size);
        tokio::select! {
            given = given => given.map_err(|e| self.fault(e)),
            () = moved.stands_still(self.patience.stall) => Err(Fault::silent(&self.address, self.patience.stall)),
        }
    }

    /// Gives a small blob; what describes it.
    pub async fn give(&self, media_type: &str, bytes: Vec<u8>) -> Result<OciDescriptor, Fault> {
        let digest = Digest::sha256_of(&bytes);
        let descriptor = described(media_type, &digest, bytes.len() as u64);
        if !self.has(&digest).await? {
            let size = bytes.len() as u64;
            let given = self.client.give_blob(bytes, &digest, size);
            self.given(self.answer(given).await?)?;
        }
        Ok(descriptor)
    }

    /// Gives a manifest its name: from now on what it names is there for others.
    pub async fn tag(&self, tag: &str, manifest: OciImageManifest) -> Result<(), Fault> {
        let unwritten = |e| Error::new(Kind::Failed, "a manifest cannot be written").because(e);
        let bytes = serde_json::to_vec(&manifest).map_err(unwritten)?;
        let given = self.client.give_manifest(tag, MANIFEST, bytes);
        self.given(self.answer(given).await?)
    }

    /// A name for an input, so that the registry does not take it for garbage.
    pub async fn tag_blob(&self, tag: &str, digest: &Digest, size: u64) -> Result<(), Fault> {
        let manifest = OciImageManifest {
            media_type: Some(MANIFEST.into()),
            artifact_type: Some(BLOB.into()),
            config: self.give(EMPTY, b"{}".to_vec()).await?,
            layers: vec![described(BYTES, digest, size)],
            ..OciImageManifest::default()
        };
        self.tag(tag, manifest).await
    }

    async fn has(&self, digest: &Digest) -> Result<bool, Fault> {
        let asked = self.client.has_blob(digest);
        Ok(self.answer(asked).await?.unwrap_or(false))
    }

    /// A repository that may not be made by writing to it.
    fn given(&self, answer: Option<()>) -> Result<(), Fault> {
        let no_place = || Fault::Refused(self.error("the shared cache has no such repository"));
        answer.ok_or_else(no_place)
    }
}

pub fn described(media_type: &str, digest: &Digest, size: u64) -> OciDescriptor {
    OciDescriptor {
        media_type: media_type.into(),
        digest: digest.to_string(),
        size: i64::try_from(size).unwrap_or(i64::MAX),
        ..OciDescriptor::default()
    }
}

/// The same under the name of a file (OCI Image Format: pre-defined annotation keys).
pub fn titled(descriptor: OciDescriptor, name: &str) -> OciDescriptor {
    OciDescriptor {
        annotations: Some(BTreeMap::from([(TITLE.to_owned(), name.to_owned())])),
        ..descriptor
    }
}

/// The part of a manifest that has this file's name.
pub fn part<'a>(manifest: &'a OciImageManifest, name: &str) -> Option<&'a OciDescriptor> {
    let title = |d: &OciDescriptor| d.annotations.as_ref()?.get(TITLE).cloned();
    let mut parts = manifest.layers.iter();
    parts.find(|d| title(d).is_some_and(|title| title == name))
}
