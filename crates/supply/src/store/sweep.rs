//! What killed processes left in the store, removed when it is opened.
//!
//! No clock decides: a file in the making belongs to a process with a lease, so that without any other lease it belongs
//! to nobody. Transfers that may be resumed stay, and so do the drafts of layers, which have locks of their own
//! ([`Store::sweep_drafts`]).

use std::path::{Path, PathBuf};

use winimg_base::digest::Digest;
use winimg_base::event::Sink;
use winimg_base::io;

use super::lease::{Gate, Lease, leased};
use super::{FOLDERS, Store, entries, name_of};

/// Where names go before their bytes do; nothing is ever taken from there.
pub(super) const TRASH: &str = "trash";

impl Store {
    /// Says what opening the store took away.
    pub fn report_swept(&self, sink: &dyn Sink) {
        for path in self.swept.iter() {
            let path = path.display();
            sink.note(format!("removed what an interrupted run left: {path}"));
        }
    }

    /// Removes what killed processes left of a file beside which they wrote, as far as nobody else is there.
    pub fn sweep_beside(&self, path: &Path) -> Vec<PathBuf> {
        let Some(_alone) = alone(&self.folder, &self.lease) else {
            return Vec::new();
        };
        let prefix = format!(".{}.", name_of(path));
        let mut found = entries(io::folder_of(path));
        found.retain(|path| {
            let file = name_of(path);
            file.starts_with(&prefix) && file.ends_with(".part")
        });
        remove(found)
    }
}

/// Nobody else has a lease, nor begins one as long as this is held.
fn alone(store: &Path, own: &Lease) -> Option<Gate> {
    let gate = Gate::at_once(store)?;
    let leased = leased(store, &gate, own.path()).ok()?;
    (leased.living == 0).then_some(gate)
}

/// Removes what nobody works on, as far as that is known without waiting; failing is no reason to stop.
pub(super) fn sweep(store: &Path, own: &Lease) -> Vec<PathBuf> {
    let Some(_alone) = alone(store, own) else {
        return Vec::new();
    };
    let left = FOLDERS.iter().map(|name| in_the_making(store, name));
    left.flat_map(remove).collect()
}

fn in_the_making(store: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = entries(&store.join(name));
    // A layer's lock goes last when it is sealed.
    let locks = found.iter().map(|path| io::lock_of(path));
    let locks: Vec<PathBuf> = locks.filter(|path| is_sealed(path)).collect();
    found.retain(|path| {
        let file = name_of(path);
        match name {
            TRASH => true,
            // A draft that has its name has its lock.
            "layers" => file.starts_with(".tmp-"),
            // Bytes without a record cannot be resumed; a record without bytes is of a transfer that became a blob.
            "partial" => {
                let lacks = |other: &str| !path.with_extension(other).exists();
                file.starts_with('.')
                    || file.starts_with("copy-")
                    || (file.ends_with(".data") && lacks("json"))
                    || (file.ends_with(".json") && lacks("data"))
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
    paths.retain(|path| io::remove_whole(path).is_ok());
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
            let living = Store::open(folder.path()).unwrap();
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
            drop((living, second));
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
