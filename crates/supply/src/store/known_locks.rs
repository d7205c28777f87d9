//! Lock files that commands used; the inputs that they name are never pruned.
//!
//! Records the path and the named digests at the last reading, in case the file becomes unreadable.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use winimg_base::digest::Digest;
use winimg_base::error::Result;
use winimg_base::io;

use super::{Store, list_entries, mark_used, read_record, write_record};

const FOLDER: &str = "locks-seen";

/// Time after which the record of a missing file is removed: its disk may only be detached.
pub(super) const FORGET: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// Lock file that a command read or wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownLock {
    /// Absolute.
    #[serde(with = "super::any_path")]
    pub path: PathBuf,
    /// Digests of all inputs that it named, and of their evidence.
    pub named: Vec<Digest>,
}

impl Store {
    /// Records a lock file. Ignores a file in the store, which belongs to a bundle.
    pub fn remember_lock(&self, path: &Path, mut named: Vec<Digest>) -> Result<()> {
        let path = match io::canonicalize(path) {
            Ok(path) => path,
            // It will be written later.
            Err(_) => std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()),
        };
        if path.starts_with(&self.folder) {
            return Ok(());
        }
        named.sort();
        named.dedup();
        let record = self.record_path(FOLDER, &path.to_string_lossy());
        let known = KnownLock { path, named };
        if read_record::<KnownLock>(&record).as_ref() == Some(&known) {
            mark_used(&record);
            return Ok(());
        }
        write_record(&record, &known)
    }

    /// Returns all recorded lock files, sorted by path.
    pub fn known_locks(&self) -> Vec<KnownLock> {
        let records = list_entries(&self.folder.join(FOLDER));
        let mut known: Vec<KnownLock> = records.iter().filter_map(|r| read_record(r)).collect();
        known.sort_by(|a, b| a.path.cmp(&b.path));
        known
    }

    /// Removes the records of lock files that have been missing for long.
    pub(super) fn forget_locks(&self, now: SystemTime) {
        for record in list_entries(&self.folder.join(FOLDER)) {
            let old = super::inventory::compute_age(&record, now) > FORGET;
            let gone = read_record::<KnownLock>(&record).is_none_or(|known| !known.path.exists());
            if old && gone {
                let _ = fs::remove_file(record);
            }
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn a_lock_in_a_folder_of_any_name_is_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("cache")).unwrap();
        let named = vec![Digest::sha256_of(b"a")];
        let mut known = Vec::new();
        for name in [&b"plain"[..], "größe".as_bytes(), b"no-utf8-\xff"] {
            let place = folder.path().join(OsStr::from_bytes(name));
            fs::create_dir(&place).unwrap();
            let path = io::canonicalize(&place).unwrap().join("recipe.lock");
            store.remember_lock(&path, named.clone()).unwrap();
            let named = named.clone();
            known.push(KnownLock { path, named });
        }
        known.sort_by(|a, b| a.path.cmp(&b.path));
        assert_eq!(store.known_locks(), known);
    }
}
