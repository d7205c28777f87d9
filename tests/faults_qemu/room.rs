//! The host's disk is full while the guest writes: a small tmpfs holds cache and output.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::statvfs::statvfs;

use crate::end_to_end::program::{Build, is};
use crate::faults_qemu::cases::{Case, EVERYTHING, INSTALLATION};
use crate::faults_qemu::scene::{LIMIT, Scene};

/// A pause in which the disk is filled, then more bytes than it has.
const STEPS: &str = "[[steps]]\nname = \"waits\"\ncmd = \"ping -n 4 127.0.0.1\"\n\n\
    [[steps]]\nname = \"much\"\ncopy = { path = \"much.bin\", to = 'C:\\k\\much.bin' }\n";
const MUCH: usize = 96 << 20;
/// Of the tmpfs.
const SIZE: &str = "2500M";
/// What the guest still finds.
const REST: u64 = 8 << 20;

pub const CASES: &[Case] = &[
    Case {
        name: "disk full while the guest writes; room is made",
        slug: "full-mended",
        steps: STEPS,
        small: true,
        play: |scene| {
            let (mut build, filler) = filled(scene, &[]);
            let mut said = String::new();
            build.wait_for("the warning", LIMIT, |event| {
                let text = event["text"].as_str().unwrap_or_default();
                event["event"] == "warning" && text.contains("until space is free")
            });
            if let Some(line) = build.said.last() {
                let event: serde_json::Value = serde_json::from_str(line).expect("an event");
                said = event["text"].as_str().unwrap_or_default().to_string();
            }
            fs::remove_file(filler).expect("the filler is removed");
            let status = scene.end(&mut build);
            assert!(status.success(), "{}", build.error());
            said
        },
        reuses: EVERYTHING,
    },
    Case {
        name: "disk full while the guest writes; no room",
        slug: "full",
        steps: STEPS,
        small: true,
        play: |scene| {
            let (build, filler) = filled(scene, &[("WINIMG_ROOM_WAIT", OsStr::new("20s"))]);
            let full = "the host's disk is full: the guest waited 20 s for free space";
            let said = scene.fails(build, &[full]);
            scene.nothing_is_lost_or_running();
            fs::remove_file(filler).expect("the filler is removed");
            said
        },
        reuses: INSTALLATION,
    },
];

/// A build on a small file system that is full when the guest begins to write, and what fills it.
fn filled(scene: &Scene, environment: &[(&str, &OsStr)]) -> (Build, PathBuf) {
    write_much(&scene.folder);
    let mut build = scene.start_with(&[], environment);
    build.wait_for("the step", LIMIT, |e| {
        is(e, "step_started", "name", "waits")
    });
    build.wait_for("its command", LIMIT, |e| {
        is(e, "command", "event", "command")
    });
    let filler = scene.folder.join("filler");
    fill(&filler, &scene.folder);
    (build, filler)
}

/// Leaves `REST` bytes.
fn fill(path: &Path, file_system: &Path) {
    let mut file = File::create(path).expect("the filler");
    let piece = vec![1; 1 << 20];
    let free = || {
        let rendered = statvfs(file_system).expect("the file system tells");
        rendered.blocks_available() * rendered.fragment_size()
    };
    while free() > REST {
        file.write_all(&piece).expect("the filler grows");
    }
}

/// Bytes that do not compress, the same each time.
fn write_much(folder: &Path) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(MUCH);
    while bytes.len() < MUCH {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    fs::write(folder.join("much.bin"), bytes).expect("the large file");
}

/// A mounted tmpfs; unmounted when dropped.
pub struct Small(pub PathBuf);

impl Small {
    pub fn mount(at: &Path) -> Self {
        fs::create_dir_all(at).expect("a folder");
        let size = format!("size={SIZE}");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(at)
            .status();
        assert!(
            status.is_ok_and(|s| s.success()),
            "a tmpfs can be mounted at {} (by root)",
            at.display()
        );
        Self(at.to_path_buf())
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
