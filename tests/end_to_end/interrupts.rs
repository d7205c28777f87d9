//! Ctrl-C, SIGTERM and kill -9 at five moments: no QEMU, no swtpm, no lock that needs a hand.

use std::path::Path;
use std::time::{Duration, Instant};
use support::tree;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::end_to_end::program::{Build, is, processes_with};

const RECIPE: &str = "tests/end_to_end/small.toml";

const MINUTES: Duration = Duration::from_secs(60);

/// The moments, and how long the slowest of machines may take to reach them.
const MOMENTS: &[(&str, &str, &str, &str)] = &[
    ("while inputs are proved", "phase_started", "phase", "fetch"),
    ("as the machine starts", "phase_started", "phase", "install"),
    ("while Setup copies", "restarted", "event", "restarted"),
    ("while steps run", "command", "event", "command"),
    (
        "while artifacts are written",
        "phase_started",
        "phase",
        "export",
    ),
];

fn interrupt(signal: Signal, moment: &(&str, &str, &str, &str), dir: &Path) {
    let (name, kind, field, value) = *moment;
    let output = dir.join("out");
    let mut build = Build::start(RECIPE, &output, &dir.join("cache"), &[]);
    build.wait_for(name, 10 * MINUTES, |event| is(event, kind, field, value));
    let pid = Pid::from_raw(i32::try_from(build.child.id()).expect("a pid"));
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
    let mut next = Build::start(RECIPE, &output, &dir.join("cache"), &[]);
    // It goes on from the last layer: what was sealed is not done again.
    let goes_on = match value {
        "export" => "export",
        "command" => "boot",
        _ => "install",
    };
    next.wait_for("the next build", 10 * MINUTES, |event| {
        is(event, "phase_started", "phase", goes_on)
    });
    let pid = Pid::from_raw(i32::try_from(next.child.id()).expect("a pid"));
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

fn at_every_moment(signal: Signal) {
    for moment in MOMENTS {
        let dir = tree::folder();
        eprintln!("{signal} {}", moment.0);
        interrupt(signal, moment, dir.path());
    }
}

#[test]
#[ignore = "boots QEMU: make end-to-end"]
fn ctrl_c_leaves_nothing() {
    at_every_moment(Signal::SIGINT);
}

#[test]
#[ignore = "boots QEMU: make end-to-end"]
fn sigterm_leaves_nothing() {
    at_every_moment(Signal::SIGTERM);
}

#[test]
#[ignore = "boots QEMU: make end-to-end"]
fn kill_9_leaves_nothing() {
    at_every_moment(Signal::SIGKILL);
}
