//! What is published beside a file: signatures, certificates, log entries, checksum files.
//!
//! Small files, kept in the store by their digest and found again by their URL. By itself none of them is proof:
//! they are judged with the file. A lock names them by digest; what it names is not asked for again.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use url::Url;

use crate::digest::Digest;
use crate::error::{Error, Kind, Result};
use crate::recipe::Locked;
use crate::store::{Blob, Candidate, Expected, Resumable, Seen, Store, Watch};

use super::obtain::{blocking, offline};
use super::transfer::small;
use super::{Address, Context};

/// What was brought for one file.
#[derive(Default)]
pub(super) struct Gathered {
    /// URL without query, and the digest by which the store keeps it.
    pub evidence: BTreeMap<String, Digest>,
}

/// How to bring one piece.
pub(super) struct Asked<'a> {
    pub context: &'a Context,
    /// Named for errors: `the checksum file of kubelet`.
    pub watch: Watch,
    pub locked: Option<&'a Locked>,
    /// Bytes.
    pub limit: u64,
    /// Asked of the network although the store may have it.
    pub anew: bool,
}

impl Asked<'_> {
    /// From the store by its locked digest, from its address, or from the store by its URL.
    pub async fn bring(&self, address: &Address, gathered: &mut Gathered) -> Result<Vec<u8>> {
        let shown = address.recorded();
        let blob = self.blob(address, &shown).await?;
        gathered.evidence.insert(shown, blob.digest().clone());
        let limit = self.limit;
        let watch = self.watch.clone();
        blocking(move || read_small(blob.path(), limit, &watch)).await
    }

    async fn blob(&self, address: &Address, shown: &str) -> Result<Blob> {
        let locked = self.locked.and_then(|l| l.evidence.get(shown)).cloned();
        if let Some(digest) = &locked
            && let Some(blob) = self.in_store(digest.clone()).await?
        {
            return Ok(blob);
        }
        let blob = match address {
            Address::Local(path) => {
                let (store, watch, limit) =
                    (self.context.store.clone(), self.watch.clone(), self.limit);
                let path = path.clone();
                blocking(move || {
                    check_small(&path, limit, &watch)?;
                    store.admit(Candidate::Local(path), kept(), &watch)
                })
                .await?
            }
            Address::Remote(url) => self.remote(url, shown).await?,
        };
        if let Some(was) = locked.filter(|was| was != blob.digest()) {
            self.watch.warn(format!(
                "{} was {was} when recipe.lock was written, it is {}: it is judged anew",
                self.watch.what,
                blob.digest()
            ));
        }
        Ok(blob)
    }

    async fn remote(&self, url: &Url, shown: &str) -> Result<Blob> {
        let is_offline = self.context.options.offline;
        if !self.anew || is_offline {
            let seen = self.context.store.seen(url.as_str());
            if let Some(seen) = seen
                && let Some(blob) = self.in_store(seen.sha256).await?
            {
                return Ok(blob);
            }
        }
        if is_offline {
            return Err(offline(&self.watch.what, shown, None));
        }
        let bytes = small(self.context, url, self.limit, &self.watch).await?;
        let (store, watch) = (self.context.store.clone(), self.watch.clone());
        let (key, shown) = (url.to_string(), shown.to_string());
        blocking(move || keep(&store, &key, shown, &bytes, &watch)).await
    }

    async fn in_store(&self, digest: Digest) -> Result<Option<Blob>> {
        let (store, watch) = (self.context.store.clone(), self.watch.clone());
        blocking(move || store.find(Expected::Digest(digest), &watch)).await
    }
}

/// Nothing proves it before it is judged with its file.
fn kept() -> Expected {
    Expected::Unverified {
        reason: "it is judged with the file that it speaks of".into(),
    }
}

/// Puts bytes that came from `url` into the store, and remembers that.
fn keep(store: &Store, url: &str, shown: String, bytes: &[u8], watch: &Watch) -> Result<Blob> {
    let partial = store.partial(&format!("evidence {url}"), &watch.cancel, |_| {})?;
    let mut file = partial.begin(&Resumable::default())?;
    file.write_all(bytes)
        .and_then(|()| file.sync_all())
        .map_err(|e| Error::new(Kind::Failed, "a signature cannot be kept").because(e))?;
    let blob = store.admit(partial.candidate(), kept(), watch)?;
    partial.discard()?;
    let seen = Seen {
        url: shown,
        etag: None,
        last_modified: None,
        sha256: blob.digest().clone(),
        size: blob.size(),
    };
    store.record_seen(url, &seen)?;
    Ok(blob)
}

fn check_small(path: &Path, limit: u64, watch: &Watch) -> Result<()> {
    let metadata = std::fs::metadata(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Error::new(
            Kind::Fetch,
            format!("{}: there is no file {}", watch.what, path.display()),
        ),
        _ => Error::io("read", path, e),
    })?;
    if metadata.len() > limit {
        let fact = format!("{} is longer than {limit} bytes", watch.what);
        return Err(Error::new(Kind::Fetch, fact).at(path.display()));
    }
    Ok(())
}

fn read_small(path: &Path, limit: u64, watch: &Watch) -> Result<Vec<u8>> {
    check_small(path, limit, watch)?;
    std::fs::read(path).map_err(|e| Error::io("read", path, e))
}
