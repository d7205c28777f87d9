//! Which things of the store go, why the others stay, and how the first go.
//!
//! Deciding is pure. Never goes what a lock file names, what a living process uses, and a layer that another one lies on.
//! Going begins with a rename into `trash/`: a thing is whole or has no name, wherever a crash comes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::event::Cancel;
use crate::io;

use super::admit::LocalRecord;
use super::inventory::age;
use super::known_locks::FORGET;
use super::lease::{Gate, leased};
use super::sweep::{TRASH, remove_whole};
use super::{Item, Store, Thing, read_record};

/// What shall go besides leftovers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wish {
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
        wish: Wish,
        protected: &dyn Fn() -> Protected,
        dry_run: bool,
        cancel: &Cancel,
    ) -> Result<Pruned> {
        let now = SystemTime::now();
        let gate = Gate::exclusive(&self.folder)?;
        let leased = leased(&self.folder, &gate, self.lease.path())?.names;
        let items = self.items();
        let pruned = decide(items, wish, &protected(), &leased, now);
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
            remove_whole(path).map_err(|e| Error::io("remove", path, e))?;
        }
        Ok(pruned)
    }

    /// A use in the future would keep a thing until then, and longer: it was now.
    fn mend_times(&self, items: &[(Item, String)], now: SystemTime) {
        for (item, _) in items.iter().filter(|(item, _)| item.used > now) {
            let record = fs::File::open(self.folder.join(&item.record));
            let _ = record.and_then(|f| f.set_modified(now));
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
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "json"));
    paths.sort();
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

/// What goes and what stays, of all that is there.
fn decide(
    items: Vec<Item>,
    wish: Wish,
    protected: &Protected,
    leased: &BTreeSet<Digest>,
    now: SystemTime,
) -> Pruned {
    let mut deciding = Deciding {
        keep: items.iter().map(|i| kept(i, protected, leased)).collect(),
        left: items.iter().map(|i| i.size).sum(),
        going: vec![None; items.len()],
        order: Vec::new(),
        items: &items,
    };
    deciding.leftovers();
    if let Some(limit) = wish.older_than {
        deciding.by_age(limit, now);
    }
    if let Some(limit) = wish.max_size {
        deciding.by_size(limit);
    }
    let stays = (0..items.len()).map(|n| deciding.stays(n, now)).collect();
    let (going, order) = (deciding.going, deciding.order);
    told(items, going, order, stays)
}

fn told(
    items: Vec<Item>,
    going: Vec<Option<String>>,
    order: Vec<usize>,
    stays: Vec<String>,
) -> Pruned {
    let mut pruned = Pruned::default();
    let mut gone: Vec<(usize, Item, String)> = Vec::new();
    for (number, ((item, why), stays)) in items.into_iter().zip(going).zip(stays).enumerate() {
        match why {
            Some(why) => gone.push((number, item, why)),
            None => pruned.stayed.push((item, stays)),
        }
    }
    gone.sort_by_key(|(number, ..)| order.iter().position(|n| n == number));
    pruned.gone = gone.into_iter().map(|(_, i, why)| (i, why)).collect();
    pruned
}

/// Why an item must stay whatever is wished.
fn kept(item: &Item, protected: &Protected, leased: &BTreeSet<Digest>) -> Option<String> {
    let uses = "a running winimg uses it";
    let leased = match &item.thing {
        Thing::Layer(digest, _) | Thing::Blob(digest) | Thing::Tree(digest) => {
            leased.contains(digest)
        }
        Thing::Bundle(name) => leased.iter().any(|d| d.hex().starts_with(name)),
        Thing::Quarantined => {
            let name = item.path.file_name().unwrap_or_default().to_string_lossy();
            Digest::from_hex(&name).is_ok_and(|d| leased.contains(&d))
        }
        Thing::Draft | Thing::Partial(_) => false,
    };
    if leased || item.busy {
        return Some(uses.into());
    }
    match &item.thing {
        Thing::Blob(digest) => protected.get(digest).cloned(),
        _ => None,
    }
}

struct Deciding<'a> {
    items: &'a [Item],
    keep: Vec<Option<String>>,
    /// Why it goes.
    going: Vec<Option<String>>,
    /// Leaves before what they lie on.
    order: Vec<usize>,
    /// Bytes of what stays.
    left: u64,
}

