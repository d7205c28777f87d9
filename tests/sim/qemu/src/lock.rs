//! The locks that QEMU takes on image files, so that two writers of one image refuse each other, `qemu-img` among them.
//!
//! Source: QEMU: block/file-posix.c (`raw_apply_lock_bytes`, `raw_check_lock_bytes`): byte 100 + n is locked for a permission held, byte
//! 200 + n for one not shared, as open-file-description locks for reading; a check asks whether such a byte could be locked for writing.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

const HELD: i64 = 100;
const NOT_SHARED: i64 = 200;
/// Numbers of the permissions (QEMU: include/block/block-common.h).
const READ: u32 = 0;
const WRITE: u32 = 1;
const RESIZE: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Reads,
    Writes,
}

/// Locks `file`; the error is QEMU's, and names the lock that can't be had.
pub fn take(file: &File, what: Use) -> Result<(), String> {
    let held: &[u32] = match what {
        Use::Reads => &[READ],
        Use::Writes => &[READ, WRITE, RESIZE],
    };
    let not_shared = [WRITE, RESIZE];
    for n in held {
        lock(file, HELD + i64::from(*n))?;
    }
    for n in not_shared {
        lock(file, NOT_SHARED + i64::from(n))?;
    }
    for n in held {
        check(file, NOT_SHARED + i64::from(*n), &name(*n))?;
    }
    for n in not_shared {
        check(file, HELD + i64::from(n), &format!("shared {}", name(n)))?;
    }
    Ok(())
}

fn name(permission: u32) -> String {
    format!(
        "\"{}\"",
        match permission {
            READ => "consistent read",
            WRITE => "write",
            _ => "resize",
        }
    )
}

fn flock(kind: i32, byte: i64) -> libc::flock {
    // SAFETY: a structure of plain numbers.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = byte;
    lock.l_len = 1;
    lock
}

fn lock(file: &File, byte: i64) -> Result<(), String> {
    let mut lock = flock(libc::F_RDLCK, byte);
    // SAFETY: the descriptor is open, the structure ours.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw mut lock) };
    match done {
        0 => Ok(()),
        _ => Err(format!(
            "Failed to lock byte {byte}: {}",
            io::Error::last_os_error()
        )),
    }
}

fn check(file: &File, byte: i64, what: &str) -> Result<(), String> {
    let mut lock = flock(libc::F_WRLCK, byte);
    // SAFETY: as above.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
    if done == 0 && i32::from(lock.l_type) == libc::F_UNLCK {
        return Ok(());
    }
    Err(format!(
        "Failed to get {what} lock\nIs another process using the image"
    ))
}
