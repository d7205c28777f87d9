//! What happens while winimg works, in one form for the terminal, `events.jsonl` and the report.
//!
//! Records (manifest, SBOM) are never made from events. No event holds a secret.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::diag::Diagnostics;
use crate::error::{Error, Kind, Result};
use crate::problem::Problem;

/// One thing that happened. Times are stamped by the sink.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Worth a line on the terminal.
    Note { text: String },
    /// Worth a line that stands out.
    Warning { text: String },
    /// A part of the build began: `fetch`, `media`, `install`, `provision`, `seal`, `verify`, `export`.
    PhaseStarted { phase: &'static str },
    /// It ended well.
    PhaseFinished { phase: &'static str, seconds: f64 },
    /// Where the phase is now, in a few words: "specialize (restart 2)".
    Progress { phase: &'static str, text: String },
    /// Bytes of a transfer or an export; `total` is unknown for some servers.
    Bytes {
        what: String,
        done: u64,
        total: Option<u64>,
    },
    /// Steps are counted from 1.
    StepStarted {
        step: usize,
        of: usize,
        name: String,
        place: String,
    },
    /// The exact command line that the guest runs.
    Command { step: usize, command: String },
    /// Output of the guest, as it comes.
    Output { step: usize, text: String },
    StepFinished {
        step: usize,
        exit_code: Option<i64>,
        seconds: f64,
    },
    /// The build goes on from a layer of an earlier one.
    LayerUsed {
        key: String,
        /// ``the installation``, ``step `kubelet` ``
        after: String,
        /// Seconds since 1970.
        made: i64,
        /// How many parts of the build (the installation, then each step) it holds, of how many.
        parts: usize,
        of: usize,
    },
    /// The machine was powered off and its disk made a layer.
    LayerSealed {
        key: String,
        after: String,
        bytes: u64,
        seconds: f64,
    },
    /// The machine restarted.
    Restarted { count: u32 },
    /// The build waits for a person, with the machine running.
    Paused {
        /// `break`, `debug` or `failure`.
        reason: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        step: Option<usize>,
        /// All of it, as people read it.
        text: String,
    },
    /// The wait is over.
    Resumed {
        /// `go-on`, `retry` or `stop`.
        choice: &'static str,
        seconds: f64,
    },
    /// A picture of the screen was kept.
    Screen { file: String },
    /// Complaints about the recipe, each at its line; errors and warnings.
    Diagnostics {
        #[serde(flatten)]
        found: Diagnostics,
    },
    /// A check of a finished image that does not hold, or that only a running Windows could decide.
    Finding {
        /// `error`, `warning` or `unknown`.
        severity: &'static str,
        #[serde(flatten)]
        problem: Box<Problem>,
        /// The step that asked for it.
        #[serde(skip_serializing_if = "Option::is_none")]
        step: Option<String>,
        /// The step's line of TOML.
        #[serde(rename = "recipe", skip_serializing_if = "Option::is_none")]
        asked_at: Option<String>,
        /// All of it, as people read it.
        text: String,
    },
    /// All checks of an image, counted.
    Checked {
        /// The image's file.
        image: String,
        checks: usize,
        hold: usize,
        errors: usize,
        warnings: usize,
        unknown: usize,
        /// The counts, as people read them.
        text: String,
    },
    /// The command failed: the last event. A command that ends well says nothing more.
    Failed {
        kind: Kind,
        /// The process's exit status.
        status: u8,
        #[serde(flatten)]
        problem: Box<Problem>,
        /// All of it, as people read it.
        text: String,
        /// Earlier events have said it; it is not shown again.
        #[serde(skip)]
        reported: bool,
    },
}

impl Event {
    /// The event that ends a command.
    pub fn failed(error: &Error) -> Self {
        Self::Failed {
            kind: error.kind(),
            status: error.kind().exit_status(),
            problem: Box::new(error.problem().clone()),
            text: error.to_string(),
            reported: error.is_reported(),
        }
    }
}

/// Where events go. Implementations must not block for long and must not fail.
pub trait Sink: Send + Sync {
    fn emit(&self, event: &Event);
}

/// Convenience for the two commonest events.
impl dyn Sink + '_ {
    pub fn note(&self, text: impl Into<String>) {
        self.emit(&Event::Note { text: text.into() });
    }

    pub fn warn(&self, text: impl Into<String>) {
        self.emit(&Event::Warning { text: text.into() });
    }
}

/// The cancel signal that every wait watches. Clones share one flag.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    pub fn cancel(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// An error when the signal was given.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() {
            return Err(Error::cancelled());
        }
        Ok(())
    }

    /// Takes the signal back; whether it was given. For a wait whose regular end is an interrupt.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }

    /// The flag itself, for a signal handler.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Sleeps at most `time`, and less when cancelled.
    pub fn sleep(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
        self.check()
    }
}

/// Whether a person has the machine. Its watch then judges nothing, and limits of time grow by [`Attended::total`]. Clones
/// share one state.
#[derive(Clone, Debug, Default)]
pub struct Attended(Arc<Mutex<Attention>>);

#[derive(Debug, Default)]
struct Attention {
    since: Option<Instant>,
    before: Duration,
}

impl Attended {
    fn lock(&self) -> MutexGuard<'_, Attention> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn begin(&self) {
        self.lock().since.get_or_insert_with(Instant::now);
    }

    pub fn end(&self) {
        let mut state = self.lock();
        if let Some(since) = state.since.take() {
            state.before += since.elapsed();
        }
    }

    pub fn is_on(&self) -> bool {
        self.lock().since.is_some()
    }

    /// How long persons have had it so far.
    pub fn total(&self) -> Duration {
        let state = self.lock();
        state.before + state.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}
