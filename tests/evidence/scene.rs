//! A build that failed, in a directory of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use jiff::Timestamp;
use regex::Regex;
use tempfile::TempDir;
use winimg::build_report;
use winimg::engine::evidence::{self, FailureScene, ReachedStep, TraceRecording};
use winimg::report::stream::EventLine;
use winimg_base::error::{Error, Kind};
use winimg_base::event::{Cancel, Event, Phase, Sink};
use winimg_base::text::Secret;
use winimg_formats::disk::DiskImage;

/// Remembers warnings.
#[derive(Default)]
pub struct Warnings(Mutex<Vec<String>>);

impl Sink for Warnings {
    fn emit(&self, event: &Event) {
        if let Event::Warning { text } = event {
            self.0.lock().expect("lock").push(text.clone());
        }
    }
}

pub struct Failed {
    dir: TempDir,
    pub secrets: Vec<Secret>,
    pub step: Option<ReachedStep>,
    pub phase: Phase,
    /// With the second of each.
    pub events: Vec<(i64, Event)>,
    pub next: &'static str,
    pub warnings: Warnings,
}

impl Failed {
    pub fn new() -> Self {
        let failed = Self {
            dir: tempfile::tempdir().expect("a folder"),
            secrets: Vec::new(),
            step: None,
            phase: Phase::Install,
            events: Vec::new(),
            next: "",
            warnings: Warnings::default(),
        };
        for folder in ["run/screens", "out/logs"] {
            fs::create_dir_all(failed.path(folder)).expect("folders");
        }
        failed
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(path), bytes).expect("a file");
    }

    /// Some tests write it raw, others as a qcow2.
    pub fn disk(&self) -> PathBuf {
        self.path("disk")
    }

    /// The error as the user sees it.
    pub fn keep(&self, error: Error) -> Error {
        self.keep_of(error, &self.path("run"), &Cancel::default())
    }

    pub fn keep_of(&self, error: Error, run_dir: &Path, cancel: &Cancel) -> Error {
        let (output, disk) = (self.path("out"), self.disk());
        let scene = FailureScene {
            output: &output,
            run_dir,
            disk: Some(DiskImage::from_file(&disk)).filter(|_| disk.exists()),
            phase: Some(self.phase),
            step: self.step.as_ref(),
            recipe: "node",
            next: self.next,
            secrets: &self.secrets,
        };
        let error = evidence::keep(error, &scene, &self.warnings, cancel);
        self.report(&error);
        error
    }

    /// Writes the events, this failure the last one, and the build's page.
    fn report(&self, error: &Error) {
        let started = Event::started("build", Some(Path::new("recipe.toml")));
        let first = [(0, started)].into_iter();
        let last = self.events.last().map_or(0, |(second, _)| second + 1);
        let events = first
            .chain(self.events.clone())
            .chain([(last, Event::failed(error))]);
        let lines = events.map(|(second, event)| {
            let time = Timestamp::from_second(second).expect("a time");
            serde_json::to_string(&EventLine { time, event }).expect("JSON") + "\n"
        });
        self.write("out/events.jsonl", lines.collect::<String>());
        let recording = TraceRecording::default();
        recording.hide(self.secrets.clone());
        let (output, page) = (self.path("out"), self.path("out/report.html"));
        build_report::write(&output, &page, &recording).expect("the page");
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    pub fn files(&self) -> Vec<String> {
        winimg_base::io::files_below(&self.path("out/failure")).unwrap_or_default()
    }

    pub fn warned(&self) -> Vec<String> {
        self.warnings.0.lock().expect("lock").clone()
    }

    /// Without what differs between two runs.
    pub fn filtered(&self, text: &str) -> String {
        let dir = self.dir.path().to_str().expect("a UTF-8 path");
        let mut text = text.replace(dir, "/site");
        for (pattern, to) in [
            (r"(?s)<style>.*?</style>", "<style>…</style>"),
            (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "[now]"),
            (
                r"((events\.jsonl|failure\.json|error\.txt)</a></td><td>)[^<]*",
                "$1[size]",
            ),
            (
                r"(less than 1|\d+) MiB (was|were) written",
                "[some] were written",
            ),
        ] {
            let pattern = Regex::new(pattern).expect("a pattern");
            text = pattern.replace_all(&text, to).into_owned();
        }
        text
    }

    /// One section of the page, without its tags.
    pub fn section(&self, id: &str) -> String {
        let page = self.read("out/report.html");
        let begin = format!("<section id=\"{id}\">");
        let Some((_, rest)) = page.split_once(&begin) else {
            return String::new();
        };
        let section = rest.split("</section>").next().unwrap_or_default();
        let tags = Regex::new("<[^>]*>").expect("a pattern");
        let text = tags.replace_all(section, "");
        let lines = text.lines().map(str::trim_end).filter(|l| !l.is_empty());
        self.filtered(&lines.collect::<Vec<_>>().join("\n"))
    }
}

pub fn setup_stopped() -> Error {
    Error::new(Kind::Setup, "Windows Setup stopped at a screen")
}

#[test]
fn diagnostics_of_an_earlier_build_are_not_taken_for_new_ones() {
    let failed = Failed::new();
    failed.write("out/failure", "not a folder, and not to be removed");
    let error = failed.keep(Error::new(Kind::Machine, "it broke"));
    assert_eq!(error.to_string(), "it broke");
    let warnings = failed.warnings.0.lock().expect("lock").join("\n");
    assert!(
        warnings.starts_with("could not save the diagnostics: cannot remove "),
        "{warnings}"
    );
}
