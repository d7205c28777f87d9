//! A file of another host: from the store where it may be, over the network where it must.

use std::sync::Arc;

use tracing::debug;
use tracing::field::display;
use url::Url;

use crate::store::{Blob, Expected, Partial, Resumable, Seen, Terms};
use winimg_base::digest::{Algorithm, Digest};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::unseen;

use super::failure::{mirrored, must_be_online};
use super::transfer::{Got, Transfer};
use super::wanted::{Of, Wanted};
use super::{CameFrom, Fetched, blocking};

pub(super) struct Remote<'a> {
    pub url: &'a Url,
    /// The URL without its secrets.
    pub shown: String,
    pub wanted: &'a Wanted<'a>,
}

impl Remote<'_> {
    pub async fn obtain(&self) -> Result<Fetched> {
        let from = CameFrom::Cache;
        if let Some(blob) = self.find().await? {
            debug!(digest = %blob.digest(), "in the cache");
            return Ok(Fetched { blob, from });
        }
        let named = self.wanted.terms.digest().map(display);
        debug!(url = self.shown, named, "not in the cache");
        let partial = self.partial().await?;
        // The previous holder of the place may have brought it.
        if let Some(blob) = self.find().await? {
            return Ok(Fetched { blob, from });
        }
        if let Some(blob) = self.release().await? {
            debug!(digest = %blob.digest(), "in quarantine, and proved now");
            return Ok(Fetched { blob, from });
        }
        if let Some(blob) = self.shared(&partial).await? {
            debug!(digest = %blob.digest(), "in the shared cache");
            let from = CameFrom::Network;
            return Ok(Fetched { blob, from });
        }
        let cached = self.cached().await?;
        let options = &self.wanted.context.options;
        if let Some(seen) = cached.as_ref().filter(|_| options.offline) {
            return self.settle(&seen.sha256).await;
        }
        let (what, digest) = (&self.wanted.watch.what, self.wanted.terms.digest());
        must_be_online(options, what, &self.shown, digest)?;
        match (self.transfer(&partial, cached.as_ref()).await, cached) {
            // Nothing names the copy's bytes; its age is worth a word, not a stop.
            (Err(e), Some(seen)) if e.kind() == Kind::Fetch => {
                let settled = self.settle(&seen.sha256).await?;
                let fact = e.fact();
                let text = format!("{fact}; the copy of an earlier run is used");
                self.wanted.watch.warn(text);
                Ok(settled)
            }
            (other, _) => other,
        }
    }

    /// In the store, by the digest that names it.
    async fn find(&self) -> Result<Option<Blob>> {
        let wanted = self.wanted;
        let Some(digest) = wanted.context.store.known(&wanted.terms) else {
            return Ok(None);
        };
        let found = wanted.judged(Of::Digest(&digest), |store, terms, watch| {
            store.find(terms, watch)
        });
        found.await.map_err(|e| self.at(e))
    }

    /// In quarantine, by the digest that names it.
    async fn release(&self) -> Result<Option<Blob>> {
        let wanted = self.wanted;
        let Some(digest) = wanted.context.store.set_aside(&wanted.terms) else {
            return Ok(None);
        };
        let (terms, _) = wanted.signed(Of::Digest(&digest), true).await?;
        let released = wanted.at_store(&terms, |store, terms, watch| store.release(terms, watch));
        released.await.map_err(|e| self.at(e))
    }

    /// From the cache that machines share, by the digest that names it.
    async fn shared(&self, partial: &Partial) -> Result<Option<Blob>> {
        let (wanted, context) = (self.wanted, self.wanted.context);
        let named = wanted.terms.locked.as_ref().or(wanted.terms.digest());
        let named = named.filter(|digest| digest.algorithm == Algorithm::Sha256);
        let (Some(remote), Some(digest)) = (&context.options.shared, named) else {
            return Ok(None);
        };
        // The URL gave a part of it: the rest is the shorter way.
        if context.options.offline || partial.left().is_some() {
            return Ok(None);
        }
        let file = partial.begin(&Resumable::default())?;
        let (remote, store) = (Arc::clone(remote), context.store.clone());
        let (named, watch) = (digest.clone(), wanted.watch.clone());
        let locked = wanted.request.origin.locked.as_ref();
        // Not the length that the server gives.
        let limit = locked.map_or(context.options.longest, |locked| locked.size);
        let pulled = blocking(move || remote.pull_blob(&named, limit, file, &store, &watch));
        if !pulled.await? {
            partial.discard()?;
            return Ok(None);
        }
        let (terms, _) = wanted.signed(Of::Digest(digest), true).await?;
        let candidate = partial.candidate();
        let admitted = wanted.at_store(&terms, |store, terms, watch| {
            store.admit(candidate, terms, watch)
        });
        let admitted = admitted.await.map_err(|e| self.at(e))?;
        partial.discard()?;
        Ok(Some(admitted))
    }

    /// What the URL gave last time, if it is still in the store.
    async fn cached(&self) -> Result<Option<Seen>> {
        let wanted = self.wanted;
        if wanted.terms.digest().is_some() {
            return Ok(None);
        }
        let Some(seen) = wanted.context.store.seen(self.url.as_str()) else {
            return Ok(None);
        };
        // Only whether its bytes are whole: it is judged when it is used.
        let whole = Terms::from(Expected::Digest(seen.sha256.clone()));
        let blob = wanted.at_store(&whole, |store, terms, watch| store.find(terms, watch));
        Ok(blob.await?.map(|_| seen))
    }

    /// The copy of an earlier run, judged by this one's terms.
    async fn settle(&self, sha256: &Digest) -> Result<Fetched> {
        let digest = sha256.clone();
        let judged = self
            .wanted
            .judged(Of::Digest(sha256), move |store, terms, watch| {
                store.find_seen(&digest, terms, watch)
            });
        let blob = judged.await.map_err(|e| self.at(e))?;
        let from = CameFrom::Cache;
        blob.map(|blob| Fetched { blob, from })
            .ok_or_else(unexpected)
    }

    /// A refusal names the file's address.
    fn at(&self, e: Error) -> Error {
        match e.kind() {
            Kind::Unproved => e.or_at(&self.shown),
            _ => e,
        }
    }

    async fn transfer(&self, partial: &Partial, cached: Option<&Seen>) -> Result<Fetched> {
        let wanted = self.wanted;
        let mirror = wanted.context.options.mirrors.url(self.url);
        let transfer = Transfer {
            context: wanted.context,
            url: mirror.as_ref().unwrap_or(self.url),
            file: &wanted.request.file,
            watch: &wanted.watch,
            cached,
            query: None,
            locked: wanted.request.origin.locked.as_ref(),
        };
        let mut ready = self.early(cached).await?;
        let mut first = true;
        loop {
            let got = transfer.run(partial).await;
            let got = got.map_err(|e| mirrored(e, mirror.as_ref(), self.url))?;
            let (from, resumed) = match (got, cached) {
                (Got::File { from, resumed }, _) => (from, resumed),
                (Got::NotModified, Some(seen)) => return self.settle(&seen.sha256).await,
                (Got::NotModified, None) => return Err(unexpected()),
            };
            let terms = match ready.take() {
                Some(terms) => terms,
                // A new file has a new signature.
                None => wanted.signed(Of::Path(partial.path()), true).await?.0,
            };
            let candidate = partial.candidate();
            let admitted = wanted.at_store(&terms, move |store, terms, watch| {
                store.admit(candidate, terms, watch)
            });
            let admitted = admitted.await;
            // Either moved into place or to quarantine; a check that was interrupted leaves it for the next run.
            if !matches!(&admitted, Err(e) if e.kind() != Kind::Unproved) {
                partial.discard()?;
            }
            match admitted {
                // The server may have joined two versions under one tag.
                Err(e) if e.kind() == Kind::Unproved && resumed && first => {
                    first = false;
                    ready = Some(terms);
                    wanted.watch.note(format!(
                        "{}; it was put together from two transfers and is fetched whole once more",
                        e.fact()
                    ));
                }
                Err(e) => {
                    let e = packed(e, from.encoding.as_deref());
                    return Err(mirrored(self.at(e), mirror.as_ref(), self.url));
                }
                Ok(blob) => {
                    self.remember(&blob, from, cached)?;
                    let from = CameFrom::Network;
                    return Ok(Fetched { blob, from });
                }
            }
        }
    }

    /// The signatures of a file that is not there yet: a missing one is reported before gigabytes come.
    async fn early(&self, cached: Option<&Seen>) -> Result<Option<Terms>> {
        let wanted = self.wanted;
        if cached.is_some() || wanted.needs_file() {
            return Ok(None);
        }
        let (terms, _) = wanted.signed(Of::NothingYet, true).await?;
        Ok(Some(terms))
    }

    /// Records what the URL gave, and says so when it used to give something else.
    fn remember(&self, blob: &Blob, from: Resumable, cached: Option<&Seen>) -> Result<()> {
        let wanted = self.wanted;
        let store = &wanted.context.store;
        let before = match cached {
            Some(seen) => Some(seen.clone()),
            None => store.seen(self.url.as_str()),
        };
        let replaced = before.filter(|seen| seen.sha256 != *blob.digest());
        let moves = !matches!(wanted.terms.expected, Expected::Digest(_));
        if let Some(seen) = replaced.filter(|_| moves) {
            wanted.watch.warn(format!(
                "{}: the publisher replaced this file: it was {}, it is {}",
                wanted.watch.what,
                seen.sha256,
                blob.digest()
            ));
        }
        let seen = Seen {
            url: from.url,
            etag: from.etag,
            last_modified: from.last_modified,
            sha256: blob.digest().clone(),
            size: blob.size(),
        };
        store.record_seen(self.url.as_str(), &seen)
    }

    async fn partial(&self) -> Result<Partial> {
        // By what is wanted where that is known: two recipes may name two mirrors.
        let key = match self.wanted.terms.digest() {
            Some(digest) => digest.to_string(),
            None => self.url.to_string(),
        };
        let (store, watch) = (self.wanted.context.store.clone(), self.wanted.watch.clone());
        blocking(move || store.partial(&key, &watch)).await
    }
}

/// A file that the server packed on its way has another digest than the file itself: that digest
/// helps nobody.
fn packed(error: Error, encoding: Option<&str>) -> Error {
    match encoding {
        Some(encoding) if error.kind() == Kind::Unproved => error
            .lines([format!(
                "the server sent it compressed, which was not asked for (Content-Encoding: {})",
                unseen::line(encoding)
            )])
            .cure(
                "the digest is of the compressed bytes and not of the file: name an address that sends the file as it is, \
                 or download and unpack it once and give its path",
            ),
        _ => error,
    }
}

fn unexpected() -> Error {
    Error::new(Kind::Fetch, "the server sent an unexpected answer")
}
