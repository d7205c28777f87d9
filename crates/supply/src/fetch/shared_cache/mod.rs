//! Shared cache of several machines: layers and inputs in an OCI registry (OCI Distribution
//! Specification).
//!
//! Writers to the registry are not trusted: a layer needs a record signed with a key that the user
//! named, an input must match the digest in the recipe or its lock. A registry that is slow,
//! unavailable or malicious causes one warning, and the run continues without it; only an interrupt
//! ends a run.

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

use super::{Proxies, Timeouts};
use crate::runtime;
use crate::store::{ProgressWatch, Store, StoredBlob, StoredLayer};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Result};
use winimg_base::event::{Cancel, Sink};
use winimg_recipe::plan::ChainLink;
use winimg_trust::minisign::MinisignRule;

use fault::CacheFault;
use registry::CacheRegistry;

pub use super::registry::{Credentials, LoginLookup, RegistryConfig, find_credentials};
pub use address::CacheAddress;
pub(crate) use address::is_segment;
pub(crate) use registry::make_descriptor;

/// Signs bytes with a minisign key: the bytes, and the trusted comment.
pub type SignFn = Box<dyn Fn(&[u8], &str) -> Result<String> + Send + Sync>;

/// Settings for writing to a shared cache.
pub struct PushSettings {
    /// Signs layers.
    pub sign: SignFn,
    /// It is an error if the cache does not have the finished disk in the end.
    pub is_required: bool,
}

/// Settings of a shared cache.
pub struct SharedCacheSettings {
    pub address: CacheAddress,
    pub login: LoginLookup,
    /// Trusted keys for layers; without any, layers are not pulled.
    pub keys: Vec<MinisignRule>,
    /// Write to the cache, too.
    pub push: Option<PushSettings>,
    pub proxies: Proxies,
    pub patience: Timeouts,
}

/// Timeouts; they are short because a build can continue without the cache.
pub const DEFAULT_TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(10),
    answer: Duration::from_secs(10),
    stall: Duration::from_secs(60),
    slow: Duration::from_secs(600),
};

/// A shared cache, for one run.
pub struct SharedCacheClient {
    registry: CacheRegistry,
    keys: Vec<MinisignRule>,
    push: Option<PushSettings>,
    sink: Arc<dyn Sink>,
    cancel: Cancel,
    tags: Mutex<Option<Arc<BTreeSet<String>>>>,
    /// No more reads in this run.
    no_reads: AtomicBool,
    no_writes: AtomicBool,
    /// It does not answer, and this was reported.
    gone: AtomicBool,
}

