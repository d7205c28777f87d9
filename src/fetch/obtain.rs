//! One request, from what the recipe says to a blob.

use url::Url;

use crate::digest::Digest;
use crate::error::{Error, Kind, Result};
use crate::recipe::ProofWish;
use crate::store::{Blob, Candidate, Expected, Partial, Seen, Store, Terms, Watch};
use crate::text::{Located, Place};

use super::evidence::{Asked, Gathered};
use super::transfer::{Got, Transfer};
use crate::trust::checksum;

use super::{Address, Context, Request};

/// Fetches one file. Errors point at the line of the recipe that asked.
pub(super) async fn obtain(context: &Context, request: &Request) -> Result<Blob> {
    let origin = &request.origin;
    let proof_place = match &origin.proof {
        ProofWish::Digest(digest) => &digest.place,
        ProofWish::ChecksumFile { url, .. } => &url.place,
        ProofWish::Signed => &origin.url.place,
        ProofWish::Unverified { reason } => &reason.place,
    };
    let place = |e: Error| match e.kind() {
        Kind::Unproved => e.from_place(proof_place),
        _ => e.from_place(&origin.url.place),
    };
    obtain_unplaced(context, request).await.map_err(place)
}

async fn obtain_unplaced(context: &Context, request: &Request) -> Result<Blob> {
    let watch = context.watch(&request.name);
    let address = Address::read(&request.origin.url)?;
    let terms = terms(context, request, &address, &watch).await?;
    match address {
        Address::Local(path) => {
            let (store, watch) = (context.store.clone(), watch.clone());
            blocking(move || match store.find_locked(&path, &terms, &watch)? {
                Some(blob) => Ok(blob),
                None => store.admit(Candidate::Local(path), &terms, &watch),
            })
            .await
        }
        Address::Remote(url) => {
            let remote = Remote {
                context,
                url: &url,
                file: &request.file,
                shown: Address::Remote(url.clone()).shown(),
                watch: &watch,
                terms: &terms,
            };
            remote.obtain().await
        }
    }
}

/// What the file must be, read from the recipe, its lock and, where it says so, from a checksum file.
async fn terms(
    context: &Context,
    request: &Request,
    address: &Address,
    watch: &Watch,
) -> Result<Terms> {
    let mut gathered = Gathered::default();
    let locked = request.origin.locked.as_ref();
    let expected = match &request.origin.proof {
        ProofWish::Digest(digest) => Expected::Digest(digest.value.clone()),
        ProofWish::Signed => Expected::Signed,
        ProofWish::Unverified { reason } => {
            // The lock names the bytes.
            if address.is_plain_http() && locked.is_none() {
                return Err(plain_http(
                    &request.name,
                    &address.shown(),
                    &request.origin.url.place,
                ));
            }
            watch.warn(format!(
                "{} is not verified: {}",
                request.name, reason.value
            ));
            Expected::Unverified {
                reason: reason.value.clone(),
            }
        }
        ProofWish::ChecksumFile { url, entry, .. } => {
            let name = match entry {
                Some(entry) => entry.clone(),
                None => address.file_name(),
            };
            from_checksum_file(context, request, url, &name, &mut gathered).await?
        }
    };
    Ok(Terms {
        expected,
        locked: locked.map(|l| l.digest.clone()),
        evidence: gathered.evidence,
    })
}

async fn from_checksum_file(
    context: &Context,
    request: &Request,
    url: &Located<String>,
    entry: &str,
    gathered: &mut Gathered,
) -> Result<Expected> {
    let what = format!("the checksum file of {}", request.name);
    let place = |e: Error| e.from_place(&url.place);
    let address = Address::read(url)?;
    let shown = address.shown();
    if address.is_plain_http() {
        return Err(plain_http(&what, &shown, &url.place));
    }
    let asked = Asked {
        context,
        watch: context.watch(&what),
        locked: request.origin.locked.as_ref(),
        limit: checksum::LIMIT,
        anew: true,
    };
    let bytes = asked.bring(&address, gathered).await;
    let found = bytes.and_then(|bytes| {
        checksum::find(&bytes, entry).map_err(|refusal| {
            let error = Error::new(Kind::Unproved, format!("{what} {}", refusal.fact)).at(&shown);
            let error = error.lines(refusal.lines);
            match refusal.cure {
                Some(cure) => error.cure(cure),
                None => error,
            }
        })
    });
    let found = found.map_err(place)?;
    Ok(Expected::ChecksumFile {
        url: shown,
        line: found.line,
        digest: found.digest,
    })
}

fn plain_http(what: &str, shown: &str, place: &Place) -> Error {
    Error::new(
        Kind::Recipe,
        format!("{what}: anyone on the way can change what comes over http"),
    )
    .at(shown)
    .from_place(place)
    .cure("use https, or pin the file with sha256")
}

/// A file of another host.
struct Remote<'a> {
    context: &'a Context,
    url: &'a Url,
    file: &'a str,
    /// The URL without its secrets.
    shown: String,
    watch: &'a Watch,
    terms: &'a Terms,
}

/// What the store knows of an unverified file.
type Cached = Option<(Seen, Blob)>;

