//! The content-addressed store and its `StoredBlob`s.
//!
//! A [`StoredBlob`] is a verified file. It has no public constructor: [`Store::admit`] creates one
//! from bytes that it has just hashed, and [`Store::find`] from a file that was admitted before.
//! The store never deletes a file because of a wrong digest, only removes files in `prune`, and
//! never touches a file outside its own folder.
//!
//! ```text
//! blobs/sha256/ab/abcd…   the files, read-only, named by their digests
//! stamps/  sha512/        size, mtime and inode of each blob when hashed; their SHA-512 names
//! local/                  the same for large local files, which are used in place
//! partial/                interrupted transfers that may be resumed
//! seen/                   the last response of each URL
//! trees/                  unpacked archives
//! serials/                the highest lock serial that each recipe was built with
//! bundles/                the recipes of bundles
//! layers/                 the disks of builds, by the key of their inputs; for their owner only
//! outputs/                records of the files in output directories
//! quarantine/             downloads with a wrong digest or signature, and corrupt blobs
//! locks-seen/             paths of the lock files that commands used
//! trash/                  files that are being removed
//! leases/                 digests in use by running processes
//! locks/                  advisory locks, released when their process ends
//! ```

mod admit;
mod adopt;
mod any_path;
mod blob;
mod drivers;
mod durations;
mod hash;
mod inventory;
mod known_locks;
pub mod layer;
mod layer_access;
mod lease;
mod output;
mod partial;
mod progress;
mod prune;
mod record;
mod secret;
mod serial;
mod signature_demand;
mod signatures;
mod sweep;
mod terms;
mod tree;
mod url_record;

use std::borrow::Cow;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;
use serde::de::DeserializeOwned;

use winimg_base::digest::{Algorithm, Digest};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io::{self, FileLock};

pub use admit::{AdmitCandidate, IN_PLACE_FROM};
pub use blob::{ExpectedBytes, StoredBlob};
pub(crate) use hash::copy_hashed;
pub use inventory::{StoreItem, StoreItemKind};
pub use known_locks::KnownLock;
pub use layer::{LayerDraft, LayerInfo, LayerLookup, StoredLayer};
pub use lease::Lease;
pub use partial::{PartialTransfer, ResumeRecord};
pub use progress::ProgressWatch;
pub use prune::{ProtectedFiles, PruneLimits, PruneReport, format_span, sum_sizes};
pub use record::{LayerFile, LayerRecord};
pub use signature_demand::{DemandFailure, SignatureDemand};
pub use signatures::{SignatureTerms, check_groups, merge_errors};
pub use terms::{AdmitTerms, changed_since_locked, longer_than_locked};
pub use tree::UnpackedTree;
pub use url_record::UrlRecord;

const FOLDERS: [&str; 17] = [
    "blobs",
    "stamps",
    "sha512",
    "local",
    "partial",
    "seen",
    "trees",
    "layers",
    "outputs",
    "serials",
    "durations",
    "bundles",
    "quarantine",
    "locks-seen",
    "leases",
    "trash",
    "locks",
];

/// Bytes that are kept free on the store's disk.
const RESERVED: u64 = 64 << 20;

/// A store's folder. Cheap to clone; any number of processes may use it.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
    /// Protects everything this store handed out, as long as a clone of it exists.
    lease: Arc<Lease>,
    /// Leftovers that were removed when it was opened.
    swept: Arc<Vec<PathBuf>>,
}

impl Store {
    /// Opens the store in `folder`, creating missing folders. Refuses links in place of its
    /// folders: the files behind them would be used and removed like the store's own.
    pub fn open(folder: &Path) -> Result<Self> {
        io::create_folders(folder).map_err(explain_unwritable)?;
        // Paths of blobs are passed to programs with other working directories.
        let folder = io::canonicalize(folder).map_err(|e| Error::io("open", folder, e))?;
        refuse_links(&folder)?;
        for name in FOLDERS.iter().chain(&["blobs/sha256"]) {
            io::create_folders(&folder.join(name)).map_err(explain_unwritable)?;
        }
        layer_access::close_layers(&folder)?;
        let lease = Arc::new(Lease::create(&folder)?);
        let swept = Arc::new(sweep::remove_unfinished(&folder, &lease));
        Ok(Self {
            folder,
            lease,
            swept,
        })
    }

