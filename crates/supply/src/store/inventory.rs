//! What is in the store: each thing with its size and its last use.
//!
//! Looks at names, records and metadata; no bytes are hashed. A thing is used when a command takes it; the time stands
//! in the modification time of its record.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use winimg_base::digest::Digest;
use winimg_base::io::{self, Lock, WorkFolder};
use winimg_recipe::lock::BuiltWith;

use super::{LayerRecord, Resumable, Seen, Store, entries, layer, name_of, read_record};

/// How deep a folder of the store is measured: archives have paths of at most 260 characters.
const DEPTH: u32 = 130;

/// One thing that the store keeps.
#[derive(Clone, Debug)]
pub struct Item {
    pub thing: Thing,
    /// Below the store's folder.
    pub path: PathBuf,
    /// Bytes of its files.
    pub size: u64,
    pub used: SystemTime,
    /// The file whose time is `used`, below the store's folder.
    pub(super) record: PathBuf,
    /// A living process has its lock.
    pub busy: bool,
}

#[derive(Clone, Debug)]
pub enum Thing {
    /// `None`: its record cannot be read.
    Layer(Digest, Option<Box<LayerRecord>>),
    /// A build's layer that is not sealed.
    Draft,
    Blob(Digest),
    /// Unpacked from the blob.
    Tree(Digest),
    /// The recipe of a bundle, by the first half of its index's SHA-256.
    Bundle(String),
    /// A transfer that was broken off, with its URL where it is known.
    Partial(Option<String>),
    Quarantined,
}

impl Thing {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Layer(..) => "layer",
            Self::Draft => "draft",
            Self::Blob(_) => "file",
            Self::Tree(_) => "tree",
            Self::Bundle(_) => "bundle",
            Self::Partial(_) => "partial",
            Self::Quarantined => "quarantine",
        }
    }
}

impl Store {
    /// All that `prune` may take, sorted by kind and name.
    pub fn items(&self) -> Vec<Item> {
        let mut items = self.layer_items();
        items.extend(self.blob_items());
        items.extend(self.tree_items());
        items.extend(self.simple_items("bundles", |name| Thing::Bundle(name.into())));
        items.extend(self.partial_items());
        items.extend(self.simple_items("quarantine", |_| Thing::Quarantined));
        items
    }

    /// What inputs are called: by the locks that were built with, else by the last part of a URL that gave them.
    pub fn names(&self) -> BTreeMap<Digest, BTreeSet<String>> {
        let mut names: BTreeMap<Digest, BTreeSet<String>> = BTreeMap::new();
        for record in self.in_folder("serials") {
            let built = read_record::<BuiltWith>(&record);
            for input in built.into_iter().flat_map(|b| b.inputs) {
                let of_digest = names.entry(input.digest).or_default();
                of_digest.insert(input.id.to_string());
            }
        }
        let mut of_urls: BTreeMap<Digest, BTreeSet<String>> = BTreeMap::new();
        let records = self.in_folder("seen");
        for seen in records.filter_map(|record| read_record::<Seen>(&record)) {
            let last = seen.url.rsplit('/').find(|part| !part.is_empty());
            let last = last.unwrap_or(&seen.url).to_string();
            of_urls.entry(seen.sha256).or_default().insert(last);
        }
        for (digest, of_url) in of_urls {
            names.entry(digest).or_insert(of_url);
        }
        names
    }

    /// The bytes of a small blob, if they are still what its name says. Not a use.
    pub fn small(&self, sha256: &Digest, limit: u64) -> Option<Vec<u8>> {
        let path = self.blob_path(sha256);
        if fs::metadata(&path).ok()?.len() > limit {
            return None;
        }
        let bytes = fs::read(path).ok()?;
        (Digest::sha256_of(&bytes) == *sha256).then_some(bytes)
    }

    fn layer_items(&self) -> Vec<Item> {
        let item = |path: PathBuf| {
            let name = name_of(&path);
            let record = path.join(layer::RECORD);
            let thing = match Digest::from_hex(&name) {
                Ok(key) => Thing::Layer(key, read_record(&record).map(Box::new)),
                Err(_) if WorkFolder::Draft.is_named(&name) => Thing::Draft,
                Err(_) => return None,
            };
            let busy = matches!(thing, Thing::Draft) && io::is_used(&path);
            Some(self.item(thing, &path, &record, busy))
        };
        self.in_folder("layers").filter_map(item).collect()
    }

    fn blob_items(&self) -> Vec<Item> {
        let folders = self.in_folder("blobs/sha256");
        let files = folders.flat_map(|folder| entries(&folder));
        let item = |path: PathBuf| {
            let digest = Digest::from_hex(&name_of(&path)).ok()?;
            let stamp = self.stamp_path(&digest);
            Some(self.item(Thing::Blob(digest), &path, &stamp, false))
        };
        files.filter_map(item).collect()
    }

    fn tree_items(&self) -> Vec<Item> {
        let item = |path: PathBuf| {
            let name = name_of(&path);
            let of = Digest::from_hex(name.split_once('-')?.0).ok()?;
            let record = path.with_extension("json");
            path.is_dir()
                .then(|| self.item(Thing::Tree(of), &path, &record, false))
        };
        self.in_folder("trees").filter_map(item).collect()
    }

    fn partial_items(&self) -> Vec<Item> {
        let item = |path: PathBuf| {
            let record = read_record::<Resumable>(&path.with_extension("json"));
            let key = path.file_stem().unwrap_or_default().to_string_lossy();
            let lock = format!("locks/partial-{key}.lock");
            let url = record.map(|r| r.url).filter(|url| !url.is_empty());
            let busy = Lock::is_held(&self.folder.join(lock));
            self.item(Thing::Partial(url), &path, &path, busy)
        };
        let parts = self.in_folder("partial");
        let parts = parts.filter(|path| path.extension().is_some_and(|e| e == "data"));
        parts.map(item).collect()
    }

    fn simple_items(&self, folder: &str, thing: impl Fn(&str) -> Thing) -> Vec<Item> {
        let things = self.in_folder(folder);
        let things = things.filter(|path| !name_of(path).starts_with('.'));
        things
            .map(|path| self.item(thing(&name_of(&path)), &path, &path, false))
            .collect()
    }

    fn in_folder(&self, folder: &str) -> impl Iterator<Item = PathBuf> + use<> {
        entries(&self.folder.join(folder)).into_iter()
    }

    /// Without its record a thing is as old as itself.
    fn item(&self, thing: Thing, path: &Path, record: &Path, busy: bool) -> Item {
        let record = if record.exists() { record } else { path };
        Item {
            thing,
            size: size_of(path, DEPTH),
            used: modified(record),
            path: self.below(path),
            record: self.below(record),
            busy,
        }
    }

    fn below(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.folder)
            .unwrap_or(path)
            .to_path_buf()
    }
}

/// Bytes of a file, or of all files of a folder; links are not followed.
fn size_of(path: &Path, depth: u32) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return 0;
    };
    match metadata.is_dir() {
        true if depth > 0 => entries(path)
            .iter()
            .map(|path| size_of(path, depth - 1))
            .sum(),
        true => 0,
        false => metadata.len(),
    }
}

fn modified(path: &Path) -> SystemTime {
    let time = fs::symlink_metadata(path).and_then(|m| m.modified());
    time.unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Nothing is younger than now: a time in the future is a clock that went wrong.
pub(super) fn age(record: &Path, now: SystemTime) -> Duration {
    now.duration_since(modified(record)).unwrap_or_default()
}
