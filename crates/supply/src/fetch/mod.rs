//! Fetches what a recipe names, on the host, several at once, into the store.
//!
//! The only asynchronous part of winimg: one runtime is built here, and nothing of it shows outside. Every file ends
//! as a [`Blob`] or as an error that points at the recipe; all errors of a run come together. What is not proved, or
//! declared unverified with a reason, is not fetched.

mod checksum_file;
pub(crate) mod client;
pub mod documents;
mod evidence;
mod except;
pub(crate) mod failure;
pub mod image;
mod obtain;
mod page;
pub(crate) mod policy;
mod proxy;
mod redirect;
pub(crate) mod registry;
mod remote;
mod resolver;
pub(crate) mod retry;
pub mod sharing;
mod signatures;
mod small;
pub(crate) mod space;
mod transfer;
pub mod tuf;
pub(crate) mod upload;
mod wanted;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::Instrument as _;

pub use policy::Patience;
pub use proxy::{Proxies, Used, broken as broken_proxies};

use crate::store::{Blob, Store, Watch};
use winimg_base::error::{Error, Kind};
use winimg_base::event::{Cancel, Sink};
use winimg_recipe::recipe::{Archive, Input, InputId, InputSource, Mirrors, Origin};

/// One file to fetch.
#[derive(Clone, Debug)]
pub struct Request {
    pub id: InputId,
    /// Plain or signed; `url` may hold secrets and is shown redacted only.
    pub origin: Origin,
    /// The file name, as a checksum file and a signature know it.
    pub file: String,
    /// How it is packed: members of an archive may be signed.
    pub archive: Option<Archive>,
}

impl Request {
    /// A file as it is; its name is the URL's last segment.
    pub fn new(id: InputId, origin: &Origin) -> Self {
        Self {
            id,
            origin: origin.clone(),
            file: origin.url.value.file_name(),
            archive: None,
        }
    }

    /// `None` for a container image: a registry has those, see [`image::images`].
    pub fn of(input: &Input<'_>) -> Option<Self> {
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

/// An input that is in the store now, and proved.
#[derive(Clone, Debug)]
pub struct Fetched {
    pub blob: Blob,
    pub from: CameFrom,
}

/// Where the bytes of an input came from in this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CameFrom {
    /// The store had them.
    Cache,
    /// Their address, or the cache that machines share.
    Network,
    Local,
}

impl fmt::Display for CameFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cache => "cache",
            Self::Network => "network",
            Self::Local => "local file",
        })
    }
}

/// How to fetch. There is no limit on the whole time: ISOs are large and lines are slow.
#[derive(Clone, Debug)]
pub struct FetchOptions {
    /// Transfers at once.
    pub parallel: usize,
    /// Tries in a row that bring no further byte.
    pub tries: u32,
    /// Before the second try; doubled for each further one, up to 30 s.
    pub first_wait: Duration,
    pub patience: Patience,
    /// Bytes of a file that no lock names, and of a container image's parts together: ten times the largest media of Windows.
    pub longest: u64,
    /// Nothing is asked of a network; what is neither in the store nor a local file is an error.
    pub offline: bool,
    /// What nothing proves yet is fetched as it comes, so that it can be pinned. Refused otherwise.
    pub first_use: bool,
    /// What leads to the network on this host.
    pub proxies: Proxies,
    /// Where addresses are fetched from instead: this host's and the recipe's.
    pub mirrors: Mirrors,
    /// The cache that machines share, asked for what a digest names before anyone else.
    pub shared: Option<Arc<sharing::Remote>>,
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self {
            parallel: 4,
            tries: 5,
            first_wait: Duration::from_secs(1),
            patience: Patience {
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

/// Fetches all requests and returns their files in the same order, or every error. What is in the store already is
/// not asked for again, except for files that nothing proves. When cancelled, broken transfers stay for a later
/// resume.
pub fn fetch(
    requests: Vec<Request>,
    store: &Store,
    sink: Arc<dyn Sink>,
    cancel: &Cancel,
    options: &FetchOptions,
) -> Result<Vec<Fetched>, Vec<Error>> {
    let context = Context::new(store, sink, cancel, options);
    block_on("fetch", cancel, all(context, requests)).unwrap_or_else(|e| Err(vec![e]))
}

/// Runs one task to its end, or until it is cancelled, on threads of its own.
fn block_on<T>(name: &str, cancel: &Cancel, work: impl Future<Output = T>) -> Result<T, Error> {
    let runtime = runtime(name)?;
    let result = runtime.block_on(async {
        tokio::select! {
            biased;
            () = cancelled(cancel) => Err(Error::cancelled()),
            result = work => Ok(result),
        }
    });
    // A name lookup that hangs cannot be interrupted, but need not be waited for.
    runtime.shutdown_timeout(Duration::from_secs(2));
    result
}

pub(crate) fn runtime(name: &str) -> Result<Runtime, Error> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name(name)
        .enable_all()
        .build()
        .map_err(|e| Error::new(Kind::Host, "no threads can be started").because(e))
}

/// What all transfers of one run share.
struct Context {
    store: Store,
    sink: Arc<dyn Sink>,
    cancel: Cancel,
    options: FetchOptions,
    client: client::Client,
    slots: Semaphore,
}

impl Context {
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
            client: client::Client::new(&options.proxies, options.patience),
            slots: Semaphore::new(options.parallel.max(1)),
        })
    }

    fn watch(&self, what: &str) -> Watch {
        Watch::new(what, Arc::clone(&self.sink), self.cancel.clone())
    }
}

async fn all(context: Arc<Context>, requests: Vec<Request>) -> Result<Vec<Fetched>, Vec<Error>> {
    let mut results: Vec<Option<Fetched>> = vec![None; requests.len()];
    let mut errors = Vec::new();
    let mut transfers = JoinSet::new();
    for (index, request) in requests.into_iter().enumerate() {
        let context = Arc::clone(&context);
        let span = tracing::debug_span!("input", input = %request.id);
        let work = async move {
            let _slot = context.slots.acquire().await;
            (index, obtain::obtain(&context, &request).await)
        };
        transfers.spawn(work.instrument(span));
    }
    while let Some(ended) = transfers.join_next().await {
        match ended {
            Ok((index, Ok(fetched))) => results[index] = Some(fetched),
            Ok((index, Err(error))) => errors.push((index, error)),
            Err(e) => {
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

pub(crate) async fn cancelled(cancel: &Cancel) {
    while !cancel.is_cancelled() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Runs what reads and hashes files away from the threads that move bytes.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let span = tracing::Span::current();
    match tokio::task::spawn_blocking(move || span.in_scope(work)).await {
        Ok(result) => result,
        Err(e) => Err(Error::new(Kind::Failed, "a thread ended unexpectedly").because(e)),
    }
}
