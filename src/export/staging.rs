//! Files under temporary names until all of them are good.
//!
//! A temporary name is fixed by the final one, so what a killed run left is written over by the next; a lock on it keeps
//! two exports of the same name apart, and dies with its process.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::io::{self, file_lock};

/// How often files are brought to the disk while they are written. A system waits half a minute with that, or until they fill a tenth
/// of its memory (Linux: vm.dirty_expire_centisecs, vm.dirty_background_ratio), and then who syncs a file waits for all of it.
const BEHIND: Duration = Duration::from_millis(250);

/// The files of one export. Dropping it removes those that were not committed.
pub struct Staging {
    directory: PathBuf,
    /// The names that no file may get, and those of them that one would have got.
    kept: Vec<String>,
    refused: Vec<String>,
    files: Vec<Staged>,
}

struct Staged {
    temporary: PathBuf,
    /// `None`: a scratch file, removed at the end whatever happens.
    target: Option<PathBuf>,
    /// Holds the lock. Another opening of the file than the one that is written by, so that an error to write reaches both.
    locked: File,
}

impl Staging {
    pub fn new(directory: &Path, kept: &[String]) -> Self {
        Self {
            directory: directory.to_owned(),
            kept: kept.to_vec(),
            refused: Vec::new(),
            files: Vec::new(),
        }
    }

    /// A new empty file that will be `name`, a path below the directory. Gives its temporary path too.
    pub fn create(&mut self, name: &str) -> Result<(File, PathBuf)> {
        if self.kept.iter().any(|kept| kept == name) {
            self.refused.push(name.to_owned());
        }
        self.stage(name, Some(self.directory.join(name)))
    }

    /// Refuses to replace files that are kept; all of them at once, before anything is written.
    pub fn check(&self) -> Result<()> {
        if self.refused.is_empty() {
            return Ok(());
        }
        let fact = "the export would replace the image itself or artifacts of a build";
        Err(Error::new(Kind::Export, fact)
            .at(self.directory.display())
            .lines(self.refused.iter())
            .cure("write to another folder with --output; --replace replaces artifacts, but never the image itself"))
    }

    /// A file for other programs to write, removed at the end.
    pub fn scratch(&mut self, name: &str) -> Result<PathBuf> {
        self.stage(name, None).map(|(_, path)| path)
    }

    /// Where the file that will be `name` is until then.
    pub fn temporary(&self, name: &str) -> PathBuf {
        self.directory
            .join(format!(".{}.part", name.replace('/', ".")))
    }

    fn stage(&mut self, name: &str, target: Option<PathBuf>) -> Result<(File, PathBuf)> {
        let temporary = self.temporary(name);
        let locked = lock(&temporary)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&temporary)
            .map_err(|e| Error::io("open", &temporary, e))?;
        self.files.push(Staged {
            temporary: temporary.clone(),
            target,
            locked,
        });
        file.set_len(0)
            .map_err(|e| Error::io("empty", &temporary, e))?;
        Ok((file, temporary))
    }

    /// Runs `work` while what the files have got is on its way to the disk: who syncs them then waits for little.
    pub fn write_behind<T>(&self, work: impl FnOnce() -> T) -> T {
        // Dropped when the work has ended, however it did.
        let (working, ended) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                while ended.recv_timeout(BEHIND) == Err(RecvTimeoutError::Timeout) {
                    for staged in self.files.iter().filter(|s| s.target.is_some()) {
                        // Who wrote it learns of an error when it is synced.
                        let _ = staged.locked.sync_data();
                    }
                }
            });
            let _working = working;
            work()
        })
    }

    /// Gives every file its name. Their content must have been synced.
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

/// Opens and locks the file at `path`; it may be one that a killed run left.
fn lock(path: &Path) -> Result<File> {
    loop {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|e| Error::io("create", path, e))?;
        // QEMU's programs open no file that anyone else has open for writing (block/file-win32.c, raw_open).
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
                        .cure("wait for it to end, or choose another output directory"),
                );
            }
            Err(TryLockError::Error(e)) => return Err(Error::io("lock", path, e)),
        }
        // The other may have renamed or removed it between our open and our lock.
        if file_lock::is_at(&file, path).map_err(|e| Error::io("look at", path, e))? {
            return Ok(file);
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        for staged in self.files.iter() {
            // Best effort: an error is already on its way to the user.
            let _ = fs::remove_file(&staged.temporary);
        }
    }
}
