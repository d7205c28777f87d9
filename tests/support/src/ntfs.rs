//! An NTFS volume in a file, mounted by ntfs-3g while a test changes it. Needs root and /dev/fuse.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(20);
const DEADLINE: Duration = Duration::from_secs(30);

/// Mounts `volume` with these options of ntfs-3g, lets `act` at its root, and returns when all of it is in
/// the file.
pub fn mounted<T>(volume: &Path, options: &[&str], act: impl FnOnce(&Path) -> T) -> T {
    let root = volume.with_extension("mounted");
    fs::create_dir(&root).expect("a mount point");
    // In the foreground: the end of the process is the end of all writing, which umount's is not.
    let mut server = Command::new("ntfs-3g")
        .args(["-o", &[&["no_detach"], options].concat().join(",")])
        .args([volume, &root])
        .spawn()
        .expect("ntfs-3g (package ntfs-3g)");
    wait_for_the_mount(&mut server, &root);
    let attached = Attached(&root);
    let result = act(&root);
    drop(attached);
    wait_for_the_end(&mut server);
    fs::remove_dir(&root).expect("the mount point goes");
    result
}

/// Also when a test fails: what removes its folder must not remove what is in the volume.
struct Attached<'a>(&'a Path);

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        // Lazily: a process that another test is about to start holds this one's open files until its exec.
        let detached = Command::new("umount").arg("--lazy").arg(self.0).status();
        if !detached.is_ok_and(|status| status.success()) {
            eprintln!("{} stays mounted", self.0.display());
        }
    }
}

fn wait_for_the_mount(server: &mut Child, root: &Path) {
    let place = format!(" {} ", root.display());
    let deadline = Instant::now() + DEADLINE;
    while !fs::read_to_string("/proc/self/mounts")
        .expect("/proc/self/mounts")
        .contains(&place)
    {
        if let Some(status) = server.try_wait().expect("ntfs-3g") {
            panic!("ntfs-3g mounts nothing: {status}");
        }
        assert!(Instant::now() < deadline, "ntfs-3g mounts nothing");
        sleep(PAUSE);
    }
}

fn wait_for_the_end(server: &mut Child) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(status) = server.try_wait().expect("ntfs-3g") {
            assert!(status.success(), "ntfs-3g: {status}");
            return;
        }
        assert!(Instant::now() < deadline, "ntfs-3g does not end");
        sleep(PAUSE);
    }
}
