//! Advisory locks on open files, and checks that an open file still has its name.
//!
//! On Windows nothing else can read or write locked bytes (Microsoft: LockFileEx), but files locked
//! here must stay readable and writable. So a single byte beyond the end of any file is locked
//! there.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

/// Takes an exclusive lock, if no other handle has a lock.
#[cfg(unix)]
pub fn try_lock(file: &File) -> Result<(), TryLockError> {
    file.try_lock()
}

/// Takes a shared lock, if no other handle has an exclusive one.
#[cfg(unix)]
pub fn try_lock_shared(file: &File) -> Result<(), TryLockError> {
    file.try_lock_shared()
}

/// Returns true if `path` refers to this open file.
#[cfg(unix)]
pub fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;

    let ours = file.metadata()?;
    Ok(std::fs::metadata(path).is_ok_and(|m| m.ino() == ours.ino() && m.dev() == ours.dev()))
}

/// Takes an exclusive lock, if no other handle has a lock. The handle has to be open for reading or
/// writing; append-only ones are refused (Microsoft: LockFileEx).
#[cfg(windows)]
pub fn try_lock(file: &File) -> Result<(), TryLockError> {
    windows::lock(
        file,
        windows_sys::Win32::Storage::FileSystem::LOCKFILE_EXCLUSIVE_LOCK,
    )
}

/// Takes a shared lock, if no other handle has an exclusive one.
#[cfg(windows)]
pub fn try_lock_shared(file: &File) -> Result<(), TryLockError> {
    windows::lock(file, 0)
}

/// Returns true if `path` refers to this open file.
#[cfg(windows)]
pub fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let ours = windows::identity(file)?;
    let named = File::open(path).and_then(|f| windows::identity(&f));
    Ok(named.is_ok_and(|named| named == ours))
}

#[cfg(windows)]
mod windows {
    use super::{File, TryLockError, io};
    use std::os::windows::io::AsRawHandle as _;

    use windows_sys::Win32::Foundation::{ERROR_IO_PENDING, ERROR_LOCK_VIOLATION};
    use windows_sys::Win32::Storage::FileSystem::{
        BY_HANDLE_FILE_INFORMATION, GetFileInformationByHandle, LOCKFILE_FAIL_IMMEDIATELY,
        LockFileEx,
    };
    use windows_sys::Win32::System::IO::{OVERLAPPED, OVERLAPPED_0, OVERLAPPED_0_0};

    /// Far beyond the longest possible NTFS file; a lock there is allowed (Microsoft: LockFileEx).
    const BYTE: u64 = i64::MAX as u64 - 1;

    pub fn lock(file: &File, how: u32) -> Result<(), TryLockError> {
        let mut place = OVERLAPPED {
            Anonymous: OVERLAPPED_0 {
                Anonymous: OVERLAPPED_0_0 {
                    Offset: BYTE as u32,
                    OffsetHigh: (BYTE >> 32) as u32,
                },
            },
            ..OVERLAPPED::default()
        };
        let how = how | LOCKFILE_FAIL_IMMEDIATELY;
        // SAFETY: the handle is open, and `place` lives through the call, which does not wait.
        if unsafe { LockFileEx(file.as_raw_handle(), how, 0, 1, 0, &mut place) } != 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error().map(i32::cast_unsigned) {
            Some(ERROR_LOCK_VIOLATION | ERROR_IO_PENDING) => Err(TryLockError::WouldBlock),
            _ => Err(TryLockError::Error(error)),
        }
    }

    /// Returns the volume and the file's number on it.
    pub fn identity(file: &File) -> io::Result<(u32, u32, u32)> {
        let mut found = BY_HANDLE_FILE_INFORMATION::default();
        // SAFETY: the handle is open, and `found` lives through the call.
        match unsafe { GetFileInformationByHandle(file.as_raw_handle(), &mut found) } {
            0 => Err(io::Error::last_os_error()),
            _ => Ok((
                found.dwVolumeSerialNumber,
                found.nFileIndexHigh,
                found.nFileIndexLow,
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, OpenOptions};
    use std::path::PathBuf;

    fn open(path: &PathBuf) -> File {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        options.open(path).unwrap()
    }

    #[test]
    fn a_lock_keeps_locks_away_and_no_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let (one, other) = (open(&path), open(&path));
        try_lock(&one).unwrap();
        assert!(matches!(try_lock(&other), Err(TryLockError::WouldBlock)));
        assert!(matches!(
            try_lock_shared(&other),
            Err(TryLockError::WouldBlock)
        ));
        fs::write(&path, "by another handle").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "by another handle");
        drop(one);
        try_lock_shared(&other).unwrap();
        try_lock_shared(&open(&path)).unwrap();
        assert!(matches!(
            try_lock(&open(&path)),
            Err(TryLockError::WouldBlock)
        ));
    }

    #[test]
    #[cfg_attr(
        windows,
        ignore = "Wine forgets the volume of an open file that is renamed"
    )]
    fn a_locked_file_can_be_renamed_and_is_known_by_its_new_name() {
        let folder = tempfile::tempdir().unwrap();
        let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
        let file = open(&old);
        try_lock(&file).unwrap();
        assert!(is_at(&file, &old).unwrap());
        fs::rename(&old, &new).unwrap();
        assert!(is_at(&file, &new).unwrap());
        assert!(!is_at(&file, &old).unwrap());
        fs::write(&old, "another").unwrap();
        assert!(!is_at(&file, &old).unwrap());
    }
}