impl Remote<'_> {
    async fn obtain(&self) -> Result<Blob> {
        if let Some(blob) = self
            .at_store(|store, terms, watch| store.find(terms, watch))
            .await?
        {
            return Ok(blob);
        }
        let partial = self.partial().await?;
        // Whoever held the place may have brought it.
        if let Some(blob) = self
            .at_store(|store, terms, watch| store.find(terms, watch))
            .await?
        {
            return Ok(blob);
        }
        if let Some(blob) = self
            .at_store(|store, terms, watch| store.release(terms, watch))
            .await?
        {
            return Ok(blob);
        }
        let cached = self.cached().await?;
        if self.context.options.offline {
            return match cached {
                Some((_, blob)) => Ok(blob),
                None => Err(offline(&self.watch.what, &self.shown, self.terms.digest())),
            };
        }
        match self.transfer(&partial, &cached).await {
            // Nothing proves the copy anyway; its age is worth a word, not a stop.
            Err(e) if e.kind() == Kind::Fetch && cached.is_some() => {
                self.watch
                    .warn(format!("{}; the copy of an earlier run is used", e.fact()));
                cached.map(|(_, blob)| blob).ok_or(e)
            }
            other => other,
        }
    }

    async fn transfer(&self, partial: &Partial, cached: &Cached) -> Result<Blob> {
        let transfer = Transfer {
            context: self.context,
            url: self.url,
            file: self.file,
            watch: self.watch,
            cached: cached.as_ref().map(|(seen, _)| seen),
        };
        let mut first = true;
        loop {
            let (from, resumed) = match (transfer.run(partial).await?, cached) {
                (Got::File { from, resumed }, _) => (from, resumed),
                (Got::NotModified, Some((_, blob))) => return Ok(blob.clone()),
                (Got::NotModified, None) => {
                    return Err(Error::new(Kind::Fetch, "the server answered out of turn"));
                }
            };
            let candidate = partial.candidate();
            let admitted = self
                .at_store(move |store, terms, watch| store.admit(candidate, terms, watch))
                .await;
            // Either moved into place or to quarantine; a check that was interrupted leaves it for the next run.
            if !matches!(&admitted, Err(e) if e.kind() != Kind::Unproved) {
                partial.discard()?;
            }
            match admitted {
                // The server may have joined two versions under one tag.
                Err(e) if e.kind() == Kind::Unproved && resumed && first => {
                    first = false;
                    self.watch.note(format!(
                        "{}; it was put together from two transfers and is fetched whole once more",
                        e.fact()
                    ));
                }
                Err(e) => return Err(e.at(&self.shown)),
                Ok(blob) => {
                    self.remember(&blob, from, cached)?;
                    return Ok(blob);
                }
            }
        }
    }

    /// Records what the URL gave, and says so when it used to give something else.
    fn remember(&self, blob: &Blob, from: crate::store::Resumable, cached: &Cached) -> Result<()> {
        let before = match cached {
            Some((seen, _)) => Some(seen.clone()),
            None => self.context.store.seen(self.url.as_str()),
        };
        let replaced = before.filter(|seen| seen.sha256 != *blob.digest());
        if let (
            Some(seen),
            Expected::ChecksumFile { .. } | Expected::Signed | Expected::Unverified { .. },
        ) = (replaced, &self.terms.expected)
        {
            self.watch.warn(format!(
                "{}: the publisher replaced this file: it was {}, it is {}",
                self.watch.what,
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
        self.context.store.record_seen(self.url.as_str(), &seen)
    }

    async fn cached(&self) -> Result<Cached> {
        if self.terms.digest().is_some() {
            return Ok(None);
        }
        let Some(seen) = self.context.store.seen(self.url.as_str()) else {
            return Ok(None);
        };
        let sha256 = seen.sha256.clone();
        let blob = self
            .at_store(move |store, terms, watch| store.find_seen(&sha256, terms, watch))
            .await?;
        Ok(blob.map(|blob| (seen, blob)))
    }

    async fn partial(&self) -> Result<Partial> {
        // By what is wanted where that is known: two recipes may name two mirrors.
        let key = match self.terms.digest() {
            Some(digest) => digest.to_string(),
            None => self.url.to_string(),
        };
        let (store, watch) = (self.context.store.clone(), self.watch.clone());
        blocking(move || {
            store.partial(&key, &watch.cancel, |holder| {
                watch.note(format!("{}: {holder} is fetching it already", watch.what));
            })
        })
        .await
    }

    async fn at_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store, &Terms, &Watch) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let store = self.context.store.clone();
        let (terms, watch) = (self.terms.clone(), self.watch.clone());
        blocking(move || work(&store, &terms, &watch)).await
    }
}

/// What is not in the store, in a run that may not ask for it.
pub(super) fn offline(what: &str, shown: &str, digest: Option<&Digest>) -> Error {
    let fact = format!("{what} is not in the store, and this run asks nothing of a network");
    let error = Error::new(Kind::Fetch, fact).at(shown).cure(
        "run `winimg fetch` with this recipe and this cache folder once on line, or build from a bundle that has it",
    );
    match digest {
        Some(digest) => error.expected(digest),
        None => error,
    }
}

/// Runs what reads and hashes files away from the threads that move bytes.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(e) => Err(Error::new(Kind::Failed, "a thread ended unexpectedly").because(e)),
    }
}
