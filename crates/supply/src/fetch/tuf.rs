//! Sigstore's trust root, refreshed from its TUF repository: `trusted_root.json` as the
//! repository's owners sign it now.
//!
//! The library verifies: the chain of roots from the first one, thresholds, lengths, digests,
//! expiry, and that no version is lower than one seen before. This module only transports the
//! bytes. (The Update Framework 1.0)

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use sigstore_tuf::transport::{FetchFuture, Repository};
use sigstore_tuf::{FileStore, Updater};
use url::Url;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::redact;

use super::documents::{Document, Documents};

/// Repository of Sigstore's public good instance.
pub const PUBLIC_GOOD: &str = "https://tuf-repo-cdn.sigstore.dev/";
/// The first trusted root, version 15 of the public good instance (sigstore/sigstore-rust,
/// `crates/sigstore-trust-root/repository/tuf_root.json`). Later ones are reached from it.
pub const FIRST_ROOT: &[u8] = include_bytes!("tuf/root.json");
/// Target name in the repository (Sigstore: root-signing).
const TARGET: &str = "trusted_root.json";

/// The current content of a repository.
#[derive(Clone, Debug)]
pub struct TrustRootUpdate {
    /// `trusted_root.json`
    pub bytes: Vec<u8>,
    /// Version of TUF's root metadata.
    pub root: u64,
    /// Version of TUF's targets metadata; it increases with each change of a target.
    pub targets: u64,
}

/// Updates the trust root from the repository at `base`, starting at `first_root`. `folder`
/// contains the metadata of earlier runs, and is written.
pub fn refresh(
    documents: &Documents,
    base: &Url,
    first_root: &[u8],
    folder: &Path,
    now: jiff::Timestamp,
) -> Result<TrustRootUpdate> {
    let failed = Arc::new(Mutex::new(None));
    let repository = TufRepository {
        documents: documents.clone(),
        base: base.clone(),
        failed: Arc::clone(&failed),
    };
    let refreshed = documents.wait(async {
        let mut updater = Updater::new(repository, first_root)
            .map_err(|e| refuse_update(e, base))?
            .with_store(FileStore::new(folder));
        updater
            .refresh(now)
            .await
            .map_err(|e| refuse_update(e, base))?;
        let bytes = updater
            .get_target(TARGET, now)
            .await
            .map_err(|e| refuse_update(e, base))?;
        let trusted = updater.trusted();
        let targets = trusted.targets_role("targets").map_or(0, |t| t.version);
        Ok(TrustRootUpdate {
            bytes,
            root: trusted.root().version,
            targets,
        })
    });
    // The transfer's own error is more specific than the library's.
    let hindered = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
    refreshed.map_err(|error| match hindered {
        Some(hindered) if error.kind() != Kind::Cancelled => hindered,
        _ => error,
    })
}

fn refuse_update(error: sigstore_tuf::Error, base: &Url) -> Error {
    Error::new(
        Kind::Unproved,
        format!("the trust root could not be refreshed: {error}"),
    )
    .at(redact(base.as_str()))
    .cure("try again later, or from another network; the current root stays in use")
}

struct TufRepository {
    documents: Documents,
    base: Url,
    failed: Arc<Mutex<Option<Error>>>,
}

impl TufRepository {
    async fn get(&self, path: &str, limit: u64) -> sigstore_tuf::Result<Option<Vec<u8>>> {
        let url = self.base.join(path);
        let url = url.map_err(|e| sigstore_tuf::Error::transport(e.to_string()))?;
        let document = Document {
            what: format!("{path} of the TUF repository"),
            url,
            limit,
        };
        self.documents.get(&document).await.map_err(|error| {
            let said = sigstore_tuf::Error::transport(error.fact());
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert(error);
            said
        })
    }
}

impl Repository for TufRepository {
    fn fetch_metadata<'a>(&'a self, name: &'a str, max_length: u64) -> FetchFuture<'a> {
        Box::pin(self.get(name, max_length))
    }

    fn fetch_target<'a>(&'a self, path: &'a str, max_length: u64) -> FetchFuture<'a> {
        Box::pin(async move { self.get(&format!("targets/{path}"), max_length).await })
    }
}