impl SharedCacheClient {
    /// Sends no request yet.
    pub fn open(
        settings: SharedCacheSettings,
        sink: &Arc<dyn Sink>,
        cancel: &Cancel,
    ) -> Result<Arc<Self>> {
        if settings.keys.is_empty() {
            sink.note(
                "the shared cache is used for inputs only: without --cache-key none of its layers \
                 is trusted",
            );
        }
        super::proxy::warn_of_unusable(&settings.proxies, |text| sink.warn(text));
        let registry = CacheRegistry::new(
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
        }))
    }

    /// Pulls the layer with the longest prefix of `links`, if it is longer than `have` links, with
    /// its parents. Returns true if it pulled one. Errors are interrupts.
    pub fn pull_longest(&self, links: &[ChainLink], have: usize, store: &Store) -> Result<bool> {
        if self.keys.is_empty() || have >= links.len() {
            return Ok(false);
        }
        self.try_read(|| {
            let tags = self.list_tags()?;
            tracing::debug!(
                tags = tags.len(),
                have,
                of = links.len(),
                "layers of the shared cache"
            );
            let mut further = links.iter().skip(have).rev();
            match further.find(|link| tags.contains(&layer::make_tag(&link.key))) {
                Some(link) => self.pull(&link.key, store),
                None => Ok(false),
            }
        })
    }

    /// Pushes the layer with its missing parents. Errors are interrupts.
    pub fn push_layer(&self, layer: &StoredLayer, store: &Store) -> Result<()> {
        self.try_write(|sign| self.push(layer, store, sign))
    }

    /// Pushes the layer of a finished disk like [`Self::push_layer`], and checks that it is there
    /// if required.
    ///
    /// # Errors
    ///
    /// Interrupts; and if it is required: the shared cache does not have this disk afterwards.
    pub fn push_finished(&self, layer: &StoredLayer, store: &Store) -> Result<()> {
        let required = self.push.as_ref().filter(|push| push.is_required);
        let Some(PushSettings { sign, .. }) = required else {
            return self.push_layer(layer, store);
        };
        // Tried even if the cache failed before: a build takes long, and this is the last chance.
        let given = self.push(layer, store, sign).and_then(|()| self.has(layer));
        let why = match given {
            Ok(true) => return Ok(()),
            Ok(false) => None,
            Err(CacheFault::Cancelled) => return Err(Error::cancelled()),
            Err(CacheFault::Refused(error) | CacheFault::Unreachable(error)) => Some(error),
        };
        Err(self.report_missing(layer, why))
    }

    /// Writes the blob with this digest, at most `limit` bytes. `false`: the cache does not have
    /// it, and the written bytes are of no use. Errors are interrupts.
    pub fn pull_blob(
        &self,
        digest: &Digest,
        limit: u64,
        file: File,
        store: &Store,
        watch: &ProgressWatch,
    ) -> Result<bool> {
        self.try_read(|| self.run(self.registry.download(digest, limit, file, store, watch)))
    }

    /// Pushes an input, unless it is there. Errors are interrupts.
    pub fn push_blob(&self, name: &str, blob: &StoredBlob) -> Result<()> {
        self.try_write(|_| {
            let tag = format!("blob-{}", blob.digest().hex());
            if self.list_tags()?.contains(&tag) {
                return Ok(());
            }
            blob.check()?;
            let watch = self.watch(format!("{name} to the shared cache"));
            let (registry, digest, size) = (&self.registry, blob.digest(), blob.size());
            self.run(registry.upload(blob.path(), digest, size, &watch))?;
            self.run(registry.tag_blob(&tag, digest, size))
        })
    }

    /// Returns all tags of the registry, which are listed once.
    fn list_tags(&self) -> Result<Arc<BTreeSet<String>>, CacheFault> {
        let mut known = self.tags.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tags) = &*known {
            return Ok(Arc::clone(tags));
        }
        let tags = Arc::new(self.run(self.registry.list_tags())?);
        *known = Some(Arc::clone(&tags));
        Ok(tags)
    }

    fn watch(&self, what: impl Into<String>) -> ProgressWatch {
        ProgressWatch::new(what, Arc::clone(&self.sink), self.cancel.clone())
    }

    /// Runs one task until it ends or the run is cancelled.
    fn run<T>(&self, work: impl Future<Output = Result<T, CacheFault>>) -> Result<T, CacheFault> {
        runtime::run(&self.cancel, work)?
    }

    /// Runs a read, unless reads are disabled; `false` if it got nothing.
    fn try_read(&self, work: impl FnOnce() -> Result<bool, CacheFault>) -> Result<bool> {
        if self.no_reads.load(Ordering::SeqCst) {
            return Ok(false);
        }
        work().or_else(|fault| {
            self.no_reads.store(true, Ordering::SeqCst);
            self.report(fault).map(|()| false)
        })
    }

    /// Runs a write, if the user wants writes and they are not disabled.
    fn try_write(&self, work: impl FnOnce(&SignFn) -> Result<(), CacheFault>) -> Result<()> {
        let Some(PushSettings { sign, .. }) = &self.push else {
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

    /// Reports a fault as one warning. An unreachable registry is not tried again in this run.
    fn report(&self, fault: CacheFault) -> Result<()> {
        let error = match fault {
            CacheFault::Cancelled => return Err(Error::cancelled()),
            CacheFault::Refused(error) => error,
            CacheFault::Unreachable(error) => {
                self.no_reads.store(true, Ordering::SeqCst);
                self.no_writes.store(true, Ordering::SeqCst);
                // Several transfers may notice at once.
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

impl fmt::Debug for SharedCacheClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the shared cache {}", self.registry.describe())
    }
}
