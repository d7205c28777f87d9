//! Checks of this host, for `winimg doctor`: what was found, what is missing, and the command that
//! fixes it on this system.
//!
//! Each hypervisor checks what it needs itself (`inspect_host` in its row of the table).

mod system;

use schemars::JsonSchema;
use serde::Serialize;

use winimg_base::error::Error;
use winimg_base::problem::Problem;

pub use self::system::{HostProgram, OperatingSystem};

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HostCheck {
    pub about: CheckTopic,
    pub state: CheckState,
    /// Human-readable line.
    pub found: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// Fix on this system, if known: usually a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckTopic {
    Qemu,
    QemuImg,
    HyperV,
    Kvm,
    SecureBoot,
    Tpm,
    Tesseract,
    Memory,
    Processors,
    Room,
    Proxy,
    Clock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckState {
    Good,
    /// A build works without it, but slower or with less diagnostics.
    Advice,
    /// A build does not work without it.
    Missing,
}

/// Reason why something on the host cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostProblem {
    pub problem: Box<Problem>,
    /// It is not installed: installing its package fixes it.
    pub is_absent: bool,
}

impl HostCheck {
    pub fn new(about: CheckTopic, state: CheckState, found: impl Into<String>) -> Self {
        Self {
            about,
            state,
            found: found.into(),
            remarks: Vec::new(),
            cure: None,
        }
    }

    pub fn good(about: CheckTopic, found: impl Into<String>) -> Self {
        Self::new(about, CheckState::Good, found)
    }

    #[must_use]
    pub fn with_cure(self, cure: impl Into<String>) -> Self {
        Self {
            cure: Some(cure.into()),
            ..self
        }
    }

    #[must_use]
    pub fn with_remarks(self, remarks: Vec<String>) -> Self {
        Self { remarks, ..self }
    }
}

impl HostProblem {
    /// Returns a failed check with the problem's details and further lines as remarks, and the
    /// problem's own cure. `name` is the beginning of its line.
    pub fn to_check(&self, about: CheckTopic, state: CheckState, name: &str) -> HostCheck {
        let problem = &self.problem;
        HostCheck {
            remarks: problem
                .list_details()
                .into_iter()
                .map(|(name, value)| format!("{name}: {value}"))
                .chain(problem.lines.iter().cloned())
                .collect(),
            cure: problem.cures.first().cloned(),
            ..HostCheck::new(about, state, format!("{name}: {}", problem.fact))
        }
    }
}

impl From<&Error> for HostProblem {
    fn from(error: &Error) -> Self {
        Self {
            problem: Box::new(error.problem().clone()),
            is_absent: error.is_absent(),
        }
    }
}
