//! Keeps files under temporary names until all of them are verified.
//!
//! The temporary name depends only on the final one, so the next run overwrites leftovers of a
//! killed one. A lock on the file separates two exports with the same name, and ends with its
//! process.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::io::{self, file_lock};

/// Interval for syncing files while they are written. The system would wait half a minute, or until
/// they fill a tenth of its memory (Linux: vm.dirty_expire_centisecs, vm.dirty_background_ratio),
/// and the final sync would have to wait for all of it.
const BEHIND: Duration = Duration::from_millis(250);

/// The files of one export. Uncommitted files are removed on drop.
pub struct ExportStaging {
    directory: PathBuf,
    /// True if existing files may be replaced, except those in `kept`.
    replaces_existing: bool,
    /// Names of files that must never be replaced.
    kept: Vec<String>,
    /// Names of files that this export would replace, but must not.
    refused: Vec<String>,
    files: Vec<StagedFile>,
}

struct StagedFile {
    temporary: PathBuf,
    /// `None` for a scratch file, which is always removed at the end.
    target: Option<PathBuf>,
    /// The locked file. Opened separately from the one for writing, so that both report a write
    /// error.
    locked: File,
}

impl ExportStaging {
    pub fn new(directory: &Path, replaces_existing: bool, kept: &[String]) -> Self {
        Self {
            directory: directory.to_owned(),
            replaces_existing,
            kept: kept.to_vec(),
            refused: Vec::new(),
            files: Vec::new(),
        }
    }

    /// Creates an empty file for `name`, a path below the directory. Also returns its temporary
    /// path.
    pub fn create(&mut self, name: &str) -> Result<(File, PathBuf)> {
        let target = self.directory.join(name);
        let is_refused = self.is_kept(name) || !self.replaces_existing;
        if is_refused && fs::symlink_metadata(&target).is_ok() {
            self.refused.push(name.to_owned());
        }
        self.create_file(name, Some(target))
    }

    fn is_kept(&self, name: &str) -> bool {
        self.kept.iter().any(|kept| kept == name)
    }

    /// Fails if the export would replace files that must be kept, before anything is written.
    pub fn check(&self) -> Result<()> {
        if self.refused.is_empty() {
            return Ok(());
        }
        let cure = if self.refused.iter().any(|name| self.is_kept(name)) {
            "write to another folder with --output: the image itself is never replaced"
        } else {
            "replace them with --replace, or write to another folder with --output"
        };
        let fact = "the export would replace existing files";
        Err(Error::new(Kind::Export, fact)
            .at(self.directory.display())
            .lines(self.refused.iter())
            .cure(cure))
    }

    /// Creates a file for other programs to write, removed at the end.
    pub fn create_scratch(&mut self, name: &str) -> Result<PathBuf> {
        self.create_file(name, None).map(|(_, path)| path)
    }

    /// Returns the temporary path of the file `name`.
    pub fn temporary_path(&self, name: &str) -> PathBuf {
        self.directory
            .join(format!(".{}.part", name.replace('/', ".")))
    }

    fn create_file(&mut self, name: &str, target: Option<PathBuf>) -> Result<(File, PathBuf)> {
        let temporary = self.temporary_path(name);
        let locked = lock(&temporary)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&temporary)
            .map_err(|e| Error::io("open", &temporary, e))?;
        self.files.push(StagedFile {
            temporary: temporary.clone(),
            target,
            locked,
        });
        file.set_len(0)
            .map_err(|e| Error::io("empty", &temporary, e))?;
        Ok((file, temporary))
    }

    /// Runs `work` while a thread syncs the files, so that the final sync is short.
    pub fn write_behind<T>(&self, work: impl FnOnce() -> T) -> T {
        // Dropped when the work ends, even by a panic.
        let (working, ended) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                while ended.recv_timeout(BEHIND) == Err(RecvTimeoutError::Timeout) {
                    for staged in self.files.iter().filter(|s| s.target.is_some()) {
                        // The writer gets the error at the final sync.
                        let _ = staged.locked.sync_data();
                    }
                }
            });
            let _working = working;
            work()
        })
    }

    /// Renames the files to their final names. Their content must be synced already.
    pub fn commit(mut self) -> Result<()> {
        let mut directories = vec![self.directory.clone()];
        for target in self.files.iter().filter_map(|s| s.target.as_ref()) {
            let parent = target.parent().unwrap_or(&self.directory);
            fs::create_dir_all(parent).map_err(|e| Error::io("make", parent, e))?;
            if !directories.iter().any(|d| d == parent) {
                directories.push(parent.to_owned());
            }
        }
        let staged = std::mem::take(&mut self.files);
        let mut rest = staged.into_iter();
        while let Some(s) = rest.next() {
            let done =
                match &s.target {
                    Some(target) => io::rename(&s.temporary, target)
                        .map_err(|e| Error::io("rename to", target, e)),
                    None => fs::remove_file(&s.temporary)
                        .map_err(|e| Error::io("remove", &s.temporary, e)),
                };
            if let Err(e) = done {
                self.files.push(s);
                self.files.extend(rest);
                return Err(e);
            }
        }
        for directory in &directories {
            io::sync_folder(directory)?;
        }
        Ok(())
    }
}

/// Opens and locks the file at `path`, which may be a leftover of a killed run.
fn lock(path: &Path) -> Result<File> {
    loop {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|e| Error::io("create", path, e))?;
        // QEMU cannot open a file that another process has open for writing (block/file-win32.c,
        // raw_open).
        #[cfg(windows)]
        let file = {
            drop(file);
            File::open(path).map_err(|e| Error::io("open", path, e))?
        };
        match file_lock::try_lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(
                    Error::new(Kind::Export, "another export writes the same file")
                        .at(path.display())
                        .cure("wait for it to finish, or choose another output directory"),
                );
            }
            Err(TryLockError::Error(e)) => return Err(Error::io("lock", path, e)),
        }
        // Another export may have renamed or removed it between open and lock.
        if file_lock::is_at(&file, path).map_err(|e| Error::io("look at", path, e))? {
            return Ok(file);
        }
    }
}

impl Drop for ExportStaging {
    fn drop(&mut self) {
        for staged in self.files.iter() {
            // Best effort: an error is already on its way to the user.
            let _ = fs::remove_file(&staged.temporary);
        }
    }
}
