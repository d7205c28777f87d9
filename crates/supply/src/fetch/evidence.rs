//! Evidence published beside a file: signatures, certificates, log entries, checksum files.
//!
//! Small files, stored by digest and found again by URL. None is proof by itself: they are verified
//! together with the file. Evidence named by digest in a lock is not downloaded again.

use std::collections::BTreeMap;
use std::path::Path;

use url::Url;

use crate::runtime::run_blocking;
use crate::store::{AdmitCandidate, ExpectedBytes, ProgressWatch, Store, StoredBlob, UrlRecord};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::redact;
use winimg_recipe::LockedInput;
use winimg_trust::{SignatureRefusal, sigstore};

use super::FetchContext;
use super::failure::require_online;
use winimg_recipe::FileAddress;

/// Maximum size of a signature, bundle, certificate or catalog in bytes.
pub(super) const LIMIT: u64 = 4 << 20;
/// Maximum number of log entries for one file; more of them are a sign of flooding.
const MAX_LOG_ENTRIES: usize = 100;

/// The evidence fetched for one file.
#[derive(Default)]
pub(super) struct GatheredEvidence {
    /// Digest in the store by URL without query.
    pub evidence: BTreeMap<String, Digest>,
    /// Some of it was downloaded in an earlier run, and may be outdated.
    pub is_kept: bool,
}

/// Request for one piece of evidence.
pub(super) struct EvidenceRequest<'a> {
    pub context: &'a FetchContext,
    /// Named for errors: `the checksum file of kubelet`.
    pub watch: ProgressWatch,
    pub locked: Option<&'a LockedInput>,
    /// Bytes.
    pub limit: u64,
    /// Error kind if it does not exist: [`Kind::Unproved`] for a signature.
    pub missing: Kind,
    /// Its name in errors: `signature`, `certificate`, `checksum file`.
    pub called: &'a str,
    /// Fetch from the network even if the store has it.
    pub refetch: bool,
}

/// The signed file whose log entry is wanted.
struct LogSubject<'a> {
    file: &'a Digest,
    signature: &'a [u8],
    certificate: &'a [u8],
}

