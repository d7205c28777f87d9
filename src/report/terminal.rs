//! Prints events as lines, with one live line at the bottom of an interactive terminal.
//!
//! A log has no live line: transfers and phases print a line at most every 15 seconds, and in CI
//! each phase is a group. The live line is visible during a phase and is removed before anything
//! else is printed. Text from servers and files cannot move the cursor, reverse the text direction
//! or control the CI.

use std::collections::HashMap;
use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::ci::{CiSystem, CiWorkspace};
use super::live::LiveProgress;
use winimg_base::display_text;
use winimg_base::event::{Event, PauseChoice, Phase, Sink};
use winimg_base::text::format_duration;

const QUIET: Duration = Duration::from_secs(15);

/// Writes to standard error, or into a log.
pub struct Terminal {
    /// The log file; `None` for standard error.
    log: Option<Mutex<File>>,
    is_live: bool,
    ci: CiSystem,
    workspace: CiWorkspace,
    started: Instant,
    state: Mutex<TerminalState>,
}

#[derive(Default)]
struct TerminalState {
    /// The live line, while there is one.
    bar: Option<ProgressBar>,
    /// Text of the live line and of a log's lines about transfers.
    progress: LiveProgress,
    /// Times of the last line for each name.
    shown: HashMap<String, Instant>,
    /// The last progress text of a phase: only a new one is printed.
    stage: String,
    /// The open group of the CI log.
    group: Option<Phase>,
    /// The hint about the machine's screen has been printed.
    knows_screen: bool,
}

impl Terminal {
    pub fn new(ci: CiSystem) -> Self {
        Self {
            log: None,
            is_live: ci == CiSystem::None && std::io::stderr().is_terminal(),
            ci,
            workspace: CiWorkspace::of_process(),
            started: Instant::now(),
            state: Mutex::default(),
        }
    }

    /// Creates a terminal that writes a log file, without colours.
    pub fn into_log(log: File) -> Self {
        let mut terminal = Self::new(CiSystem::None);
        terminal.log = Some(Mutex::new(log));
        terminal.is_live = false;
        terminal
    }

    fn lock_state(&self) -> MutexGuard<'_, TerminalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints lines with the time since the start, above the live line.
    pub(super) fn print_line(&self, text: &str) {
        let seconds = self.started.elapsed().as_secs();
        self.write(&format!(
            "{}\n",
            prefix_time(seconds, &display_text::sanitize_lines(text))
        ));
    }

    /// Prints whole lines above the live line.
    fn write(&self, text: &str) {
        let text = display_text::sanitize_styled(text);
        let text = self.ci.escape_commands(&text);
        match &self.lock_state().bar {
            Some(bar) => bar.suspend(|| self.write_plain(&text)),
            None => self.write_plain(&text),
        }
    }

    fn write_plain(&self, text: &str) {
        let _ = match &self.log {
            None => anstream::stderr().write_all(text.as_bytes()),
            Some(log) => {
                let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                anstream::StripStream::new(&mut *log).write_all(text.as_bytes())
            }
        };
    }

