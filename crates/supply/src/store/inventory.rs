//! What is in the store: each thing with its size and its last use.
//!
//! Looks at names, records and metadata; no bytes are hashed. A thing is used when a command takes it; the time stands
//! in the modification time of its record.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use winimg_base::digest::Digest;
use winimg_base::io::{self, Lock, WorkFolder};
use winimg_recipe::lock::BuiltWith;

use super::{LayerRecord, Resumable, Seen, Store, layer, read_record};

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
    /// The file that tells `used`, below the store's folder.
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
        for entry in entries(&self.folder.join("serials")) {
            let built = read_record::<BuiltWith>(&entry.path());
            for input in built.into_iter().flat_map(|b| b.inputs) {
                let of_digest = names.entry(input.digest).or_default();
                of_digest.insert(input.id.to_string());
            }
        }
        let mut of_urls: BTreeMap<Digest, BTreeSet<String>> = BTreeMap::new();
        for entry in entries(&self.folder.join("seen")) {
            let Some(seen) = read_record::<Seen>(&entry.path()) else {
                continue;
            };
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
        let mut items = Vec::new();
        for entry in entries(&self.folder.join("layers")) {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let thing = match Digest::from_hex(&name) {
                Ok(key) => {
                    let record = read_record::<LayerRecord>(&path.join(layer::RECORD));
                    Thing::Layer(key, record.map(Box::new))
                }
                Err(_) if WorkFolder::Draft.is_named(&name) => Thing::Draft,
                Err(_) => continue,
            };
            let busy = matches!(thing, Thing::Draft) && io::is_used(&path);
            items.push(self.item(thing, &path, &path.join(layer::RECORD), busy));
        }
        items
    }

    fn blob_items(&self) -> Vec<Item> {
        let folders = entries(&self.sha256_blobs());
        let files = folders
            .into_iter()
            .flat_map(|folder| entries(&folder.path()));
        let mut items = Vec::new();
        for entry in files {
            let Ok(digest) = Digest::from_hex(&entry.file_name().to_string_lossy()) else {
                continue;
            };
            let stamp = self.stamp_path(&digest);
            items.push(self.item(Thing::Blob(digest), &entry.path(), &stamp, false));
        }
        items
    }

    fn tree_items(&self) -> Vec<Item> {
        let mut items = Vec::new();
        for entry in entries(&self.folder.join("trees")) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let of = name.split_once('-').map(|(hex, _)| Digest::from_hex(hex));
            let (path, Some(Ok(of))) = (entry.path(), of) else {
                continue;
            };
            if !path.is_dir() {
                continue;
            }
            let record = path.with_extension("json");
            items.push(self.item(Thing::Tree(of), &path, &record, false));
        }
        items
    }

    fn partial_items(&self) -> Vec<Item> {
        let mut items = Vec::new();
        for entry in entries(&self.folder.join("partial")) {
            let path = entry.path();
            if path.extension().is_none_or(|e| e != "data") {
                continue;
            }
            let record = read_record::<Resumable>(&path.with_extension("json"));
            let key = path.file_stem().unwrap_or_default().to_string_lossy();
            let lock = format!("locks/partial-{key}.lock");
            let url = record.map(|r| r.url).filter(|url| !url.is_empty());
            let busy = Lock::is_held(&self.folder.join(lock));
            items.push(self.item(Thing::Partial(url), &path, &path, busy));
        }
        items
    }

    fn simple_items(&self, folder: &str, thing: impl Fn(&str) -> Thing) -> Vec<Item> {
        let mut items = Vec::new();
        for entry in entries(&self.folder.join(folder)) {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') {
                continue;
            }
            let path = entry.path();
            items.push(self.item(thing(&name), &path, &path, false));
        }
        items
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

/// Sorted by name.
fn entries(folder: &Path) -> Vec<DirEntry> {
    let mut entries: Vec<DirEntry> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .collect();
    entries.sort_by_key(DirEntry::file_name);
    entries
}

/// Bytes of a file, or of all files of a folder; links are not followed.
fn size_of(path: &Path, depth: u32) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return 0;
    };
    match metadata.is_dir() {
        true if depth > 0 => entries(path)
            .iter()
            .map(|entry| size_of(&entry.path(), depth - 1))
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
