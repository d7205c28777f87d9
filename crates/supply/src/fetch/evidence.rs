//! What is published beside a file: signatures, certificates, log entries, checksum files.
//!
//! Small files, kept in the store by their digest and found again by their URL. By itself none of them is proof:
//! they are judged with the file. A lock names them by digest; what it names is not asked for again.

use std::collections::BTreeMap;
use std::path::Path;

use url::Url;

use crate::store::{Blob, Candidate, Expected, Seen, Store, Watch};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::redact;
use winimg_recipe::recipe::Locked;
use winimg_trust::{Refusal, sigstore};

use super::failure::must_be_online;
use super::{Context, blocking};
use winimg_recipe::recipe::Address;

/// Longest signature, bundle, certificate or catalog, bytes.
pub(super) const LIMIT: u64 = 4 << 20;
/// A log with more entries about one file is being flooded.
const ENTRIES: usize = 100;

/// What was brought for one file.
#[derive(Default)]
pub(super) struct Gathered {
    /// URL without query, and the digest by which the store keeps it.
    pub evidence: BTreeMap<String, Digest>,
    /// Some of it is what a URL gave in an earlier run; the publisher may have another one by now.
    pub is_kept: bool,
}

/// How to bring one piece.
pub(super) struct Asked<'a> {
    pub context: &'a Context,
    /// Named for errors: `the checksum file of kubelet`.
    pub watch: Watch,
    pub locked: Option<&'a Locked>,
    /// Bytes.
    pub limit: u64,
    /// What it is when there is none: [`Kind::Unproved`] for a signature.
    pub missing: Kind,
    /// What a publisher calls it: `signature`, `certificate`, `checksum file`.
    pub called: &'a str,
    /// Asked of the network although the store may have it.
    pub anew: bool,
}

/// What a log is asked about.
struct Signed<'a> {
    file: &'a Digest,
    signature: &'a [u8],
    certificate: &'a [u8],
}

