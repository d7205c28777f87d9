//! What killed builds left, looked for when the next build begins: machines that go on without them, working folders, drafts of layers.
//!
//! QEMU dies with its build; of Hyper-V's machines the hypervisor knows which are nobody's. Which folders are left over is told by their locks
//! (`WorkFolder`). What killed processes left of files in the store is swept when it is opened.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use winimg_base::error::{Error, Result};
use winimg_base::event::{Cancel, Sink};
use winimg_base::io::{self, WorkFolder};
use winimg_machine::vm::Hypervisor;
use winimg_supply::store::Store;

pub struct Leftovers<'a> {
    pub hypervisor: &'a dyn Hypervisor,
    pub store: &'a Store,
    pub sink: &'a dyn Sink,
    pub cancel: &'a Cancel,
}

impl Leftovers<'_> {
    /// Removes what is nobody's any more, and says so. `output`: the new build's, which is locked already.
    pub fn remove(&self, output: &Path) -> Result<()> {
        let runtime = io::runtime_folder()?;
        let parents = [output, runtime.as_path()];
        for parent in parents {
            if !WorkFolder::Build.left(parent)?.is_empty() {
                self.end_machines();
                break;
            }
        }
        for parent in parents {
            WorkFolder::Build.remove_left(parent, self.sink)?;
        }
        self.store.sweep_drafts(self.sink)
    }

    /// Before the folders go: nobody could remove the disks that a machine has open.
    fn end_machines(&self) {
        let ended = self.hypervisor.remove_leftovers(self.sink, self.cancel);
        if let Err(error) = ended {
            let fact = error.fact();
            self.sink.warn(format!(
                "machines of interrupted builds could not be looked for: {fact}"
            ));
        }
    }
}

/// The run directories of this user's builds, running or left over.
pub fn run_dirs() -> Result<Vec<PathBuf>> {
    WorkFolder::Build.all(&io::runtime_folder()?)
}

/// Makes `logs`, and takes away what an earlier build said there: its steps may have had other numbers, and its failure
/// is not this one's. Artifacts and records stay until they are replaced.
pub fn clear_earlier(output: &Path) -> Result<()> {
    let logs = output.join("logs");
    fs::create_dir_all(&logs).map_err(|e| Error::io("create", &logs, e))?;
    let entries = fs::read_dir(&logs).map_err(|e| Error::io("read", &logs, e))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_some_and(|e| e == "log") {
            fs::remove_file(&path).map_err(|e| Error::io("remove", &path, e))?;
        }
    }
    let failure = output.join("failure");
    match fs::remove_dir_all(&failure) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::io("remove", &failure, e)),
        _ => Ok(()),
    }
}
