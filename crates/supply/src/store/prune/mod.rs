//! Which things of the store go, why the others stay, and how the first go.
//!
//! Never goes what a lock file names, what a living process uses, and a layer that another one lies on.
//! Going begins with a rename into `trash/`: a thing is whole or has no name, wherever a crash comes.

mod decide;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use winimg_base::digest::Digest;
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;
use winimg_base::io;

use super::admit::LocalRecord;
use super::inventory::age;
use super::known_locks::FORGET;
use super::lease::{Gate, leased};
use super::sweep::TRASH;
use super::{Item, Store, entries, read_record};

use decide::decide;

/// What shall go besides leftovers.
#[derive(Clone, Copy, Debug, Default)]
pub struct PruneLimits {
    /// What was not used for this long.
    pub older_than: Option<Duration>,
    /// Bytes; from the least lately used on, until what stays is not more.
    pub max_size: Option<u64>,
}

/// Digests of files that must stay, each with the words for why.
pub type Protected = BTreeMap<Digest, String>;

/// What was decided, and done unless it was a dry run.
#[derive(Debug, Default)]
pub struct Pruned {
    /// In the order of going, with why.
    pub gone: Vec<(Item, String)>,
    pub stayed: Vec<(Item, String)>,
}

/// Bytes of the items together.
pub fn total(items: &[(Item, String)]) -> u64 {
    items.iter().map(|(item, _)| item.size).sum()
}

impl Store {
    /// Decides and carries out. `protected` is asked while nobody else can take a thing into use.
    pub fn prune(
        &self,
        limits: PruneLimits,
        protected: &dyn Fn() -> Protected,
        dry_run: bool,
        cancel: &Cancel,
    ) -> Result<Pruned> {
        let now = SystemTime::now();
        let gate = Gate::exclusive(&self.folder)?;
        let leased = leased(&self.folder, &gate, self.lease.path())?.names;
        let items = self.items();
        let pruned = decide(items, limits, &protected(), &leased, now);
        if dry_run {
            return Ok(pruned);
        }
        self.mend_times(&pruned.stayed, now);
        let mut names = Names::new(&self.folder);
        for (item, _) in &pruned.gone {
            cancel.check()?;
            names.take(&item.path)?;
        }
        self.tidy_records(&leased, now);
        self.forget_locks(now);
        names.sync()?;
        // What has no name is nobody's: others need not wait for its removal.
        drop(gate);
        for path in &names.taken {
            cancel.check()?;
            io::remove_whole(path).map_err(|e| Error::io("remove", path, e))?;
        }
        Ok(pruned)
    }

    /// A use in the future would keep a thing until then, and longer: it was now.
    fn mend_times(&self, items: &[(Item, String)], now: SystemTime) {
        for (item, _) in items.iter().filter(|(item, _)| item.used > now) {
            let _ = io::set_modified(&self.folder.join(&item.record), now);
        }
    }

    /// Takes away small records about files that are gone.
    fn tidy_records(&self, leased: &BTreeSet<Digest>, now: SystemTime) {
        let lost = |sha256: &Digest| !self.blob_path(sha256).exists() && !leased.contains(sha256);
        for path in files(&self.folder.join("stamps")) {
            let hex = path.file_stem().unwrap_or_default().to_string_lossy();
            if Digest::from_hex(&hex).is_ok_and(|d| lost(&d)) {
                let _ = fs::remove_file(path);
            }
        }
        for path in files(&self.folder.join("sha512")) {
            if read_record::<Digest>(&path).is_none_or(|d| lost(&d)) {
                let _ = fs::remove_file(path);
            }
        }
        for path in files(&self.folder.join("local")) {
            let gone = read_record::<LocalRecord>(&path).is_none_or(|r| !r.path.exists());
            if gone && age(&path, now) > FORGET {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// The records of a folder, without those that are being written.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut paths = entries(folder);
    paths.retain(|p| p.extension().is_some_and(|e| e == "json"));
    paths
}

/// Names that are taken away, and the folders in which they were.
struct Names<'a> {
    store: &'a Path,
    folders: BTreeSet<PathBuf>,
    taken: Vec<PathBuf>,
}

impl<'a> Names<'a> {
    fn new(store: &'a Path) -> Self {
        Self {
            store,
            folders: BTreeSet::new(),
            taken: Vec::new(),
        }
    }

    /// The thing, and before it the record of one that has its record beside it.
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

    /// After this no name comes back, and its bytes may go.
    fn sync(&self) -> Result<()> {
        if self.taken.is_empty() {
            return Ok(());
        }
        io::sync_folder(&self.store.join(TRASH))?;
        self.folders.iter().try_for_each(|f| io::sync_folder(f))
    }
}

/// `45 days`, `3 hours`, `2 minutes`, `7 seconds`: the largest unit, rounded down.
pub fn span(time: Duration) -> String {
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
