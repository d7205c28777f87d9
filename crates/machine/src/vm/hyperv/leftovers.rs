//! Removes the machines of killed builds.
//!
//! Our machines are recognized by their names and notes; a build is dead if the lock in the run
//! directory from the notes is free. Other machines are never touched.

use std::path::PathBuf;

use serde_json::Value;

use super::call::CmdletCall;
use super::host::PowerShellHost;
use super::running;
use super::setup_calls::{NAME, NOTES};
use winimg_base::error::Result;
use winimg_base::event::{Cancel, Sink};
use winimg_base::io;

/// Removes and reports the machines of dead builds.
pub fn remove(host: &PowerShellHost, sink: &dyn Sink, cancel: &Cancel) -> Result<()> {
    let list = CmdletCall::new(r"Hyper-V\Get-VM").select(&["Id", "Name", "Notes", "State"]);
    for vm in &host.order("list its machines", &list, cancel)? {
        let Some(left) = LeftoverMachine::from_vm(vm) else {
            continue;
        };
        if left.is_needed() {
            continue;
        }
        sink.note(format!(
            "removing the virtual machine {} of an interrupted build",
            left.name
        ));
        if !running::remove(host, &left.id) {
            sink.warn(format!(
                "could not remove the virtual machine {} of an interrupted build",
                left.name
            ));
        }
    }
    Ok(())
}

struct LeftoverMachine {
    id: String,
    name: String,
    run_dir: PathBuf,
}

impl LeftoverMachine {
    fn from_vm(vm: &Value) -> Option<Self> {
        let [id, name, notes] = ["Id", "Name", "Notes"].map(|key| vm[key].as_str().map(str::trim));
        let name = name.filter(|name| name.starts_with(NAME))?;
        let run_dir = notes?.strip_prefix(NOTES)?;
        Some(Self {
            id: id?.to_string(),
            name: name.to_string(),
            run_dir: PathBuf::from(run_dir),
        })
    }

    fn is_needed(&self) -> bool {
        io::is_in_use(&self.run_dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::path::Path;
    use std::time::{Duration, Instant};
    use winimg_base::io::FileLock;

    #[test]
    fn only_machines_of_dead_builds_are_left_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let vm = |name: &str, notes: String| json!({"Id": "1", "Name": name, "Notes": notes, "State": "Running"});
        let notes = |dir: &Path| format!("{NOTES}{}\r\n", dir.display());
        assert!(LeftoverMachine::from_vm(&vm("sql-server", notes(folder.path()))).is_none());
        assert!(LeftoverMachine::from_vm(&vm("winimg-1", "mine".into())).is_none());
        let gone = LeftoverMachine::from_vm(&vm("winimg-1", notes(&folder.path().join("gone"))))
            .expect("ours");
        assert!(!gone.is_needed());
        let held = FileLock::try_take(&io::lock_path(folder.path()));
        let held = held.expect("a lock").expect("nobody holds it");
        let ours = LeftoverMachine::from_vm(&vm("winimg-2", notes(folder.path()))).expect("ours");
        assert!(ours.is_needed());
        drop(held);
        // What another test starts just now holds this one's open files until its exec.
        let deadline = Instant::now() + Duration::from_secs(10);
        while ours.is_needed() {
            assert!(Instant::now() < deadline, "its lock is never free");
        }
    }
}
