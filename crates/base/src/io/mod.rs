//! Atomic file writes, locks released when their process exits, and child processes that exit with
//! ours.
//!
//! Everything that winimg stores is written to a temporary file, fsynced and renamed. Nothing here
//! depends on the meaning of the bytes.

mod child;
mod contained_file;
mod file_list;
pub mod file_lock;
mod holes;
mod lock;
mod open;
mod positioned;
mod private;
mod work_folder;
mod xml;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use tempfile::NamedTempFile;

use crate::digest::{Algorithm, Digest};
use crate::error::{Error, Result};

pub use child::{environment_secrets, remove_secrets, remove_winimg_secrets, spawn};
pub use contained_file::{ContainedFile, ContainedFileError, find_contained_file};
pub use file_list::{files_below, own_files_below};
pub use holes::find_data;
pub use lock::{FileLock, lock_folder};
pub use open::{
    limit, open_regular, read_argument, read_limited, read_text_argument, read_text_limited,
    refuse_streams,
};
pub use positioned::PositionedIo;
pub use private::{
    create_private_file, create_private_folders, forbid_others_to_write, restrict_to_owner,
    runtime_folder,
};
pub use work_folder::{WorkFolder, is_in_use, lock_path, remove_work_folder};
pub use xml::read_xml_limited;

/// A file that appears under its name only when it is complete.
///
/// It is written to a temporary file; [`commit`](AtomicFile::commit) makes it durable and visible.
/// Without a commit nothing appears under the name (a killed process may leave a hidden
/// `.name.….part`).
pub struct AtomicFile {
    temporary: NamedTempFile,
    path: PathBuf,
}

impl AtomicFile {
    /// Creates the temporary file for `path`. Its folder must exist.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self> {
        // Like any other new file: subject to the umask.
        Self::with_mode(path.into(), 0o666)
    }

    /// Creates a file that only its owner can read (0600; on Windows also SYSTEM and
    /// administrators).
    pub fn create_private(path: impl Into<PathBuf>) -> Result<Self> {
        let file = Self::with_mode(path.into(), 0o600)?;
        #[cfg(windows)]
        private::make_private(file.temporary.path())
            .map_err(|e| Error::io("create a temporary file next to", &file.path, e))?;
        Ok(file)
    }

    fn with_mode(path: PathBuf, mode: u32) -> Result<Self> {
        let name = path
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default();
        let mut builder = tempfile::Builder::new();
        let prefix = format!(".{name}.");
        builder.prefix(&prefix).suffix(".part");
        #[cfg(unix)]
        let builder = {
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(fs::Permissions::from_mode(mode))
        };
        #[cfg(not(unix))]
        let _ = mode;
        let temporary = builder
            .tempfile_in(folder_of(&path))
            .map_err(|e| Error::io("create a temporary file next to", &path, e))?;
        Ok(Self { temporary, path })
    }

    /// Returns the file itself, for seeking.
    pub fn file(&mut self) -> &mut File {
        self.temporary.as_file_mut()
    }

    /// Makes the file durable, then visible, replacing an existing file.
    pub fn commit(self) -> Result<()> {
        let Self { temporary, path } = self;
        temporary
            .as_file()
            .sync_all()
            .map_err(|e| Error::io("write", &path, e))?;
        persist(temporary, &path).map_err(|e| Error::io("write", &path, e))?;
        sync_folder(folder_of(&path))
    }
}

/// Renames the temporary file to `path`, even if the file it replaces is open for reading.
fn persist(temporary: NamedTempFile, path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        return temporary.persist(path).map(|_| ()).map_err(|e| e.error);
    }
    // On Windows `persist` cannot replace an open file; `rename` can (Microsoft: FILE_RENAME_INFO,
    // POSIX semantics).
    let (file, part) = temporary.keep().map_err(|e| e.error)?;
    drop(file);
    rename(&part, path).inspect_err(|_| {
        let _ = fs::remove_file(&part);
    })
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.temporary.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.temporary.flush()
    }
}

/// Writes a whole small file atomically.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(bytes)
        .map_err(|e| Error::io("write", path, e))?;
    file.commit()
}

/// Maximum wait on Windows to rename a file that others have open.
const RENAME_TIMEOUT: Duration = Duration::from_secs(5);

/// Renames a file or folder. On Windows this retries while a scanner has it, or a file in the
/// folder, open, which briefly causes "access denied" (Microsoft: MoveFileEx; rust-lang/rustup,
/// issue 1870).
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let deadline = Instant::now() + RENAME_TIMEOUT;
    loop {
        match fs::rename(from, to) {
            Err(e)
                if cfg!(windows)
                    && e.kind() == io::ErrorKind::PermissionDenied
                    && !to.is_dir()
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(50));
            }
            done => return done,
        }
    }
}

/// Moves a file, even to another filesystem.
pub fn move_file(from: &Path, to: &Path) -> Result<()> {
    if fs::rename(from, to).is_ok() {
        return Ok(());
    }
    copy(from, to)?;
    fs::remove_file(from).map_err(|e| Error::io("remove", from, e))
}

/// Moves a finished file or folder to its place on the same filesystem, durably.
pub fn move_into_place(from: &Path, to: &Path) -> Result<()> {
    rename(from, to).map_err(|e| Error::io("write", to, e))?;
    sync_folder(folder_of(to))
}

/// Fsyncs a folder, so that renames and new entries in it are durable.
pub fn sync_folder(folder: &Path) -> Result<()> {
    // Other systems have no such call and do not need one.
    if cfg!(unix) {
        File::open(folder)
            .and_then(|f| f.sync_all())
            .map_err(|e| Error::io("write", folder, e))?;
    }
    Ok(())
}

