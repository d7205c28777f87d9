//! Remote files: from the store if possible, otherwise over the network.

use std::sync::Arc;

use tracing::debug;
use tracing::field::display;
use url::Url;

use crate::runtime::run_blocking;
use crate::store::{
    AdmitTerms, ExpectedBytes, PartialTransfer, ResumeRecord, StoredBlob, UrlRecord,
};
use winimg_base::digest::{Algorithm, Digest};
use winimg_base::display_text;
use winimg_base::error::{Error, Kind, Result};

use super::failure::{note_mirror, redirect_line, require_online};
use super::requirements::{FileRequirements, JudgedBytes};
use super::transfer::{Transfer, TransferOutcome};
use super::{FetchSource, FetchedFile};

pub(super) struct RemoteFile<'a> {
    pub url: &'a Url,
    /// The URL without its secrets.
    pub display_url: String,
    pub wanted: &'a FileRequirements<'a>,
}

impl RemoteFile<'_> {
    pub async fn fetch(&self) -> Result<FetchedFile> {
        let from = FetchSource::Cache;
        if let Some(blob) = self.find().await? {
            debug!(digest = %blob.digest(), "in the cache");
            return Ok(FetchedFile { blob, from });
        }
        let named = self.wanted.terms.digest().map(display);
        debug!(url = self.display_url, named, "not in the cache");
        let partial = self.open_partial().await?;
        // The process that held the partial file before may have finished it.
        if let Some(blob) = self.find().await? {
            return Ok(FetchedFile { blob, from });
        }
        if let Some(blob) = self.release().await? {
            debug!(digest = %blob.digest(), "in quarantine, and proved now");
            return Ok(FetchedFile { blob, from });
        }
        if let Some(blob) = self.fetch_shared(&partial).await? {
            debug!(digest = %blob.digest(), "in the shared cache");
            let from = FetchSource::Network;
            return Ok(FetchedFile { blob, from });
        }
        let cached = self.find_cached().await?;
        let options = &self.wanted.context.options;
        if let Some(seen) = cached.as_ref().filter(|_| options.offline) {
            return self.use_cached(&seen.sha256).await;
        }
        let (what, digest) = (&self.wanted.watch.what, self.wanted.terms.digest());
        require_online(options, what, &self.display_url, digest)?;
        match (self.transfer(&partial, cached.as_ref()).await, cached) {
            // The copy has no expected digest, so an outdated one is a warning, not an error.
            (Err(e), Some(seen)) if e.kind() == Kind::Fetch => {
                let file = self.use_cached(&seen.sha256).await?;
                let fact = e.fact();
                let text = format!("{fact}; using the copy of an earlier run");
                self.wanted.watch.warn(text);
                Ok(file)
            }
            (other, _) => other,
        }
    }

    /// Finds the file in the store by its digest.
    async fn find(&self) -> Result<Option<StoredBlob>> {
        let wanted = self.wanted;
        let Some(digest) = wanted.context.store.find_known_digest(&wanted.terms) else {
            return Ok(None);
        };
        let found = wanted.judge_with(JudgedBytes::Digest(&digest), |store, terms, watch| {
            store.find(terms, watch)
        });
        found.await.map_err(|e| self.add_address(e))
    }

    /// Finds the file in quarantine by its digest, and releases it if it is proved now.
    async fn release(&self) -> Result<Option<StoredBlob>> {
        let wanted = self.wanted;
        let Some(digest) = wanted.context.store.find_quarantined(&wanted.terms) else {
            return Ok(None);
        };
        let (terms, _) = wanted
            .fetch_signatures(JudgedBytes::Digest(&digest), true)
            .await?;
        let released =
            wanted.run_on_store(&terms, |store, terms, watch| store.release(terms, watch));
        released.await.map_err(|e| self.add_address(e))
    }

    /// Fetches the file from the shared cache by its digest.
    async fn fetch_shared(&self, partial: &PartialTransfer) -> Result<Option<StoredBlob>> {
        let (wanted, context) = (self.wanted, self.wanted.context);
        let named = wanted.terms.locked.as_ref().or(wanted.terms.digest());
        let named = named.filter(|digest| digest.algorithm == Algorithm::Sha256);
        let (Some(remote), Some(digest)) = (&context.options.shared, named) else {
            return Ok(None);
        };
        // A part is already here: resuming from the URL is faster.
        if context.options.offline || partial.find_resumable().is_some() {
            return Ok(None);
        }
        let file = partial.begin(&ResumeRecord::default())?;
        let (remote, store) = (Arc::clone(remote), context.store.clone());
        let (named, watch) = (digest.clone(), wanted.watch.clone());
        let locked = wanted.request.origin.locked.as_ref();
        // The server's length is not trusted.
        let limit = locked.map_or(context.options.longest, |locked| locked.size);
        let pulled = run_blocking(move || remote.pull_blob(&named, limit, file, &store, &watch));
        if !pulled.await? {
            partial.discard()?;
            return Ok(None);
        }
        let (terms, _) = wanted
            .fetch_signatures(JudgedBytes::Digest(digest), true)
            .await?;
        let candidate = partial.to_candidate();
        let admitted = wanted.run_on_store(&terms, |store, terms, watch| {
            store.admit(candidate, terms, watch)
        });
        let admitted = admitted.await.map_err(|e| self.add_address(e))?;
        partial.discard()?;
        Ok(Some(admitted))
    }

    /// Returns the record of the last download from this URL, if the file is still in the store.
    async fn find_cached(&self) -> Result<Option<UrlRecord>> {
        let wanted = self.wanted;
        if wanted.terms.digest().is_some() {
            return Ok(None);
        }
        let Some(seen) = wanted.context.store.find_url_record(self.url.as_str()) else {
            return Ok(None);
        };
        // Checks only that the bytes are intact; they are verified when used.
        let whole = AdmitTerms::from(ExpectedBytes::Digest(seen.sha256.clone()));
        let blob = wanted.run_on_store(&whole, |store, terms, watch| store.find(terms, watch));
        Ok(blob.await?.map(|_| seen))
    }

    /// Verifies the copy of an earlier run by this run's terms.
    async fn use_cached(&self, sha256: &Digest) -> Result<FetchedFile> {
        let digest = sha256.clone();
        let judged = self
            .wanted
            .judge_with(JudgedBytes::Digest(sha256), move |store, terms, watch| {
                store.find_seen(&digest, terms, watch)
            });
        let blob = judged.await.map_err(|e| self.add_address(e))?;
        let from = FetchSource::Cache;
        blob.map(|blob| FetchedFile { blob, from })
            .ok_or_else(unexpected_answer)
    }

    /// Adds the file's address to a refusal.
    fn add_address(&self, e: Error) -> Error {
        match e.kind() {
            Kind::Unproved => e.or_at(&self.display_url),
            _ => e,
        }
    }

    async fn transfer(
        &self,
        partial: &PartialTransfer,
        cached: Option<&UrlRecord>,
    ) -> Result<FetchedFile> {
        let wanted = self.wanted;
        let mirror = wanted.context.options.mirrors.resolve_url(self.url);
        let transfer = Transfer {
            context: wanted.context,
            url: mirror.as_ref().unwrap_or(self.url),
            file: &wanted.request.file,
            watch: &wanted.watch,
            cached,
            query: None,
            locked: wanted.request.origin.locked.as_ref(),
            is_pinned: matches!(wanted.terms.expected, ExpectedBytes::Digest(_)),
        };
        let mut ready = self.prepare_terms(cached).await?;
        let mut is_first = true;
        loop {
            let got = transfer.run(partial).await;
            let got = got.map_err(|e| note_mirror(e, mirror.as_ref(), self.url))?;
            let (from, resumed) = match (got, cached) {
                (TransferOutcome::File { from, resumed }, _) => (from, resumed),
                (TransferOutcome::NotModified, Some(seen)) => {
                    return self.use_cached(&seen.sha256).await;
                }
                (TransferOutcome::NotModified, None) => return Err(unexpected_answer()),
            };
            let terms = match ready.take() {
                Some(terms) => terms,
                // A new file has a new signature.
                None => {
                    wanted
                        .fetch_signatures(JudgedBytes::Path(partial.path()), true)
                        .await?
                        .0
                }
            };
            let candidate = partial.to_candidate();
            let admitted = wanted.run_on_store(&terms, move |store, terms, watch| {
                store.admit(candidate, terms, watch)
            });
            let admitted = admitted.await;
            // Moved into place or to quarantine; an interrupted check leaves it for the next run.
            if !matches!(&admitted, Err(e) if e.kind() != Kind::Unproved) {
                partial.discard()?;
            }
            match admitted {
                // The server may have served two versions under one tag.
                Err(e) if e.kind() == Kind::Unproved && resumed && is_first => {
                    is_first = false;
                    ready = Some(terms);
                    wanted.watch.note(format!(
                        "{}; it was joined from two transfers and is downloaded again as a whole",
                        e.fact()
                    ));
                }
                Err(e) => {
                    let e = with_redirect(e, from.redirected_to);
                    let e = explain_encoding(e, from.encoding.as_deref());
                    return Err(note_mirror(self.add_address(e), mirror.as_ref(), self.url));
                }
                Ok(blob) => {
                    self.record_download(&blob, from, cached)?;
                    let from = FetchSource::Network;
                    return Ok(FetchedFile { blob, from });
                }
            }
        }
    }

    /// Fetches the signatures before the file, so that a missing one is reported before gigabytes
    /// are downloaded.
    async fn prepare_terms(&self, cached: Option<&UrlRecord>) -> Result<Option<AdmitTerms>> {
        let wanted = self.wanted;
        if cached.is_some() || wanted.needs_file() {
            return Ok(None);
        }
        let (terms, _) = wanted
            .fetch_signatures(JudgedBytes::NothingYet, true)
            .await?;
        Ok(Some(terms))
    }

    /// Records the download, and warns if the URL served a different file before.
    fn record_download(
        &self,
        blob: &StoredBlob,
        from: ResumeRecord,
        cached: Option<&UrlRecord>,
    ) -> Result<()> {
        let wanted = self.wanted;
        let store = &wanted.context.store;
        let before = match cached {
            Some(seen) => Some(seen.clone()),
            None => store.find_url_record(self.url.as_str()),
        };
        let replaced = before.filter(|seen| seen.sha256 != *blob.digest());
        let may_change = !matches!(wanted.terms.expected, ExpectedBytes::Digest(_));
        if let Some(seen) = replaced.filter(|_| may_change) {
            wanted.watch.warn(format!(
                "{}: the publisher replaced this file: it was {}, now it is {}",
                wanted.watch.what,
                seen.sha256,
                blob.digest()
            ));
        }
        let seen = UrlRecord {
            url: from.url,
            etag: from.etag,
            last_modified: from.last_modified,
            sha256: blob.digest().clone(),
            size: blob.size(),
        };
        store.record_seen(self.url.as_str(), &seen)
    }

    async fn open_partial(&self) -> Result<PartialTransfer> {
        // By digest if it is known: two recipes may name two mirrors.
        let key = match self.wanted.terms.digest() {
            Some(digest) => digest.to_string(),
            None => self.url.to_string(),
        };
        let (store, watch) = (self.wanted.context.store.clone(), self.wanted.watch.clone());
        run_blocking(move || store.lock_partial(&key, &watch)).await
    }
}

/// Adds the address that the server redirected to, if any, to a refusal of the file.
fn with_redirect(error: Error, address: Option<String>) -> Error {
    match error.kind() {
        Kind::Unproved => error.lines(address.map(redirect_line)),
        _ => error,
    }
}

/// Explains the digest of a file that the server compressed in transit: that digest is of no use.
fn explain_encoding(error: Error, encoding: Option<&str>) -> Error {
    match encoding {
        Some(encoding) if error.kind() == Kind::Unproved => error
            .lines([format!(
                "the server sent it compressed, which was not requested (Content-Encoding: {})",
                display_text::sanitize_line(encoding)
            )])
            .cure(
                "the digest is of the compressed bytes and not of the file: use an address that \
                 sends the file uncompressed, or download and unpack it once and give its path",
            ),
        _ => error,
    }
}

fn unexpected_answer() -> Error {
    Error::new(Kind::Fetch, "the server sent an unexpected answer")
}
