//! File attributes (read-only, hidden, system, archive): in NTFS through ntfs-3g's `system.ntfs_attrib`, and on a plain
//! directory of the unit tests in a `user.` attribute of the same shape.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::volume::Located;

pub const READ_ONLY: u32 = 1;
pub const HIDDEN: u32 = 2;
pub const SYSTEM: u32 = 4;
pub const ARCHIVE: u32 = 0x20;

const NTFS: &std::ffi::CStr = c"system.ntfs_attrib";
const PLAIN: &std::ffi::CStr = c"user.winimg.attrib";

/// The attribute bits; 0 when none are recorded.
pub fn get(path: &Path) -> u32 {
    [NTFS, PLAIN]
        .iter()
        .find_map(|name| read(path, name))
        .unwrap_or(0)
}

/// The bits as Windows shows them: everything on a CD is read-only.
pub fn of(file: &Located) -> u32 {
    if file.read_only {
        READ_ONLY
    } else {
        get(&file.host)
    }
}

/// Whether `dir` and `del` pass the file over.
pub fn is_hidden(file: &Located) -> bool {
    of(file) & (HIDDEN | SYSTEM) != 0
}

pub fn set(path: &Path, bits: u32) -> Result<(), String> {
    let bytes = bits.to_le_bytes();
    write(path, NTFS, &bytes).or_else(|_| write(path, PLAIN, &bytes))
}

fn read(path: &Path, name: &std::ffi::CStr) -> Option<u32> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut bytes = [0u8; 4];
    // SAFETY: both strings end in NUL and the buffer is as long as said.
    let len = unsafe {
        libc::lgetxattr(
            path.as_ptr(),
            name.as_ptr(),
            bytes.as_mut_ptr().cast(),
            bytes.len(),
        )
    };
    (len == 4).then(|| u32::from_le_bytes(bytes))
}

/// Sets an extended attribute.
pub fn write(path: &Path, name: &std::ffi::CStr, bytes: &[u8]) -> Result<(), String> {
    let target = CString::new(path.as_os_str().as_bytes()).map_err(|e| e.to_string())?;
    // SAFETY: both strings end in NUL and the data is as long as said.
    let code = unsafe {
        libc::lsetxattr(
            target.as_ptr(),
            name.as_ptr(),
            bytes.as_ptr().cast(),
            bytes.len(),
            0,
        )
    };
    if code == 0 {
        Ok(())
    } else {
        Err(format!(
            "{}: {}",
            path.display(),
            std::io::Error::last_os_error()
        ))
    }
}
