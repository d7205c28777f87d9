//! Files that are never half-written, locks that the dead do not hold, and children that do not outlive us.
//!
//! Everything winimg keeps is written beside its place, fsynced and renamed into it. Nothing here knows what the
//! bytes mean.

mod below;
mod child;
pub mod file_lock;
mod holes;
mod leftover;
mod lock;
mod open;
mod positioned;
mod private;
mod within;
mod xml;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use tempfile::NamedTempFile;

use crate::digest::{Algorithm, Digest};
use crate::error::{Error, Result};

pub use below::{files_below, own_files_below};
pub use child::{environment_secrets, spawn, without_our_secrets, without_secrets};
pub use holes::data_within;
pub use leftover::{WorkFolder, is_used, lock_of, remove_work_folder};
pub use lock::{Lock, lock_folder};
pub use open::{
    limit, open_regular, read_given, read_limited, read_text_given, read_text_limited,
    refuse_streams,
};
pub use positioned::Positioned;
pub use private::{
    close_to_others, create_private_file, create_private_folders, forbid_others_to_write,
    runtime_folder,
};
pub use within::{FileWithin, NotWithin, file_within};
pub use xml::read_xml_limited;

/// A file that appears under its name whole, or not at all.
///
/// Written beside its place; [`commit`](AtomicFile::commit) makes it durable and visible. Dropped without that, or
/// killed, it leaves nothing under the name (a kill may leave a hidden `.name.….part` beside it).
pub struct AtomicFile {
    temporary: NamedTempFile,
    path: PathBuf,
}

impl AtomicFile {
    /// Starts the file that is to stand at `path`. Its folder must exist.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self> {
        // As any other new file: the umask takes what it takes.
        Self::with_mode(path.into(), 0o666)
    }

    /// The same for a file that its owner alone may read (0600; on Windows SYSTEM and administrators may, too).
    pub fn create_private(path: impl Into<PathBuf>) -> Result<Self> {
        let file = Self::with_mode(path.into(), 0o600)?;
        #[cfg(windows)]
        private::make_private(file.temporary.path())
            .map_err(|e| Error::io("write beside", &file.path, e))?;
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
            .map_err(|e| Error::io("write beside", &path, e))?;
        Ok(Self { temporary, path })
    }

    /// The file itself, for seeking.
    pub fn file(&mut self) -> &mut File {
        self.temporary.as_file_mut()
    }

    /// Makes it durable, then visible, replacing what was there.
    pub fn commit(self) -> Result<()> {
        let Self { temporary, path } = self;
        temporary
            .as_file()
            .sync_all()
            .map_err(|e| Error::io("write", &path, e))?;
        name(temporary, &path).map_err(|e| Error::io("write", &path, e))?;
        sync_folder(folder_of(&path))
    }
}

/// Gives the file its name, also where another file of that name is open for reading.
fn name(temporary: NamedTempFile, path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        return temporary.persist(path).map(|_| ()).map_err(|e| e.error);
    }
    // What `persist` calls on Windows replaces no open file; `rename` does (Microsoft: FILE_RENAME_INFO, POSIX semantics).
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

/// How long a file may stay open for others on Windows before it is given up to rename it.
const SCAN: Duration = Duration::from_secs(5);

/// Renames a file or folder. On Windows a scanner that has just opened it, or a file in the folder, is waited for: that is
/// "access denied" for a moment (Microsoft: MoveFileEx; rust-lang/rustup, issue 1870).
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let deadline = Instant::now() + SCAN;
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

/// Moves a file, to another filesystem too.
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

/// Makes the names in a folder durable.
pub fn sync_folder(folder: &Path) -> Result<()> {
    // Other systems have no such call, and need none.
    if cfg!(unix) {
        File::open(folder)
            .and_then(|f| f.sync_all())
            .map_err(|e| Error::io("write", folder, e))?;
    }
    Ok(())
}

/// Makes the bytes of a file durable that another program wrote, or another handle.
pub fn sync_file(path: &Path) -> io::Result<()> {
    // Windows takes this from a handle that could write only (Microsoft: FlushFileBuffers).
    OpenOptions::new()
        .read(true)
        .write(cfg!(windows))
        .open(path)?
        .sync_all()
}

/// A path without links and `..`. On Windows without the prefix `\\?\` too, which other programs do not read everywhere.
pub fn canonicalize(path: &Path) -> io::Result<PathBuf> {
    let whole = fs::canonicalize(path)?;
    #[cfg(windows)]
    {
        use std::path::{Component, Prefix};
        if let Some(Component::Prefix(prefix)) = whole.components().next()
            && let Prefix::VerbatimDisk(disk) = prefix.kind()
        {
            let rest: PathBuf = whole.components().skip(1).collect();
            let mut plain = PathBuf::from(format!("{}:", char::from(disk)));
            plain.push(rest);
            return Ok(plain);
        }
    }
    Ok(whole)
}

/// The path with `/` between its names, on every system.
pub fn slashed(path: &Path) -> String {
    let text = path.display().to_string();
    match cfg!(windows) {
        true => text.replace('\\', "/"),
        false => text,
    }
}

/// Sets when a file or folder was written last. It need not be writable; on Windows only this is asked for.
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
        // Without it no folder is opened (Microsoft: CreateFile, Directories).
        options.custom_flags(FILE_FLAG_BACKUP_SEMANTICS);
    }
    options.open(path)?.set_modified(time)
}

/// A file's SHA-256, and its size in bytes. Its holes are hashed as zeros without being read: a system that reads them fills pages
/// with zeros first, which takes longer than hashing.
pub fn sha256(path: &Path) -> Result<(Digest, u64)> {
    File::open(path)
        .and_then(|file| match file.metadata()? {
            about if about.is_file() => holes::sha256(&file, about.len()),
            // A device has no length there.
            _ => Digest::of_reader(Algorithm::Sha256, file),
        })
        .map_err(|e| Error::io("read", path, e))
}

/// Copies a file's bytes; on filesystems that can, the copy shares the blocks (Linux: copy_file_range(2) clones
/// where the filesystem has reflinks). `to` is replaced. Returns the number of bytes.
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
    // From above, as they were made.
    let named = new.into_iter().rev().filter(|f| !f.as_os_str().is_empty());
    named.map(folder_of).try_for_each(sync_folder)
}

/// Removes a file, a link or a folder with everything in it. Links are removed, not followed.
pub fn remove_whole(path: &Path) -> io::Result<()> {
    let is_folder = fs::symlink_metadata(path).is_ok_and(|about| about.is_dir());
    if is_folder {
        return fs::remove_dir_all(path);
    }
    fs::remove_file(path)
}

/// Whether the path itself is a symbolic link.
pub fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|about| about.is_symlink())
}

/// Removes a file, where there is one.
pub fn remove_if_there(file: &Path) -> Result<()> {
    gone(fs::remove_file(file), file)
}

/// Removes a folder with all that is in it, where there is one.
pub fn remove_folder_if_there(folder: &Path) -> Result<()> {
    gone(fs::remove_dir_all(folder), folder)
}

fn gone(removed: io::Result<()>, path: &Path) -> Result<()> {
    match removed {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path, e)),
        _ => Ok(()),
    }
}

/// The path with `suffix` after its whole name: `recipe.lock.sig` of `recipe.lock`.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// The folder that holds `path`; `.` for a bare name.
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
