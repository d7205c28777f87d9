//! Leases: what living processes use of the store, so that `prune` leaves it.
//!
//! ```text
//! leases/<id>           the digests and layer keys that one process uses; it holds a lock on the file
//! locks/leases.lock     shared while a lease is begun or grows, exclusive while they are read and names are taken away
//! ```
//!
//! A lease names things, whether they are there or not: hold first, then look. It ends when it is dropped or when its
//! process dies, however that happens. It never waits for a deletion longer than the renames that begin it.

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

/// Names are taken away within moments; a process that keeps the gate for longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Bytes that are read of a lease: a thousand layers and ten thousand inputs have less.
const LIMIT: u64 = 4 << 20;

/// What one process uses. Dropped: free again.
#[derive(Debug)]
pub struct Lease {
    store: PathBuf,
    path: PathBuf,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    /// Locked as long as it is open.
    file: File,
    names: BTreeSet<Digest>,
}

impl Store {
    /// A lease of its own for a piece of work; empty at first.
    pub fn lease(&self) -> Result<Lease> {
        Lease::begin(&self.folder)
    }
}

impl Lease {
    pub(super) fn begin(store: &Path) -> Result<Self> {
        let folder = store.join(FOLDER);
        let path = folder.join(uuid::Uuid::new_v4().simple().to_string());
        // Nobody looks at leases before this one is locked.
        let _gate = Gate::shared(store)?;
        let cannot = |e| Error::io("write", &path, e);
        // Windows locks no file that is open for appending alone.
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create_new(true)
            .open(&path)
            .map_err(cannot)?;
        file_lock::try_lock(&file).map_err(|e| cannot(e.into()))?;
        Ok(Self {
            store: store.to_path_buf(),
            path,
            held: Mutex::new(Held {
                file,
                names: BTreeSet::new(),
            }),
        })
    }

    /// From now on until the lease ends, `prune` takes none of these away: digests of blobs, keys of layers. What is
    /// not there is held for when it comes. Look for a thing after it is held, not before.
    pub fn hold(&self, what: &[Digest]) -> Result<()> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let new: BTreeSet<&Digest> = what.iter().filter(|d| !held.names.contains(d)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let text: String = new.iter().map(|d| format!("{d}\n")).collect();
        let new: Vec<Digest> = new.into_iter().cloned().collect();
        let _gate = Gate::shared(&self.store)?;
        let written = held.file.write_all(text.as_bytes());
        written.map_err(|e| Error::io("write", &self.path, e))?;
        held.names.extend(new);
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Before the lock goes with the file: a lease without a holder is only a leftover.
        let _ = fs::remove_file(&self.path);
    }
}

/// The lock that orders leases and deletions; open as long as it is held.
pub(super) struct Gate {
    _file: File,
}

impl Gate {
    pub(super) fn shared(store: &Path) -> Result<Self> {
        Self::take(store, file_lock::try_lock_shared)
    }

    /// Nobody begins a lease or adds to one as long as this lives: for moments only.
    pub(super) fn exclusive(store: &Path) -> Result<Self> {
        Self::take(store, file_lock::try_lock)
    }

    /// The same, unless another process is there.
    pub(super) fn at_once(store: &Path) -> Option<Self> {
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

    fn take(store: &Path, how: fn(&File) -> Result<(), TryLockError>) -> Result<Self> {
        let path = store.join(GATE);
        let file = Self::open(store)?;
        let begun = Instant::now();
        loop {
            match how(&file) {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::Error(e)) => return Err(Error::io("lock", &path, e)),
                Err(TryLockError::WouldBlock) => {}
            }
            if begun.elapsed() >= PATIENCE {
                let fact = "another process keeps the cache's leases locked";
                return Err(Error::new(Kind::Host, fact)
                    .at(path.display())
                    .expected("free within a minute")
                    .cure("look for a `winimg cache prune` that hangs, and end it"));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

/// What living processes hold, and how many they are.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Leased {
    pub names: BTreeSet<Digest>,
    pub living: usize,
}

/// Reads all leases but our own. Those of dead processes are removed.
pub(super) fn leased(store: &Path, _gate: &Gate, own: &Path) -> Result<Leased> {
    let folder = store.join(FOLDER);
    let unreadable = |e| Error::io("read", &folder, e);
    let mut leased = Leased::default();
    for entry in fs::read_dir(&folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path == own {
            continue;
        }
        // A link or a pipe is no lease; opening it may wait or lead out of the store.
        if fs::symlink_metadata(&path).is_ok_and(|about| !about.is_file()) {
            continue;
        }
        let file = match io::open_regular(&path) {
            Ok(file) => file,
            // Its process just ended.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err(Error::io("read", &path, e)),
        };
        match file_lock::try_lock_shared(&file) {
            Ok(()) => {
                let _ = fs::remove_file(&path);
                continue;
            }
            Err(TryLockError::WouldBlock) => leased.living += 1,
            Err(TryLockError::Error(e)) => return Err(Error::io("lock", &path, e)),
        }
        let mut text = String::new();
        let read = file.take(LIMIT).read_to_string(&mut text);
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

    fn read(store: &Store) -> Leased {
        let gate = Gate::exclusive(store.folder()).unwrap();
        leased(store.folder(), &gate, store.lease.path()).unwrap()
    }

    #[test]
    fn a_lease_is_seen_while_it_lives_and_a_dead_ones_file_goes() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let [a, b] = ["a", "b"].map(|t| Digest::sha256_of(t.as_bytes()));
        let lease = store.lease().unwrap();
        lease.hold(&[a.clone(), b.clone(), a.clone()]).unwrap();
        lease.hold(std::slice::from_ref(&b)).unwrap();
        // As a killed process leaves it.
        let dead = store.folder().join(FOLDER).join("dead");
        fs::write(&dead, format!("{}\n", Digest::sha256_of(b"dead"))).unwrap();
        let seen = Leased {
            names: [a, b].into(),
            living: 1,
        };
        assert_eq!(read(&store), seen);
        assert!(!dead.exists());
        drop(lease);
        assert_eq!(read(&store), Leased::default());
    }
}