/// How a small file is asked for.
#[derive(Clone, Copy)]
pub(super) enum Ask<'a> {
    /// It is read from where a publisher puts it beside another file; of its name, such as `signature`, errors speak.
    Published(&'a str),
    /// A service's answer.
    Answer,
    /// A service's answer to this JSON, which is posted.
    Query(&'a str),
}

impl Asked<'_> {
    /// From the store by its locked digest, from the store by its URL, or from its address.
    pub async fn bring(&self, address: &Address, gathered: &mut Gathered) -> Result<Vec<u8>> {
        let blob = self.blob(address, gathered).await?;
        let shown = address.recorded();
        gathered.evidence.insert(shown, blob.digest().clone());
        self.read(blob).await
    }

    /// What a transparency log says of a signature: the entry of this signature by this certificate.
    pub async fn log_entry(
        &self,
        log: &Url,
        file: &Digest,
        signature: &[u8],
        certificate: &[u8],
        gathered: &mut Gathered,
    ) -> Result<Vec<u8>> {
        // One address for all of the log's answers about this file.
        let base = log.as_str().trim_end_matches('/');
        let key = format!("{base}/api/v1/log/entries/{file}");
        let shown = redact(&key);
        let kept = match self.in_lock(&shown).await? {
            Some(blob) => Some(blob),
            None => self.seen(&key, gathered).await?,
        };
        let blob = match kept {
            Some(blob) => blob,
            None => {
                must_be_online(&self.context.options, &self.watch.what, &shown, None)?;
                let signed = Signed {
                    file,
                    signature,
                    certificate,
                };
                let entry = self.ask_log(base, &signed).await?;
                self.keep(&key, &shown, entry).await?
            }
        };
        gathered.evidence.insert(shown, blob.digest().clone());
        self.read(blob).await
    }

    /// The entry of a signature: by what the entry says, and where the log has none so, by its
    /// index.
    async fn ask_log(&self, base: &str, signed: &Signed<'_>) -> Result<Vec<u8>> {
        let first = match self.by_entry(base, signed).await {
            Err(error) if error.kind() != Kind::Cancelled => error,
            other => return other,
        };
        match self.by_index(base, signed).await {
            Err(error) if error.kind() != Kind::Cancelled => {
                // No outage is a verdict about the file.
                let both = first.kind() == Kind::Unproved && error.kind() == Kind::Unproved;
                Err(if both { error } else { first })
            }
            other => other,
        }
    }

    async fn by_entry(&self, base: &str, signed: &Signed<'_>) -> Result<Vec<u8>> {
        let url = self.log_url(&format!("{base}/api/v1/log/entries/retrieve"))?;
        let shown = redact(url.as_str());
        let query = sigstore::rekor_entry(signed.file, signed.signature, signed.certificate);
        let query = query.map_err(|refusal| self.refused(refusal, &shown))?;
        let answer = self.small(&url, Ask::Query(&query.to_string())).await?;
        self.chosen(&answer, signed, &shown)
    }

    /// Of every entry that the index has about the file the one of this signature; anyone may have
    /// made the others.
    async fn by_index(&self, base: &str, signed: &Signed<'_>) -> Result<Vec<u8>> {
        let file = signed.file;
        let index = self.log_url(&format!("{base}/api/v1/index/retrieve"))?;
        let query = sigstore::rekor_query(file).to_string();
        let answer = self.small(&index, Ask::Query(&query)).await?;
        let ids = sigstore::entry_ids(&answer);
        let ids = ids.map_err(|refusal| self.refused(refusal, &redact(index.as_str())))?;
        if ids.is_empty() {
            let fact = "the log has no entry about this file";
            return Err(self.watch.error(Kind::Unproved, fact)
                .at(redact(index.as_str()))
                .expected(format!("an entry about {file}"))
                .cure("look whether `log` is the log that the publisher uses, and whether the file is the published one"));
        }
        if ids.len() > ENTRIES {
            let fact = format!("the log has {} entries about it", ids.len());
            return Err(self
                .watch
                .error(Kind::Unproved, fact)
                .at(redact(index.as_str()))
                .expected(format!("{ENTRIES} at most")));
        }
        let mut answers = Vec::new();
        for id in ids {
            let url = self.log_url(&format!("{base}/api/v1/log/entries/{id}"))?;
            answers.extend(self.small(&url, Ask::Answer).await?);
            answers.push(b'\n');
            if answers.len() as u64 > self.limit {
                let error = self
                    .watch
                    .error(Kind::Fetch, "the log's answers are too long");
                return Err(error.at(redact(url.as_str())));
            }
        }
        self.chosen(&answers, signed, &redact(index.as_str()))
    }

    fn chosen(&self, answers: &[u8], signed: &Signed<'_>, at: &str) -> Result<Vec<u8>> {
        let entry = sigstore::choose_entry(answers, signed.signature, signed.certificate);
        entry.map_err(|refusal| self.refused(refusal, at))
    }

    fn log_url(&self, text: &str) -> Result<Url> {
        Url::parse(text).map_err(|e| {
            let fact = format!("the log's address is malformed: {e}");
            self.watch.error(Kind::Recipe, fact).at(redact(text))
        })
    }

    fn refused(&self, refusal: Refusal, at: &str) -> Error {
        let problem = refusal
            .problem
            .prefixed(format_args!("{}: ", self.watch.what));
        Error::of(Kind::Unproved, problem).at(at)
    }

    async fn blob(&self, address: &Address, gathered: &mut Gathered) -> Result<Blob> {
        let shown = address.recorded();
        if let Some(blob) = self.in_lock(&shown).await? {
            return Ok(blob);
        }
        let blob = match address {
            Address::Local(path) => self.local(path).await?,
            Address::Remote(url) => match self.seen(url.as_str(), gathered).await? {
                Some(blob) => return Ok(blob),
                None => {
                    must_be_online(&self.context.options, &self.watch.what, &shown, None)?;
                    let bytes = self.small(url, Ask::Published(self.called)).await?;
                    self.keep(url.as_str(), &shown, bytes).await?
                }
            },
        };
        let was = self.locked.and_then(|l| l.evidence.get(&shown));
        if let Some(was) = was.filter(|was| *was != blob.digest()) {
            self.watch.warn(format!(
                "{} was {was} when recipe.lock was written, it is {}: it is verified again",
                self.watch.what,
                blob.digest()
            ));
        }
        Ok(blob)
    }

    async fn in_lock(&self, shown: &str) -> Result<Option<Blob>> {
        match self.locked.and_then(|l| l.evidence.get(shown)) {
            Some(digest) => self.in_store(digest.clone()).await,
            None => Ok(None),
        }
    }

    /// What the URL gave last time, unless it is to be asked anew.
    async fn seen(&self, url: &str, gathered: &mut Gathered) -> Result<Option<Blob>> {
        if self.anew && !self.context.options.offline {
            return Ok(None);
        }
        let Some(seen) = self.context.store.seen(url) else {
            return Ok(None);
        };
        let blob = self.in_store(seen.sha256).await?;
        gathered.is_kept |= blob.is_some();
        Ok(blob)
    }

    async fn local(&self, path: &Path) -> Result<Blob> {
        let (path, limit, missing) = (path.to_path_buf(), self.limit, self.missing);
        self.at_store(move |store, watch| {
            check_small(&path, limit, missing, watch)?;
            store.admit(Candidate::Local(path), kept(), watch)
        })
        .await
    }

    async fn in_store(&self, digest: Digest) -> Result<Option<Blob>> {
        self.at_store(move |store, watch| store.find(Expected::Digest(digest), watch))
            .await
    }

    /// Puts bytes that came from `url` into the store, and remembers that.
    async fn keep(&self, url: &str, shown: &str, bytes: Vec<u8>) -> Result<Blob> {
        let (url, shown) = (url.to_string(), shown.to_string());
        self.at_store(move |store, watch| {
            let blob = store.admit_bytes(&format!("evidence {url}"), &bytes, kept(), watch)?;
            let seen = Seen {
                url: shown,
                etag: None,
                last_modified: None,
                sha256: blob.digest().clone(),
                size: blob.size(),
            };
            store.record_seen(&url, &seen)?;
            Ok(blob)
        })
        .await
    }

    async fn read(&self, blob: Blob) -> Result<Vec<u8>> {
        let (limit, missing) = (self.limit, self.missing);
        self.at_store(move |_, watch| {
            let path = blob.path();
            check_small(path, limit, missing, watch)?;
            std::fs::read(path).map_err(|e| Error::io("read", path, e))
        })
        .await
    }

    async fn at_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store, &Watch) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (store, watch) = (self.context.store.clone(), self.watch.clone());
        blocking(move || work(&store, &watch)).await
    }
}

/// Nothing proves it before it is judged with its file.
fn kept() -> Expected {
    Expected::Unverified {
        reason: "it is judged with the file that it speaks of".into(),
    }
}

fn check_small(path: &Path, limit: u64, missing: Kind, watch: &Watch) -> Result<()> {
    let metadata = std::fs::metadata(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            watch.error(missing, format_args!("there is no file {}", path.display()))
        }
        _ => Error::io("read", path, e),
    })?;
    if metadata.len() > limit {
        let fact = format!("{} is longer than {limit} bytes", watch.what);
        return Err(Error::new(Kind::Fetch, fact).at(path.display()));
    }
    Ok(())
}
