//! Where a build works: beside its output for what is large, in a private short-named directory for sockets.
//!
//! Every working directory holds a lock that dies with its process, so the next build can tell a leftover from a
//! running one: leftovers are named and removed, nothing needs a hand.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result};
use crate::event::Sink;
use crate::io::{self, Lock};

const WORK: &str = ".winimg-work-";
const LOCK: &str = "lock";

/// The directories of one build. Dropped: removed, unless `keep` was called.
pub struct Scratch {
    /// Large files: the machine's disk, the discs. On the output's file system.
    work: PathBuf,
    /// Sockets, firmware variables, QEMU's own log. 0700, and short: a socket's path holds 107 bytes.
    run: PathBuf,
    keep: bool,
    /// Declared last: the directories go before their locks do.
    _locks: Vec<Lock>,
}

impl Scratch {
    /// Takes the output directory for this build and makes the working directories.
    pub fn create(output: &Path, sink: &dyn Sink) -> Result<Self> {
        fs::create_dir_all(output).map_err(|e| Error::io("create", output, e))?;
        let Some(output_lock) = Lock::try_take(&output.join(".winimg-lock"))? else {
            return Err(
                Error::new(Kind::Host, "another build writes to this directory")
                    .at(output.display())
                    .cure("wait for it, or give this one another --output"),
            );
        };
        let runtime = runtime_dir()?;
        sweep(output, sink)?;
        sweep(&runtime, sink)?;
        let (work, work_lock) = create_locked(output)?;
        let (run, run_lock) = create_locked(&runtime)?;
        Ok(Self {
            work,
            run,
            keep: false,
            _locks: vec![work_lock, run_lock, output_lock],
        })
    }

    pub fn work(&self) -> &Path {
        &self.work
    }

    pub fn run(&self) -> &Path {
        &self.run
    }

    /// Leaves the working directory for the user; its path.
    pub fn keep(&mut self) -> &Path {
        self.keep = true;
        &self.work
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.run);
        if self.keep {
            let _ = fs::remove_file(self.work.join(LOCK));
        } else {
            let _ = fs::remove_dir_all(&self.work);
        }
    }
}

/// `/tmp/winimg-<uid>`, 0700 and ours. Not `$TMPDIR`: its path may be too long for a socket.
fn runtime_dir() -> Result<PathBuf> {
    let uid = nix::unistd::getuid();
    let dir = PathBuf::from(format!("/tmp/winimg-{uid}"));
    make_private(&dir)?;
    let found = fs::symlink_metadata(&dir).map_err(|e| Error::io("read", &dir, e))?;
    if !found.is_dir() || found.uid() != uid.as_raw() || found.mode() & 0o077 != 0 {
        return Err(
            Error::new(Kind::Host, "the directory for sockets is not private")
                .at(dir.display())
                .expected(format!("a directory of user {uid}, mode 0700"))
                .cure("remove it"),
        );
    }
    Ok(dir)
}

/// The run directories of this user's builds, running or left over.
pub fn run_dirs() -> Result<Vec<PathBuf>> {
    let runtime = runtime_dir()?;
    let entries = fs::read_dir(&runtime).map_err(|e| Error::io("read", &runtime, e))?;
    let is_ours = |e: &fs::DirEntry| e.file_name().to_string_lossy().starts_with(WORK);
    let mut dirs: Vec<PathBuf> = entries
        .flatten()
        .filter(is_ours)
        .map(|e| e.path())
        .collect();
    dirs.sort();
    Ok(dirs)
}

fn make_private(dir: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(dir).map_err(|e| Error::io("create", dir, e))
}

fn create_locked(parent: &Path) -> Result<(PathBuf, Lock)> {
    // The lock is taken before the directory can be seen under its final name, so that a sweep of another build
    // never meets a fresh directory without its lock.
    let id = &uuid::Uuid::new_v4().simple().to_string()[..8];
    let hidden = parent.join(format!(".winimg-new-{id}"));
    let dir = parent.join(format!("{WORK}{id}"));
    make_private(&hidden)?;
    let lock = Lock::try_take(&hidden.join(LOCK))?.ok_or_else(|| {
        Error::new(Kind::Failed, "a fresh working directory is already locked").at(hidden.display())
    })?;
    fs::rename(&hidden, &dir).map_err(|e| Error::io("create", &dir, e))?;
    Ok((dir, lock))
}

/// Removes what killed builds left: working directories whose lock nobody holds.
fn sweep(parent: &Path, sink: &dyn Sink) -> Result<()> {
    let entries = fs::read_dir(parent).map_err(|e| Error::io("read", parent, e))?;
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if !name.to_string_lossy().starts_with(WORK) || !path.join(LOCK).exists() {
            continue;
        }
        io::remove_leftover(&path, LOCK, sink)?;
    }
    Ok(())
}
