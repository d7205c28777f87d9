//! Creates, finds and removes working folders, including those left by killed processes.
//!
//! Each has a lock that ends with its process, so a leftover is distinguished from the folder of a
//! running process without a clock, and no manual cleanup is needed. Machines that outlive their
//! build (their hypervisor ends them) and unfinished files in the store (the store sweeps them) are
//! not handled here.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::lock::{FileLock, reveal_locked};
use super::private::create_private_folders;
use crate::error::{Error, Result};
use crate::event::Sink;

/// File name of the lock in a working folder.
const LOCK: &str = "lock";

/// Purpose of a working folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkFolder {
    /// A build: large files are beside its output, sockets in the user's runtime folder.
    Build,
    /// An unfinished layer, beside the sealed ones.
    Draft,
    /// PowerShell scripts for Hyper-V, in the temporary folder.
    Scripts,
}

impl WorkFolder {
    /// Returns the prefix of the names of these folders.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Build => ".winimg-work-",
            Self::Draft => ".new-",
            Self::Scripts => "winimg-hyperv-",
        }
    }

    /// Returns the prefix until the folder has its lock, which sweeps ignore.
    fn hidden_prefix(self) -> &'static str {
        match self {
            Self::Draft => ".tmp-",
            Self::Build | Self::Scripts => ".winimg-new-",
        }
    }

    /// Returns true if folders of this kind have such a name.
    pub fn matches_name(self, name: &str) -> bool {
        name.starts_with(self.prefix())
    }

    /// Creates an empty folder that belongs to this process as long as the lock lives. Only its
    /// user can access it (on Windows a draft has the permissions of its parent folder).
    pub fn create(self, parent: &Path) -> Result<(PathBuf, FileLock)> {
        let id = &uuid::Uuid::new_v4().simple().to_string()[..8];
        let hidden = parent.join(format!("{}{id}", self.hidden_prefix()));
        if self == Self::Draft && cfg!(windows) {
            fs::create_dir(&hidden).map_err(|e| Error::io("create", &hidden, e))?;
        } else {
            create_private_folders(&hidden)?;
        }
        let folder = parent.join(format!("{}{id}", self.prefix()));
        let lock = reveal_locked(&hidden, &folder, LOCK)?;
        Ok((folder, lock))
    }

    /// Lists the folders in this parent, in use or left over, sorted.
    pub fn list_all(self, parent: &Path) -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(parent).map_err(|e| Error::io("read", parent, e))?;
        let mut folders: Vec<PathBuf> = entries
            .flatten()
            .filter(|entry| self.matches_name(&entry.file_name().to_string_lossy()))
            .map(|entry| entry.path())
            .collect();
        folders.sort();
        Ok(folders)
    }

    /// Lists the folders left by killed processes.
    pub fn list_leftovers(self, parent: &Path) -> Result<Vec<PathBuf>> {
        let mut folders = self.list_all(parent)?;
        folders.retain(|folder| self.is_leftover(folder));
        Ok(folders)
    }

    fn is_leftover(self, folder: &Path) -> bool {
        let lock = lock_path(folder);
        if lock.exists() {
            !FileLock::is_held(&lock)
        } else {
            // A build's folder without a lock was kept for the user. On Windows a new folder may
            // not have its lock yet.
            self == Self::Draft && !cfg!(windows)
        }
    }

    /// Removes the folders left by killed processes, with a note for each. All are tried; the first
    /// failure is returned.
    pub fn remove_leftovers(self, parent: &Path, sink: &dyn Sink) -> Result<()> {
        let mut result = Ok(());
        for folder in self.list_leftovers(parent)? {
            result = result.and(remove_leftover(&folder, sink));
        }
        result
    }
}

/// Returns the path of the lock in a working folder.
pub fn lock_path(folder: &Path) -> PathBuf {
    folder.join(LOCK)
}

/// Returns true if a running process uses this folder, or if that is unknown.
pub fn is_in_use(folder: &Path) -> bool {
    FileLock::is_held(&lock_path(folder))
}

/// Removes a leftover, unless another process is removing it.
fn remove_leftover(folder: &Path, sink: &dyn Sink) -> Result<()> {
    // On Windows a folder without a lock file is being created or removed, so no lock file is
    // created.
    let taken = if cfg!(windows) {
        FileLock::take_existing(&lock_path(folder))
    } else {
        FileLock::try_take(&lock_path(folder))
    };
    let Ok(Some(lock)) = taken else {
        return Ok(());
    };
    sink.note(format!(
        "removing leftovers of an interrupted build: {}",
        folder.display()
    ));
    // Windows does not remove a folder with an open file. No other process will use a folder of
    // this name.
    let _lock = (!cfg!(windows)).then_some(lock);
    match remove_work_folder(folder) {
        // Another build removed it before this one took the lock.
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        // Its own build is removing it, or a scanner has one of its files open: the next sweep
        // tries again.
        Err(_) if cfg!(windows) => Ok(()),
        other => other.map_err(|e| Error::io("remove", folder, e)),
    }
}

/// Removes a working folder with its content. The lock file is removed last: if removal fails or
/// its process is killed meanwhile, the next sweep finds the folder.
pub fn remove_work_folder(folder: &Path) -> std::io::Result<()> {
    let lock = lock_path(folder);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(path)?;
        } else if path != lock {
            fs::remove_file(path)?;
        }
    }
    fs::remove_dir_all(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use std::time::{Duration, Instant};

    struct Silence;

    impl Sink for Silence {
        fn emit(&self, _: &Event) {}
    }

    const ALL: [WorkFolder; 3] = [WorkFolder::Build, WorkFolder::Draft, WorkFolder::Scripts];

    #[test]
    fn what_is_used_stays_and_what_is_left_goes() {
        let parent = tempfile::tempdir().unwrap();
        for kind in ALL {
            let (used, _lock) = kind.create(parent.path()).unwrap();
            let (left, lock) = kind.create(parent.path()).unwrap();
            fs::create_dir(left.join("deep")).unwrap();
            fs::write(left.join("deep/file"), "x").unwrap();
            assert!(is_in_use(&used) && is_in_use(&left));
            drop(lock);
            // What another test starts just now holds this one's open files until its exec.
            let deadline = Instant::now() + Duration::from_secs(10);
            while left.exists() {
                assert!(Instant::now() < deadline, "{kind:?} stays");
                kind.remove_leftovers(parent.path(), &Silence).unwrap();
            }
            assert_eq!(kind.list_all(parent.path()).unwrap(), [used]);
        }
    }

    #[test]
    fn a_folder_that_was_kept_for_the_user_is_no_leftover() {
        let parent = tempfile::tempdir().unwrap();
        let (kept, lock) = WorkFolder::Build.create(parent.path()).unwrap();
        fs::remove_file(lock_path(&kept)).unwrap();
        drop(lock);
        let none = Vec::<PathBuf>::new();
        assert_eq!(
            WorkFolder::Build.list_leftovers(parent.path()).unwrap(),
            none
        );
        WorkFolder::Build
            .remove_leftovers(parent.path(), &Silence)
            .unwrap();
        assert!(kept.exists());
    }
}
