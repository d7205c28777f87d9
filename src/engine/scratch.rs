//! Where a build works: beside its output for what is large, in a private short-named directory for sockets.
//!
//! Every working directory holds a lock that dies with its process, so the next build can tell a leftover from a
//! running one: leftovers are named and removed, nothing needs a hand.

use std::fs;
use std::path::{Path, PathBuf};

use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Sink;
use winimg_base::io::{self, Lock};

const WORK: &str = ".winimg-work-";
const LOCK: &str = "lock";

/// The directories of one build. Dropped: removed, unless `keep` was called.
pub struct Scratch {
    /// Large files: the machine's disk, the discs. On the output's file system.
    work: PathBuf,
    /// Sockets, firmware variables, QEMU's own log. 0700, and short: a socket's path holds 107 bytes.
    run: PathBuf,
    keep: bool,
    /// Of the directories; declared late, because those go before their locks do.
    locks: Vec<Lock>,
    /// The output's. The last one to go.
    _output: Lock,
}

impl Scratch {
    /// Takes the output directory for this build and makes the working directories. What dead builds left goes; before that
    /// `end_machines` ends those of their machines that go on, whose disks nobody could remove.
    pub fn create(output: &Path, sink: &dyn Sink, end_machines: &dyn Fn()) -> Result<Self> {
        const ANOTHER: &str = "give another folder with --output, one that you may write to";
        fs::create_dir_all(output)
            .map_err(|e| Error::io("create the output folder", output, e).cure(ANOTHER))?;
        let taken = Lock::try_take(&output.join(".winimg-lock"));
        let Some(output_lock) = taken.map_err(|e| e.cure(ANOTHER))? else {
            return Err(
                Error::new(Kind::Host, "another build writes to this directory")
                    .at(output.display())
                    .cure("wait for it, or give this one another --output"),
            );
        };
        let runtime = io::runtime_folder()?;
        let left = [leftovers(output)?, leftovers(&runtime)?].concat();
        if !left.is_empty() {
            end_machines();
        }
        for path in left {
            io::remove_leftover(&path, LOCK, sink)?;
        }
        let (work, work_lock) = create_locked(output)?;
        let (run, run_lock) = create_locked(&runtime)?;
        Ok(Self {
            work,
            run,
            keep: false,
            locks: vec![work_lock, run_lock],
            _output: output_lock,
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
        if cfg!(windows) {
            // There a directory with an open file in it is not removed.
            self.locks.clear();
        }
        let _ = fs::remove_dir_all(&self.run);
        if self.keep {
            let _ = fs::remove_file(self.work.join(LOCK));
        } else {
            let _ = fs::remove_dir_all(&self.work);
        }
    }
}

/// The run directories of this user's builds, running or left over.
pub fn run_dirs() -> Result<Vec<PathBuf>> {
    let runtime = io::runtime_folder()?;
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

fn create_locked(parent: &Path) -> Result<(PathBuf, Lock)> {
    let id = &uuid::Uuid::new_v4().simple().to_string()[..8];
    let hidden = parent.join(format!(".winimg-new-{id}"));
    let dir = parent.join(format!("{WORK}{id}"));
    io::create_private_folders(&hidden)?;
    let lock = io::reveal_locked(&hidden, &dir, LOCK)?;
    Ok((dir, lock))
}

/// What killed builds left: working directories whose lock nobody holds.
fn leftovers(parent: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(parent).map_err(|e| Error::io("read", parent, e))?;
    let is_left = |entry: &fs::DirEntry| {
        let lock = entry.path().join(LOCK);
        entry.file_name().to_string_lossy().starts_with(WORK)
            && lock.exists()
            && !Lock::is_held(&lock)
    };
    let left = entries.flatten().filter(is_left).map(|e| e.path());
    Ok(left.collect())
}
