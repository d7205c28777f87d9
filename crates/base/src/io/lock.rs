//! Advisory locks on files.
//!
//! The kernel holds them, so those of a dead process are free by themselves; the pid in the file is only for
//! messages. Lock files are never removed: a removed one could be locked twice.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::file_lock;
use crate::error::{Error, Kind, Result};
use crate::event::Cancel;

/// A lock that is held until this value is dropped or the process ends.
#[derive(Debug)]
pub struct Lock {
    // Closing the file frees the lock.
    _file: File,
}

/// How often a waiting lock looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl Lock {
    /// Takes the lock at `path`, waiting while another process holds it. `waiting` is called once, before the first wait, with
    /// words for the holder such as `process 4711`. Ends early when cancelled.
    pub fn take(path: &Path, cancel: &Cancel, waiting: impl FnOnce(&str)) -> Result<Self> {
        let mut waiting = Some(waiting);
        loop {
            cancel.check()?;
            if let Some(lock) = Self::try_take(path)? {
                return Ok(lock);
            }
            if let Some(notify) = waiting.take() {
                notify(&holder(path));
            }
            cancel.sleep(LOOK_AGAIN)?;
        }
    }

    /// Takes the lock if nobody holds it.
    pub fn try_take(path: &Path) -> Result<Option<Self>> {
        Self::of(path, OpenOptions::new().create(true).truncate(false))
    }

    /// Whether there is a lock file that a living process holds, or that can't be asked.
    pub fn is_held(path: &Path) -> bool {
        path.exists() && !matches!(Self::try_take(path), Ok(Some(_)))
    }

    /// The same for a lock file that is there already.
    pub(super) fn take_existing(path: &Path) -> Result<Option<Self>> {
        Self::of(path, &mut OpenOptions::new())
    }

    fn of(path: &Path, how: &mut OpenOptions) -> Result<Option<Self>> {
        let io = |e| Error::io("lock", path, e);
        let mut file = how.read(true).write(true).open(path).map_err(io)?;
        match file_lock::try_lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(e)) => return Err(io(e)),
        }
        // The pid is a courtesy: a full disk must not stop the one who holds the lock.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| write!(file, "{}", std::process::id()));
        Ok(Some(Self { _file: file }))
    }

    /// The lock file that belongs to `path`.
    pub fn beside(path: &Path) -> PathBuf {
        super::with_suffix(path, ".lock")
    }
}

/// Keeps others who ask for the same away from a folder, for the moment that a file in it is read and replaced. Leaves nothing
/// in it.
#[cfg(unix)]
pub fn lock_folder(folder: &Path) -> Result<Lock> {
    let file = File::open(folder).map_err(|e| Error::io("open", folder, e))?;
    file.lock().map_err(|e| Error::io("lock", folder, e))?;
    Ok(Lock { _file: file })
}

/// The same. A folder cannot be locked there: one lock of this user is for all of them.
#[cfg(windows)]
pub fn lock_folder(_: &Path) -> Result<Lock> {
    let path = super::runtime_folder()?.join("folders.lock");
    Lock::take(&path, &Cancel::default(), |_| ())
}

/// Gives the new, empty folder `hidden` the name that sweeps look for, with a lock of this name in it: no sweep ever meets the
/// folder without its lock.
pub(super) fn reveal_locked(hidden: &Path, folder: &Path, name: &str) -> Result<Lock> {
    let create = |e| Error::io("create", folder, e);
    if cfg!(windows) {
        // There a folder that holds an open file keeps its name; a sweep passes over one without a lock file.
        fs::rename(hidden, folder).map_err(create)?;
        let file = create_held(&folder.join(name)).map_err(create)?;
        return Ok(Lock { _file: file });
    }
    let lock = Lock::try_take(&hidden.join(name))?.ok_or_else(|| {
        Error::new(Kind::Failed, "a fresh working directory is already locked").at(hidden.display())
    })?;
    fs::rename(hidden, folder).map_err(create)?;
    Ok(lock)
}

/// A new file that no other handle can lock from its first moment on.
fn create_held(path: &Path) -> std::io::Result<File> {
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

fn holder(path: &Path) -> String {
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
        let held = Lock::try_take(&path).unwrap().unwrap();
        assert!(Lock::try_take(&path).unwrap().is_none());
        let cancel = Cancel::default();
        let mut holder_name = String::new();
        let error = Lock::take(&path, &cancel, |holder| {
            holder_name = holder.to_string();
            cancel.cancel();
        })
        .unwrap_err();
        assert_eq!(holder_name, "this process");
        assert_eq!(error.kind(), Kind::Cancelled);
        drop(held);
        // What another test starts just now holds this one's open files until its exec.
        let deadline = Instant::now() + Duration::from_secs(10);
        while Lock::try_take(&path).unwrap().is_none() {
            assert!(Instant::now() < deadline, "it is never free");
        }
    }
}
