//! Small documents that are read and not kept: a repository's metadata, a publisher's list of versions.
//!
//! Asked with the same client, mirrors, limits and patience as everything else. What comes is not proved by coming.

use std::sync::Arc;

use reqwest::header::RANGE;
use reqwest::{Method, StatusCode};
use tokio::task::JoinSet;
use url::Url;

use crate::store::{Store, Watch};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Sink};
use winimg_base::text::redact;

use super::evidence::{Ask, Asked};
use super::failure::{Failure, mirrored, must_be_online, refused, unanswered};
use super::policy::Led;
use super::retry::Tries;
use super::{Context, FetchOptions, block_on};

/// Statuses of servers that are asked again later, and not in another way.
const BUSY: [u16; 6] = [408, 425, 429, 502, 503, 504];

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Document {
    /// For errors: `the versions of kubernetes`.
    pub what: String,
    pub url: Url,
    /// Bytes.
    pub limit: u64,
}

/// The way to documents.
#[derive(Clone)]
pub struct Documents(Arc<Context>);

impl Documents {
    pub fn new(
        store: &Store,
        sink: &Arc<dyn Sink>,
        cancel: &Cancel,
        options: &FetchOptions,
    ) -> Self {
        Self(Context::new(store, Arc::clone(sink), cancel, options))
    }

    /// All of them, several at once; the answers in the same order. `None`: the server says that there is no such thing.
    pub fn read(&self, asked: Vec<Document>) -> Result<Vec<Result<Option<Vec<u8>>>>> {
        self.each(asked, |documents, document| async move {
            documents.get(&document).await
        })
    }

    /// Whether something stands at each address; what it is called comes first. The answers in the same order: `None`, or
    /// the server's word that there is nothing.
    pub fn heads(&self, asked: Vec<(String, Url)>) -> Result<Vec<Result<Option<String>>>> {
        self.each(asked, |documents, (what, url)| async move {
            documents.head(&what, &url).await
        })
    }

    fn each<A: Send + 'static, T: Send + 'static, W: Future<Output = Result<T>> + Send>(
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

    /// Runs work that asks for documents.
    pub(super) fn wait<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        block_on("documents", &self.0.cancel, work)?
    }

    pub(super) async fn get(&self, document: &Document) -> Result<Option<Vec<u8>>> {
        let Document { what, url, limit } = document;
        must_be_online(&self.0.options, what, &redact(url.as_str()), None)?;
        let asked = Asked {
            context: &self.0,
            watch: self.0.watch(what),
            locked: None,
            limit: *limit,
            // No other failure of a transfer is of this kind.
            missing: Kind::Unproved,
            called: what,
            anew: true,
        };
        match asked.small(url, Ask::Answer).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == Kind::Unproved => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn head(&self, what: &str, url: &Url) -> Result<Option<String>> {
        let options = &self.0.options;
        must_be_online(options, what, &redact(url.as_str()), None)?;
        let mirror = options.mirrors.url(url);
        let (watch, mut tries) = (self.0.watch(what), Tries::default());
        loop {
            match self.head_once(&watch, mirror.as_ref().unwrap_or(url)).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => {
                    let waited = tries.wait(failure, 0, options, &watch).await;
                    waited.map_err(|e| mirrored(e, mirror.as_ref(), url))?;
                }
            }
        }
    }

    async fn head_once(&self, watch: &Watch, url: &Url) -> Result<Option<String>, Failure> {
        let what = &watch.what;
        let client = &self.0.client;
        let failed = |fault| unanswered(what, url, fault);
        let request = client.request(Method::HEAD, url.clone()).map_err(failed)?;
        let sent = client.send(request, Led::ByUser).await;
        let head = sent.map_err(failed)?;
        if head.status().is_success() {
            return Ok(None);
        }
        if BUSY.contains(&head.status().as_u16()) {
            return Err(refused(what, url, &head));
        }
        // A signed address is signed for one method, and some servers answer GET alone: only GET's
        // answer counts. Its body is not read.
        let request = client.request(Method::GET, url.clone()).map_err(failed)?;
        let request = request.header(RANGE, "bytes=0-0");
        let sent = client.send(request, Led::ByUser).await;
        let response = sent.map_err(failed)?;
        match response.status() {
            // An empty file has no first byte.
            StatusCode::RANGE_NOT_SATISFIABLE => Ok(None),
            status if status.is_success() => Ok(None),
            status @ (StatusCode::NOT_FOUND | StatusCode::GONE) => Ok(Some(status.to_string())),
            _ => Err(refused(what, url, &response)),
        }
    }
}