    /// Returns the store's folder: `WINIMG_CACHE_DIR`, or else the host's `configured` one, or else
    /// `winimg` in the user's cache folder (XDG Base Directory Specification; on macOS and Windows
    /// the system's own).
    pub fn default_folder(configured: Option<&Path>) -> Result<PathBuf> {
        default_folder(|name| env::var_os(name), configured)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the folder for the recipe of the bundle with this index, and its lock.
    pub fn bundle_folder(&self, index: &Digest, cancel: &Cancel) -> Result<(PathBuf, FileLock)> {
        self.lease.add(std::slice::from_ref(index))?;
        let key = index.hex()[..32].to_string();
        let lock = self.lock(&format!("bundle-{key}"), cancel, |_| {})?;
        let place = self.folder.join("bundles").join(key);
        mark_used(&place);
        Ok((place, lock))
    }

    /// Returns true if a blob with this digest exists. Does not check its bytes. For `plan`.
    pub fn has_blob(&self, digest: &Digest) -> bool {
        self.sha256_of(digest)
            .is_some_and(|sha256| self.blob_path(&sha256).is_file())
    }

    /// Refuses a file that the store's disk has no space for. A file system that does not report
    /// its free space is not refused.
    pub fn check_free_space(&self, what: &str, need: u64) -> Result<()> {
        let Ok(free) = fs4::available_space(&self.folder) else {
            return Ok(());
        };
        tracing::debug!(folder = %self.folder.display(), need, free, "free space");
        if need.saturating_add(RESERVED) <= free {
            return Ok(());
        }
        let fact = format!("{what}: not enough free space in the store");
        Err(Error::new(Kind::Host, fact)
            .at(self.folder.display())
            .expected(format!("{need} bytes, plus {RESERVED} bytes in reserve"))
            .found(format!("{free} bytes free"))
            .cure(
                "free some space (`winimg cache prune`), \
                 or set WINIMG_CACHE_DIR to a folder on a larger disk",
            ))
    }

    fn sha256_blobs(&self) -> PathBuf {
        self.folder.join("blobs").join("sha256")
    }

    /// Returns the path of a SHA-256's blob, which need not exist.
    fn blob_path(&self, sha256: &Digest) -> PathBuf {
        let hex = sha256.hex();
        self.sha256_blobs().join(&hex[..2]).join(&hex)
    }

    fn stamp_path(&self, sha256: &Digest) -> PathBuf {
        self.folder.join("stamps").join(sha256.hex() + ".json")
    }

    fn sha512_path(&self, sha512: &Digest) -> PathBuf {
        self.folder.join("sha512").join(sha512.hex() + ".json")
    }

    /// Returns the path of a record in this folder. Its key is hashed, so that it is not visible.
    fn record_path(&self, folder: &str, text: &str) -> PathBuf {
        self.folder.join(folder).join(hash_key(text) + ".json")
    }

    fn quarantine_path(&self, sha256: &Digest) -> PathBuf {
        self.folder.join("quarantine").join(sha256.hex())
    }

    fn lock(&self, key: &str, cancel: &Cancel, waiting: impl FnOnce(&str)) -> Result<FileLock> {
        let path = self.folder.join("locks").join(format!("{key}.lock"));
        FileLock::take(&path, cancel, waiting)
    }

    /// Returns the SHA-256 of the blob with this digest, if the store knows it.
    fn sha256_of(&self, digest: &Digest) -> Option<Digest> {
        match digest.algorithm {
            Algorithm::Sha256 => Some(digest.clone()),
            Algorithm::Sha512 => read_record(&self.sha512_path(digest)),
        }
    }
}

fn default_folder(
    variable: impl Fn(&str) -> Option<OsString>,
    configured: Option<&Path>,
) -> Result<PathBuf> {
    let [own, xdg, home, profile, local] = [
        "WINIMG_CACHE_DIR",
        "XDG_CACHE_HOME",
        "HOME",
        "USERPROFILE",
        "LOCALAPPDATA",
    ]
    .map(|name| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from));
    if let Some(folder) = own {
        return Ok(folder);
    }
    if let Some(folder) = configured {
        return Ok(folder.to_path_buf());
    }
    let home = home.or(profile);
    let fallback = if cfg!(windows) {
        local
    } else if cfg!(target_os = "macos") {
        home.map(|h| h.join("Library/Caches"))
    } else {
        home.map(|h| h.join(".cache"))
    };
    // The specification says that relative paths are ignored.
    let cache = xdg.filter(|p| p.is_absolute()).or(fallback);
    cache.map(|c| c.join("winimg")).ok_or_else(|| {
        let unset = if cfg!(windows) {
            "neither WINIMG_CACHE_DIR nor LOCALAPPDATA is set"
        } else {
            "neither WINIMG_CACHE_DIR, XDG_CACHE_HOME nor HOME is set"
        };
        let fact = format!("no folder for the store: {unset}");
        Error::new(Kind::Host, fact).cure("set WINIMG_CACHE_DIR")
    })
}

fn explain_unwritable(error: Error) -> Error {
    error
        .with_kind(Kind::Host)
        .or_cure("set WINIMG_CACHE_DIR to a writable folder")
}

