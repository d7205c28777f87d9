//! Working folders and what killed processes leave of them: here they are named, found and removed, and nowhere else.
//!
//! Each holds a lock that dies with its process. So a leftover is distinguished from the folder of a living process without a clock, and nobody has to
//! clean up. Knows nothing of machines that outlive their build (their hypervisor ends them) and of files in the making inside the store (the store
//! sweeps them).

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::lock::{Lock, reveal_locked};
use super::private::create_private_folders;
use crate::error::{Error, Result};
use crate::event::Sink;

/// The lock in a working folder.
const LOCK: &str = "lock";

/// What a working folder is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkFolder {
    /// A build: what is large beside its output, its sockets in the user's runtime folder.
    Build,
    /// A layer in the making, beside the sealed ones.
    Draft,
    /// The scripts of the PowerShell that speaks to Hyper-V, among the temporary files.
    Scripts,
}

impl WorkFolder {
    /// What the names of these folders begin with.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Build => ".winimg-work-",
            Self::Draft => ".new-",
            Self::Scripts => "winimg-hyperv-",
        }
    }

    /// The same until the folder has its lock: no sweep looks for it.
    fn hidden_prefix(self) -> &'static str {
        match self {
            Self::Draft => ".tmp-",
            Self::Build | Self::Scripts => ".winimg-new-",
        }
    }

    /// Whether a folder of this name is one of these.
    pub fn is_named(self, name: &str) -> bool {
        name.starts_with(self.prefix())
    }

    /// A new, empty one that this process holds as long as the lock lives. Only its user can look into it (on Windows a draft has the rights of
    /// the folder that it stands in).
    pub fn create(self, parent: &Path) -> Result<(PathBuf, Lock)> {
        let id = &uuid::Uuid::new_v4().simple().to_string()[..8];
        let hidden = parent.join(format!("{}{id}", self.hidden_prefix()));
        match self == Self::Draft && cfg!(windows) {
            true => fs::create_dir(&hidden).map_err(|e| Error::io("create", &hidden, e))?,
            false => create_private_folders(&hidden)?,
        }
        let folder = parent.join(format!("{}{id}", self.prefix()));
        let lock = reveal_locked(&hidden, &folder, LOCK)?;
        Ok((folder, lock))
    }

    /// Those in this folder, in use or left over, sorted.
    pub fn all(self, parent: &Path) -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(parent).map_err(|e| Error::io("read", parent, e))?;
        let ours = entries
            .flatten()
            .filter(|entry| self.is_named(&entry.file_name().to_string_lossy()));
        let mut folders: Vec<PathBuf> = ours.map(|entry| entry.path()).collect();
        folders.sort();
        Ok(folders)
    }

    /// Those that killed processes left there.
    pub fn left(self, parent: &Path) -> Result<Vec<PathBuf>> {
        let mut folders = self.all(parent)?;
        folders.retain(|folder| self.is_left(folder));
        Ok(folders)
    }

    fn is_left(self, folder: &Path) -> bool {
        let lock = lock_of(folder);
        match lock.exists() {
            true => !Lock::is_held(&lock),
            // A build's folder without a lock was kept for the user, and one of Windows may be on its way to its lock. A draft never is.
            false => self == Self::Draft && !cfg!(windows),
        }
    }

    /// Removes those that killed processes left there, and says so. All are tried; the first that can't be removed is the error.
    pub fn remove_left(self, parent: &Path, sink: &dyn Sink) -> Result<()> {
        let mut removed = Ok(());
        for folder in self.left(parent)? {
            removed = removed.and(remove_left(&folder, sink));
        }
        removed
    }
}

/// The lock in a working folder.
pub fn lock_of(folder: &Path) -> PathBuf {
    folder.join(LOCK)
}

/// Whether a living process works in this folder, or that is not known.
pub fn is_used(folder: &Path) -> bool {
    Lock::is_held(&lock_of(folder))
}

/// Unless another process was faster.
fn remove_left(folder: &Path, sink: &dyn Sink) -> Result<()> {
    // On Windows one without a lock file is on its way to its name, or from it: none is made there.
    let taken = match cfg!(windows) {
        true => Lock::take_existing(&lock_of(folder)),
        false => Lock::try_take(&lock_of(folder)),
    };
    let Ok(Some(lock)) = taken else {
        return Ok(());
    };
    sink.note(format!(
        "removing what an interrupted build left: {}",
        folder.display()
    ));
    // A folder with an open file in it is not removed on Windows. Nobody begins anything in one of this name.
    let _lock = (!cfg!(windows)).then_some(lock);
    match remove_work_folder(folder) {
        // Another build swept it between our look and our lock.
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        // Its own build removes it just now, or a scanner has a file of it open: the next one looks again.
        Err(_) if cfg!(windows) => Ok(()),
        other => other.map_err(|e| Error::io("remove", folder, e)),
    }
}

/// Removes a working folder with all that is in it. The lock file goes last: where something can't be removed, or its process is killed
/// meanwhile, the next look finds it.
pub fn remove_work_folder(folder: &Path) -> std::io::Result<()> {
    let lock = lock_of(folder);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(path)?,
            false if path != lock => fs::remove_file(path)?,
            false => {}
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
            assert!(is_used(&used) && is_used(&left));
            drop(lock);
            // What another test starts just now holds this one's open files until its exec.
            let deadline = Instant::now() + Duration::from_secs(10);
            while left.exists() {
                assert!(Instant::now() < deadline, "{kind:?} stays");
                kind.remove_left(parent.path(), &Silence).unwrap();
            }
            assert_eq!(kind.all(parent.path()).unwrap(), [used]);
        }
    }

    #[test]
    fn a_folder_that_was_kept_for_the_user_is_no_leftover() {
        let parent = tempfile::tempdir().unwrap();
        let (kept, lock) = WorkFolder::Build.create(parent.path()).unwrap();
        fs::remove_file(lock_of(&kept)).unwrap();
        drop(lock);
        let none = Vec::<PathBuf>::new();
        assert_eq!(WorkFolder::Build.left(parent.path()).unwrap(), none);
        WorkFolder::Build
            .remove_left(parent.path(), &Silence)
            .unwrap();
        assert!(kept.exists());
    }
}
