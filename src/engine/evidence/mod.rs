//! What a failed build leaves for the person who has to find out: one directory, with a record that the build's page explains it from.
//!
//! Copies, reads and names; never changes the error's meaning, never lets a failing copy hide it, writes to no disk image and
//! lets no secret of the build into any file here.

mod causes;
mod files;
pub(crate) mod logs;
mod patterns;
mod reading;
mod record;
mod recording;
mod redact;
mod scene;
mod windows;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use super::step_log;
use crate::page::REPORT;
use winimg_base::error::{Error, Kind};
use winimg_base::event::{Cancel, Phase, Sink};
use winimg_base::io::write_atomically;
use winimg_base::text::Secret;
use winimg_formats::disk::Image;

use causes::{Source, causes};
use logs::Log;
use reading::reading;
use redact::Redactor;

pub use causes::known_code;
pub use files::{SCREENS, keep_screens};
pub use record::{Failure, Fault, Part};
pub use recording::Recording;

/// The directory's name in the output directory.
pub const FOLDER: &str = "failure";
/// What was traced, in the machine's folder and then in the evidence.
pub const DEBUG: &str = "debug.jsonl";

/// Causes that the error itself names; the page has more.
const CAUSES_IN_ERROR: usize = 2;
/// Error lines of Windows that the page quotes.
const QUOTED: usize = 20;
/// Lines of each log of winimg's own commands.
const BOOTSTRAP_LINES: usize = 25;

/// Where a build was when it failed.
pub struct Scene<'a> {
    /// The build's output directory; the evidence goes below it. Its `logs/NN-name.log` hold the steps' whole output.
    pub output: &'a Path,
    /// Of the machine: `screens/`, `serial.log`, `seabios.log`, `qemu.log`, `swtpm.log`, `agent.log`.
    pub run_dir: &'a Path,
    /// The machine's disk, closed or paused. `None`: nothing was started.
    pub disk: Option<Image<'a>>,
    /// The phase that did not end.
    pub phase: Option<Phase>,
    /// The step that runs, or that ran last.
    pub step: Option<&'a Reached>,
    /// The recipe's name.
    pub recipe: &'a str,
    /// From where the next build resumes, as a sentence. Empty: not known.
    pub next: &'a str,
    /// What no file of the evidence may hold.
    pub secrets: &'a [Secret],
}

/// A step that the build has come to.
pub struct Reached {
    /// Counted from 1.
    pub number: usize,
    pub name: String,
    /// It runs, or it failed. A step that has not begun, or that ended well, does not.
    pub runs: bool,
}

/// Keeps the evidence in `<output>/failure` and adds its path and the likely causes to the error. An interrupt keeps
/// nothing.
pub fn keep(error: Error, scene: &Scene, sink: &dyn Sink, cancel: &Cancel) -> Error {
    if error.kind() == Kind::Cancelled {
        return error;
    }
    let failure = scene.output.join(FOLDER);
    let _ = fs::remove_dir_all(&failure);
    let failed =
        |e: std::io::Error| sink.warn(format!("the evidence could not be kept whole: {e}"));
    if let Err(e) = fs::create_dir_all(&failure) {
        failed(e);
        return error;
    }
    let redactor = Redactor::new(scene.secrets);
    if let Err(e) = files::copy_machine(scene.run_dir, &failure, &redactor) {
        failed(e);
    }
    let error = error.moved(scene.run_dir, &failure);
    let gathering = Gathering {
        scene,
        failure: &failure,
        redactor: &redactor,
    };
    let found = gathering.failure(&error, cancel);
    if let Err(e) = found.write(&failure) {
        sink.warn(format!(
            "what was found of the failure could not be written: {e}"
        ));
    }
    let report = scene.output.join(REPORT);
    let error = explained(error, &found).lines([format!("details: {}", report.display())]);
    // What a person wants to know who sees the end of the log alone.
    let failed = found.failed_step.map(|step| format!("{step}, failed"));
    let next = Some(scene.next.to_owned()).filter(|next| !next.is_empty());
    let error = error.lines(failed.into_iter().chain(next));
    let text = redactor.text(&format!("{error}\n"));
    if let Err(e) = write_atomically(&failure.join("error.txt"), text.as_bytes()) {
        sink.warn(format!("the error could not be written: {e}"));
    }
    error
}

/// The error with what is likely behind it.
fn explained(mut error: Error, found: &Failure) -> Error {
    for cause in found.causes.iter().take(CAUSES_IN_ERROR) {
        let line: String = cause.line.chars().take(240).collect();
        let mut lines = vec![format!("likely: {}", cause.cause)];
        // The error's own lines stand right above.
        if cause.source != Source::Error {
            lines.push(format!("  {}: {line}", cause.source));
        }
        lines.push(format!("  {}", cause.cure));
        error = error.lines(lines);
    }
    match &found.reading {
        Some(reading) if error.kind() == Kind::Setup => {
            error.lines([format!("the disk: {}", reading.headline)])
        }
        _ => error,
    }
}

/// From the scene to the record; files of the evidence are written on the way.
struct Gathering<'e> {
    scene: &'e Scene<'e>,
    failure: &'e Path,
    redactor: &'e Redactor,
}

