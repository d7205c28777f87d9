//! Events as lines for people, with one live line at the bottom when a person is watching.
//!
//! In a log there is no live line: a transfer or a phase then speaks at most every 15 seconds, so that it shows life without being
//! flooded, and in CI each phase is a group. The live line is there while a phase is under way and gone before anything else is
//! printed. Words of servers and files do not move the cursor, turn the text around or command the CI.

use std::collections::HashMap;
use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::ci::{Ci, Workspace};
use super::live::Progress;
use winimg_base::event::{Choice, Event, Phase, Sink};
use winimg_base::text::duration;
use winimg_base::unseen;

const QUIET: Duration = Duration::from_secs(15);

/// Writes to standard error, or into a log.
pub struct Terminal {
    /// Without one to standard error.
    log: Option<Mutex<File>>,
    is_live: bool,
    ci: Ci,
    workspace: Workspace,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The live line, while there is one.
    bar: Option<ProgressBar>,
    /// What it says, and what a log says of transfers.
    progress: Progress,
    /// When something of this name was shown last.
    shown: HashMap<String, Instant>,
    /// The last text of a phase's progress: only a new one is a line.
    stage: String,
    /// The group of the CI's log that is open.
    group: Option<Phase>,
    /// A person knows how to look at the machine.
    knows_screen: bool,
}

impl Terminal {
    pub fn new(ci: Ci) -> Self {
        Self {
            log: None,
            is_live: ci == Ci::None && std::io::stderr().is_terminal(),
            ci,
            workspace: Workspace::of_process(),
            started: Instant::now(),
            state: Mutex::default(),
        }
    }

