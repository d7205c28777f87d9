//! The content-addressed store and its `Blob`s.
//!
//! A [`Blob`] is a file whose bytes were proved. It has no public constructor: [`Store::admit`] makes one from bytes
//! that it has just hashed, and [`Store::find`] makes one from what was admitted before. The store never deletes a
//! file for having the wrong digest, removes only what `prune` is asked for, and never touches a file outside its own folder.
//!
//! ```text
//! blobs/sha256/ab/abcd…   the files, read-only, named by what they hold
//! stamps/  sha512/        size, mtime and inode of each blob when it was hashed; SHA-512 names for them
//! local/                  the same for large local files, which are used where they stand
//! partial/                broken transfers that may be resumed
//! seen/                   what a URL gave last time
//! trees/                  unpacked archives
//! serials/                the highest lock that each recipe was built with
//! bundles/                the recipes of bundles
//! layers/                 the disks of builds, by the key of what went in; for their owner alone
//! outputs/                what builds left in their output directories
//! quarantine/             downloads that were not what the recipe named, and blobs that went bad
//! locks-seen/             where lock files stand that commands worked with
//! trash/                  what lost its name and is being removed
//! leases/                 what living processes use
//! locks/                  advisory locks; free by themselves when their holder dies
//! ```

mod admit;
mod adopt;
mod any_path;
mod blob;
mod demand;
mod drivers;
mod durations;
mod hash;
mod inventory;
mod judge;
mod known_locks;
pub mod layer;
mod lease;
mod output;
mod partial;
mod private;
mod prune;
mod record;
mod secret;
mod seen;
mod serial;
mod sweep;
mod terms;
mod tree;
mod watch;

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
use winimg_base::io::{self, Lock};

pub use admit::{Candidate, IN_PLACE_FROM};
pub use blob::{Blob, Expected};
pub use demand::{Demand, Refused};
pub(crate) use hash::copy_hashed;
pub use inventory::{Item, Thing};
pub use judge::{Signatures, met, together};
pub use known_locks::KnownLock;
pub use layer::{About, Draft, Kept, Layer};
pub use lease::Lease;
pub use partial::{Partial, Resumable};
pub use prune::{Protected, PruneLimits, Pruned, span, total};
pub use record::{LayerFile, LayerRecord};
pub use seen::Seen;
pub use terms::{Terms, changed_since_locked, other_than_locked};
pub use tree::Tree;
pub use watch::Watch;

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

/// Room that stays free on the store's disk, bytes.
const SPARE: u64 = 64 << 20;

/// A store's folder. Cheap to clone; any number of processes may work in one.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
    /// Holds what this store gave out, for as long as a clone of it lives.
    lease: Arc<Lease>,
    /// What opening it took away.
    swept: Arc<Vec<PathBuf>>,
}

impl Store {
    /// Opens the store in `folder`, creating what is missing. Links in place of its folders are refused: what is behind them would be
    /// used, and removed, as if it were the store's.
    pub fn open(folder: &Path) -> Result<Self> {
        let unusable = |e: Error| {
            e.of_kind(Kind::Host)
                .or_cure("set WINIMG_CACHE_DIR to a folder that can be written")
        };
        io::create_folders(folder).map_err(unusable)?;
        // Blobs' paths go to other programs, which may run elsewhere.
        let folder = io::canonicalize(folder).map_err(|e| Error::io("open", folder, e))?;
        refuse_links(&folder)?;
        for name in FOLDERS.iter().chain(&["blobs/sha256"]) {
            io::create_folders(&folder.join(name)).map_err(unusable)?;
        }
        private::close_layers(&folder)?;
        let lease = Arc::new(Lease::begin(&folder)?);
        let swept = Arc::new(sweep::sweep(&folder, &lease));
        Ok(Self {
            folder,
            lease,
            swept,
        })
    }

