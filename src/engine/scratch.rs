//! The working directories of a build: next to its output for large files, and a private directory
//! with a short name for sockets.
//!
//! Leftovers of earlier builds are removed first (`leftovers`).

use std::fs;
use std::path::{Path, PathBuf};

use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Sink};
use winimg_base::io::{self, FileLock, WorkFolder};
use winimg_machine::vm::Hypervisor;
use winimg_supply::store::Store;

use super::leftovers;

/// The directories of one build. Removed on drop, unless `keep` was called.
pub struct ScratchDirs {
    /// Large files (the VM's disk, the discs), on the output's file system.
    work: PathBuf,
    /// Sockets, firmware variables and QEMU's log. Mode 0700, and short: a socket path is limited
    /// to 107 bytes.
    run: PathBuf,
    keep: bool,
    /// Locks of the directories; declared after them, so that they are dropped later.
    locks: Vec<FileLock>,
    /// Lock of the output directory, released last.
    _output: FileLock,
}

impl ScratchDirs {
    /// Locks the output directory, removes leftovers of dead builds and creates the working
    /// directories.
    pub fn create(
        output: &Path,
        hypervisor: &dyn Hypervisor,
        store: &Store,
        sink: &dyn Sink,
        cancel: &Cancel,
    ) -> Result<Self> {
        const ANOTHER: &str = "give another folder with --output, one that you may write to";
        fs::create_dir_all(output)
            .map_err(|e| Error::io("create the output folder", output, e).cure(ANOTHER))?;
        let taken = FileLock::try_take(&output.join(".winimg-lock"));
        let Some(output_lock) = taken.map_err(|e| e.cure(ANOTHER))? else {
            return Err(
                Error::new(Kind::Host, "another build writes to this directory")
                    .at(output.display())
                    .cure("wait for it, or use a different --output"),
            );
        };
        leftovers::remove(output, hypervisor, store, sink, cancel)?;
        let (work, work_lock) = WorkFolder::Build.create(output)?;
        let (run, run_lock) = WorkFolder::Build.create(&io::runtime_folder()?)?;
        Ok(Self {
            work,
            run,
            keep: false,
            locks: vec![work_lock, run_lock],
            _output: output_lock,
        })
    }

    pub fn work_dir(&self) -> &Path {
        &self.work
    }

    pub fn run(&self) -> &Path {
        &self.run
    }

    /// Keeps the working directory for the user and returns its path.
    pub fn keep(&mut self) -> &Path {
        self.keep = true;
        &self.work
    }
}

impl Drop for ScratchDirs {
    fn drop(&mut self) {
        if cfg!(windows) {
            // Windows does not remove a directory that has an open file in it.
            self.locks.clear();
        }
        let _ = io::remove_work_folder(&self.run);
        if self.keep {
            let _ = fs::remove_file(io::lock_path(&self.work));
        } else {
            let _ = io::remove_work_folder(&self.work);
        }
    }
}
