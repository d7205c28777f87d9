//! What a failed build leaves for the person who has to find out: one directory and one page that explains it.
//!
//! Copies, reads and names; never changes the error's meaning, never lets a failing copy hide it, writes to no disk image and
//! lets no secret of the build into any file here.

mod causes;
mod files;
mod logs;
mod page;
mod patterns;
mod reading;
mod recording;
mod redact;
mod scene;
mod shown;
mod timeline;
mod windows;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use super::Phase;
use winimg_base::error::{Error, Kind};
use winimg_base::event::{Cancel, Sink};
use winimg_base::io::write_atomically;
use winimg_base::text::Secret;
use winimg_formats::disk::Image;

use causes::{Cause, Source, causes};
use page::Page;
use reading::{Reading, reading};
use redact::Redactor;

pub use recording::Recording;
pub use timeline::Timeline;

/// The directory's name in the output directory, and the page's in it.
pub const FOLDER: &str = "failure";
pub const PAGE: &str = "failure.html";
/// What was traced, in the machine's folder and then beside the page.
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
    /// Of the machine: `screens/`, `serial.log`, `seabios.log`, `qemu.log`, `agent.log`.
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
    pub timeline: &'a Timeline,
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
    let copied = files::copy_machine(scene.run_dir, &failure, &redactor).unwrap_or_else(|e| {
        failed(e);
        Vec::new()
    });
    let error = error.moved(scene.run_dir, &failure);
    let evidence = Evidence::gather(&error, scene, &failure, copied, &redactor, cancel);
    let page = page::page(&evidence.page(&error));
    let written = write_atomically(&failure.join(PAGE), page.as_bytes());
    let error = evidence.explain(error);
    let error = match written {
        Ok(()) => error.lines([format!("details: {}", failure.join(PAGE).display())]),
        Err(e) => {
            sink.warn(format!(
                "the page about the failure could not be written: {e}"
            ));
            error
        }
    };
    let error = error.lines(evidence.last_words());
    let text = redactor.text(&format!("{error}\n"));
    if let Err(e) = write_atomically(&failure.join("error.txt"), text.as_bytes()) {
        sink.warn(format!("the error could not be written: {e}"));
    }
    error
}

/// All that was found, before it is shown.
struct Evidence<'e> {
    scene: &'e Scene<'e>,
    failure: &'e Path,
    redactor: &'e Redactor,
    /// What the machine left, relative to `failure`.
    copied: Vec<PathBuf>,
    windows: Option<(windows::Found, Reading)>,
    causes: Vec<Cause>,
    /// The end of the step's output.
    output: Option<String>,
}

impl<'e> Evidence<'e> {
    fn gather(
        error: &Error,
        scene: &'e Scene<'e>,
        failure: &'e Path,
        copied: Vec<PathBuf>,
        redactor: &'e Redactor,
        cancel: &Cancel,
    ) -> Self {
        let mut evidence = Self {
            scene,
            failure,
            redactor,
            copied,
            windows: None,
            causes: Vec::new(),
            output: None,
        };
        evidence.output = evidence.copy_step_log();
        let installing = scene.phase == Some(Phase::Install) || error.kind() == Kind::Setup;
        evidence.windows = evidence.read_disk(installing, cancel);
        let logs = evidence.windows.as_ref().map(|(found, _)| &found.logs[..]);
        let said = [
            (Source::Error, redactor.text(&error.to_string())),
            (Source::Output, evidence.output.clone().unwrap_or_default()),
        ];
        evidence.causes = causes(logs.unwrap_or_default(), &said, installing);
        evidence
    }

    /// The step's whole output into the evidence; its end.
    fn copy_step_log(&self) -> Option<String> {
        let log = files::step_log(&self.scene.output.join("logs"), self.scene.step?.number)?;
        let to = self.failure.join(files::STEP_LOG);
        files::copy_text(&log, &to, self.redactor).ok()?;
        self.end_of(files::STEP_LOG, 200)
    }