impl Gathering<'_> {
    fn failure(&self, error: &Error, cancel: &Cancel) -> Failure {
        let scene = self.scene;
        let step_output = self.step_output();
        let found = scene.disk.map(|disk| self.read_disk(disk, cancel));
        let installing = scene.phase == Some(Phase::Install) || error.kind() == Kind::Setup;
        let logs = found.as_ref().map_or(&[][..], |found| &found.logs);
        let output = step_output.as_ref().map(|part| part.text.clone());
        // Of the error only what the guest said: its own words may be about this host.
        let code = error.problem().found.iter();
        let code = code.map(|found| format!("found: {found}"));
        let lines: Vec<String> = code.chain(error.problem().lines.clone()).collect();
        let said = [
            (Source::Error, self.redactor.text(&lines.join("\n"))),
            (Source::Output, output.unwrap_or_default()),
        ];
        let machine = [
            ("What QEMU says", "qemu.log"),
            ("What swtpm says", "swtpm.log"),
            ("The serial port", "serial.log"),
            ("SeaBIOS", "seabios.log"),
        ];
        let machine = machine.iter();
        let failed = scene.step.filter(|step| step.runs);
        let failed = failed.map(|step| format!("step {}, `{}`", step.number, step.name));
        let reached = scene.step;
        Failure {
            recipe: self.redactor.text(scene.recipe),
            step: reached.map(|step| (step.number, self.redactor.text(&step.name))),
            failed_step: failed.map(|step| self.redactor.text(&step)),
            next: self.redactor.text(scene.next),
            failed_at: jiff::Timestamp::now().to_string(),
            error: scene::fault(error, self.redactor),
            causes: causes(logs, &said, installing),
            reading: found
                .as_ref()
                .map(|found| reading(&found.state, logs, installing)),
            errors: quoted(logs),
            logs: logs.iter().map(listed).collect(),
            bootstrap: logs.iter().filter_map(bootstrap).collect(),
            step_output,
            agent: self.part("The guest agent's last exchanges", "agent.log", 60),
            machine: machine
                .filter_map(|(title, file)| self.part(title, file, 60))
                .collect(),
        }
    }

    /// The step's whole output into the evidence; its end.
    fn step_output(&self) -> Option<Part> {
        let Reached { number, name, .. } = self.scene.step?;
        let log = step_log::path(&self.scene.output.join("logs"), *number, name);
        let to = self.failure.join(files::STEP_LOG);
        files::copy_text(&log, &to, self.redactor).ok()?;
        self.part("Its last 200 lines", files::STEP_LOG, 200)
    }

    /// A volume that is written only in part must not take the error with it, whatever the reader thinks of it.
    fn read_disk(&self, disk: Image<'_>, cancel: &Cancel) -> windows::Found {
        let read = || windows::read(disk, self.failure, self.redactor, cancel);
        let mut found = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
            let mut found = windows::Found::default();
            found.state.written = 1;
            found.state.table = reading::Table::Unreadable;
            found.state.lacks =
                vec!["reading the disk failed: what it holds makes no sense".into()];
            found
        });
        // EDK II's words, and SeaBIOS's.
        let says = |file: &str, words: &str| {
            let text = self.end_of(file, 400);
            text.is_some_and(|text| text.contains(words))
        };
        found.state.nothing_boots =
            says("serial.log", "No bootable option") || says("seabios.log", "No bootable device");
        found
    }

    /// The last lines of a file of the evidence; none where it is empty.
    fn part(&self, title: &str, file: &str, lines: usize) -> Option<Part> {
        Some(Part {
            title: title.into(),
            file: file.into(),
            text: self.end_of(file, lines)?,
        })
    }

    fn end_of(&self, file: &str, lines: usize) -> Option<String> {
        let longest = self.redactor.longest();
        let bytes = files::end_of(&self.failure.join(file), 1 << 20, longest).ok()?;
        let text = last_lines(&logs::decode(&bytes), lines);
        (!text.is_empty()).then(|| self.redactor.foreign(&text))
    }
}

/// The last lines of a text file, at most so many bytes of it; none where it is empty or not there.
pub fn last_lines_of(file: &Path, bytes: usize, lines: usize) -> Option<String> {
    let bytes = files::end_of(file, bytes, 0).ok()?;
    Some(last_lines(&logs::decode(&bytes), lines)).filter(|text| !text.is_empty())
}

fn last_lines(text: &str, most: usize) -> String {
    let all: Vec<&str> = text.trim_end().lines().collect();
    all[all.len().saturating_sub(most)..].join("\n")
}

/// The end of a log of winimg's own commands.
fn bootstrap(log: &Log) -> Option<Part> {
    let text = last_lines(&log.text, BOOTSTRAP_LINES);
    let is_shown = log.family == logs::Family::Bootstrap && !text.is_empty();
    is_shown.then(|| Part {
        title: log.path.clone(),
        file: listed(log).0,
        text,
    })
}

/// Where a log lies in the evidence, its phase, and whether it was cut.
fn listed(log: &Log) -> (String, String, bool) {
    let path = log.path.replace('\\', "/");
    let file = format!("{}/{path}", files::LOGS_OF_WINDOWS);
    (file, log.phase.clone(), log.cut)
}

/// The last error lines of Windows with the logs that hold them.
fn quoted(logs: &[Log]) -> Vec<(String, String)> {
    let errors = logs::errors(logs);
    let last = &errors[errors.len().saturating_sub(QUOTED)..];
    let line = |text: &str| text.chars().take(1000).collect();
    let last = last.iter().map(|e| (e.log.path.clone(), line(e.line)));
    last.collect()
}
