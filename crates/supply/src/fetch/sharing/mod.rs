//! The cache that several machines share: layers and inputs in an OCI registry (OCI Distribution Specification).
//!
//! Those who can write to the registry are not trusted: a layer is believed only when a key that the user named signed its
//! record, an input only by the digest that the recipe or its lock names. A registry that is slow, gone or lying is one
//! warning, and continuing without it; only an interrupt ends a run.

mod address;
mod fault;
mod layer;
mod registry;

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Runtime;

use super::{Patience, Proxies};
use crate::store::{Blob, Layer, Store, Watch};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Result};
use winimg_base::event::{Cancel, Sink};
use winimg_recipe::plan::Link;
use winimg_trust::minisign::Rule;

use fault::Fault;
use registry::Registry;

pub use super::registry::{Credentials, Lookup, Places, credentials};
pub use address::Address;
pub(crate) use address::is_segment;

/// Signs bytes with a minisign key: the bytes, and the trusted comment.
pub type Sign = Box<dyn Fn(&[u8], &str) -> Result<String> + Send + Sync>;

/// How a shared cache is written to.
pub struct Push {
    /// With the key for layers.
    pub sign: Sign,
    /// A finished disk that it does not have in the end is an error.
    pub is_required: bool,
}

/// What the user wants of a shared cache.
pub struct Settings {
    pub address: Address,
    pub login: Lookup,
    /// Whose layers are believed; with none, layers are not asked for.
    pub keys: Vec<Rule>,
    /// Write, too.
    pub push: Option<Push>,
    pub proxies: Proxies,
    pub patience: Patience,
}

/// A build goes on without it, and does not wait for long.
pub const PATIENCE: Patience = Patience {
    connect: Duration::from_secs(10),
    answer: Duration::from_secs(10),
    stall: Duration::from_secs(60),
    slow: Duration::from_secs(600),
};

/// A shared cache, for one run.
pub struct Remote {
    registry: Registry,
    keys: Vec<Rule>,
    push: Option<Push>,
    sink: Arc<dyn Sink>,
    cancel: Cancel,
    tags: Mutex<Option<Arc<BTreeSet<String>>>>,
    /// Not asked any more.
    no_reads: AtomicBool,
    no_writes: AtomicBool,
    /// It does not answer, and that was said.
    gone: AtomicBool,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl Remote {
    /// Nothing is asked yet.
    pub fn open(settings: Settings, sink: &Arc<dyn Sink>, cancel: &Cancel) -> Result<Arc<Self>> {
        if settings.keys.is_empty() {
            sink.note(
                "the shared cache is used for inputs only: without --cache-key none of its layers is trusted",
            );
        }
        super::proxy::warn_of_broken(&settings.proxies, |text| sink.warn(text));
        let registry = Registry::new(
            &settings.address,
            settings.login,
            &settings.proxies,
            settings.patience,
        )?;
        Ok(Arc::new(Self {
            registry,
            keys: settings.keys,
            push: settings.push,
            sink: Arc::clone(sink),
            cancel: cancel.clone(),
            tags: Mutex::default(),
            no_reads: AtomicBool::new(false),
            no_writes: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            runtime: Some(super::runtime("shared cache")?),
        }))
    }

    /// Brings the layer that holds the longest beginning of `links`, if it is longer than `have` links; with its parents.
    /// Whether one came. Errors are interrupts.
    pub fn pull_longest(&self, links: &[Link], have: usize, store: &Store) -> Result<bool> {
        if self.keys.is_empty() || have >= links.len() {
            return Ok(false);
        }
        self.reading(|| {
            let tags = self.tags()?;
            tracing::debug!(
                tags = tags.len(),
                have,
                of = links.len(),
                "layers of the shared cache"
            );
            let mut further = links.iter().skip(have).rev();
            match further.find(|link| tags.contains(&layer::tag(&link.key))) {
                Some(link) => self.pull(&link.key, store),
                None => Ok(false),
            }
        })
    }

    /// Gives the layer, with the parents that are not there. Errors are interrupts.
    pub fn push_layer(&self, layer: &Layer, store: &Store) -> Result<()> {
        self.writing(|sign| self.give(layer, store, sign))
    }

    /// Gives the layer of a finished disk as [`Self::push_layer`] does, and looks whether it is there where that is required.
    ///
    /// # Errors
    ///
    /// Interrupts; where it is required: the shared cache does not have this disk afterwards.
    pub fn push_finished(&self, layer: &Layer, store: &Store) -> Result<()> {
        let required = self.push.as_ref().filter(|push| push.is_required);
        let Some(Push { sign, .. }) = required else {
            return self.push_layer(layer, store);
        };
        // Asked again although it failed before: a build takes long, and this is its last word.
        let given = self.give(layer, store, sign).and_then(|()| self.has(layer));
        let why = match given {
            Ok(true) => return Ok(()),
            Ok(false) => None,
            Err(Fault::Cancelled) => return Err(Error::cancelled()),
            Err(Fault::Refused(error) | Fault::Unreachable(error)) => Some(error),
        };
        Err(self.lacks(layer, why))
    }

    /// Writes the bytes with this digest, at most `limit` of them; `false`: the cache does not hold them, and what was
    /// written is of no use. Errors are interrupts.
    pub fn pull_blob(
        &self,
        digest: &Digest,
        limit: u64,
        file: File,
        store: &Store,
        watch: &Watch,
    ) -> Result<bool> {
        self.reading(|| self.run(self.registry.download(digest, limit, file, store, watch)))
    }

    /// Gives an input, unless it is there. Errors are interrupts.
    pub fn push_blob(&self, name: &str, blob: &Blob) -> Result<()> {
        self.writing(|_| {
            let tag = format!("blob-{}", blob.digest().hex());
            if self.tags()?.contains(&tag) {
                return Ok(());
            }
            blob.check()?;
            let watch = self.watch(format!("{name} to the shared cache"));
            let (registry, digest, size) = (&self.registry, blob.digest(), blob.size());
            self.run(registry.upload(blob.path(), digest, size, &watch))?;
            self.run(registry.tag_blob(&tag, digest, size))
        })
    }

    /// Everything that has a name in the registry; asked once.
    fn tags(&self) -> Result<Arc<BTreeSet<String>>, Fault> {
        let mut known = self.tags.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tags) = &*known {
            return Ok(Arc::clone(tags));
        }
        let tags = Arc::new(self.run(self.registry.tags())?);
        *known = Some(Arc::clone(&tags));
        Ok(tags)
    }