    /// A volume that is written only in part must not take the error with it, whatever the reader thinks of it.
    fn read_disk(&self, installing: bool, cancel: &Cancel) -> Option<(windows::Found, Reading)> {
        let disk = self.scene.disk?;
        let read = || windows::read(disk, self.failure, self.redactor, cancel);
        let mut found = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
            let mut found = windows::Found::default();
            found.state.written = 1;
            found.state.table = reading::Table::Unreadable;
            found.state.lacks =
                vec!["reading the disk failed: what it holds makes no sense".into()];
            found
        });
        found.state.nothing_boots = self.nothing_boots();
        let read = reading(&found.state, &found.logs, installing);
        Some((found, read))
    }

    /// EDK II's words, and SeaBIOS's.
    fn nothing_boots(&self) -> bool {
        let says = |file: &str, words: &str| {
            self.end_of(file, 400)
                .is_some_and(|text| text.contains(words))
        };
        says("serial.log", "No bootable option") || says("seabios.log", "No bootable device")
    }

    /// The last lines of a file of the evidence; none where it is empty.
    fn end_of(&self, file: &str, lines: usize) -> Option<String> {
        let longest = self.redactor.longest();
        let bytes = files::end_of(&self.failure.join(file), 1 << 20, longest).ok()?;
        let text = logs::decode(&bytes);
        let all: Vec<&str> = text.trim_end().lines().collect();
        let text = all[all.len().saturating_sub(lines)..].join("\n");
        (!text.is_empty()).then(|| self.redactor.foreign(&text))
    }

    /// The step that failed, ``step 3, `kubelet` ``: none where the build failed before its steps, or after them.
    fn failed_step(&self) -> Option<String> {
        let Reached { number, name, .. } = self.scene.step.filter(|step| step.runs)?;
        Some(self.redactor.text(&format!("step {number}, `{name}`")))
    }

    /// What a person wants to know who sees the end of the log alone.
    fn last_words(&self) -> Vec<String> {
        let failed = self.failed_step().map(|step| format!("{step}, failed"));
        let next = Some(self.scene.next.to_owned()).filter(|next| !next.is_empty());
        failed.into_iter().chain(next).collect()
    }

    /// The error with what is likely behind it.
    fn explain(&self, mut error: Error) -> Error {
        for cause in self.causes.iter().take(CAUSES_IN_ERROR) {
            let line: String = cause.line.chars().take(240).collect();
            let mut lines = vec![format!("likely: {}", cause.cause)];
            // The error's own lines stand right above.
            if cause.source != Source::Error {
                lines.push(format!("  {}: {line}", cause.source));
            }
            lines.push(format!("  {}", cause.cure));
            error = error.lines(lines);
        }
        match &self.windows {
            Some((_, reading)) if error.kind() == Kind::Setup => {
                error.lines([format!("the disk: {}", reading.headline)])
            }
            _ => error,
        }
    }

    fn page(&self, error: &Error) -> Page {
        let (screens, screens_in_all) =
            scene::screens(self.scene.run_dir, self.failure, &self.copied);
        let part = |title: &str, file: &str, lines| {
            Some(page::Part {
                title: title.into(),
                file: file.into(),
                text: self.end_of(file, lines)?,
            })
        };
        let machine = [
            ("What QEMU says", "qemu.log"),
            ("The serial port", "serial.log"),
            ("SeaBIOS", "seabios.log"),
        ];
        let mut timeline = self.scene.timeline.rows();
        for row in &mut timeline {
            row.what = self.redactor.text(&row.what);
        }
        let found = self.windows.as_ref().map(|(found, _)| found);
        let logs = found.map_or(&[][..], |found| &found.logs);
        Page {
            recipe: self.redactor.text(self.scene.recipe),
            phase: self.scene.phase.map(Phase::name),
            step: self.scene.step.map(|step| (step.number, step.name.clone())),
            failed_step: self.failed_step(),
            next: self.redactor.text(self.scene.next),
            failed_at: Some(jiff::Timestamp::now()),
            error: scene::fault(error, self.redactor),
            causes: self.causes.clone(),
            screens,
            screens_in_all,
            reading: self.windows.as_ref().map(|(_, reading)| reading.clone()),
            errors: quoted(logs),
            logs: logs.iter().map(|log| self.listed(log)).collect(),
            bootstrap: logs.iter().filter_map(|log| self.bootstrap(log)).collect(),
            step_output: part("Its last 200 lines", files::STEP_LOG, 200),
            agent: part("The last of them", "agent.log", 60),
            machine: machine
                .iter()
                .filter_map(|(title, file)| part(title, file, 60))
                .collect(),
            timeline,
            files: scene::files(self.failure),
        }
    }

    /// The end of a log of winimg's own commands.
    fn bootstrap(&self, log: &logs::Log) -> Option<page::Part> {
        let text = log.text.trim_end();
        if log.family != logs::Family::Bootstrap || text.is_empty() {
            return None;
        }
        let all: Vec<&str> = text.lines().collect();
        Some(page::Part {
            title: log.path.clone(),
            file: self.listed(log).0,
            text: all[all.len().saturating_sub(BOOTSTRAP_LINES)..].join("\n"),
        })
    }

    fn listed(&self, log: &logs::Log) -> (String, String, bool) {
        let path = log.path.replace('\\', "/");
        let file = format!("{}/{path}", files::LOGS_OF_WINDOWS);
        (file, log.phase.clone(), log.cut)
    }
}

/// The last error lines of Windows with the logs that hold them.
fn quoted(logs: &[logs::Log]) -> Vec<(String, String)> {
    let errors = logs::errors(logs);
    let last = &errors[errors.len().saturating_sub(QUOTED)..];
    last.iter()
        .map(|error| {
            let line = error.line.chars().take(1000).collect();
            (error.log.path.clone(), line)
        })
        .collect()
}
