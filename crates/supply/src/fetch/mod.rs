//! Fetches a recipe's inputs into the store of the host, several at once.
//!
//! Every file becomes a [`Blob`] or an error that points at the recipe; all errors of a run are
//! returned together. Inputs are only fetched if they are proved, or declared unverified with a
//! reason.

mod checksum_file;
pub(crate) mod client;
pub mod documents;
mod evidence;
pub(crate) mod failure;
pub mod image;
mod no_proxy;
mod obtain;
mod page;
pub(crate) mod policy;
mod proxy;
mod redirect;
pub(crate) mod registry;
mod remote_file;
mod requirements;
mod resolver;
pub(crate) mod retry;
pub mod shared_cache;
mod signatures;
mod small_file;
mod transfer;
pub mod tuf;
pub(crate) mod upload;
pub(crate) mod zone;

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::Instrument as _;

pub use policy::Timeouts;
pub use proxy::{Proxies, ProxyInUse, find_unusable_proxies};

use crate::runtime;
use crate::store::{ProgressWatch, Store, StoredBlob};
use winimg_base::error::{Error, Kind};
use winimg_base::event::{Cancel, Sink};
use winimg_recipe::{ArchiveKind, DownloadSpec, InputId, InputSource, Mirrors, RecipeInput};

/// Time limit for the transfers of a cancelled run to stop.
const STOPPING: Duration = Duration::from_secs(2);

/// One file to fetch.
#[derive(Clone, Debug)]
pub struct FetchRequest {
    pub id: InputId,
    /// Plain or signed; `url` may hold secrets and is shown redacted only.
    pub origin: DownloadSpec,
    /// File name in checksum files and signatures.
    pub file: String,
    /// Archive format: members of an archive may be signed.
    pub archive: Option<ArchiveKind>,
}

impl FetchRequest {
    /// Creates a request for a file that is not unpacked; its name is the URL's last segment.
    pub fn new(id: InputId, origin: &DownloadSpec) -> Self {
        Self {
            id,
            origin: origin.clone(),
            file: origin.url.value.file_name(),
            archive: None,
        }
    }

    /// Creates the request for an input; `None` for a container image, see [`image::images`].
    pub fn from_input(input: &RecipeInput<'_>) -> Option<Self> {
        let request = Self::new(input.id.clone(), input.origin()?);
        Some(match input.source {
            InputSource::Component(component) => Self {
                file: component.file.clone(),
                archive: component.unpack,
                ..request
            },
            InputSource::Medium(_) | InputSource::Image(_) => request,
        })
    }
}

/// A verified input in the store.
#[derive(Clone, Debug)]
pub struct FetchedFile {
    pub blob: StoredBlob,
    pub from: FetchSource,
}

/// Source of an input's bytes in this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchSource {
    /// The store had them.
    Cache,
    /// Their address, or the shared cache.
    Network,
    Local,
}

impl fmt::Display for FetchSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cache => "cache",
            Self::Network => "network",
            Self::Local => "local file",
        })
    }
}

/// Options for fetching. There is no limit on the total time: ISOs are large and links can be slow.
#[derive(Clone, Debug)]
pub struct FetchOptions {
    /// Maximum number of parallel transfers.
    pub parallel: usize,
    /// Maximum number of attempts in a row without progress.
    pub tries: u32,
    /// Wait before the second attempt; doubled for each further one, up to 30 s.
    pub first_wait: Duration,
    pub patience: Timeouts,
    /// Maximum size in bytes of a file without a lock, and of a whole container image: ten times
    /// the largest Windows medium.
    pub longest: u64,
    /// Makes no network requests; a file that is neither local nor in the store is an error.
    pub offline: bool,
    /// Fetches files without proof, so that they can be pinned. Otherwise they are refused.
    pub first_use: bool,
    /// Proxies of this host.
    pub proxies: Proxies,
    /// Mirrors of this host and of the recipe.
    pub mirrors: Mirrors,
    /// Shared cache, queried first for files with a known digest.
    pub shared: Option<Arc<shared_cache::SharedCacheClient>>,
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self {
            parallel: 4,
            tries: 5,
            first_wait: Duration::from_secs(1),
            patience: Timeouts {
                connect: Duration::from_secs(30),
                answer: Duration::from_secs(60),
                stall: Duration::from_secs(60),
                slow: Duration::from_secs(600),
            },
            longest: 64 << 30,
            offline: false,
            first_use: false,
            proxies: Proxies::default(),
            mirrors: Mirrors::default(),
            shared: None,
        }
    }
}

/// Fetches all requests and returns their files in the same order, or every error. Files in the
/// store are not downloaded again, except for those without proof. On cancellation, partial
/// downloads are kept for a later resume.
pub fn fetch(
    requests: Vec<FetchRequest>,
    store: &Store,
    sink: Arc<dyn Sink>,
    cancel: &Cancel,
    options: &FetchOptions,
) -> Result<Vec<FetchedFile>, Vec<Error>> {
    let context = FetchContext::new(store, sink, cancel, options);
    runtime::block_on(fetch_all(context, requests)).unwrap_or_else(|e| Err(vec![e]))
}

/// State shared by all transfers of one run.
struct FetchContext {
    store: Store,
    sink: Arc<dyn Sink>,
    cancel: Cancel,
    options: FetchOptions,
    client: client::HttpClient,
    slots: Semaphore,
}

impl FetchContext {
    fn new(
        store: &Store,
        sink: Arc<dyn Sink>,
        cancel: &Cancel,
        options: &FetchOptions,
    ) -> Arc<Self> {
        Arc::new(Self {
            store: store.clone(),
            sink,
            cancel: cancel.clone(),
            options: options.clone(),
            client: client::HttpClient::new(&options.proxies, options.patience),
            slots: Semaphore::new(options.parallel.max(1)),
        })
    }

    fn watch(&self, what: &str) -> ProgressWatch {
        ProgressWatch::new(what, Arc::clone(&self.sink), self.cancel.clone())
    }
}

async fn fetch_all(
    context: Arc<FetchContext>,
    requests: Vec<FetchRequest>,
) -> Result<Vec<FetchedFile>, Vec<Error>> {
    let mut results: Vec<Option<FetchedFile>> = vec![None; requests.len()];
    let mut errors = Vec::new();
    let mut transfers = JoinSet::new();
    for (index, request) in requests.into_iter().enumerate() {
        let context = Arc::clone(&context);
        let span = tracing::debug_span!("input", input = %request.id);
        let work = async move {
            let _slot = context.slots.acquire().await;
            (index, obtain::fetch_one(&context, &request).await)
        };
        transfers.spawn(work.instrument(span));
    }
    let mut cancelled = pin!(runtime::wait_until_cancelled(&context.cancel));
    loop {
        let ended = tokio::select! {
            biased;
            () = &mut cancelled => {
                // Their locks on partial downloads are free again when this returns.
                let _ = tokio::time::timeout(STOPPING, transfers.shutdown()).await;
                return Err(vec![Error::cancelled()]);
            }
            ended = transfers.join_next() => ended,
        };
        match ended {
            None => break,
            Some(Ok((index, Ok(fetched)))) => results[index] = Some(fetched),
            Some(Ok((index, Err(error)))) => errors.push((index, error)),
            Some(Err(e)) => {
                let error = Error::new(Kind::Failed, "a transfer ended unexpectedly").because(e);
                errors.push((usize::MAX, error));
            }
        }
    }
    if errors.is_empty() {
        return Ok(results.into_iter().flatten().collect());
    }
    errors.sort_by_key(|(index, _)| *index);
    Err(errors.into_iter().map(|(_, error)| error).collect())
}