    fn watch(&self, what: impl Into<String>) -> Watch {
        Watch::new(what, Arc::clone(&self.sink), self.cancel.clone())
    }

    /// Runs one task to its end, or until the run is cancelled.
    fn run<T>(&self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let Some(runtime) = &self.runtime else {
            return Err(Fault::Cancelled);
        };
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = super::cancelled(&self.cancel) => Err(Fault::Cancelled),
                ended = work => ended,
            }
        })
    }

    /// Asks for something, unless the cache is not asked any more; `false` when it did not come.
    fn reading(&self, work: impl FnOnce() -> Result<bool, Fault>) -> Result<bool> {
        if self.no_reads.load(Ordering::SeqCst) {
            return Ok(false);
        }
        work().or_else(|fault| {
            self.no_reads.store(true, Ordering::SeqCst);
            self.report(fault).map(|()| false)
        })
    }

    /// Gives something, where the user wants that and the cache still takes it.
    fn writing(&self, work: impl FnOnce(&Sign) -> Result<(), Fault>) -> Result<()> {
        let Some(Push { sign, .. }) = &self.push else {
            return Ok(());
        };
        if self.no_writes.load(Ordering::SeqCst) {
            return Ok(());
        }
        work(sign).or_else(|fault| {
            self.no_writes.store(true, Ordering::SeqCst);
            self.report(fault)
        })
    }

    /// One warning. A registry that cannot be reached is not tried again in this run.
    fn report(&self, fault: Fault) -> Result<()> {
        let error = match fault {
            Fault::Cancelled => return Err(Error::cancelled()),
            Fault::Refused(error) => error,
            Fault::Unreachable(error) => {
                self.no_reads.store(true, Ordering::SeqCst);
                self.no_writes.store(true, Ordering::SeqCst);
                // Several transfers may find out at once.
                if self.gone.swap(true, Ordering::SeqCst) {
                    return Ok(());
                }
                error
            }
        };
        self.sink.warn(format!("{error}\n  continuing without it"));
        Ok(())
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // The last holder may be a task of another runtime, where nothing may wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the shared cache {}", self.registry.shown())
    }
}
