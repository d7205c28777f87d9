//! Where a build works: beside its output for what is large, in a private short-named directory for sockets.
//!
//! What earlier builds left goes first (`leftovers`).

use std::fs;
use std::path::{Path, PathBuf};

use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Sink};
use winimg_base::io::{self, Lock, WorkFolder};
use winimg_machine::vm::Hypervisor;
use winimg_supply::store::Store;

use super::leftovers;

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
    /// Takes the output directory for this build, removes what dead builds left and makes the working directories.
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
        let taken = Lock::try_take(&output.join(".winimg-lock"));
        let Some(output_lock) = taken.map_err(|e| e.cure(ANOTHER))? else {
            return Err(
                Error::new(Kind::Host, "another build writes to this directory")
                    .at(output.display())
                    .cure("wait for it, or give this one another --output"),
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
        let _ = io::remove_work_folder(&self.run);
        if self.keep {
            let _ = fs::remove_file(io::lock_of(&self.work));
        } else {
            let _ = io::remove_work_folder(&self.work);
        }
    }
}