    /// One that nobody watches: the lines of a log, without colours.
    pub fn into_log(log: File) -> Self {
        let mut terminal = Self::new(Ci::None);
        terminal.log = Some(Mutex::new(log));
        terminal.is_live = false;
        terminal
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lines under the time since the start, above the live line.
    pub(super) fn line(&self, text: &str) {
        let seconds = self.started.elapsed().as_secs();
        self.write(&format!("{}\n", stamped(seconds, &unseen::lines(text))));
    }

    /// Text above the live line, whole lines.
    fn write(&self, text: &str) {
        let text = unseen::styled(text);
        let text = self.ci.harmless(&text);
        let write = || {
            let _ = match &self.log {
                None => anstream::stderr().write_all(text.as_bytes()),
                Some(log) => {
                    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                    anstream::StripStream::new(&mut *log).write_all(text.as_bytes())
                }
            };
        };
        match &self.state().bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Text that the CI reads.
    fn command(&self, text: &str) {
        if text.is_empty() {
            return;
        }
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    /// The live line as it is after the event; without a terminal, now and then a line about what takes long.
    fn live(&self, event: &Event) {
        let mut state = self.state();
        if !state.progress.take(event, Instant::now()) {
            return;
        }
        let message = state.progress.message();
        if self.is_live {
            if let Event::PhaseStarted { .. } = event
                && let Some(before) = state.bar.take()
            {
                before.finish_and_clear();
            }
            let text = unseen::line(&message);
            let State { bar, progress, .. } = &mut *state;
            bar.get_or_insert_with(|| progress.bar()).set_message(text);
            return;
        }
        drop(state);
        let name = match event {
            Event::Output { .. } => "output",
            Event::Bytes { what, .. } => what.as_str(),
            _ => return,
        };
        if self.is_due(name) {
            self.line(&message);
        }
    }

    /// Takes the live line away.
    fn clear(&self) {
        if let Some(bar) = self.state().bar.take() {
            bar.finish_and_clear();
        }
    }

    fn is_due(&self, name: &str) -> bool {
        let mut state = self.state();
        let now = Instant::now();
        let last = state.shown.get(name).copied();
        if last.is_some_and(|last| now.duration_since(last) < QUIET) {
            return false;
        }
        state.shown.insert(name.into(), now);
        // The first word of a transfer says nothing yet.
        last.is_some()
    }

    /// Whether the phase is somewhere new.
    fn moved(&self, text: &str) -> bool {
        let mut state = self.state();
        let moved = state.stage != text;
        if moved {
            state.stage = text.to_string();
        }
        moved
    }

    fn begin(&self, phase: Phase) {
        self.end_group();
        self.state().group = Some(phase);
        self.command(&self.ci.begin(phase, now()));
        self.line(&format!("{phase} …"));
    }

    /// What follows stands outside of it, and is seen while it is folded.
    fn end_group(&self) {
        let open = self.state().group.take();
        if let Some(phase) = open {
            self.command(&self.ci.end(phase, now()));
        }
    }

    /// Said once, to a person who can type it.
    fn show_machine(&self, output: &str) {
        let known = std::mem::replace(&mut self.state().knows_screen, true);
        if self.is_live && cfg!(unix) && !known {
            self.line(&format!("the machine's screen: winimg screen {output}"));
        }
    }
}

impl Sink for Terminal {
    fn emit(&self, event: &Event) {
        self.print(event);
        self.live(event);
        self.command(&self.ci.annotations(event, &self.workspace));
    }
}

impl Terminal {
    /// What stays.
    fn print(&self, event: &Event) {
        match event {
            Event::Note { text } => self.line(text),
            Event::Warning { text } => self.line(&format!("warning: {text}")),
            Event::PhaseStarted { phase, .. } => self.begin(*phase),
            Event::PhaseFinished { phase, seconds } => {
                self.clear();
                self.end_group();
                self.line(&format!("{phase} done in {}", duration(*seconds)));
            }
            Event::Progress { phase, text } if self.moved(text) => {
                self.line(&format!("{phase}: {text}"));
            }
            Event::Progress { phase, text } if !self.is_live && self.is_due(phase.name()) => {
                self.line(&format!("{phase}: {text}"));
            }
            // As far as the live line shows them.
            Event::Progress { .. } | Event::Bytes { .. } | Event::Output { .. } => {}
            Event::StepStarted { step, of, name, .. } => {
                self.line(&format!("[{step}/{of}] {name}"));
            }
            Event::Command { command, .. } => self.line(&format!("      {command}")),
            Event::StepFinished { seconds, .. } if *seconds >= 10.0 => {
                self.line(&format!("      took {}", duration(*seconds)));
            }
            Event::StepFinished { .. } => {}
            Event::LayerUsed {
                after, parts, of, ..
            } => self.line(&format!(
                "resuming from the layer after {after}: {parts} of {of} parts are done"
            )),
            Event::LayersStale { reasons } => {
                let lines = reasons.iter().map(|reason| format!("      {reason}"));
                lines.for_each(|line| self.line(&line));
            }
            Event::LayerSealed {
                after,
                bytes,
                seconds,
                ..
            } => self.line(&format!(
                "      layer after {after}: {}, sealed in {}",
                indicatif::HumanBytes(*bytes),
                duration(*seconds)
            )),
            Event::Restarted { count } => self.line(&format!("the machine restarted ({count})")),
            Event::MachineStarted { output } => self.show_machine(output),
            // Nobody may draw below a prompt.
            Event::Paused { text, .. } => {
                self.clear();
                self.line(text);
            }
            Event::Resumed { choice, .. } => self.line(match choice {
                Choice::GoOn => "continuing",
                Choice::Retry => "trying the step again",
                Choice::Stop => "ending the build",
            }),
            Event::Screen { .. } => {}
            Event::Finding { text, .. } => self.line(text),
            // `verify` prints it, and a build shows it as its phase's progress.
            Event::Checked { .. } => {}
            // For programs; people read the result on standard output.
            Event::Started { .. }
            | Event::BuildStarted { .. }
            | Event::InputProved { .. }
            | Event::HostProbed { .. }
            | Event::Finished { .. } => {}
            Event::Failed { reported: true, .. } => {
                self.clear();
                self.end_group();
            }
            // What another process said has lost the lines of the recipe.
            Event::Diagnostics { found, rendered } if rendered.is_empty() => {
                found
                    .diagnostics
                    .iter()
                    .for_each(|one| self.line(&one.text()));
            }
            Event::Diagnostics { rendered, .. } => {
                self.clear();
                self.write(rendered);
            }
            Event::Failed { text, .. } => {
                self.clear();
                self.end_group();
                self.write(&format!("error: {}\n", unseen::lines(text)));
            }
        }
    }
}

/// Every line of a text under one time: `  0:07 first`, further lines below the first one's text.
fn stamped(seconds: u64, text: &str) -> String {
    let time = format!("{:>3}:{:02} ", seconds / 60, seconds % 60);
    let below = format!("\n{}", " ".repeat(time.len()));
    time + &text.trim_end().replace('\n', &below)
}

/// Seconds since 1970.
fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_lines_stand_below_the_first() {
        assert_eq!(stamped(7, "one"), "  0:07 one");
        assert_eq!(
            stamped(754, "warning: the answer file:\n  line\n"),
            " 12:34 warning: the answer file:\n         line"
        );
    }

    #[test]
    fn durations_read_as_people_say_them() {
        assert_eq!(duration(9.96), "10.0 s");
        assert_eq!(duration(185.2), "3 min 5 s");
        assert_eq!(duration(7260.0), "2 h 1 min");
    }
}
