//! What happens while winimg works, in one form for the terminal, `events.jsonl` and the report.
//!
//! Records (manifest, SBOM) are never made from events. No event holds a secret. Each is written as one line of JSON and read
//! back from it (`docs/events.md`): within one version of the schema events and fields are added, never changed.

mod wait;
mod words;

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use wait::{Attended, Cancel};
pub use words::{Artifact, Choice, Details, Phase, Proof, Reason, Severity, Spot};

use crate::diag::{Complaints, Diagnostics};
use crate::digest::Digest;
use crate::error::{Error, Kind};

/// The version of all of this, which the first line of a stream names.
pub const SCHEMA: &str = "winimg/events/1";

/// One thing that happened. Times are stamped by the sink.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A stream of events begins: always its first line.
    Started {
        /// The version of the events that follow.
        #[schemars(regex(pattern = r"^winimg/events/1$"))]
        schema: String,
        /// The version of winimg.
        winimg: String,
        /// As it is typed: `build`, `cache prune`.
        command: String,
        /// The recipe's file, as it was named.
        #[serde(skip_serializing_if = "Option::is_none")]
        recipe: Option<String>,
    },
    /// A build began.
    BuildStarted {
        /// The recipe's name.
        name: String,
        /// What was typed, without secrets: to be typed again.
        line: String,
    },
    /// An input is here, and is what the recipe says it is.
    InputProved {
        /// The component, or `media.iso`, `media.virtio`, `image NAME`.
        input: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// Where it came from, without credentials.
        url: String,
        bytes: u64,
        #[schemars(with = "String")]
        digest: Digest,
        proof: Proof,
        /// The signatures that were asked for and met: scheme, signer, pins.
        signers: Vec<String>,
    },
    /// What the build's machines run on.
    HostProbed {
        /// `QEMU 7.2.22`
        hypervisor: String,
        /// `kvm`, `tcg` …
        accelerator: String,
    },
    /// Worth a line on the terminal.
    Note { text: String },
    /// Worth a line that stands out.
    Warning { text: String },
    /// A part of the build began.
    PhaseStarted {
        phase: Phase,
        /// Seconds that it took when it last ended well here, in a build of a recipe of this name.
        #[serde(skip_serializing_if = "Option::is_none")]
        last_seconds: Option<f64>,
    },
    /// It ended well.
    PhaseFinished { phase: Phase, seconds: f64 },
    /// Where the phase is now, in a few words: "specialize (restart 2)".
    Progress { phase: Phase, text: String },
    /// Bytes of a transfer or an export; `total` is unknown for some servers.
    Bytes {
        what: String,
        done: u64,
        total: Option<u64>,
    },
    /// A step began. Steps are counted from 1.
    StepStarted {
        step: usize,
        of: usize,
        name: String,
        /// The step's line of TOML.
        place: Spot,
    },
    /// The exact command line that the guest runs.
    Command { step: usize, command: String },
    /// Output of the guest, as it comes.
    Output { step: usize, text: String },
    /// It ended well.
    StepFinished {
        step: usize,
        /// Of its last command.
        exit_code: Option<i64>,
        seconds: f64,
    },
    /// The build goes on from a layer of an earlier one.
    LayerUsed {
        #[schemars(with = "String")]
        key: Digest,
        /// ``the installation``, ``step `kubelet` ``
        after: String,
        /// Seconds since 1970.
        made: i64,
        /// How many parts of the build (the installation, then each step) it holds, of how many.
        parts: usize,
        of: usize,
    },
    /// Why no layer, or no later one, of an earlier build serves.
    LayersStale { reasons: Vec<String> },
    /// The machine was powered off and its disk made a layer.
    LayerSealed {
        #[schemars(with = "String")]
        key: Digest,
        after: String,
        bytes: u64,
        seconds: f64,
    },
    /// The build's machine was started; `winimg screen` shows it by the output folder.
    MachineStarted { output: String },
    /// The machine restarted.
    Restarted { count: u32 },
    /// The build waits for a person, with the machine running.
    Paused {
        reason: Reason,
        #[serde(skip_serializing_if = "Option::is_none")]
        step: Option<usize>,
        /// All of it, as people read it.
        text: String,
    },
    /// The wait is over.
    Resumed { choice: Choice, seconds: f64 },
    /// A picture of the screen was kept.
    Screen { file: String },
    /// Complaints about the recipe, each at its line; errors and warnings.
    Diagnostics {
        #[serde(flatten)]
        found: Complaints,
        /// With the lines of the recipe, in colour, for a terminal.
        #[serde(skip)]
        rendered: String,
    },
    /// A check of a finished image that does not hold, or that only a running Windows could decide.
    Finding {
        severity: Severity,
        #[serde(flatten)]
        problem: Box<Details>,
        /// The step that asked for it.
        #[serde(skip_serializing_if = "Option::is_none")]
        step: Option<String>,
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
    /// A build or an export ended well: the last event. Other commands that end well say nothing more.
    Finished {
        /// The folder that holds the artifacts.
        output: String,
        artifacts: Vec<Artifact>,
        /// Of the whole command.
        seconds: f64,
        /// The folder held already what the recipe makes; nothing was built.
        unchanged: bool,
    },
    /// The command failed: the last event.
    Failed {
        kind: Kind,
        /// The process's exit status.
        status: u8,
        #[serde(flatten)]
        problem: Box<Details>,
        /// All of it, as people read it.
        text: String,
        /// Earlier events have said it; it is not shown again.
        #[serde(skip)]
        reported: bool,
    },
}

impl Event {
    /// The event that begins a stream.
    pub fn started(command: &str, recipe: Option<&Path>) -> Self {
        Self::Started {
            schema: SCHEMA.into(),
            winimg: env!("CARGO_PKG_VERSION").into(),
            command: command.into(),
            recipe: recipe.map(|path| path.display().to_string()),
        }
    }

    pub fn diagnostics(found: &Diagnostics) -> Self {
        Self::Diagnostics {
            found: found.into(),
            rendered: found.render(true),
        }
    }

    /// The event that ends a command.
    pub fn failed(error: &Error) -> Self {
        Self::Failed {
            kind: error.kind(),
            status: error.kind().exit_status(),
            problem: Box::new(error.problem().into()),
            text: error.to_string(),
            reported: error.is_reported(),
        }
    }
}

/// Where events go. Implementations must not block for long and must not fail.
pub trait Sink: Send + Sync {
    fn emit(&self, event: &Event);
}

/// For work that nobody watches: drops every event.
pub struct Silent;

impl Sink for Silent {
    fn emit(&self, _: &Event) {}
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
