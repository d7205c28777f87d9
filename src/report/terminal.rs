//! Events as lines for people, with one live line at the bottom when a person is watching.
//!
//! In CI there is no live line: a transfer or a phase then speaks at most every 15 seconds, so that a log shows life
//! without being flooded.

use std::collections::HashMap;
use std::io::{IsTerminal as _, Write as _};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::event::{Event, Sink};

const QUIET: Duration = Duration::from_secs(15);

/// Writes to standard error.
pub struct Terminal {
    live: Option<ProgressBar>,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When something of this name was last told.
    told: HashMap<String, Instant>,
    /// The last text of each phase's progress, to tell changes only.
    progress: String,
}

impl Default for Terminal {
    fn default() -> Self {
        Self::new()
    }
}

impl Terminal {
    pub fn new() -> Self {
        let live = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {wide_msg}");
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = style {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self {
            live,
            started: Instant::now(),
            state: Mutex::default(),
        }
    }

    fn line(&self, text: &str) {
        let seconds = self.started.elapsed().as_secs();
        let stamped = format!("{:>3}:{:02} {text}", seconds / 60, seconds % 60);
        match &self.live {
            Some(bar) => bar.suspend(|| {
                let _ = writeln!(anstream::stderr(), "{stamped}");
            }),
            None => {
                let _ = writeln!(anstream::stderr(), "{stamped}");
            }
        }
    }

    /// The live line; without a terminal, a line every now and then.
    fn live(&self, name: &str, text: String) {
        match &self.live {
            Some(bar) => bar.set_message(text),
            None if self.is_due(name) => self.line(&text),
            None => {}
        }
    }

    fn is_due(&self, name: &str) -> bool {
        let Ok(mut state) = self.state.lock() else {
            return false;
        };
        let now = Instant::now();
        match state.told.get(name) {
            Some(last) if now.duration_since(*last) < QUIET => false,
            // The first word of a transfer says nothing yet.
            None => {
                state.told.insert(name.into(), now);
                false
            }
            Some(_) => {
                state.told.insert(name.into(), now);
                true
            }
        }
    }

    /// Whether the phase is somewhere new.
    fn moved(&self, text: &str) -> bool {
        let Ok(mut state) = self.state.lock() else {
            return false;
        };
        if state.progress == text {
            return false;
        }
        state.progress = text.to_string();
        true
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
            Event::PhaseStarted { phase } => self.line(&format!("{phase} …")),
            Event::PhaseFinished { phase, seconds } => {
                self.line(&format!("{phase} done in {}", duration(*seconds)));
                if let Some(bar) = &self.live {
                    bar.set_message("");
                }
            }
            Event::Progress { phase, text } if self.moved(text) => {
                self.line(&format!("{phase}: {text}"));
            }
            Event::Progress { phase, text } => self.live(phase, format!("{phase}: {text}")),
            Event::Bytes { what, done, total } => {
                self.live(what, format!("{what}: {}", bytes(*done, *total)));
            }
            Event::StepStarted { step, of, name, .. } => {
                self.line(&format!("[{step}/{of}] {name}"))
            }
            Event::Command { command, .. } => self.line(&format!("      {command}")),
            Event::Output { text, .. } => self.output(text),
            Event::StepFinished { seconds, .. } if *seconds >= 10.0 => {
                self.line(&format!("      took {}", duration(*seconds)));
            }
            Event::StepFinished { .. } => {}
            Event::Restarted { count } => self.line(&format!("the machine restarted ({count})")),
            Event::Screen { .. } => {}
        }
    }
}

/// `41 s`, `3 min 5 s`
pub fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole / 60 % 60),
    }
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
        if let Some(bar) = &self.live {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
