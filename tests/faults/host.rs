//! The host: signals at every phase, a full disk, locks, clocks.

use std::fs::{File, FileTimes};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::Signal::{self, SIGHUP, SIGINT, SIGKILL, SIGTERM};

use crate::faults::case::Case;
use crate::faults::site::Site;
use support::media;

fn case(name: &'static str) -> Case {
    Case::new("host", name)
}

pub fn cases() -> Vec<Case> {
    let mut all = signals();
    all.extend(files());
    all
}

/// The machine dawdles where the signal is to come: where, and what makes it.
const SETUP: &str = "[install]\nstretch_ms = 4000\n";
const STEP: &str = "command = '*\\steps\\001.cmd'\ndelay_ms = 2500";

fn signals() -> Vec<Case> {
    let interrupted = "interrupted";
    let in_setup = |name| case(name).script("[files]", &format!("{SETUP}\n[files]"));
    let in_step = |name| case(name).answer(STEP);
    let at_off = |name| case(name).script("disk = ", "off_ms = 3000\ndisk = ");
    let strike =
        |case: Case, when: &'static str, signal: Signal| case.strike(when, &[(50, signal)]);
    let install = "\"phase\":\"install\"";
    let step = "steps\\\\001.cmd";
    let seal = "\"phase\":\"seal\"";
    let export = "\"phase\":\"export\"";
    vec![
        strike(in_setup("Ctrl-C as Setup starts"), install, SIGINT).refuses(130, interrupted),
        strike(in_setup("SIGTERM as Setup starts"), install, SIGTERM).refuses(130, interrupted),
        strike(in_setup("kill -9 as Setup starts"), install, SIGKILL).drops(-9),
        strike(
            in_setup("kill -9 between Setup's restarts"),
            "\"restarted\"",
            SIGKILL,
        )
        .drops(-9),
        strike(in_step("Ctrl-C in a step"), step, SIGINT).refuses(130, interrupted),
        strike(in_step("SIGHUP in a step"), step, SIGHUP).refuses(130, interrupted),
        strike(in_step("kill -9 in a step"), step, SIGKILL).drops(-9),
        in_step("Ctrl-C twice in a step")
            .strike(step, &[(50, SIGINT), (10, SIGINT)])
            .drops(130),
        strike(at_off("Ctrl-C as Windows powers off"), seal, SIGINT).refuses(130, interrupted),
        strike(at_off("kill -9 as Windows powers off"), seal, SIGKILL).drops(-9),
        strike(case("kill -9 while artifacts are written"), export, SIGKILL).drops(-9),
        case("kill -9 while inputs are proved")
            .strike("\"phase\":\"fetch\"", &[(0, SIGKILL)])
            .drops(-9),
    ]
}

fn files() -> Vec<Case> {
    vec![
        case("another build holds the output directory")
            .before(|site| {
                let file = File::options()
                    .create(true)
                    .append(true)
                    .open(site.path("out/.winimg-lock"))
                    .expect("a lock");
                file.lock().expect("the lock");
                Box::new(file)
            })
            .refuses(3, "another build writes to this directory"),
        case("lock files of processes that died").before(|site| {
            for name in ["out/.winimg-lock", "cache/locks/dead.lock"] {
                site.write(name, "4194304\n");
            }
            Box::new(())
        }),
        case("working folders of a build that died").before(|site| {
            for name in [
                "out/.winimg-work-0badcafe/lock",
                "out/.winimg-work-0badcafe/disk.qcow2",
            ] {
                site.write(name, "left");
            }
            Box::new(())
        }),
        case("the clock went back ten years").before(|site| {
            touch(
                &site.path("cache"),
                SystemTime::now() + Duration::from_secs(10 * 365 * 86400),
            );
            touch(
                &site.path("out"),
                SystemTime::now() + Duration::from_secs(10 * 365 * 86400),
            );
            Box::new(())
        }),
        case("the clock stands at 1970").before(|site| {
            touch(&site.path("cache"), SystemTime::UNIX_EPOCH);
            Box::new(())
        }),
        for_a_while(),
        full("no room for the machine's disk", 64 << 20, "cache")
            .refuses(3, "not enough free space for the machine's disk"),
        full("no room in the output directory", 256 << 10, "out").refuses(3, ""),
    ]
}

/// Sets the times of every file below.
fn touch(folder: &Path, time: SystemTime) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            touch(&path, time);
        } else if let Ok(file) = File::options().write(true).open(&path) {
            let _ = file.set_times(FileTimes::new().set_modified(time).set_accessed(time));
        }
    }
}

/// A small file system under the output or the cache, with what was there; needs root.
fn full(name: &'static str, bytes: u64, what: &'static str) -> Case {
    let folder = if what == "cache" { "cache" } else { "out" };
    case(name).before(move |site| Box::new(Mount::new(site, folder, bytes)))
}

/// The host is full while Setup writes, and has room again once winimg has said so.
fn for_a_while() -> Case {
    case("no room while Setup writes, then there is some")
        .script("[files]", "[install]\nstretch_ms = 2500\n\n[files]")
        .before(|site| {
            let mount = Mount::new(site, "cache", 1300 << 20);
            let site = site.clone();
            std::thread::spawn(move || {
                let ballast = site.path("cache/ballast");
                wait_for(&site, "asked.txt", "setup");
                media::run("fallocate", &["-l", "1150M", media::text(&ballast)]);
                wait_for(&site, "said.txt", "until space is free");
                std::fs::remove_file(&ballast).expect("the ballast goes");
            });
            Box::new(mount)
        })
        .says("the guest is paused until space is free")
}

fn wait_for(site: &Site, file: &str, text: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !site.read(file).contains(text) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
}

struct Mount {
    at: PathBuf,
    kept: PathBuf,
}

impl Mount {
    fn new(site: &Site, folder: &str, bytes: u64) -> Self {
        let (at, kept) = (site.path(folder), site.path(&format!("{folder}.kept")));
        std::fs::rename(&at, &kept).expect("a rename");
        std::fs::create_dir(&at).expect("a folder");
        media::run(
            "mount",
            &[
                "-t",
                "tmpfs",
                "-o",
                &format!("size={bytes}"),
                "tmpfs",
                media::text(&at),
            ],
        );
        let status = Command::new("cp")
            .arg("-a")
            .arg(kept.join("."))
            .arg(&at)
            .status();
        // What no longer fits is part of the case.
        let _ = status;
        Self { at, kept }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: what another case is about to start holds open files of this one until its exec.
        media::run("umount", &["--lazy", media::text(&self.at)]);
        let _ = std::fs::remove_dir_all(&self.at);
        let _ = std::fs::rename(&self.kept, &self.at);
    }
}
