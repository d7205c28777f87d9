//! Lists the items in the store with their sizes and last uses.
//!
//! Reads names, records and metadata; hashes nothing. An item is used when a command takes it; the
//! modification time of its record is that time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use winimg_base::digest::Digest;
use winimg_base::io::{self, FileLock, WorkFolder};
use winimg_recipe::lock::UsedLock;

use super::{
    LayerRecord, ResumeRecord, Store, UrlRecord, layer, list_entries, name_of, read_record,
};

/// Maximum depth for measuring a folder: paths in archives have at most 260 characters.
const DEPTH: u32 = 130;

/// An item of the store.
#[derive(Clone, Debug)]
pub struct StoreItem {
    pub thing: StoreItemKind,
    /// Relative to the store's folder.
    pub path: PathBuf,
    /// Bytes of its files.
    pub size: u64,
    pub used: SystemTime,
    /// File with the modification time `used`, relative to the store's folder.
    pub(super) record: PathBuf,
    /// Locked by a running process.
    pub busy: bool,
}

#[derive(Clone, Debug)]
pub enum StoreItemKind {
    /// `None` if its record cannot be read.
    Layer(Digest, Option<Box<LayerRecord>>),
    /// Layer of a build that is not sealed yet.
    Draft,
    Blob(Digest),
    /// Archive unpacked from the blob.
    Tree(Digest),
    /// Recipe of a bundle, by the first half of its index's SHA-256.
    Bundle(String),
    /// Interrupted transfer, with its URL if known.
    Partial(Option<String>),
    Quarantined,
}

impl StoreItemKind {
    pub fn label(&self) -> &'static str {
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
    /// Returns all items that `prune` may remove, sorted by kind and name.
    pub fn list_items(&self) -> Vec<StoreItem> {
        let mut items = self.layer_items();
        items.extend(self.blob_items());
        items.extend(self.tree_items());
        items.extend(self.simple_items("bundles", |name| StoreItemKind::Bundle(name.into())));
        items.extend(self.partial_items());
        items.extend(self.simple_items("quarantine", |_| StoreItemKind::Quarantined));
        items
    }

    /// Returns the names of inputs: those in locks, or else the last part of their URLs.
    pub fn list_names(&self) -> BTreeMap<Digest, BTreeSet<String>> {
        let mut names: BTreeMap<Digest, BTreeSet<String>> = BTreeMap::new();
        for record in self.in_folder("serials") {
            let built = read_record::<UsedLock>(&record);
            for input in built.into_iter().flat_map(|b| b.inputs) {
                let of_digest = names.entry(input.digest).or_default();
                of_digest.insert(input.id.to_string());
            }
        }
        let mut of_urls: BTreeMap<Digest, BTreeSet<String>> = BTreeMap::new();
        let records = self.in_folder("seen");
        for seen in records.filter_map(|record| read_record::<UrlRecord>(&record)) {
            let last = seen.url.rsplit('/').find(|part| !part.is_empty());
            let last = last.unwrap_or(&seen.url).to_string();
            of_urls.entry(seen.sha256).or_default().insert(last);
        }
        for (digest, of_url) in of_urls {
            names.entry(digest).or_insert(of_url);
        }
        names
    }

    /// Returns the bytes of a small blob if they match its digest. Does not count as a use.
    pub fn read_small_blob(&self, sha256: &Digest, limit: u64) -> Option<Vec<u8>> {
        let path = self.blob_path(sha256);
        if fs::metadata(&path).ok()?.len() > limit {
            return None;
        }
        let bytes = fs::read(path).ok()?;
        (Digest::sha256_of(&bytes) == *sha256).then_some(bytes)
    }

    fn layer_items(&self) -> Vec<StoreItem> {
        self.in_folder("layers")
            .filter_map(|path| {
                let name = name_of(&path);
                let record = path.join(layer::RECORD);
                let thing = match Digest::from_hex(&name) {
                    Ok(key) => StoreItemKind::Layer(key, read_record(&record).map(Box::new)),
                    Err(_) if WorkFolder::Draft.matches_name(&name) => StoreItemKind::Draft,
                    Err(_) => return None,
                };
                let busy = matches!(thing, StoreItemKind::Draft) && io::is_in_use(&path);
                Some(self.build_item(thing, &path, &record, busy))
            })
            .collect()
    }

    fn blob_items(&self) -> Vec<StoreItem> {
        self.in_folder("blobs/sha256")
            .flat_map(|folder| list_entries(&folder))
            .filter_map(|path| {
                let digest = Digest::from_hex(&name_of(&path)).ok()?;
                let stamp = self.stamp_path(&digest);
                Some(self.build_item(StoreItemKind::Blob(digest), &path, &stamp, false))
            })
            .collect()
    }

    fn tree_items(&self) -> Vec<StoreItem> {
        self.in_folder("trees")
            .filter_map(|path| {
                let name = name_of(&path);
                let blob = Digest::from_hex(name.split_once('-')?.0).ok()?;
                let record = path.with_extension("json");
                path.is_dir()
                    .then(|| self.build_item(StoreItemKind::Tree(blob), &path, &record, false))
            })
            .collect()
    }

    fn partial_items(&self) -> Vec<StoreItem> {
        self.in_folder("partial")
            .filter(|path| path.extension().is_some_and(|e| e == "data"))
            .map(|path| {
                let record = read_record::<ResumeRecord>(&path.with_extension("json"));
                let key = path.file_stem().unwrap_or_default().to_string_lossy();
                let lock = format!("locks/partial-{key}.lock");
                let url = record.map(|r| r.url).filter(|url| !url.is_empty());
                let busy = FileLock::is_held(&self.folder.join(lock));
                self.build_item(StoreItemKind::Partial(url), &path, &path, busy)
            })
            .collect()
    }

    fn simple_items(&self, folder: &str, thing: impl Fn(&str) -> StoreItemKind) -> Vec<StoreItem> {
        let things = self.in_folder(folder);
        let things = things.filter(|path| !name_of(path).starts_with('.'));
        things
            .map(|path| self.build_item(thing(&name_of(&path)), &path, &path, false))
            .collect()
    }

    fn in_folder(&self, folder: &str) -> impl Iterator<Item = PathBuf> + use<> {
        list_entries(&self.folder.join(folder)).into_iter()
    }

    /// Builds an item. Without a record its own modification time counts.
    fn build_item(
        &self,
        thing: StoreItemKind,
        path: &Path,
        record: &Path,
        busy: bool,
    ) -> StoreItem {
        let record = if record.exists() { record } else { path };
        StoreItem {
            thing,
            size: size_of(path, DEPTH),
            used: read_modified(record),
            path: self.to_relative(path),
            record: self.to_relative(record),
            busy,
        }
    }

    fn to_relative(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.folder)
            .unwrap_or(path)
            .to_path_buf()
    }
}

/// Returns the size of a file, or of all files in a folder. Does not follow links.
fn size_of(path: &Path, depth: u32) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return 0;
    };
    if metadata.is_dir() {
        if depth > 0 {
            list_entries(path)
                .iter()
                .map(|path| size_of(path, depth - 1))
                .sum()
        } else {
            0
        }
    } else {
        metadata.len()
    }
}

fn read_modified(path: &Path) -> SystemTime {
    let time = fs::symlink_metadata(path).and_then(|m| m.modified());
    time.unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Returns the age of a record; zero for a time in the future, which comes from a wrong clock.
pub(super) fn compute_age(record: &Path, now: SystemTime) -> Duration {
    now.duration_since(read_modified(record))
        .unwrap_or_default()
}
