//! Ctrl-C, a kill, and two builds in one directory.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use support::killed::KilledChild;

use crate::cli::site::{SEAL, Site};

const LONGEST: Duration = Duration::from_secs(60);
const STEP: &str = "[[steps]]\nname = \"long\"\ncmd = \"echo hello\"\n";
const HANGS: &str = "[[run]]\ncommand = '*\\steps\\001.cmd'\noutcome = \"hangs\"\n";

/// A build whose first step never ends, run up to there.
struct Hanging {
    child: KilledChild,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Hanging {
    fn start(site: &Site) -> Self {
        site.machine("", HANGS);
        let arguments = [
            "--log-format",
            "json",
            "build",
            "recipe.toml",
            "--hypervisor",
            "fake:machine.toml",
            "--output",
            "out",
        ];
        let mut child = site
            .command(&arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("winimg starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut said = String::new();
        loop {
            let from = said.len();
            let read = stderr.read_line(&mut said).expect("UTF-8");
            assert!(read > 0, "winimg ended first: {said}");
            if said[from..].contains("steps\\\\001.cmd") {
                break;
            }
        }
        let child = KilledChild(child);
        let hanging = Self { child, stderr };
        // The file of events and the transcript are written after standard error.
        let deadline = Instant::now() + LONGEST;
        while !site.read("out/events.jsonl").contains("steps\\\\001.cmd")
            || !site.asked().contains("steps\\001.cmd")
        {
            assert!(
                Instant::now() < deadline,
                "it does not hang where it should"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        hanging
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.0.id()).expect("a pid"));
        kill(pid, signal).expect("the signal is sent");
    }

    /// How it ended, and its last events.
    fn end(mut self) -> (ExitStatus, Vec<Value>) {
        let deadline = Instant::now() + LONGEST;
        let status = loop {
            if let Some(status) = self.child.0.try_wait().expect("a child") {
                break status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        };
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).expect("UTF-8");
        let events = rest.lines().map(|l| serde_json::from_str(l).expect(l));
        (status, events.collect())
    }
}

#[test]
fn ctrl_c_and_sigterm_end_it_in_order() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let site = Site::new(&format!("{STEP}\n{SEAL}"));
        let hanging = Hanging::start(&site);
        hanging.signal(signal);
        let (status, events) = hanging.end();
        assert_eq!(status.code(), Some(130), "{signal}");
        let last = events.last().expect("an event");
        assert_eq!(last["event"], "failed", "{signal}");
        assert_eq!(last["kind"], "cancelled", "{signal}");
        assert_eq!(last["status"], 130, "{signal}");
        assert_eq!(last["text"], "interrupted", "{signal}");
        assert_eq!(
            site.files("out"),
            [
                ".winimg-lock",
                "events.jsonl",
                "logs/01-long.log",
                "report.html"
            ],
            "{signal}"
        );
        assert!(site.asked().ends_with("steps\\001.cmd\nstop\n"), "{signal}");
    }
}

#[test]
fn an_interrupted_build_sets_an_earlier_image_aside_and_says_where_it_is() {
    let site = Site::new(&format!("{STEP}\n{SEAL}"));
    site.build(&[]).ended_well();
    let manifest = site.read("out/manifest.json");
    let hanging = Hanging::start(&site);
    hanging.signal(Signal::SIGINT);
    let (status, events) = hanging.end();
    assert_eq!(status.code(), Some(130));
    assert_eq!(site.read("out/earlier/manifest.json"), manifest);
    assert!(!site.path("out/manifest.json").exists());
    let last = events.last().expect("an event").to_string();
    let aside = site.path("out/earlier").display().to_string();
    assert!(last.contains(&aside), "{last}");
}

#[test]
fn what_a_killed_build_left_is_removed_by_the_next_which_says_so() {
    let site = Site::new(&format!("{STEP}\n{SEAL}"));
    let hanging = Hanging::start(&site);
    hanging.signal(Signal::SIGKILL);
    let (status, _) = hanging.end();
    assert!(!status.success());
    let left = site.files("out");
    assert!(left.iter().any(|f| f.contains(".winimg-work-")), "{left:?}");
    site.machine("", "");
    let next = site.build(&[]).ended_well();
    let removed =
        "[time] removing leftovers of an interrupted build: /site/out/.winimg-work-[id]\n";
    assert_eq!(
        next.stderr().matches(removed).count(),
        1,
        "{}",
        next.stderr()
    );
    assert_eq!(
        site.files("out"),
        [
            ".winimg-lock",
            "events.jsonl",
            "logs/01-long.log",
            "logs/02-seal.log",
            "manifest.json",
            "node.raw",
            "packer-manifest.json",
            "provenance.intoto.json",
            "report.html",
            "sbom.cdx.json",
            "sbom.spdx.json"
        ]
    );
}

#[test]
fn a_second_build_into_the_same_directory_is_refused_and_harms_nothing() {
    let site = Site::new(&format!("{STEP}\n{SEAL}"));
    let first = Hanging::start(&site);
    let before = (site.read("out/events.jsonl"), site.files("out"));
    site.machine("", "");
    let second = site.build(&[]);
    insta::assert_snapshot!(second.whole());
    assert_eq!((site.read("out/events.jsonl"), site.files("out")), before);
    // Beside it there is room.
    site.build(&["--output", "beside"]);
    first.signal(Signal::SIGINT);
    let (status, _) = first.end();
    assert_eq!(status.code(), Some(130));
    site.build(&[]).ended_well();
}

#[test]
fn what_an_earlier_failure_left_does_not_stay_beside_a_good_build() {
    let site = Site::new(&format!("{STEP}\n{SEAL}"));
    site.machine("", "[[run]]\ncommand = '*\\steps\\001.cmd'\nexit = 5\n");
    assert_eq!(site.build(&[]).status(), Some(7));
    site.write("out/logs/07-of-another-recipe.log", "> old\n");
    site.machine("", "");
    site.build(&[]).ended_well();
    let left = site.files("out");
    assert!(
        !left
            .iter()
            .any(|f| f.starts_with("failure") || f.contains("07-")),
        "{left:?}"
    );
}
