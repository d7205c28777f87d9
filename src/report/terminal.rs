//! Events as lines for people, with one live line at the bottom when a person is watching.
//!
//! In CI there is no live line: a transfer or a phase then speaks at most every 15 seconds, so that a log shows life
//! without being flooded. The live line is there while a phase is under way and gone before anything else is printed. Words of
//! servers and files do not move the cursor or turn the text around.

use std::collections::HashMap;
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use winimg_base::event::{Choice, Event, Sink};
use winimg_base::text::duration;

const QUIET: Duration = Duration::from_secs(15);

/// Writes to standard error.
pub struct Terminal {
    is_live: bool,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The live line, while there is one.
    bar: Option<ProgressBar>,
    /// When something of this name was shown last.
    shown: HashMap<String, Instant>,
    /// The last text of a phase's progress: only a new one is a line.
    progress: String,
}

impl Default for Terminal {
    fn default() -> Self {
        Self {
            is_live: std::io::stderr().is_terminal(),
            started: Instant::now(),
            state: Mutex::default(),
        }
    }
}

impl Terminal {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lines under the time since the start, above the live line.
    pub(super) fn line(&self, text: &str) {
        let seconds = self.started.elapsed().as_secs();
        self.write(&format!("{}\n", stamped(seconds, &uncontrolled(text))));
    }

    /// Text above the live line, whole lines.
    fn write(&self, text: &str) {
        let text = text.replace(turns, "\u{fffd}");
        let write = || {
            let _ = anstream::stderr().write_all(text.as_bytes());
        };
        match &self.state().bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// The live line; without a terminal, a line every now and then.
    fn live(&self, name: &str, text: String) {
        if !self.is_live {
            if self.is_due(name) {
                self.line(&text);
            }
        } else {
            let text = text.replace(char::is_control, " ");
            let text = text.replace(turns, "\u{fffd}");
            self.state().bar.get_or_insert_with(bar).set_message(text);
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
        let moved = state.progress != text;
        if moved {
            state.progress = text.to_string();
        }
        moved
    }

    fn output(&self, text: &str) {
        if let Some(last) = text.lines().rev().find(|l| !l.trim().is_empty()) {
            self.live("output", format!("  {}", last.trim_end()));
        }
    }
}

impl Sink for Terminal {
    fn emit(&self, event: &Event) {
        match event {
            Event::Note { text } => self.line(text),
            Event::Warning { text } => self.line(&format!("warning: {text}")),
            Event::PhaseStarted { phase, .. } => {
                self.line(&format!("{phase} …"));
                if self.is_live {
                    self.live(phase.name(), phase.to_string());
                }
            }
            Event::PhaseFinished { phase, seconds } => {
                self.clear();
                self.line(&format!("{phase} done in {}", duration(*seconds)));
            }
            Event::Progress { phase, text } if self.moved(text) => {
                self.line(&format!("{phase}: {text}"));
            }
            Event::Progress { phase, text } => self.live(phase.name(), format!("{phase}: {text}")),
            Event::Bytes { what, done, total } => {
                self.live(what, format!("{what}: {}", bytes(*done, *total)));
            }
            Event::StepStarted { step, of, name, .. } => {
                let text = format!("[{step}/{of}] {name}");
                self.line(&text);
                if self.is_live {
                    // Until the step itself says something.
                    self.live("output", text);
                }
            }
            Event::Command { command, .. } => self.line(&format!("      {command}")),
            Event::Output { text, .. } => self.output(text),
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
            Event::Failed { reported: true, .. } => self.clear(),
            Event::Diagnostics { rendered, .. } => {
                self.clear();
                self.write(rendered);
            }
            Event::Failed { text, .. } => {
                self.clear();
                self.write(&format!("error: {}\n", uncontrolled(text)));
            }
        }
    }
}

/// Characters that turn or break what stands after them: a name of a server's could read as another one (Unicode TR 36).
fn turns(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Without what a terminal obeys, but for lines and tabs. A lone carriage return would let what follows overwrite the line.
fn uncontrolled(text: &str) -> String {
    text.replace("\r\n", "\n").replace(
        |c: char| c.is_control() && !matches!(c, '\n' | '\t'),
        "\u{fffd}",
    )
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// Every line of a text under one time: `  0:07 first`, further lines below the first one's text.
fn stamped(seconds: u64, text: &str) -> String {
    let time = format!("{:>3}:{:02} ", seconds / 60, seconds % 60);
    let below = format!("\n{}", " ".repeat(time.len()));
    time + &text.trim_end().replace('\n', &below)
}

fn bytes(done: u64, total: Option<u64>) -> String {
    let human = indicatif::HumanBytes;
    match total {
        Some(total) if total > 0 => format!(
            "{} of {} ({} %)",
            human(done),
            human(total),
            done * 100 / total
        ),
        _ => human(done).to_string(),
    }
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
    fn foreign_words_do_not_steer_the_terminal() {
        let text = "kubelet\u{202e}exe.\u{2066}a\u{1b}[2J\n\tb\u{2029}";
        let shown = uncontrolled(text).replace(turns, "\u{fffd}");
        assert_eq!(
            shown,
            "kubelet\u{fffd}exe.\u{fffd}a\u{fffd}[2J\n\tb\u{fffd}"
        );
        assert_eq!(
            uncontrolled("one\r\ntwo\r error: none\r\n"),
            "one\ntwo\u{fffd} error: none\n"
        );
        assert_eq!(
            uncontrolled("déjà vu – “x”").replace(turns, "?"),
            "déjà vu – “x”"
        );
    }

    #[test]
    fn durations_and_sizes_read_as_people_say_them() {
        assert_eq!(duration(9.96), "10.0 s");
        assert_eq!(duration(185.2), "3 min 5 s");
        assert_eq!(duration(7260.0), "2 h 1 min");
        assert_eq!(
            bytes(512 << 20, Some(2 << 30)),
            "512.00 MiB of 2.00 GiB (25 %)"
        );
        assert_eq!(bytes(1024, None), "1.00 KiB");
    }
}
