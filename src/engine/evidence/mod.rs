//! Saves the diagnostics of a failed build: one directory, with a record from which the build's
//! report explains the failure.
//!
//! Copies, reads and names; never changes the error's meaning, never hides it behind a failing
//! copy, never writes to a disk image, and redacts the build's secrets in every file.

mod causes;
mod diagnosis;
mod files;
pub(crate) mod logs;
mod record;
mod recording;
mod redact;
mod scene;
mod windows;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use super::step_log;
use crate::page::REPORT;
use winimg_base::error::{Error, Kind};
use winimg_base::event::{Cancel, Phase, Sink};
use winimg_base::io::{create_folders, remove_folder_if_exists, write_atomically};
use winimg_base::text::Secret;
use winimg_formats::disk::DiskImage;
use winimg_machine::vm::symptoms::LogFamily;

use causes::{CauseSource, find_causes};
use diagnosis::diagnose;
use logs::WindowsLog;
use redact::Redactor;

pub use files::{SCREENS, describe_left_out, keep_screens};
pub use record::{ErrorRecord, FailureRecord, LogExcerpt};
pub use recording::TraceRecording;

/// The directory's name in the output directory.
pub const FOLDER: &str = "failure";
/// File name of the trace, in the run directory and then in the diagnostics.
pub const DEBUG: &str = "debug.jsonl";

/// Maximum number of causes in the error itself; the report has more.
const CAUSES_IN_ERROR: usize = 2;
/// Maximum number of Windows' error lines in the report.
const MAX_ERROR_LINES: usize = 20;
/// Maximum number of lines of each log of winimg's own commands.
const BOOTSTRAP_LINES: usize = 25;

/// The state of a build when it failed.
pub struct FailureScene<'a> {
    /// The build's output directory, with the steps' full output in `logs/NN-name.log`. The
    /// diagnostics go below it.
    pub output: &'a Path,
    /// The VM's files: `screens/`, `serial.log`, `seabios.log`, `qemu.log`, `swtpm.log`,
    /// `agent.log`.
    pub run_dir: &'a Path,
    /// The VM's disk, closed or paused. `None` if no VM was started.
    pub disk: Option<DiskImage<'a>>,
    /// The unfinished phase.
    pub phase: Option<Phase>,
    /// The running step, or the last one that ran.
    pub step: Option<&'a ReachedStep>,
    /// The recipe's name.
    pub recipe: &'a str,
    /// A sentence about where the next build resumes. Empty if unknown.
    pub next: &'a str,
    /// Secrets to redact in all diagnostics.
    pub secrets: &'a [Secret],
}

/// A step that the build has reached.
pub struct ReachedStep {
    /// Counted from 1.
    pub number: usize,
    pub name: String,
    /// True while the step is running, and if it failed. False before it and after success.
    pub is_running: bool,
}

/// Saves the diagnostics in `<output>/failure` and adds their path and the likely causes to the
/// error. Saves nothing after an interrupt.
pub fn keep(error: Error, scene: &FailureScene, sink: &dyn Sink, cancel: &Cancel) -> Error {
    if error.kind() == Kind::Cancelled {
        return error;
    }
    let failure = scene.output.join(FOLDER);
    // What an earlier build left there must not be taken for this one's.
    let is_ready = remove_folder_if_exists(&failure).and_then(|()| create_folders(&failure));
    if let Err(e) = is_ready {
        let why = e.problem().in_one_line();
        sink.warn(format!("could not save the diagnostics: {why}"));
        return error;
    }
    let redactor = Redactor::new(scene.secrets);
    match files::copy_machine(scene.run_dir, &failure, &redactor) {
        Ok(left_out) => files::describe_left_out(left_out)
            .into_iter()
            .for_each(|text| sink.warn(text)),
        Err(e) => sink.warn(format!("could not save all diagnostics: {e}")),
    }
    let error = error.with_moved_paths(scene.run_dir, &failure);
    let collector = FailureCollector {
        scene,
        failure: &failure,
        redactor: &redactor,
    };
    let found = collector.collect_failure(&error, cancel);
    if let Err(e) = found.write(&failure) {
        sink.warn(format!("could not write the failure record: {e}"));
    }
    let report = scene.output.join(REPORT);
    let error = add_causes(error, &found).lines([format!("details: {}", report.display())]);
    // For readers who see only the end of the log.
    let failed = found.failed_step.map(|step| format!("{step}, failed"));
    let next = Some(scene.next.to_owned()).filter(|next| !next.is_empty());
    let error = error.lines(failed.into_iter().chain(next));
    let text = redactor.redact_text(&format!("{error}\n"));
    if let Err(e) = write_atomically(&failure.join("error.txt"), text.as_bytes()) {
        sink.warn(format!("could not write error.txt: {e}"));
    }
    error
}

