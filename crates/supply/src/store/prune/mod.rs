//! Removes items from the store.
//!
//! Keeps items that a lock file names or a running process uses, and layers with children. Removal
//! begins with a rename into `trash/`, so that after a crash an item is either complete or gone.

mod decide;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use winimg_base::digest::Digest;
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;
use winimg_base::io;

use super::admit::LocalFileRecord;
use super::inventory::compute_age;
use super::known_locks::FORGET;
use super::lease::{LeaseGate, read_leases};
use super::sweep::TRASH;
use super::{Store, StoreItem, list_entries, read_record};

use decide::decide;

/// Limits for removing items besides leftovers.
#[derive(Clone, Copy, Debug, Default)]
pub struct PruneLimits {
    /// Removes items that were not used for this long.
    pub older_than: Option<Duration>,
    /// Maximum bytes; removes the least recently used items until the rest fits.
    pub max_size: Option<u64>,
}

/// Digests of files that must be kept, with the reason.
pub type ProtectedFiles = BTreeMap<Digest, String>;

/// Decisions, carried out unless it was a dry run.
#[derive(Debug, Default)]
pub struct PruneReport {
    /// Removed items with the reason, in order.
    pub gone: Vec<(StoreItem, String)>,
    pub stayed: Vec<(StoreItem, String)>,
}

/// Returns the total size of the items in bytes.
pub fn sum_sizes(items: &[(StoreItem, String)]) -> u64 {
    items.iter().map(|(item, _)| item.size).sum()
}

impl Store {
    /// Removes items. Calls `protected` while no other process can start using items.
    pub fn prune(
        &self,
        limits: PruneLimits,
        protected: &dyn Fn() -> ProtectedFiles,
        dry_run: bool,
        cancel: &Cancel,
    ) -> Result<PruneReport> {
        let now = SystemTime::now();
        let gate = LeaseGate::lock_exclusive(&self.folder)?;
        let leased = read_leases(&self.folder, &gate, self.lease.path())?.names;
        let items = self.list_items();
        let pruned = decide(items, limits, &protected(), &leased, now);
        if dry_run {
            return Ok(pruned);
        }
        self.mend_times(&pruned.stayed, now);
        let mut names = TrashedNames::new(&self.folder);
        for (item, _) in &pruned.gone {
            cancel.check()?;
            names.take(&item.path)?;
        }
        self.tidy_records(&leased, now);
        self.forget_locks(now);
        names.sync()?;
        // Renamed items are unused: others need not wait for their removal.
        drop(gate);
        for path in &names.taken {
            cancel.check()?;
            io::remove_recursively(path).map_err(|e| Error::io("remove", path, e))?;
        }
        Ok(pruned)
    }

    /// Sets times in the future to now, because they would keep an item for too long.
    fn mend_times(&self, items: &[(StoreItem, String)], now: SystemTime) {
        for (item, _) in items.iter().filter(|(item, _)| item.used > now) {
            let _ = io::set_modified(&self.folder.join(&item.record), now);
        }
    }

    /// Removes records of missing files.
    fn tidy_records(&self, leased: &BTreeSet<Digest>, now: SystemTime) {
        for path in list_records(&self.folder.join("stamps")) {
            let hex = path.file_stem().unwrap_or_default().to_string_lossy();
            if Digest::from_hex(&hex).is_ok_and(|d| self.is_missing(&d, leased)) {
                let _ = fs::remove_file(path);
            }
        }
        for path in list_records(&self.folder.join("sha512")) {
            if read_record::<Digest>(&path).is_none_or(|d| self.is_missing(&d, leased)) {
                let _ = fs::remove_file(path);
            }
        }
        for path in list_records(&self.folder.join("local")) {
            let gone = read_record::<LocalFileRecord>(&path).is_none_or(|r| !r.path.exists());
            if gone && compute_age(&path, now) > FORGET {
                let _ = fs::remove_file(path);
            }
        }
    }

    /// Returns true if the blob neither exists nor is leased.
    fn is_missing(&self, sha256: &Digest, leased: &BTreeSet<Digest>) -> bool {
        !self.blob_path(sha256).exists() && !leased.contains(sha256)
    }
}

/// Returns the records in a folder, without those that are being written.
fn list_records(folder: &Path) -> Vec<PathBuf> {
    let mut paths = list_entries(folder);
    paths.retain(|p| p.extension().is_some_and(|e| e == "json"));
    paths
}

/// Items moved to the trash, and their former folders.
struct TrashedNames<'a> {
    store: &'a Path,
    folders: BTreeSet<PathBuf>,
    taken: Vec<PathBuf>,
}

impl<'a> TrashedNames<'a> {
    fn new(store: &'a Path) -> Self {
        Self {
            store,
            folders: BTreeSet::new(),
            taken: Vec::new(),
        }
    }

    /// Moves an item to the trash, after its record if that is beside it.
    fn take(&mut self, path: &Path) -> Result<()> {
        let beside = path.with_extension("json");
        let has_record = path.starts_with("trees") || path.starts_with("partial");
        if has_record && self.store.join(&beside).exists() {
            self.rename(&beside)?;
        }
        self.rename(path)
    }

    fn rename(&mut self, path: &Path) -> Result<()> {
        let from = self.store.join(path);
        let id = uuid::Uuid::new_v4().simple().to_string();
        let to = self.store.join(TRASH).join(id);
        fs::rename(&from, &to).map_err(|e| Error::io("remove", &from, e))?;
        self.folders.insert(io::folder_of(&from).to_path_buf());
        self.taken.push(to);
        Ok(())
    }

    /// Makes the renames durable, so that the files can be removed.
    fn sync(&self) -> Result<()> {
        if self.taken.is_empty() {
            return Ok(());
        }
        io::sync_folder(&self.store.join(TRASH))?;
        self.folders.iter().try_for_each(|f| io::sync_folder(f))
    }
}

/// Formats a time in its largest unit, rounded down: `45 days`, `3 hours`, `2 minutes`, `7
/// seconds`.
pub fn format_span(time: Duration) -> String {
    let seconds = time.as_secs();
    let (number, unit) = match seconds {
        0..60 => (seconds, "second"),
        60..3600 => (seconds / 60, "minute"),
        3600..172_800 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {unit}{s}")
}