/// Fsyncs a file written by another program or handle.
pub fn sync_file(path: &Path) -> io::Result<()> {
    // Windows requires a writable handle (Microsoft: FlushFileBuffers).
    OpenOptions::new()
        .read(true)
        .write(cfg!(windows))
        .open(path)?
        .sync_all()
}

/// Resolves links and `..` in a path. On Windows the prefix `\\?\` is removed, since not all
/// programs support it.
pub fn canonicalize(path: &Path) -> io::Result<PathBuf> {
    let canonical = fs::canonicalize(path)?;
    #[cfg(windows)]
    {
        use std::path::{Component, Prefix};
        if let Some(Component::Prefix(prefix)) = canonical.components().next()
            && let Prefix::VerbatimDisk(disk) = prefix.kind()
        {
            let rest: PathBuf = canonical.components().skip(1).collect();
            let mut plain = PathBuf::from(format!("{}:", char::from(disk)));
            plain.push(rest);
            return Ok(plain);
        }
    }
    Ok(canonical)
}

/// Returns the path with `/` separators, on every system.
pub fn to_slashes(path: &Path) -> String {
    let text = path.display().to_string();
    if cfg!(windows) {
        text.replace('\\', "/")
    } else {
        text
    }
}

/// Sets the modification time of a file or folder, which need not be writable.
pub fn set_modified(path: &Path, time: SystemTime) -> io::Result<()> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    options.read(true);
    #[cfg(windows)]
    {
        use std::os::windows::fs::OpenOptionsExt as _;
        use windows_sys::Win32::Storage::FileSystem::{
            FILE_FLAG_BACKUP_SEMANTICS, FILE_WRITE_ATTRIBUTES,
        };
        options.access_mode(FILE_WRITE_ATTRIBUTES);
        // Required to open a folder (Microsoft: CreateFile, Directories).
        options.custom_flags(FILE_FLAG_BACKUP_SEMANTICS);
    }
    options.open(path)?.set_modified(time)
}

/// Computes a file's SHA-256, and returns its size in bytes. Holes are hashed as zeros without
/// being read: reading them through the page cache takes longer than hashing.
pub fn compute_sha256(path: &Path) -> Result<(Digest, u64)> {
    File::open(path)
        .and_then(|file| match file.metadata()? {
            metadata if metadata.is_file() => holes::compute_sha256(&file, metadata.len()),
            // The metadata of a device has no length.
            _ => Digest::of_reader(Algorithm::Sha256, file),
        })
        .map_err(|e| Error::io("read", path, e))
}

/// Copies a file, sharing blocks (reflink) where the filesystem supports it (Linux:
/// copy_file_range(2)). `to` is replaced. Returns the number of bytes.
pub fn copy(from: &Path, to: &Path) -> Result<u64> {
    let mut source = File::open(from).map_err(|e| Error::io("read", from, e))?;
    let mut target = File::create(to).map_err(|e| Error::io("write", to, e))?;
    let copied = io::copy(&mut source, &mut target).map_err(|e| Error::io("write", to, e))?;
    target.sync_all().map_err(|e| Error::io("write", to, e))?;
    Ok(copied)
}

/// Creates a folder and its parents; the new names are durable.
pub fn create_folders(folder: &Path) -> Result<()> {
    let new: Vec<&Path> = folder.ancestors().take_while(|f| !f.exists()).collect();
    fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, e))?;
    // From top to bottom, as they were created.
    new.into_iter()
        .rev()
        .filter(|f| !f.as_os_str().is_empty())
        .map(folder_of)
        .try_for_each(sync_folder)
}

/// Removes a file, a link or a folder with everything in it. Links are removed, not followed.
pub fn remove_recursively(path: &Path) -> io::Result<()> {
    let is_folder = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    if is_folder {
        return fs::remove_dir_all(path);
    }
    fs::remove_file(path)
}

/// Returns true if the path itself is a symbolic link.
pub fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink())
}

/// Removes a file if it exists.
pub fn remove_if_exists(file: &Path) -> Result<()> {
    ignore_missing(fs::remove_file(file), file)
}

/// Removes a folder with its content if it exists.
pub fn remove_folder_if_exists(folder: &Path) -> Result<()> {
    ignore_missing(fs::remove_dir_all(folder), folder)
}

fn ignore_missing(removed: io::Result<()>, path: &Path) -> Result<()> {
    match removed {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path, e)),
        _ => Ok(()),
    }
}

/// Appends `suffix` to the name, after any extension: `recipe.lock` becomes `recipe.lock.sig`.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Returns the parent folder of `path`; `.` for a bare name.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_dropped_file_leaves_the_old_one_and_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("manifest.json");
        write_atomically(&path, b"old").unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"new, but not finished").unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["manifest.json"]);
    }

    #[test]
    #[cfg_attr(
        windows,
        ignore = "Wine replaces no open file; Windows 10 and later do on NTFS"
    )]
    fn a_file_is_replaced_while_others_read_it() {
        use std::io::Read as _;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write_atomically(&path, b"old").unwrap();
        let mut reader = File::open(&path).unwrap();
        write_atomically(&path, b"new").unwrap();
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        assert_eq!(
            (read.as_str(), fs::read(&path).unwrap()),
            ("old", b"new".to_vec())
        );
    }

    #[test]
    fn a_committed_file_replaces_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write_atomically(&path, b"old").unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        file.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["a"]);
    }
}
