//! What killed builds left, looked for when the next build begins: machines that go on without them, working folders, drafts
//! of layers.
//!
//! QEMU dies with its build; of Hyper-V's machines the hypervisor knows which belong to no build. A folder whose lock nobody holds is
//! left over (`WorkFolder`). What killed processes left of files in the store is swept when it is opened.

use std::fs;
use std::path::{Path, PathBuf};

use super::evidence;
use crate::page::REPORT;
use winimg_base::error::{Error, Result};
use winimg_base::event::{Cancel, Sink};
use winimg_base::io::{self, WorkFolder};
use winimg_machine::vm::Hypervisor;
use winimg_supply::store::Store;

/// Removes what dead builds left, and says so. `output`: the new build's, which is locked already.
pub fn remove(
    output: &Path,
    hypervisor: &dyn Hypervisor,
    store: &Store,
    sink: &dyn Sink,
    cancel: &Cancel,
) -> Result<()> {
    let runtime = io::runtime_folder()?;
    let mut is_left = false;
    for parent in [output, &runtime] {
        is_left |= !WorkFolder::Build.left(parent)?.is_empty();
    }
    // Before the folders go: nobody could remove the disks that a machine has open.
    if is_left && let Err(error) = hypervisor.remove_leftovers(sink, cancel) {
        let fact = error.fact();
        sink.warn(format!(
            "machines of interrupted builds could not be looked for: {fact}"
        ));
    }
    for parent in [output, &runtime] {
        WorkFolder::Build.remove_left(parent, sink)?;
    }
    store.sweep_drafts(sink)
}

/// The run directories of this user's builds, running or left over.
pub fn run_dirs() -> Result<Vec<PathBuf>> {
    WorkFolder::Build.all(&io::runtime_folder()?)
}

/// Makes `logs`, and removes what a failed build left there: its steps may have had other numbers,
/// and its failure, its screens and its page are not this one's.
pub fn clear_earlier(output: &Path) -> Result<()> {
    let logs = output.join("logs");
    fs::create_dir_all(&logs).map_err(|e| Error::io("create", &logs, e))?;
    let entries = fs::read_dir(&logs).map_err(|e| Error::io("read", &logs, e))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_some_and(|e| e == "log") {
            fs::remove_file(&path).map_err(|e| Error::io("remove", &path, e))?;
        }
    }
    for folder in [evidence::FOLDER, evidence::SCREENS] {
        io::remove_folder_if_there(&output.join(folder))?;
    }
    io::remove_if_there(&output.join(REPORT))
}