    /// Where the store is: `WINIMG_CACHE_DIR`, else where this host is `configured` to have it, else `winimg` in the user's
    /// cache folder (XDG Base Directory Specification; on macOS and Windows the system's own).
    pub fn default_folder(configured: Option<&Path>) -> Result<PathBuf> {
        default_folder(|name| env::var_os(name), configured)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the recipe of the bundle with this index stands, held while it is laid down.
    pub fn bundle_place(&self, index: &Digest, cancel: &Cancel) -> Result<(PathBuf, Lock)> {
        self.lease.hold(std::slice::from_ref(index))?;
        let key = index.hex()[..32].to_string();
        let lock = self.lock(&format!("bundle-{key}"), cancel, |_| {})?;
        let place = self.folder.join("bundles").join(key);
        note_use(&place);
        Ok((place, lock))
    }

    /// Whether a blob with this digest is there; its bytes are not looked at. For `plan`.
    pub fn holds(&self, digest: &Digest) -> bool {
        self.sha256_of(digest)
            .is_some_and(|sha256| self.blob_path(&sha256).is_file())
    }

    /// Refuses bytes that the store's disk has no room for. A filesystem that does not say how much room it has is tried.
    pub fn check_room(&self, what: &str, need: u64) -> Result<()> {
        let Ok(free) = fs4::available_space(&self.folder) else {
            return Ok(());
        };
        tracing::debug!(folder = %self.folder.display(), need, free, "free space");
        if need.saturating_add(SPARE) <= free {
            return Ok(());
        }
        let fact = format!("{what}: there is no room for it in the store");
        Err(Error::new(Kind::Host, fact)
            .at(self.folder.display())
            .expected(format!("{need} bytes, and {SPARE} to spare"))
            .found(format!("{free} bytes free"))
            .cure("make room (`winimg cache prune`), or set WINIMG_CACHE_DIR to a larger disk"))
    }

    fn sha256_blobs(&self) -> PathBuf {
        self.folder.join("blobs").join("sha256")
    }

    /// Where a SHA-256's blob stands, whether it is there or not.
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

    /// The record of this folder about what a text names, which must not show in it.
    fn record_of(&self, folder: &str, text: &str) -> PathBuf {
        self.folder.join(folder).join(key_of(text) + ".json")
    }

    fn quarantine_path(&self, sha256: &Digest) -> PathBuf {
        self.folder.join("quarantine").join(sha256.hex())
    }

    fn lock(&self, key: &str, cancel: &Cancel, waiting: impl FnOnce(&str)) -> Result<Lock> {
        let path = self.folder.join("locks").join(format!("{key}.lock"));
        Lock::take(&path, cancel, waiting)
    }

    /// The SHA-256 that names the blob with this digest, as far as the store knows it.
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
    let set = |name: &str| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(folder) = set("WINIMG_CACHE_DIR") {
        return Ok(folder);
    }
    if let Some(folder) = configured {
        return Ok(folder.to_path_buf());
    }
    // The specification has relative paths ignored.
    let cache = set("XDG_CACHE_HOME").filter(|p| p.is_absolute());
    let home = || set("HOME").or_else(|| set("USERPROFILE"));
    let cache = if cfg!(windows) {
        cache.or_else(|| set("LOCALAPPDATA"))
    } else if cfg!(target_os = "macos") {
        cache.or_else(|| home().map(|h| h.join("Library/Caches")))
    } else {
        cache.or_else(|| home().map(|h| h.join(".cache")))
    };
    cache.map(|c| c.join("winimg")).ok_or_else(|| {
        let asked = match cfg!(windows) {
            true => "neither WINIMG_CACHE_DIR nor LOCALAPPDATA is set",
            false => "neither WINIMG_CACHE_DIR, XDG_CACHE_HOME nor HOME is set",
        };
        let fact = format!("there is no folder for the store: {asked}");
        Error::new(Kind::Host, fact).cure("set WINIMG_CACHE_DIR")
    })
}

/// Refuses a store with links in place of its folders, all of them at once.
fn refuse_links(store: &Path) -> Result<()> {
    let blobs = store.join("blobs/sha256");
    let own = FOLDERS.iter().map(|name| store.join(name));
    let all = own.chain([blobs.clone()]).chain(entries(&blobs));
    let links: Vec<PathBuf> = all.filter(|path| io::is_link(path)).collect();
    if links.is_empty() {
        return Ok(());
    }
    let shown = links.iter().map(|path| path.display().to_string());
    Err(Error::new(
        Kind::Host,
        "the cache has links where its own folders belong",
    )
    .at(store.display())
    .expected("folders: winimg follows no link inside its cache")
    .lines(shown)
    .cure(
        "remove the links; to have the cache on another disk, set WINIMG_CACHE_DIR to a \
                 folder there",
    ))
}

/// What is in a folder, sorted by name; nothing where it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn name_of(path: &Path) -> Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

/// A record of the store. What cannot be read is as if it were not there: records only save work.
fn read_record<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&io::read_limited(path, io::limit::RECORD).ok()?).ok()
}

fn write_record(path: &Path, record: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec_pretty(record).map_err(|e| {
        Error::new(Kind::Failed, "a record of the store cannot be written").because(e)
    })?;
    io::write_atomically(path, &text)
}

/// Remembers by a record's own time that what it describes was used now. Failing only makes it look older.
fn note_use(record: &Path) {
    let _ = io::set_modified(record, SystemTime::now());
}

/// A file name for a text that must not show in it.
fn key_of(text: &str) -> String {
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
        let (cases, unset): (&[(&[_], _)], _) = match cfg!(windows) {
            true => (
                &[
                    (&[local, own], "rel/cache"),
                    (&[local], r"C:\Users\u\AppData\Local\winimg"),
                ],
                "neither WINIMG_CACHE_DIR nor LOCALAPPDATA is set",
            ),
            false => (
                &[
                    (&[home, xdg, own], "rel/cache"),
                    (&[home, xdg], "/x/winimg"),
                    (&[home, relative], "/home/u/.cache/winimg"),
                    (&[home, ("WINIMG_CACHE_DIR", "")], "/home/u/.cache/winimg"),
                ],
                "neither WINIMG_CACHE_DIR, XDG_CACHE_HOME nor HOME is set",
            ),
        };
        for (set, folder) in cases {
            assert_eq!(folder_with(set, None).unwrap(), Path::new(folder));
        }
        assert_eq!(
            folder_with(&[], None).unwrap_err().to_string(),
            format!("there is no folder for the store: {unset}\n  cure: set WINIMG_CACHE_DIR")
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