impl Deciding<'_> {
    fn goes(&mut self, number: usize, why: String) {
        self.going[number] = Some(why);
        self.order.push(number);
        self.left -= self.items[number].size;
    }

    /// Whether it is of use to nobody.
    fn leftovers(&mut self) {
        for number in 0..self.items.len() {
            let why = match &self.items[number].thing {
                _ if self.keep[number].is_some() => continue,
                Thing::Draft => "its build was interrupted",
                Thing::Layer(_, None) => "its record cannot be read",
                _ => continue,
            };
            self.goes(number, why.into());
        }
        // What lies on nothing, then what lies on that.
        while let Some(number) = (0..self.items.len()).find(|n| self.is_orphan(*n)) {
            self.goes(number, "the layer that it lies on is gone".into());
        }
        self.leaves_first();
    }

    /// Orphans were found from below.
    fn leaves_first(&mut self) {
        let depth = |n: &usize| match &self.items[*n].thing {
            Thing::Layer(_, Some(record)) => record.links.len(),
            _ => 0,
        };
        let mut order = std::mem::take(&mut self.order);
        order.sort_by_key(|n| std::cmp::Reverse(depth(n)));
        self.order = order;
    }

    fn is_orphan(&self, number: usize) -> bool {
        let Thing::Layer(_, Some(record)) = &self.items[number].thing else {
            return false;
        };
        let Some(parent) = &record.parent else {
            return false;
        };
        let is_parent = |n: usize| match &self.items[n].thing {
            Thing::Layer(key, _) => key == parent && self.going[n].is_none(),
            _ => false,
        };
        self.keep[number].is_none()
            && self.going[number].is_none()
            && !(0..self.items.len()).any(is_parent)
    }

    fn by_age(&mut self, limit: Duration, now: SystemTime) {
        let old = |item: &Item| unused_for(item, now) > limit;
        let why = |item: &Item| format!("not used for {}", span(unused_for(item, now)));
        self.while_any(|me, number| old(&me.items[number]).then(|| why(&me.items[number])));
    }

    fn by_size(&mut self, limit: u64) {
        let why = "the least lately used, and the rest is over the size";
        self.while_any(|me, _| (me.left > limit).then(|| why.to_string()));
    }

    /// Offers each thing that may go, the least lately used first, until none goes any more.
    fn while_any(&mut self, why: impl Fn(&Self, usize) -> Option<String>) {
        let mut lately: Vec<usize> = (0..self.items.len()).collect();
        lately.sort_by_key(|n| self.items[*n].used);
        loop {
            let before = self.order.len();
            for number in &lately {
                if !self.may_go(*number) {
                    continue;
                }
                let Some(why) = why(self, *number) else {
                    continue;
                };
                self.goes(*number, why);
                self.trees_of(*number);
            }
            if self.order.len() == before {
                return;
            }
        }
    }

    fn may_go(&self, number: usize) -> bool {
        let free = self.keep[number].is_none() && self.going[number].is_none();
        free && self.child(number).is_none()
    }

    /// A layer that stays and lies on this one.
    fn child(&self, number: usize) -> Option<&Item> {
        let Thing::Layer(key, _) = &self.items[number].thing else {
            return None;
        };
        let all = self.items.iter().zip(&self.going);
        let mut staying = all.filter(|(_, going)| going.is_none()).map(|(i, _)| i);
        staying.find(|item| match &item.thing {
            Thing::Layer(_, Some(record)) => record.parent.as_ref() == Some(key),
            _ => false,
        })
    }

    /// What was unpacked from a file is of no use without it.
    fn trees_of(&mut self, number: usize) {
        let Thing::Blob(blob) = &self.items[number].thing else {
            return;
        };
        for tree in 0..self.items.len() {
            let of_it = matches!(&self.items[tree].thing, Thing::Tree(of) if of == blob);
            if of_it && self.keep[tree].is_none() && self.going[tree].is_none() {
                self.goes(tree, "the archive that it was unpacked from goes".into());
            }
        }
    }

    fn stays(&self, number: usize, now: SystemTime) -> String {
        if let Some(keep) = &self.keep[number] {
            return keep.clone();
        }
        match self.child(number).map(|child| &child.thing) {
            Some(Thing::Layer(key, Some(record))) => {
                let key = &key.hex()[..12];
                format!("layer {key} (after {}) lies on it", record.after())
            }
            _ => {
                let unused = unused_for(&self.items[number], now);
                format!("used {} ago", span(unused))
            }
        }
    }
}

fn unused_for(item: &Item, now: SystemTime) -> Duration {
    now.duration_since(item.used).unwrap_or_default()
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
