//! Purpose of a machine.

use serde::Deserialize;

use winimg_base::error::Kind;

/// Task of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MachinePurpose {
    /// Windows Setup, from the empty disk to the agent's first answer.
    #[default]
    Install,
    /// An installed Windows, from power-on to the agent's first answer.
    Boot,
    /// An installed Windows whose agent has answered already.
    Steps,
    /// A sealed Windows that starts as a new machine, from power-on until it is idle.
    Clone,
}

impl MachinePurpose {
    /// Name of the program that is expected on the screen.
    pub fn label(self) -> &'static str {
        match self {
            Self::Install => "Windows Setup",
            Self::Boot | Self::Steps | Self::Clone => "Windows",
        }
    }
}

impl From<MachinePurpose> for Kind {
    /// Maps the task to the kind of its errors.
    fn from(purpose: MachinePurpose) -> Self {
        match purpose {
            MachinePurpose::Install => Self::Setup,
            MachinePurpose::Boot | MachinePurpose::Steps => Self::Machine,
            MachinePurpose::Clone => Self::Trial,
        }
    }
}
