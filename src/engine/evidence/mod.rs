//! What a failed build leaves for the person who has to find out: one directory and one page that explains it.
//!
//! Copies, reads and names; never changes the error's meaning, never lets a failing copy hide it, writes to no disk image and
//! lets no secret of the build into any file here.

mod causes;
mod files;
pub(crate) mod logs;
mod page;
mod patterns;
mod reading;
mod recording;
mod redact;
mod scene;
mod timeline;
mod windows;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use super::step_log;
use winimg_base::error::{Error, Kind};
use winimg_base::event::{Cancel, Phase, Sink};
use winimg_base::io::write_atomically;
use winimg_base::text::Secret;
use winimg_formats::disk::Image;

use causes::{Source, causes};
use logs::Log;
use page::{Page, Part};
use reading::reading;
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
    let gathering = Gathering {
        scene,
        failure: &failure,
        redactor: &redactor,
    };
    let page = gathering.page(&error, &copied, cancel);
    let written = write_atomically(&failure.join(PAGE), page::page(&page).as_bytes());
    let error = explained(error, &page);
    let error = match written {
        Ok(()) => error.lines([format!("details: {}", failure.join(PAGE).display())]),
        Err(e) => {
            sink.warn(format!(
                "the page about the failure could not be written: {e}"
            ));
            error
        }
    };
    // What a person wants to know who sees the end of the log alone.
    let failed = page.failed_step.map(|step| format!("{step}, failed"));
    let next = Some(scene.next.to_owned()).filter(|next| !next.is_empty());
    let error = error.lines(failed.into_iter().chain(next));
    let text = redactor.text(&format!("{error}\n"));
    if let Err(e) = write_atomically(&failure.join("error.txt"), text.as_bytes()) {
        sink.warn(format!("the error could not be written: {e}"));
    }
    error
}

/// The error with what is likely behind it.
fn explained(mut error: Error, page: &Page) -> Error {
    for cause in page.causes.iter().take(CAUSES_IN_ERROR) {
        let line: String = cause.line.chars().take(240).collect();
        let mut lines = vec![format!("likely: {}", cause.cause)];
        // The error's own lines stand right above.
        if cause.source != Source::Error {
            lines.push(format!("  {}: {line}", cause.source));
        }
        lines.push(format!("  {}", cause.cure));
        error = error.lines(lines);
    }
    match &page.reading {
        Some(reading) if error.kind() == Kind::Setup => {
            error.lines([format!("the disk: {}", reading.headline)])
        }
        _ => error,
    }
}

/// From the scene to the page; files of the evidence are written on the way.
struct Gathering<'e> {
    scene: &'e Scene<'e>,
    failure: &'e Path,
    redactor: &'e Redactor,
}

impl Gathering<'_> {
    /// `copied`: what the machine left, relative to the evidence.
    fn page(&self, error: &Error, copied: &[PathBuf], cancel: &Cancel) -> Page {
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
        let mut timeline = scene.timeline.rows();
        for row in &mut timeline {
            row.what = self.redactor.text(&row.what);
        }
        let failed = scene.step.filter(|step| step.runs);
        let failed = failed.map(|step| format!("step {}, `{}`", step.number, step.name));
        let (screens, screens_in_all) = scene::screens(scene.run_dir, self.failure, copied);
        Page {
            recipe: self.redactor.text(scene.recipe),
            phase: scene.phase.map(Phase::name),
            step: scene.step.map(|step| (step.number, step.name.clone())),
            failed_step: failed.map(|step| self.redactor.text(&step)),
            next: self.redactor.text(scene.next),
            failed_at: Some(jiff::Timestamp::now()),
            error: scene::fault(error, self.redactor),
            causes: causes(logs, &said, installing),
            screens,
            screens_in_all,
            reading: found
                .as_ref()
                .map(|found| reading(&found.state, logs, installing)),
            errors: quoted(logs),
            logs: logs.iter().map(listed).collect(),
            bootstrap: logs.iter().filter_map(bootstrap).collect(),
            step_output,
            agent: self.part("The last of them", "agent.log", 60),
            machine: machine
                .filter_map(|(title, file)| self.part(title, file, 60))
                .collect(),
            timeline,
            files: scene::files(self.failure),
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
