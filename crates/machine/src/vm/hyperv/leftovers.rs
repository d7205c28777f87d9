//! What killed builds left of machines: those that nobody needs any more.
//!
//! Ours is a machine whose name and notes say so, and dead is its build when nobody holds the lock in the run directory that the notes name.
//! Touches no other machine.

use std::path::PathBuf;

use serde_json::Value;

use super::call::Call;
use super::host::Host;
use super::making::{NAME, NOTES};
use super::running;
use winimg_base::error::Result;
use winimg_base::event::{Cancel, Sink};
use winimg_base::io;

/// Removes the machines of dead builds, and says so.
pub fn remove(host: &Host, sink: &dyn Sink, cancel: &Cancel) -> Result<()> {
    let list = Call::new(r"Hyper-V\Get-VM").select(&["Id", "Name", "Notes", "State"]);
    for vm in &host.order("list its machines", &list, cancel)? {
        let Some(left) = Left::of(vm) else {
            continue;
        };
        if left.is_needed() {
            continue;
        }
        sink.note(format!(
            "removing what an interrupted build left: the virtual machine {}",
            left.name
        ));
        if !running::remove(host, &left.id) {
            sink.warn(format!(
                "the virtual machine {} of an interrupted build could not be removed",
                left.name
            ));
        }
    }
    Ok(())
}

struct Left {
    id: String,
    name: String,
    run_dir: PathBuf,
}

impl Left {
    fn of(vm: &Value) -> Option<Self> {
        let text = |name: &str| vm[name].as_str().map(str::trim);
        let name = text("Name")?.to_string();
        let run_dir = text("Notes")?.strip_prefix(NOTES)?;
        Some(Self {
            id: text("Id")?.to_string(),
            run_dir: PathBuf::from(run_dir),
            name: Some(name).filter(|name| name.starts_with(NAME))?,
        })
    }

    fn is_needed(&self) -> bool {
        io::is_used(&self.run_dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::path::Path;
    use std::time::{Duration, Instant};
    use winimg_base::io::Lock;

    #[test]
    fn only_machines_of_dead_builds_are_left_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let vm = |name: &str, notes: String| json!({"Id": "1", "Name": name, "Notes": notes, "State": "Running"});
        let notes = |dir: &Path| format!("{NOTES}{}\r\n", dir.display());
        assert!(Left::of(&vm("sql-server", notes(folder.path()))).is_none());
        assert!(Left::of(&vm("winimg-1", "mine".into())).is_none());
        let gone = Left::of(&vm("winimg-1", notes(&folder.path().join("gone")))).expect("ours");
        assert!(!gone.is_needed());
        let held = Lock::try_take(&io::lock_of(folder.path()));
        let held = held.expect("a lock").expect("nobody holds it");
        let ours = Left::of(&vm("winimg-2", notes(folder.path()))).expect("ours");
        assert!(ours.is_needed());
        drop(held);
        // What another test starts just now holds this one's open files until its exec.
        let deadline = Instant::now() + Duration::from_secs(10);
        while ours.is_needed() {
            assert!(Instant::now() < deadline, "its lock is never free");
        }
    }
}
