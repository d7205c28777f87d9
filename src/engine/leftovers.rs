//! Removes leftovers of killed builds when the next build starts: VMs that are still running,
//! working folders and draft layers.
//!
//! QEMU exits with its build; Hyper-V identifies VMs without a build. A folder whose lock is free
//! is a leftover (`WorkFolder`). Leftover files in the store are removed when it is opened.

use std::fs;
use std::path::{Path, PathBuf};

use super::evidence;
use crate::page::REPORT;
use winimg_base::error::{Error, Result};
use winimg_base::event::{Cancel, Sink};
use winimg_base::io::{self, WorkFolder};
use winimg_machine::vm::Hypervisor;
use winimg_supply::store::Store;

/// Removes leftovers of killed builds, and reports them. `output`: the new build's output folder,
/// already locked.
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
        is_left |= !WorkFolder::Build.list_leftovers(parent)?.is_empty();
    }
    // Before the folders: disks that a VM has open cannot be removed.
    if is_left && let Err(error) = hypervisor.remove_leftovers(sink, cancel) {
        let fact = error.fact();
        sink.warn(format!(
            "could not look for VMs of interrupted builds: {fact}"
        ));
    }
    for parent in [output, &runtime] {
        WorkFolder::Build.remove_leftovers(parent, sink)?;
    }
    store.remove_leftover_drafts(sink)
}

/// Returns the run directories of this user's builds, running or left over.
pub fn run_dirs() -> Result<Vec<PathBuf>> {
    WorkFolder::Build.list_all(&io::runtime_folder()?)
}

/// Creates `logs`, and removes the results of an earlier failed build: its logs, whose steps may
/// have had other numbers, its diagnostics, screenshots and report.
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
        io::remove_folder_if_exists(&output.join(folder))?;
    }
    io::remove_if_exists(&output.join(REPORT))
}
