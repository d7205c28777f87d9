//! Events of a running command, in one form for the terminal, `events.jsonl` and the report.
//!
//! Records (manifest, SBOM) are never created from events. No event contains a secret. Each is
//! written as one line of JSON and can be parsed back (`docs/events.md`): within one version of the
//! schema, events and fields are added, never changed.

mod types;
mod wait;

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use types::{
    FindingSeverity, FinishedArtifact, InputProof, PauseChoice, PauseReason, Phase, ProblemDetails,
    RecipePosition,
};
pub use wait::{Cancel, UserControl};

use crate::diag::{Diagnostics, DiagnosticsRecord};
use crate::digest::Digest;
use crate::error::{Error, Kind};

/// Version of the event schema, stated in the first line of a stream.
pub const SCHEMA: &str = "winimg/events/1";

/// One event. The sink adds the time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Start of a stream of events, always its first line.
    Started {
        /// The version of the events that follow.
        #[schemars(regex(pattern = r"^winimg/events/1$"))]
        schema: String,
        /// The version of winimg.
        winimg: String,
        /// The command as typed: `build`, `cache prune`.
        command: String,
        /// The recipe's file, as given on the command line.
        #[serde(skip_serializing_if = "Option::is_none")]
        recipe: Option<String>,
    },
    /// A build started.
    BuildStarted {
        /// The recipe's name.
        name: String,
        /// The command line without secrets, to run it again.
        line: String,
    },
    /// An input is available and matches the recipe.
    InputProved {
        /// The component, or `media.iso`, `media.virtio`, `image NAME`.
        input: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// The source's URL, without credentials.
        url: String,
        bytes: u64,
        #[schemars(with = "String")]
        digest: Digest,
        proof: InputProof,
        /// Signatures that were required and are valid, each as scheme, signer and pins.
        signers: Vec<String>,
    },
    /// The host on which the build's machines run.
    HostProbed {
        /// `QEMU 7.2.22`
        hypervisor: String,
        /// `kvm`, `tcg` …
        accelerator: String,
    },
    /// Informational message.
    Note { text: String },
    /// Warning message.
    Warning { text: String },
    /// A phase of the build started.
    PhaseStarted {
        phase: Phase,
        /// Duration of the phase's last successful run on this host, for a recipe with this name.
        #[serde(skip_serializing_if = "Option::is_none")]
        last_seconds: Option<f64>,
    },
    /// The phase succeeded.
    PhaseFinished { phase: Phase, seconds: f64 },
    /// Progress of the phase in a few words: "specialize (restart 2)".
    Progress { phase: Phase, text: String },
    /// Bytes of a transfer or an export; `total` is unknown for some servers.
    Bytes {
        what: String,
        done: u64,
        total: Option<u64>,
    },
    /// A step started. Steps are counted from 1.
    StepStarted {
        step: usize,
        of: usize,
        name: String,
        /// The step's line of TOML.
        place: RecipePosition,
    },
    /// The exact command line that the guest runs.
    Command { step: usize, command: String },
    /// Output of the guest, as it comes.
    Output { step: usize, text: String },
    /// The step succeeded.
    StepFinished {
        step: usize,
        /// Exit code of its last command.
        exit_code: Option<i64>,
        seconds: f64,
    },
    /// The build continues from a layer of an earlier one.
    LayerUsed {
        #[schemars(with = "String")]
        key: Digest,
        /// ``the installation``, ``step `kubelet` ``
        after: String,
        /// Seconds since 1970.
        made: i64,
        /// Parts of the build (the installation, then each step) in the layer, and in total.
        parts: usize,
        of: usize,
    },
    /// Reasons no layer (or no later layer) of an earlier build can be reused.
    LayersStale { reasons: Vec<String> },
    /// The machine was powered off and its disk saved as a layer.
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
    /// The build waits for the user, with the machine running.
    Paused {
        reason: PauseReason,
        #[serde(skip_serializing_if = "Option::is_none")]
        step: Option<usize>,
        /// Human-readable text.
        text: String,
    },
    /// The wait is over.
    Resumed { choice: PauseChoice, seconds: f64 },
    /// A screenshot was saved.
    Screen { file: String },
    /// Errors and warnings about the recipe, each at its line.
    Diagnostics {
        #[serde(flatten)]
        found: DiagnosticsRecord,
        /// Text with the lines of the recipe, in color, for a terminal.
        #[serde(skip)]
        rendered: String,
    },
    /// A check of a finished image that failed, or that needs a running Windows.
    Finding {
        severity: FindingSeverity,
        #[serde(flatten)]
        problem: Box<ProblemDetails>,
        /// The step with this check.
        #[serde(skip_serializing_if = "Option::is_none")]
        step: Option<String>,
        /// Human-readable text.
        text: String,
    },
    /// Counts of an image's checks by result.
    Checked {
        /// The image's file.
        image: String,
        checks: usize,
        hold: usize,
        errors: usize,
        warnings: usize,
        unknown: usize,
        /// The counts as text for people.
        text: String,
    },
    /// Last event of a successful build or export. Other commands do not emit it.
    Finished {
        /// The folder with the artifacts.
        output: String,
        artifacts: Vec<FinishedArtifact>,
        /// Seconds of the whole command.
        seconds: f64,
        /// The folder was already up to date; nothing was built.
        unchanged: bool,
    },
    /// The command failed: the last event.
    Failed {
        kind: Kind,
        /// The process's exit status.
        status: u8,
        #[serde(flatten)]
        problem: Box<ProblemDetails>,
        /// Human-readable text.
        text: String,
        /// Earlier events already include it, so it is not shown again.
        #[serde(skip)]
        reported: bool,
    },
}

impl Event {
    /// Creates the event that starts a stream.
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

    /// Creates the event that ends a failed command.
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

/// Receiver of events. Implementations must not block for long and must not fail.
pub trait Sink: Send + Sync {
    fn emit(&self, event: &Event);
}

/// A sink that drops every event.
pub struct SilentSink;

impl Sink for SilentSink {
    fn emit(&self, _: &Event) {}
}

/// Shortcuts for the two most common events.
impl dyn Sink + '_ {
    pub fn note(&self, text: impl Into<String>) {
        self.emit(&Event::Note { text: text.into() });
    }

    pub fn warn(&self, text: impl Into<String>) {
        self.emit(&Event::Warning { text: text.into() });
    }
}