/// Adds the likely causes to the error.
fn add_causes(mut error: Error, found: &FailureRecord) -> Error {
    for cause in found.causes.iter().take(CAUSES_IN_ERROR) {
        let line: String = cause.line.chars().take(240).collect();
        let mut lines = vec![format!("likely: {}", cause.cause)];
        // The error's own lines are right above.
        if cause.source != CauseSource::Error {
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

/// Collects the record from the scene, and writes the files of the diagnostics.
struct FailureCollector<'e> {
    scene: &'e FailureScene<'e>,
    failure: &'e Path,
    redactor: &'e Redactor,
}

impl FailureCollector<'_> {
    fn collect_failure(&self, error: &Error, cancel: &Cancel) -> FailureRecord {
        let scene = self.scene;
        let step_output = self.step_output();
        let found = scene.disk.map(|disk| self.read_disk(disk, cancel));
        let installing = scene.phase == Some(Phase::Install) || error.kind() == Kind::Setup;
        let logs = found.as_ref().map_or(&[][..], |found| &found.logs);
        let output = step_output.as_ref().map(|part| part.text.clone());
        // Only the guest's output: the rest of the error may be about this host.
        let code = error.problem().found.iter();
        let code = code.map(|found| format!("found: {found}"));
        let lines: Vec<String> = code.chain(error.problem().lines.clone()).collect();
        let texts = [
            (
                CauseSource::Error,
                self.redactor.redact_text(&lines.join("\n")),
            ),
            (CauseSource::Output, output.unwrap_or_default()),
        ];
        let machine = [
            ("QEMU log", "qemu.log"),
            ("swtpm log", "swtpm.log"),
            ("Serial console", "serial.log"),
            ("SeaBIOS log", "seabios.log"),
        ];
        let machine = machine.iter();
        let failed = scene.step.filter(|step| step.is_running);
        let failed = failed.map(|step| format!("step {}, `{}`", step.number, step.name));
        let reached = scene.step;
        FailureRecord {
            recipe: self.redactor.redact_text(scene.recipe),
            step: reached.map(|step| (step.number, self.redactor.redact_text(&step.name))),
            failed_step: failed.map(|step| self.redactor.redact_text(&step)),
            next: self.redactor.redact_text(scene.next),
            failed_at: jiff::Timestamp::now().to_string(),
            error: scene::to_error_record(error, self.redactor),
            causes: find_causes(logs, &texts, installing),
            reading: found
                .as_ref()
                .map(|found| diagnose(&found.state, logs, installing)),
            errors: collect_error_lines(logs),
            logs: logs.iter().map(describe_log).collect(),
            bootstrap: logs.iter().filter_map(extract_bootstrap).collect(),
            step_output,
            agent: self.read_excerpt("Last messages of the guest agent", "agent.log", 60),
            machine: machine
                .filter_map(|(title, file)| self.read_excerpt(title, file, 60))
                .collect(),
        }
    }

    /// Copies the step's full output to the diagnostics, and returns its end.
    fn step_output(&self) -> Option<LogExcerpt> {
        let ReachedStep { number, name, .. } = self.scene.step?;
        let log = step_log::log_path(&self.scene.output.join("logs"), *number, name);
        let to = self.failure.join(files::STEP_LOG);
        files::copy_text(&log, &to, self.redactor).ok()?;
        self.read_excerpt("Last 200 lines", files::STEP_LOG, 200)
    }

    /// Reads the VM's disk. Catches panics of the reader, because a half-written volume must not
    /// hide the error.
    fn read_disk(&self, disk: DiskImage<'_>, cancel: &Cancel) -> windows::DiskFindings {
        let mut found = catch_unwind(AssertUnwindSafe(|| {
            windows::read(disk, self.failure, self.redactor, cancel)
        }))
        .unwrap_or_else(|_| {
            let mut found = windows::DiskFindings::default();
            found.state.written = 1;
            found.state.table = diagnosis::PartitionTableState::Unreadable;
            found.state.lacks = vec!["reading the disk failed: its contents are invalid".into()];
            found
        });
        // Messages of EDK II and of SeaBIOS.
        found.state.nothing_boots = self.contains("serial.log", "No bootable option")
            || self.contains("seabios.log", "No bootable device");
        found
    }

    fn contains(&self, file: &str, text: &str) -> bool {
        self.read_end(file, 400)
            .is_some_and(|lines| lines.contains(text))
    }

    /// Returns the last lines of a file of the diagnostics; `None` if it is empty.
    fn read_excerpt(&self, title: &str, file: &str, lines: usize) -> Option<LogExcerpt> {
        Some(LogExcerpt {
            title: title.into(),
            file: file.into(),
            text: self.read_end(file, lines)?,
        })
    }

    fn read_end(&self, file: &str, lines: usize) -> Option<String> {
        let longest = self.redactor.longest_len();
        let bytes = files::read_end(&self.failure.join(file), 1 << 20, longest).ok()?;
        let text = last_lines(&logs::decode(&bytes), lines);
        (!text.is_empty()).then(|| self.redactor.redact_guest_text(&text))
    }
}

/// Returns the last lines of a text file within its last `bytes`; `None` if it is empty or missing.
pub fn last_lines_of(file: &Path, bytes: usize, lines: usize) -> Option<String> {
    let bytes = files::read_end(file, bytes, 0).ok()?;
    Some(last_lines(&logs::decode(&bytes), lines)).filter(|text| !text.is_empty())
}

fn last_lines(text: &str, most: usize) -> String {
    let all: Vec<&str> = text.trim_end().lines().collect();
    all[all.len().saturating_sub(most)..].join("\n")
}

/// Returns the end of the log if it is one of winimg's own commands.
fn extract_bootstrap(log: &WindowsLog) -> Option<LogExcerpt> {
    let text = last_lines(&log.text, BOOTSTRAP_LINES);
    let is_shown = log.family == LogFamily::Bootstrap && !text.is_empty();
    is_shown.then(|| LogExcerpt {
        title: log.path.clone(),
        file: describe_log(log).0,
        text,
    })
}

/// Returns a log's file in the diagnostics, its phase, and true if it was cut.
fn describe_log(log: &WindowsLog) -> (String, String, bool) {
    let path = log.path.replace('\\', "/");
    let file = format!("{}/{path}", files::LOGS_OF_WINDOWS);
    (file, log.phase.clone(), log.cut)
}

/// Returns the last error lines of Windows, each with the path of its log.
fn collect_error_lines(logs: &[WindowsLog]) -> Vec<(String, String)> {
    let errors = logs::collect_errors(logs);
    errors[errors.len().saturating_sub(MAX_ERROR_LINES)..]
        .iter()
        .map(|error| {
            let line = error.line.chars().take(1000).collect();
            (error.log.path.clone(), line)
        })
        .collect()
}
