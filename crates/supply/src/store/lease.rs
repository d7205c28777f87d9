//! Leases: items in use by running processes, which `prune` keeps.
//!
//! ```text
//! leases/<id>           digests and layer keys in use by one process, which locks the file
//! locks/leases.lock     shared while a lease is created or extended, exclusive while leases are
//!                       read and items are renamed for removal
//! ```
//!
//! A lease may name items that do not exist yet: add an item first, then look for it. It ends when
//! it is dropped or its process dies. It only waits for the renames at the start of a deletion.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io::{self, file_lock};

use super::Store;

const FOLDER: &str = "leases";
const GATE: &str = "locks/leases.lock";

/// Time limit. Renames take moments: a process that locks the gate for longer hangs.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Maximum size of a lease in bytes; a thousand layers and ten thousand inputs need less.
const MAX_LEASE_SIZE: u64 = 4 << 20;

/// Items in use by one process, released on drop.
#[derive(Debug)]
pub struct Lease {
    store: PathBuf,
    path: PathBuf,
    state: Mutex<LeaseState>,
}

#[derive(Debug)]
struct LeaseState {
    /// Locked while it is open.
    file: File,
    names: BTreeSet<Digest>,
}

impl Store {
    /// Creates a separate, empty lease.
    pub fn lease(&self) -> Result<Lease> {
        Lease::create(&self.folder)
    }
}

impl Lease {
    pub(super) fn create(store: &Path) -> Result<Self> {
        let folder = store.join(FOLDER);
        let path = folder.join(uuid::Uuid::new_v4().simple().to_string());
        // Leases are not read before this one is locked.
        let _gate = LeaseGate::lock_shared(store)?;
        // Windows does not lock a file that is only open for appending.
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create_new(true)
            .open(&path)
            .and_then(|file| {
                file_lock::try_lock(&file)?;
                Ok(file)
            })
            .map_err(|e| Error::io("write", &path, e))?;
        Ok(Self {
            store: store.to_path_buf(),
            path,
            state: Mutex::new(LeaseState {
                file,
                names: BTreeSet::new(),
            }),
        })
    }

    /// Protects blobs (by digest) and layers (by key) from `prune` until the lease ends, including
    /// those that do not exist yet. Look for an item after adding it, not before.
    pub fn add(&self, what: &[Digest]) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let new: BTreeSet<&Digest> = what.iter().filter(|d| !state.names.contains(d)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let text: String = new.iter().map(|d| format!("{d}\n")).collect();
        let new: Vec<Digest> = new.into_iter().cloned().collect();
        let _gate = LeaseGate::lock_shared(&self.store)?;
        let written = state.file.write_all(text.as_bytes());
        written.map_err(|e| Error::io("write", &self.path, e))?;
        state.names.extend(new);
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Before the lock is released with the file: an unlocked lease would be a leftover.
        let _ = fs::remove_file(&self.path);
    }
}

/// Lock that orders leases and deletions; locked while the file is open.
pub(super) struct LeaseGate {
    _file: File,
}

impl LeaseGate {
    pub(super) fn lock_shared(store: &Path) -> Result<Self> {
        Self::take(store, file_lock::try_lock_shared)
    }

    /// Blocks creating and extending leases; only for moments.
    pub(super) fn lock_exclusive(store: &Path) -> Result<Self> {
        Self::take(store, file_lock::try_lock)
    }

    /// Locks exclusively, unless another process has the lock.
    pub(super) fn try_lock_exclusive(store: &Path) -> Option<Self> {
        let file = Self::open(store).ok()?;
        file_lock::try_lock(&file)
            .ok()
            .map(|()| Self { _file: file })
    }

    fn open(store: &Path) -> Result<File> {
        let path = store.join(GATE);
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        options.open(&path).map_err(|e| Error::io("lock", &path, e))
    }

    fn take(store: &Path, try_lock: fn(&File) -> Result<(), TryLockError>) -> Result<Self> {
        let path = store.join(GATE);
        let file = Self::open(store)?;
        let started = Instant::now();
        loop {
            match try_lock(&file) {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::Error(e)) => return Err(Error::io("lock", &path, e)),
                Err(TryLockError::WouldBlock) => {}
            }
            if started.elapsed() >= LOCK_TIMEOUT {
                let fact = "another process keeps the cache's leases locked";
                return Err(Error::new(Kind::Host, fact)
                    .at(path.display())
                    .expected("unlocked within a minute")
                    .cure("stop any `winimg cache prune` that hangs"));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Items in use by running processes, and the number of processes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LeasedNames {
    pub names: BTreeSet<Digest>,
    pub running: usize,
}

/// Reads all leases except our own. Removes those of dead processes.
pub(super) fn read_leases(store: &Path, _gate: &LeaseGate, own: &Path) -> Result<LeasedNames> {
    let folder = store.join(FOLDER);
    let mut leased = LeasedNames::default();
    for entry in fs::read_dir(&folder).map_err(|e| Error::io("read", &folder, e))? {
        let path = entry.map_err(|e| Error::io("read", &folder, e))?.path();
        if path == own {
            continue;
        }
        // Skip links and pipes: opening one could block or leave the store.
        if fs::symlink_metadata(&path).is_ok_and(|about| !about.is_file()) {
            continue;
        }
        let file = match io::open_regular(&path) {
            Ok(file) => file,
            // Its process has just ended.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err(Error::io("read", &path, e)),
        };
        match file_lock::try_lock_shared(&file) {
            Ok(()) => {
                let _ = fs::remove_file(&path);
                continue;
            }
            Err(TryLockError::WouldBlock) => leased.running += 1,
            Err(TryLockError::Error(e)) => return Err(Error::io("lock", &path, e)),
        }
        let mut text = String::new();
        let read = file.take(MAX_LEASE_SIZE).read_to_string(&mut text);
        read.map_err(|e| Error::io("read", &path, e))?;
        leased
            .names
            .extend(text.lines().filter_map(|l| l.parse().ok()));
    }
    Ok(leased)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(store: &Store) -> LeasedNames {
        let gate = LeaseGate::lock_exclusive(store.folder()).unwrap();
        read_leases(store.folder(), &gate, store.lease.path()).unwrap()
    }

    #[test]
    fn a_lease_is_seen_while_it_lives_and_a_dead_ones_file_goes() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let [a, b] = ["a", "b"].map(|t| Digest::sha256_of(t.as_bytes()));
        let lease = store.lease().unwrap();
        lease.add(&[a.clone(), b.clone(), a.clone()]).unwrap();
        lease.add(std::slice::from_ref(&b)).unwrap();
        // The file of a killed process.
        let dead = store.folder().join(FOLDER).join("dead");
        fs::write(&dead, format!("{}\n", Digest::sha256_of(b"dead"))).unwrap();
        let seen = LeasedNames {
            names: [a, b].into(),
            running: 1,
        };
        assert_eq!(read(&store), seen);
        assert!(!dead.exists());
        drop(lease);
        assert_eq!(read(&store), LeasedNames::default());
    }
}