/// Refuses a store with links in place of its folders. Reports all of them at once.
fn refuse_links(store: &Path) -> Result<()> {
    let blobs = store.join("blobs/sha256");
    let own = FOLDERS.iter().map(|name| store.join(name));
    let all = own.chain([blobs.clone()]).chain(list_entries(&blobs));
    let links: Vec<PathBuf> = all.filter(|path| io::is_link(path)).collect();
    if links.is_empty() {
        return Ok(());
    }
    let shown = links.iter().map(|path| path.display().to_string());
    Err(Error::new(
        Kind::Host,
        "the cache contains links in place of its folders",
    )
    .at(store.display())
    .expected("folders: winimg follows no link inside its cache")
    .lines(shown)
    .cure(
        "remove the links; to have the cache on another disk, set WINIMG_CACHE_DIR to a \
                 folder there",
    ))
}

/// Returns the contents of a folder, sorted by name; empty if it cannot be read.
fn list_entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn name_of(path: &Path) -> Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

/// Reads a record of the store. An unreadable one counts as missing: records only save work.
fn read_record<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&io::read_limited(path, io::limit::RECORD).ok()?).ok()
}

fn write_record(path: &Path, record: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec_pretty(record)
        .map_err(|e| Error::new(Kind::Failed, "cannot write a record of the store").because(e))?;
    io::write_atomically(path, &text)
}

/// Sets the record's modification time to now, which marks its subject as used. A failure only
/// makes it look older.
fn mark_used(record: &Path) {
    let _ = io::set_modified(record, SystemTime::now());
}

/// Hashes a key to a file name, so that the key is not visible.
fn hash_key(text: &str) -> String {
    Digest::sha256_of(text.as_bytes()).hex()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(not(target_os = "macos"))]
    fn the_folder_follows_the_environment() {
        let folder_with = |set: &[(&str, &str)], configured: Option<&Path>| {
            let variable = |name: &str| {
                let found = set.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            };
            default_folder(variable, configured)
        };
        let home = ("HOME", "/home/u");
        let xdg = ("XDG_CACHE_HOME", "/x");
        let relative = ("XDG_CACHE_HOME", "not/absolute");
        let local = ("LOCALAPPDATA", r"C:\Users\u\AppData\Local");
        let own = ("WINIMG_CACHE_DIR", "rel/cache");
        let (cases, unset): (&[(&[_], _)], _) = if cfg!(windows) {
            (
                &[
                    (&[local, own], "rel/cache"),
                    (&[local], r"C:\Users\u\AppData\Local\winimg"),
                ],
                "neither WINIMG_CACHE_DIR nor LOCALAPPDATA is set",
            )
        } else {
            (
                &[
                    (&[home, xdg, own], "rel/cache"),
                    (&[home, xdg], "/x/winimg"),
                    (&[home, relative], "/home/u/.cache/winimg"),
                    (&[home, ("WINIMG_CACHE_DIR", "")], "/home/u/.cache/winimg"),
                ],
                "neither WINIMG_CACHE_DIR, XDG_CACHE_HOME nor HOME is set",
            )
        };
        for (set, folder) in cases {
            assert_eq!(folder_with(set, None).unwrap(), Path::new(folder));
        }
        assert_eq!(
            folder_with(&[], None).unwrap_err().to_string(),
            format!("no folder for the store: {unset}\n  cure: set WINIMG_CACHE_DIR")
        );
        let configured = Some(Path::new("/srv/cache"));
        assert_eq!(
            folder_with(&[home, xdg], configured).unwrap(),
            Path::new("/srv/cache")
        );
        assert_eq!(
            folder_with(&[home, own], configured).unwrap(),
            Path::new("rel/cache")
        );
    }

    #[test]
    #[cfg(unix)]
    fn links_in_place_of_the_stores_folders_are_refused_and_what_is_behind_them_stays() {
        let place = tempfile::tempdir().unwrap();
        let victim = place.path().join("photos");
        fs::create_dir_all(victim.join("deep")).unwrap();
        fs::write(victim.join("deep/keep"), "k").unwrap();
        for name in [
            "trash",
            "leases",
            "blobs",
            "blobs/sha256",
            "blobs/sha256/ab",
            "layers",
        ] {
            let cache = place.path().join(name.replace('/', "-"));
            fs::create_dir_all(io::folder_of(&cache.join(name))).unwrap();
            std::os::unix::fs::symlink(&victim, cache.join(name)).unwrap();
            let error = Store::open(&cache).unwrap_err();
            assert_eq!(error.kind(), Kind::Host, "{name}");
            assert!(error.to_string().contains(name), "{error}");
            assert!(victim.join("deep/keep").exists(), "{name}");
        }
        // The whole store may be elsewhere.
        let linked = place.path().join("linked");
        let real = place.path().join("real");
        fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &linked).unwrap();
        Store::open(&linked).unwrap();
    }
}
