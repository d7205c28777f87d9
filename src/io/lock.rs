//! Advisory locks on files.
//!
//! The kernel holds them, so those of a dead process are free by themselves; the pid in the file is only for
//! messages. Lock files are never removed: a removed one could be locked twice.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::event::{Cancel, Sink};

/// A lock that is held until this value is dropped or the process ends.
#[derive(Debug)]
pub struct Lock {
    // Closing the file frees the lock.
    _file: File,
}

/// How often a waiting lock looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl Lock {
    /// Takes the lock at `path`, waiting for whoever holds it. `waiting` is called once, before the first wait, with
    /// words for the holder such as `process 4711`. Ends early when cancelled.
    pub fn take(path: &Path, cancel: &Cancel, waiting: impl FnOnce(&str)) -> Result<Self> {
        let mut waiting = Some(waiting);
        loop {
            cancel.check()?;
            if let Some(lock) = Self::try_take(path)? {
                return Ok(lock);
            }
            if let Some(tell) = waiting.take() {
                tell(&holder(path));
            }
            cancel.sleep(LOOK_AGAIN)?;
        }
    }

    /// Takes the lock if nobody holds it.
    pub fn try_take(path: &Path) -> Result<Option<Self>> {
        let io = |e| Error::io("lock", path, e);
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)
            .map_err(io)?;
        match file.try_lock() {
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
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        PathBuf::from(name)
    }
}

/// Removes a killed build's folder, and says so, unless a living process holds the lock of this name in it.
pub fn remove_leftover(folder: &Path, lock: &str, sink: &dyn Sink) -> Result<()> {
    let Ok(Some(_lock)) = Lock::try_take(&folder.join(lock)) else {
        return Ok(());
    };
    sink.note(format!(
        "removing what an interrupted build left: {}",
        folder.display()
    ));
    match fs::remove_dir_all(folder) {
        // Another build swept it between our look and our lock.
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        other => other.map_err(|e| Error::io("remove", folder, e)),
    }
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
    use crate::error::Kind;

    #[test]
    fn a_held_lock_names_its_holder_and_a_cancelled_wait_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        let held = Lock::try_take(&path).unwrap().unwrap();
        assert!(Lock::try_take(&path).unwrap().is_none());
        let cancel = Cancel::default();
        let mut told = String::new();
        let error = Lock::take(&path, &cancel, |holder| {
            told = holder.to_string();
            cancel.cancel();
        })
        .unwrap_err();
        assert_eq!(told, "this process");
        assert_eq!(error.kind(), Kind::Cancelled);
        drop(held);
        assert!(Lock::try_take(&path).unwrap().is_some());
    }
}