    /// Writes commands for the CI.
    fn write_command(&self, text: &str) {
        if text.is_empty() {
            return;
        }
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    /// Updates the live line after an event; without a terminal, prints a line about long work
    /// from time to time.
    fn update_live_line(&self, event: &Event) {
        let mut state = self.lock_state();
        if !state.progress.update(event, Instant::now()) {
            return;
        }
        let message = state.progress.render_message();
        if self.is_live {
            if let Event::PhaseStarted { .. } = event
                && let Some(before) = state.bar.take()
            {
                before.finish_and_clear();
            }
            let text = display_text::sanitize_line(&message);
            let TerminalState { bar, progress, .. } = &mut *state;
            bar.get_or_insert_with(|| progress.create_bar())
                .set_message(text);
            return;
        }
        drop(state);
        let name = match event {
            Event::Output { .. } => "output",
            Event::Bytes { what, .. } => what.as_str(),
            _ => return,
        };
        if self.is_due(name) {
            self.print_line(&message);
        }
    }

    /// Removes the live line.
    fn clear_live_line(&self) {
        if let Some(bar) = self.lock_state().bar.take() {
            bar.finish_and_clear();
        }
    }

    fn is_due(&self, name: &str) -> bool {
        let mut state = self.lock_state();
        let now = Instant::now();
        let last = state.shown.get(name).copied();
        if last.is_some_and(|last| now.duration_since(last) < QUIET) {
            return false;
        }
        state.shown.insert(name.into(), now);
        // The first event of a transfer has no rate yet.
        last.is_some()
    }

    /// Returns true if the progress text of the phase is new.
    fn set_stage(&self, text: &str) -> bool {
        let mut state = self.lock_state();
        let moved = state.stage != text;
        if moved {
            state.stage = text.to_string();
        }
        moved
    }

    fn begin_phase(&self, phase: Phase) {
        self.end_group();
        self.lock_state().group = Some(phase);
        self.write_command(&self.ci.begin_group(phase, read_clock()));
        self.print_line(&format!("{phase} …"));
    }

    /// Ends the group, so that the following lines are visible while it is collapsed.
    fn end_group(&self) {
        let open = self.lock_state().group.take();
        if let Some(phase) = open {
            self.write_command(&self.ci.end_group(phase, read_clock()));
        }
    }

    /// Prints the hint once, on an interactive terminal.
    fn show_machine(&self, output: &str) {
        let known = std::mem::replace(&mut self.lock_state().knows_screen, true);
        if self.is_live && cfg!(unix) && !known {
            self.print_line(&format!("the machine's screen: winimg screen {output}"));
        }
    }
}

impl Sink for Terminal {
    fn emit(&self, event: &Event) {
        self.print(event);
        self.update_live_line(event);
        self.write_command(&self.ci.render_annotations(event, &self.workspace));
    }
}

impl Terminal {
    /// Prints the permanent lines of an event.
    fn print(&self, event: &Event) {
        match event {
            Event::Note { text } => self.print_line(text),
            Event::Warning { text } => self.print_line(&format!("warning: {text}")),
            Event::PhaseStarted { phase, .. } => self.begin_phase(*phase),
            Event::PhaseFinished { phase, seconds } => {
                self.clear_live_line();
                self.end_group();
                self.print_line(&format!("{phase} done in {}", format_duration(*seconds)));
            }
            Event::Progress { phase, text } if self.set_stage(text) => {
                self.print_line(&format!("{phase}: {text}"));
            }
            Event::Progress { phase, text } if !self.is_live && self.is_due(phase.name()) => {
                self.print_line(&format!("{phase}: {text}"));
            }
            // Only the live line shows them.
            Event::Progress { .. } | Event::Bytes { .. } | Event::Output { .. } => {}
            Event::StepStarted { step, of, name, .. } => {
                self.print_line(&format!("[{step}/{of}] {name}"));
            }
            Event::Command { command, .. } => self.print_line(&format!("      {command}")),
            Event::StepFinished { seconds, .. } if *seconds >= 10.0 => {
                self.print_line(&format!("      took {}", format_duration(*seconds)));
            }
            Event::StepFinished { .. } => {}
            Event::LayerUsed {
                after, parts, of, ..
            } => self.print_line(&format!(
                "resuming from the layer after {after}: {parts} of {of} parts are done"
            )),
            Event::LayersStale { reasons } => {
                for reason in reasons {
                    self.print_line(&format!("      {reason}"));
                }
            }
            Event::LayerSealed {
                after,
                bytes,
                seconds,
                ..
            } => self.print_line(&format!(
                "      layer after {after}: {}, sealed in {}",
                indicatif::HumanBytes(*bytes),
                format_duration(*seconds)
            )),
            Event::Restarted { count } => {
                self.print_line(&format!("the machine restarted ({count})"))
            }
            Event::MachineStarted { output } => self.show_machine(output),
            // Nothing may be drawn below a prompt.
            Event::Paused { text, .. } => {
                self.clear_live_line();
                self.print_line(text);
            }
            Event::Resumed { choice, .. } => self.print_line(match choice {
                PauseChoice::GoOn => "continuing",
                PauseChoice::Retry => "retrying the step",
                PauseChoice::Stop => "ending the build",
            }),
            Event::Screen { .. } => {}
            Event::Finding { text, .. } => self.print_line(text),
            // `verify` prints it, and a build shows it as its phase's progress.
            Event::Checked { .. } => {}
            // For programs; people read the result on standard output.
            Event::Started { .. }
            | Event::BuildStarted { .. }
            | Event::InputProved { .. }
            | Event::HostProbed { .. }
            | Event::Finished { .. } => {}
            Event::Failed { reported: true, .. } => {
                self.clear_live_line();
                self.end_group();
            }
            // Diagnostics of another process come without the lines of the recipe.
            Event::Diagnostics { found, rendered } if rendered.is_empty() => {
                for diagnostic in &found.diagnostics {
                    self.print_line(&diagnostic.to_text());
                }
            }
            Event::Diagnostics { rendered, .. } => {
                self.clear_live_line();
                self.write(rendered);
            }
            Event::Failed { text, .. } => {
                self.clear_live_line();
                self.end_group();
                self.write(&format!("error: {}\n", display_text::sanitize_lines(text)));
            }
        }
    }
}

/// Prefixes a text with a time, `  0:07 first`, and aligns its other lines with the first one.
fn prefix_time(seconds: u64, text: &str) -> String {
    let time = format!("{:>3}:{:02} ", seconds / 60, seconds % 60);
    let below = format!("\n{}", " ".repeat(time.len()));
    time + &text.trim_end().replace('\n', &below)
}

/// Returns the current time in Unix seconds.
fn read_clock() -> i64 {
    jiff::Timestamp::now().as_second()
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.clear_live_line();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_lines_stand_below_the_first() {
        assert_eq!(prefix_time(7, "one"), "  0:07 one");
        assert_eq!(
            prefix_time(754, "warning: the answer file:\n  line\n"),
            " 12:34 warning: the answer file:\n         line"
        );
    }

    #[test]
    fn durations_read_as_people_say_them() {
        assert_eq!(format_duration(9.96), "10.0 s");
        assert_eq!(format_duration(185.2), "3 min 5 s");
        assert_eq!(format_duration(7260.0), "2 h 1 min");
    }
}
