//! Advisory locks on files.
//!
//! The kernel releases the locks of a dead process; the pid in the file is only for messages. Lock
//! files are never removed: a removed one could be locked twice.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::file_lock;
use crate::error::{Error, Kind, Result};
use crate::event::Cancel;

/// A lock that is held until this value is dropped or the process ends.
#[derive(Debug)]
pub struct FileLock {
    // Closing the file releases the lock.
    _file: File,
}

/// Interval between attempts to take a lock.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

impl FileLock {
    /// Takes the lock at `path`, waiting while another process has it. `on_wait` is called once,
    /// before the first wait, with a description of the holder such as `process 4711`. Fails when
    /// cancelled.
    pub fn take(path: &Path, cancel: &Cancel, on_wait: impl FnOnce(&str)) -> Result<Self> {
        let mut on_wait = Some(on_wait);
        loop {
            cancel.check()?;
            if let Some(lock) = Self::try_take(path)? {
                return Ok(lock);
            }
            if let Some(notify) = on_wait.take() {
                notify(&describe_holder(path));
            }
            cancel.sleep(POLL_INTERVAL)?;
        }
    }

    /// Takes the lock if it is free.
    pub fn try_take(path: &Path) -> Result<Option<Self>> {
        Self::open(path, OpenOptions::new().create(true).truncate(false))
    }

    /// Returns true if a running process has the lock, or if that is unknown. False without a lock
    /// file.
    pub fn is_held(path: &Path) -> bool {
        path.exists() && !matches!(Self::try_take(path), Ok(Some(_)))
    }

    /// Takes the lock if it is free, without creating the lock file.
    pub(super) fn take_existing(path: &Path) -> Result<Option<Self>> {
        Self::open(path, &mut OpenOptions::new())
    }

    fn open(path: &Path, options: &mut OpenOptions) -> Result<Option<Self>> {
        let mut file = options
            .read(true)
            .write(true)
            .open(path)
            .map_err(|e| Error::io("lock", path, e))?;
        match file_lock::try_lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(e)) => return Err(Error::io("lock", path, e)),
        }
        // The pid is optional: a full disk must not stop the lock's owner.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| write!(file, "{}", std::process::id()));
        Ok(Some(Self { _file: file }))
    }

    /// Returns the path of the lock file for `path`.
    pub fn path_for(path: &Path) -> PathBuf {
        super::with_suffix(path, ".lock")
    }
}

/// Locks a folder while a file in it is read and replaced, against other processes that take this
/// lock. Creates no file.
#[cfg(unix)]
pub fn lock_folder(folder: &Path) -> Result<FileLock> {
    let file = File::open(folder).map_err(|e| Error::io("open", folder, e))?;
    file.lock().map_err(|e| Error::io("lock", folder, e))?;
    Ok(FileLock { _file: file })
}

/// Locks folders of this user: a single folder cannot be locked on Windows, so all share one lock.
#[cfg(windows)]
pub fn lock_folder(_: &Path) -> Result<FileLock> {
    let path = super::runtime_folder()?.join("folders.lock");
    FileLock::take(&path, &Cancel::default(), |_| ())
}

/// Renames the new, empty folder `hidden` to a name that sweeps look for, with a lock file `name`
/// in it, so that no sweep finds the folder without its lock.
pub(super) fn reveal_locked(hidden: &Path, folder: &Path, name: &str) -> Result<FileLock> {
    if cfg!(windows) {
        // Windows cannot rename a folder with an open file; sweeps ignore one without a lock file.
        let file = fs::rename(hidden, folder)
            .and_then(|()| create_locked(&folder.join(name)))
            .map_err(|e| Error::io("create", folder, e))?;
        return Ok(FileLock { _file: file });
    }
    let lock = FileLock::try_take(&hidden.join(name))?.ok_or_else(|| {
        Error::new(Kind::Failed, "a fresh working directory is already locked").at(hidden.display())
    })?;
    fs::rename(hidden, folder).map_err(|e| Error::io("create", folder, e))?;
    Ok(lock)
}

/// Creates a file that is locked from the start: no other handle can lock it.
fn create_locked(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(windows)]
    {
        use windows_sys::Win32::Storage::FileSystem::{FILE_SHARE_DELETE, FILE_SHARE_READ};
        let shared = FILE_SHARE_READ | FILE_SHARE_DELETE;
        std::os::windows::fs::OpenOptionsExt::share_mode(&mut options, shared);
    }
    options.open(path)
}

fn describe_holder(path: &Path) -> String {
    let mut text = String::new();
    // At most a pid's length; the file may be anything.
    let read = File::open(path).and_then(|f| f.take(20).read_to_string(&mut text));
    match (read, text.trim().parse::<u32>()) {
        (Ok(_), Ok(pid)) if pid == std::process::id() => "this process".into(),
        (Ok(_), Ok(pid)) => format!("process {pid}"),
        _ => "another process".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_held_lock_names_its_holder_and_a_cancelled_wait_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        let held = FileLock::try_take(&path).unwrap().unwrap();
        assert!(FileLock::try_take(&path).unwrap().is_none());
        let cancel = Cancel::default();
        let mut holder_name = String::new();
        let error = FileLock::take(&path, &cancel, |holder| {
            holder_name = holder.to_string();
            cancel.cancel();
        })
        .unwrap_err();
        assert_eq!(holder_name, "this process");
        assert_eq!(error.kind(), Kind::Cancelled);
        drop(held);
        // What another test starts just now holds this one's open files until its exec.
        let deadline = Instant::now() + Duration::from_secs(10);
        while FileLock::try_take(&path).unwrap().is_none() {
            assert!(Instant::now() < deadline, "it is never free");
        }
    }
}
