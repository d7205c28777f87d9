//! Small documents that are read but not stored: a repository's metadata, a publisher's list of
//! versions.
//!
//! Uses the same client, mirrors, limits and timeouts as all transfers. The content is not
//! verified.

use std::sync::Arc;

use reqwest::header::RANGE;
use reqwest::{Method, StatusCode};
use tokio::task::JoinSet;
use url::Url;

use crate::runtime;
use crate::store::{ProgressWatch, Store};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Sink};
use winimg_base::text::redact;

use super::evidence::{EvidenceRequest, SmallFileKind};
use super::failure::{
    FetchFailure, classify_fault, classify_response, note_mirror, require_online,
};
use super::policy::UrlSource;
use super::retry::RetryCounter;
use super::{FetchContext, FetchOptions};

/// Statuses after which the same request is retried later, instead of one with another method.
const BUSY: [u16; 6] = [408, 425, 429, 502, 503, 504];

/// A document to read.
#[derive(Clone, Debug)]
pub struct Document {
    /// For errors: `the versions of kubernetes`.
    pub what: String,
    pub url: Url,
    /// Bytes.
    pub limit: u64,
}

/// Reads documents.
#[derive(Clone)]
pub struct Documents(Arc<FetchContext>);

impl Documents {
    pub fn new(
        store: &Store,
        sink: &Arc<dyn Sink>,
        cancel: &Cancel,
        options: &FetchOptions,
    ) -> Self {
        Self(FetchContext::new(store, Arc::clone(sink), cancel, options))
    }

    /// Reads all documents, several at once; the answers are in the same order. `None`: it does not
    /// exist.
    pub fn read(&self, asked: Vec<Document>) -> Result<Vec<Result<Option<Vec<u8>>>>> {
        self.run_each(asked, |documents, document| async move {
            documents.get(&document).await
        })
    }

    /// Checks that each address exists, given as name and address. The answers are in the same
    /// order: `None` if it exists, or the status that says it does not.
    pub fn check_all(&self, asked: Vec<(String, Url)>) -> Result<Vec<Result<Option<String>>>> {
        self.run_each(asked, |documents, (what, url)| async move {
            documents.check_exists(&what, &url).await
        })
    }

    fn run_each<A: Send + 'static, T: Send + 'static, W: Future<Output = Result<T>> + Send>(
        &self,
        asked: Vec<A>,
        work: impl Fn(Self, A) -> W + Copy + Send + 'static,
    ) -> Result<Vec<Result<T>>> {
        let count = asked.len();
        self.wait(async move {
            let mut answers: Vec<Option<_>> = (0..count).map(|_| None).collect();
            let mut transfers = JoinSet::new();
            for (index, one) in asked.into_iter().enumerate() {
                let documents = self.clone();
                transfers.spawn(async move {
                    let context = Arc::clone(&documents.0);
                    let _slot = context.slots.acquire().await;
                    (index, work(documents, one).await)
                });
            }
            while let Some(ended) = transfers.join_next().await {
                match ended {
                    Ok((index, answer)) => answers[index] = Some(answer),
                    Err(e) => {
                        let fact = "a transfer ended unexpectedly";
                        return Err(Error::new(Kind::Failed, fact).because(e));
                    }
                }
            }
            Ok(answers.into_iter().flatten().collect())
        })
    }

    /// Runs work that reads documents.
    pub(super) fn wait<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        runtime::run(&self.0.cancel, work)?
    }

    pub(super) async fn get(&self, document: &Document) -> Result<Option<Vec<u8>>> {
        let Document { what, url, limit } = document;
        require_online(&self.0.options, what, &redact(url.as_str()), None)?;
        let asked = EvidenceRequest {
            context: &self.0,
            watch: self.0.watch(what),
            locked: None,
            limit: *limit,
            // No other failure of a transfer is of this kind.
            missing: Kind::Unproved,
            called: what,
            refetch: true,
        };
        match asked.fetch_small(url, SmallFileKind::Answer).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == Kind::Unproved => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn check_exists(&self, what: &str, url: &Url) -> Result<Option<String>> {
        let options = &self.0.options;
        require_online(options, what, &redact(url.as_str()), None)?;
        let mirror = options.mirrors.resolve_url(url);
        let (watch, mut tries) = (self.0.watch(what), RetryCounter::default());
        loop {
            match self.head_once(&watch, mirror.as_ref().unwrap_or(url)).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => {
                    let waited = tries.wait(failure, 0, options, &watch).await;
                    waited.map_err(|e| note_mirror(e, mirror.as_ref(), url))?;
                }
            }
        }
    }

    async fn head_once(
        &self,
        watch: &ProgressWatch,
        url: &Url,
    ) -> Result<Option<String>, FetchFailure> {
        let what = &watch.what;
        let client = &self.0.client;
        let request = client
            .request(Method::HEAD, url.clone())
            .map_err(|fault| classify_fault(what, url, fault))?;
        let sent = client.send(request, UrlSource::ByUser).await;
        let head = sent.map_err(|fault| classify_fault(what, url, fault))?;
        if head.status().is_success() {
            return Ok(None);
        }
        if BUSY.contains(&head.status().as_u16()) {
            return Err(classify_response(what, url, &head));
        }
        // A signed URL is signed for one method, and some servers only support GET: only the answer
        // to GET counts. Its body is not read.
        let request = client
            .request(Method::GET, url.clone())
            .map_err(|fault| classify_fault(what, url, fault))?
            .header(RANGE, "bytes=0-0");
        let sent = client.send(request, UrlSource::ByUser).await;
        let response = sent.map_err(|fault| classify_fault(what, url, fault))?;
        match response.status() {
            // An empty file has no first byte.
            StatusCode::RANGE_NOT_SATISFIABLE => Ok(None),
            status if status.is_success() => Ok(None),
            status @ (StatusCode::NOT_FOUND | StatusCode::GONE) => Ok(Some(status.to_string())),
            _ => Err(classify_response(what, url, &response)),
        }
    }
}