/// Kind of request for a small file.
#[derive(Clone, Copy)]
pub(super) enum SmallFileKind<'a> {
    /// A file that a publisher puts beside another one; errors use its name, such as `signature`.
    Published(&'a str),
    /// A service's answer.
    Answer,
    /// A service's answer to this JSON, which is posted.
    Query(&'a str),
}

impl EvidenceRequest<'_> {
    /// Fetches the evidence from the store by its locked digest or its URL, or from its address.
    pub async fn fetch(
        &self,
        address: &FileAddress,
        gathered: &mut GatheredEvidence,
    ) -> Result<Vec<u8>> {
        let blob = self.fetch_blob(address, gathered).await?;
        let shown = address.to_recorded();
        gathered.evidence.insert(shown, blob.digest().clone());
        self.read(blob).await
    }

    /// Fetches the transparency log's entry of this signature by this certificate.
    pub async fn fetch_log_entry(
        &self,
        log: &Url,
        file: &Digest,
        signature: &[u8],
        certificate: &[u8],
        gathered: &mut GatheredEvidence,
    ) -> Result<Vec<u8>> {
        // One address for all of the log's answers about this file.
        let base = log.as_str().trim_end_matches('/');
        let key = format!("{base}/api/v1/log/entries/{file}");
        let shown = redact(&key);
        let kept = match self.find_locked(&shown).await? {
            Some(blob) => Some(blob),
            None => self.find_downloaded(&key, gathered).await?,
        };
        let blob = match kept {
            Some(blob) => blob,
            None => {
                require_online(&self.context.options, &self.watch.what, &shown, None)?;
                let signed = LogSubject {
                    file,
                    signature,
                    certificate,
                };
                let entry = self.ask_log(base, &signed).await?;
                self.store_download(&key, &shown, entry).await?
            }
        };
        gathered.evidence.insert(shown, blob.digest().clone());
        self.read(blob).await
    }

    /// Finds the entry of a signature by its content and, if the log finds none, by the index.
    async fn ask_log(&self, base: &str, signed: &LogSubject<'_>) -> Result<Vec<u8>> {
        let first = match self.find_by_content(base, signed).await {
            Err(error) if error.kind() != Kind::Cancelled => error,
            other => return other,
        };
        match self.find_by_index(base, signed).await {
            Err(error) if error.kind() != Kind::Cancelled => {
                // An outage is not a verdict about the file.
                let is_verdict = first.kind() == Kind::Unproved && error.kind() == Kind::Unproved;
                Err(if is_verdict { error } else { first })
            }
            other => other,
        }
    }

    async fn find_by_content(&self, base: &str, signed: &LogSubject<'_>) -> Result<Vec<u8>> {
        let url = self.parse_log_url(&format!("{base}/api/v1/log/entries/retrieve"))?;
        let shown = redact(url.as_str());
        let query = sigstore::rekor_entry(signed.file, signed.signature, signed.certificate);
        let query = query.map_err(|refusal| self.make_refusal(refusal, &shown))?;
        let answer = self
            .fetch_small(&url, SmallFileKind::Query(&query.to_string()))
            .await?;
        self.choose_entry(&answer, signed, &shown)
    }

    /// Finds this signature's entry among all entries of the file; others may be by anyone.
    async fn find_by_index(&self, base: &str, signed: &LogSubject<'_>) -> Result<Vec<u8>> {
        let file = signed.file;
        let index = self.parse_log_url(&format!("{base}/api/v1/index/retrieve"))?;
        let query = sigstore::rekor_query(file).to_string();
        let answer = self
            .fetch_small(&index, SmallFileKind::Query(&query))
            .await?;
        let ids = sigstore::entry_ids(&answer);
        let ids = ids.map_err(|refusal| self.make_refusal(refusal, &redact(index.as_str())))?;
        if ids.is_empty() {
            let fact = "the log has no entry for this file";
            return Err(self
                .watch
                .error(Kind::Unproved, fact)
                .at(redact(index.as_str()))
                .expected(format!("an entry for {file}"))
                .cure(
                    "check that `log` is the log that the publisher uses, and that the file is \
                     the published one",
                ));
        }
        if ids.len() > MAX_LOG_ENTRIES {
            let fact = format!("the log has {} entries for this file", ids.len());
            return Err(self
                .watch
                .error(Kind::Unproved, fact)
                .at(redact(index.as_str()))
                .expected(format!("{MAX_LOG_ENTRIES} at most")));
        }
        let mut answers = Vec::new();
        for id in ids {
            let url = self.parse_log_url(&format!("{base}/api/v1/log/entries/{id}"))?;
            answers.extend(self.fetch_small(&url, SmallFileKind::Answer).await?);
            answers.push(b'\n');
            if answers.len() as u64 > self.limit {
                let error = self
                    .watch
                    .error(Kind::Fetch, "the log's answers are too long");
                return Err(error.at(redact(url.as_str())));
            }
        }
        self.choose_entry(&answers, signed, &redact(index.as_str()))
    }

    fn choose_entry(&self, answers: &[u8], signed: &LogSubject<'_>, at: &str) -> Result<Vec<u8>> {
        let entry = sigstore::choose_entry(answers, signed.signature, signed.certificate);
        entry.map_err(|refusal| self.make_refusal(refusal, at))
    }

    fn parse_log_url(&self, text: &str) -> Result<Url> {
        Url::parse(text).map_err(|e| {
            let fact = format!("the log's address is malformed: {e}");
            self.watch.error(Kind::Recipe, fact).at(redact(text))
        })
    }

    fn make_refusal(&self, refusal: SignatureRefusal, at: &str) -> Error {
        let problem = refusal
            .problem
            .with_prefix(format_args!("{}: ", self.watch.what));
        Error::from_problem(Kind::Unproved, problem).at(at)
    }

    async fn fetch_blob(
        &self,
        address: &FileAddress,
        gathered: &mut GatheredEvidence,
    ) -> Result<StoredBlob> {
        let shown = address.to_recorded();
        if let Some(blob) = self.find_locked(&shown).await? {
            return Ok(blob);
        }
        let blob = match address {
            FileAddress::Local(path) => self.admit_local(path).await?,
            FileAddress::Remote(url) => match self.find_downloaded(url.as_str(), gathered).await? {
                Some(blob) => return Ok(blob),
                None => {
                    require_online(&self.context.options, &self.watch.what, &shown, None)?;
                    let bytes = self
                        .fetch_small(url, SmallFileKind::Published(self.called))
                        .await?;
                    self.store_download(url.as_str(), &shown, bytes).await?
                }
            },
        };
        let was = self.locked.and_then(|l| l.evidence.get(&shown));
        if let Some(was) = was.filter(|was| *was != blob.digest()) {
            self.watch.warn(format!(
                "{} was {was} when recipe.lock was written, now it is {}: it is verified again",
                self.watch.what,
                blob.digest()
            ));
        }
        Ok(blob)
    }

    async fn find_locked(&self, shown: &str) -> Result<Option<StoredBlob>> {
        match self.locked.and_then(|l| l.evidence.get(shown)) {
            Some(digest) => self.find_stored(digest.clone()).await,
            None => Ok(None),
        }
    }

    /// Finds the last download from this URL in the store, unless it is to be fetched again.
    async fn find_downloaded(
        &self,
        url: &str,
        gathered: &mut GatheredEvidence,
    ) -> Result<Option<StoredBlob>> {
        if self.refetch && !self.context.options.offline {
            return Ok(None);
        }
        let Some(seen) = self.context.store.find_url_record(url) else {
            return Ok(None);
        };
        let blob = self.find_stored(seen.sha256).await?;
        gathered.is_kept |= blob.is_some();
        Ok(blob)
    }

    async fn admit_local(&self, path: &Path) -> Result<StoredBlob> {
        let (path, limit, missing) = (path.to_path_buf(), self.limit, self.missing);
        self.run_on_store(move |store, watch| {
            check_size(&path, limit, missing, watch)?;
            store.admit(AdmitCandidate::Local(path), expect_unverified(), watch)
        })
        .await
    }

    async fn find_stored(&self, digest: Digest) -> Result<Option<StoredBlob>> {
        self.run_on_store(move |store, watch| store.find(ExpectedBytes::Digest(digest), watch))
            .await
    }

    /// Stores bytes downloaded from `url`, and records the download.
    async fn store_download(&self, url: &str, shown: &str, bytes: Vec<u8>) -> Result<StoredBlob> {
        let (url, shown) = (url.to_string(), shown.to_string());
        self.run_on_store(move |store, watch| {
            let blob = store.admit_bytes(
                &format!("evidence {url}"),
                &bytes,
                expect_unverified(),
                watch,
            )?;
            let seen = UrlRecord {
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

    async fn read(&self, blob: StoredBlob) -> Result<Vec<u8>> {
        let (limit, missing) = (self.limit, self.missing);
        self.run_on_store(move |_, watch| {
            let path = blob.path();
            check_size(path, limit, missing, watch)?;
            std::fs::read(path).map_err(|e| Error::io("read", path, e))
        })
        .await
    }

    async fn run_on_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store, &ProgressWatch) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (store, watch) = (self.context.store.clone(), self.watch.clone());
        run_blocking(move || work(&store, &watch)).await
    }
}

/// Expectation for evidence, which has no proof until it is verified with its file.
fn expect_unverified() -> ExpectedBytes {
    ExpectedBytes::Unverified {
        reason: "it is verified together with its file".into(),
    }
}

fn check_size(path: &Path, limit: u64, missing: Kind, watch: &ProgressWatch) -> Result<()> {
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
