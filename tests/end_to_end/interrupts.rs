//! Ctrl-C, SIGTERM and kill -9 at five moments, most of them nightly: no QEMU, no swtpm, no lock that needs a hand.

use std::path::Path;
use std::time::{Duration, Instant};
use support::tree;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::end_to_end::SMALL;
use crate::end_to_end::program::{Build, is, processes_with};

const MINUTES: Duration = Duration::from_secs(60);

/// When a build is interrupted, and with which phase the next one goes on: what was sealed is not done again.
struct Moment {
    name: &'static str,
    /// An event that has `field` with this value.
    event: &'static str,
    field: &'static str,
    value: &'static str,
    goes_on: &'static str,
}

const FETCH: Moment = phase("while inputs are proved", "fetch", "install");
const INSTALL: Moment = phase("as the machine starts", "install", "install");
const SETUP: Moment = kind("while Setup copies", "restarted", "install");
const STEPS: Moment = kind("while steps run", "command", "boot");
const EXPORT: Moment = phase("while artifacts are written", "export", "export");

const fn phase(name: &'static str, value: &'static str, goes_on: &'static str) -> Moment {
    Moment {
        name,
        event: "phase_started",
        field: "phase",
        value,
        goes_on,
    }
}

const fn kind(name: &'static str, event: &'static str, goes_on: &'static str) -> Moment {
    Moment {
        name,
        event,
        field: "event",
        value: event,
        goes_on,
    }
}

fn interrupt(signal: Signal, moment: &Moment, dir: &Path) {
    let name = moment.name;
    let output = dir.join("out");
    let mut build = Build::start(SMALL, &output, &dir.join("cache"), &[]);
    build.wait_for(name, 10 * MINUTES, |event| {
        is(event, moment.event, moment.field, moment.value)
    });
    let pid = Pid::from_raw(i32::try_from(build.child.0.id()).expect("a pid"));
    kill(pid, signal).expect("the signal is sent");
    let status = build.end(5 * MINUTES);
    let what = format!("{signal} {name}");
    let left = || processes_with(&output.display().to_string());
    if signal == Signal::SIGKILL {
        assert!(!status.success(), "{what}: {status}");
        // The kernel's signal to its children needs a moment.
        let deadline = Instant::now() + Duration::from_secs(30);
        while !left().is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(100));
        }
    } else {
        assert_eq!(status.code(), Some(130), "{what}: {}", build.error());
        assert_eq!(build.failed()["message"], "interrupted", "{what}");
    }
    let left = left();
    assert!(left.is_empty(), "{what} left {left:#?}");
    // The next build takes the same directory without a hand, and what it finds it removes.
    let mut next = Build::start(SMALL, &output, &dir.join("cache"), &[]);
    next.wait_for("the next build", 10 * MINUTES, |event| {
        is(event, "phase_started", "phase", moment.goes_on)
    });
    let pid = Pid::from_raw(i32::try_from(next.child.0.id()).expect("a pid"));
    kill(pid, Signal::SIGTERM).expect("the signal is sent");
    assert_eq!(
        next.end(5 * MINUTES).code(),
        Some(130),
        "{what}: {}",
        next.error()
    );
    let rest: Vec<_> = std::fs::read_dir(&output)
        .expect("the output directory")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with(".winimg-work") || name.starts_with(".winimg-new"))
        .collect();
    assert!(rest.is_empty(), "{what}: the next build left {rest:?}");
}

fn interrupt_at(signal: Signal, moments: &[Moment]) {
    for moment in moments {
        let dir = tree::folder();
        eprintln!("{signal} {}", moment.name);
        interrupt(signal, moment, dir.path());
    }
}

#[test]
#[ignore = "boots QEMU: make end-to-end"]
fn ctrl_c_leaves_nothing() {
    interrupt_at(Signal::SIGINT, &[STEPS]);
}

#[test]
#[ignore = "boots QEMU: make end-to-end"]
fn kill_9_leaves_nothing() {
    interrupt_at(Signal::SIGKILL, &[EXPORT]);
}

mod nightly {
    use super::*;

    #[test]
    #[ignore = "boots QEMU: make end-to-end-nightly"]
    fn ctrl_c_leaves_nothing_at_the_other_moments() {
        interrupt_at(Signal::SIGINT, &[FETCH, INSTALL, SETUP, EXPORT]);
    }

    #[test]
    #[ignore = "boots QEMU: make end-to-end-nightly"]
    fn kill_9_leaves_nothing_at_the_other_moments() {
        interrupt_at(Signal::SIGKILL, &[FETCH, INSTALL, SETUP, STEPS]);
    }

    #[test]
    #[ignore = "boots QEMU: make end-to-end-nightly"]
    fn sigterm_leaves_nothing() {
        interrupt_at(Signal::SIGTERM, &[FETCH, INSTALL, SETUP, STEPS, EXPORT]);
    }
}
