//! Removes leftovers of killed processes when the store is opened.
//!
//! Independent of clocks: an unfinished file belongs to a process with a lease, so without other
//! leases it is unused. Transfers that may be resumed are kept, and so are drafts of layers, which
//! have their own locks ([`Store::remove_leftover_drafts`]).

use std::path::{Path, PathBuf};

use winimg_base::digest::Digest;
use winimg_base::event::Sink;
use winimg_base::io;

use super::lease::{Lease, LeaseGate, read_leases};
use super::{FOLDERS, Store, list_entries, name_of};

/// Folder for files that are being removed; nothing is ever restored from it.
pub(super) const TRASH: &str = "trash";

impl Store {
    /// Reports the leftovers that were removed when the store was opened.
    pub fn report_swept(&self, sink: &dyn Sink) {
        for path in self.swept.iter() {
            let path = path.display();
            sink.note(format!("removed leftovers of an interrupted run: {path}"));
        }
    }

    /// Removes temporary files of killed processes beside `path`, unless another process is
    /// running.
    pub fn sweep_beside(&self, path: &Path) -> Vec<PathBuf> {
        let Some(_alone) = lock_if_alone(&self.folder, &self.lease) else {
            return Vec::new();
        };
        let prefix = format!(".{}.", name_of(path));
        let mut found = list_entries(io::folder_of(path));
        found.retain(|path| {
            let file = name_of(path);
            file.starts_with(&prefix) && file.ends_with(".part")
        });
        remove(found)
    }
}

/// Returns the gate if no other process has a lease; none can start one while the gate is locked.
fn lock_if_alone(store: &Path, own: &Lease) -> Option<LeaseGate> {
    let gate = LeaseGate::try_lock_exclusive(store)?;
    let leased = read_leases(store, &gate, own.path()).ok()?;
    (leased.running == 0).then_some(gate)
}

/// Removes unfinished files, unless another process is running. Errors are ignored.
pub(super) fn remove_unfinished(store: &Path, own: &Lease) -> Vec<PathBuf> {
    let Some(_alone) = lock_if_alone(store, own) else {
        return Vec::new();
    };
    let left = FOLDERS.iter().map(|name| in_the_making(store, name));
    left.flat_map(remove).collect()
}

fn in_the_making(store: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = list_entries(&store.join(name));
    // The lock of a layer is the last file to be removed when it is sealed.
    let locks = found.iter().map(|path| io::lock_path(path));
    let locks: Vec<PathBuf> = locks.filter(|path| is_sealed(path)).collect();
    found.retain(|path| {
        let file = name_of(path);
        match name {
            TRASH => true,
            // A draft with its final name has a lock.
            "layers" => file.starts_with(".tmp-"),
            // Data without a record cannot be resumed; a record without data is from a transfer
            // that became a blob.
            "partial" => {
                file.starts_with('.')
                    || file.starts_with("copy-")
                    || (file.ends_with(".data") && !path.with_extension("json").exists())
                    || (file.ends_with(".json") && !path.with_extension("data").exists())
            }
            _ => file.starts_with('.'),
        }
    });
    if name == "layers" {
        found.extend(locks);
    }
    found
}

fn is_sealed(lock: &Path) -> bool {
    Digest::from_hex(&name_of(io::folder_of(lock))).is_ok() && lock.exists()
}

fn remove(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.retain(|path| io::remove_recursively(path).is_ok());
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::{Duration, Instant, SystemTime};

    #[test]
    fn leftovers_go_when_nobody_else_is_there_whatever_the_clock_says() {
        let folder = tempfile::tempdir().unwrap();
        let year = Duration::from_secs(365 * 24 * 60 * 60);
        let now = SystemTime::now();
        for time in [now, now - year, now + year] {
            let running = Store::open(folder.path()).unwrap();
            let left = [
                "partial/copy-a",
                "partial/a.data",
                "partial/c.json",
                "stamps/.a.json.x.part",
                "trash/a",
            ];
            let kept = ["partial/b.data", "partial/b.json", "stamps/a.json"];
            for name in left.iter().chain(&kept) {
                let file = fs::File::create(folder.path().join(name)).unwrap();
                file.set_modified(time).unwrap();
            }
            let there = |names: &[&str]| -> Vec<bool> {
                let names = names.iter();
                names.map(|n| folder.path().join(n).exists()).collect()
            };
            let second = Store::open(folder.path()).unwrap();
            assert_eq!(there(&left), [true; 5], "somebody lives: {time:?}");
            drop((running, second));
            // What another test starts just now holds their leases until its exec.
            let deadline = Instant::now() + Duration::from_secs(10);
            let third = loop {
                let store = Store::open(folder.path()).unwrap();
                if !store.swept.is_empty() || Instant::now() >= deadline {
                    break store;
                }
            };
            assert_eq!(there(&left), [false; 5], "{time:?}");
            assert_eq!(there(&kept), [true; 3], "{time:?}");
            let swept: Vec<_> = third.swept.iter().filter_map(|p| p.file_name()).collect();
            assert_eq!(swept, [".a.json.x.part", "a.data", "c.json", "copy-a", "a"]);
        }
    }
}
