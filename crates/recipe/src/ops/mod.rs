//! The work of a step in the guest: ops, the payload disc, the commands in batch text, and the
//! checks of the finished image. The verbs compile to these values.

pub(crate) mod batch;
pub mod check;
pub(crate) mod compiler;
pub(crate) mod principal;
pub(crate) mod programs;
pub(crate) mod reg;
pub(crate) mod settle;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::GuestPath;
use winimg_base::text::Place;

pub use check::PlannedCheck;
pub use settle::SettleWait;

/// Default limit for a restart.
pub const REBOOT_TIMEOUT: Duration = Duration::from_secs(20 * 60);

/// Limit for a power-off unless the step before it has a longer `timeout`. Pending servicing can
/// take minutes; a machine that is stopped earlier leaves a damaged image.
pub const OFF_TIMEOUT: Duration = Duration::from_secs(600);

/// A step as the engine executes it.
#[derive(Clone, Debug)]
pub struct PlannedStep {
    pub name: String,
    pub verb: &'static str,
    pub place: Place,
    pub skipped: Option<String>,
    /// Variables in it that have no value. If there are any, the step has no ops.
    pub undecided: Vec<String>,
    pub ops: Vec<PlannedOp>,
    /// Indices of the payload entries that the ops use, ascending.
    pub entries: Vec<u32>,
    /// For `Op::Reboot` and for restarts that an exit code requests.
    pub reboot_timeout: Duration,
    /// For a power-off between this step and the next.
    pub off_timeout: Duration,
    /// True if Windows may continue servicing after the step: `feature`, `capability`, `update`,
    /// `cleanup`.
    pub is_servicing: bool,
    /// Parameters of the wait after a restart or a start that follows servicing.
    pub settle: SettleWait,
    /// A log that the step's program writes in the guest, useful if the step fails.
    pub guest_log: Option<GuestPath>,
    /// Checks of the finished image, without those that a later step overrides.
    pub expects: Vec<PlannedCheck>,
}

/// An operation of the engine on the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlannedOp {
    /// Copies payload entries into place, or uses them on the disc: its script `s\NNN.cmd`, run by
    /// the bootstrap's `payload.cmd`.
    Put(PayloadScript),
    Run(ProgramRun),
    Reboot,
    /// Waits until Windows is idle, and performs a pending restart.
    Settle(SettleWait),
    /// Ejects all discs, including the payload's: no drive may contain a disc when sysprep runs.
    Eject,
    /// Starts the task that seals Windows and powers the machine off, and waits for the power-off.
    Seal {
        timeout: Duration,
    },
}

impl PlannedStep {
    /// Returns true if the step, or servicing that it starts, may restart Windows.
    pub fn may_restart(&self) -> bool {
        self.is_servicing || self.ops.iter().any(PlannedOp::may_restart)
    }
}

impl PlannedOp {
    fn may_restart(&self) -> bool {
        match self {
            Self::Put(put) => put.exit.may_restart(),
            Self::Run(run) => run.exit.may_restart(),
            Self::Reboot => true,
            Self::Settle(_) | Self::Eject | Self::Seal { .. } => false,
        }
    }
}

/// One script of the payload disc. The text is that of `s\NNN.cmd`; CRLF is added when it is
/// written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadScript {
    pub script: u32,
    /// 0 for a step's first script, then 1, 2, …; the guest may be restarted between them.
    pub part: u32,
    pub text: String,
    pub exit: ExitRule,
    pub timeout: Duration,
}

impl PayloadScript {
    /// Returns the command that runs it: `payload.cmd` finds the disc's drive, calls its
    /// `s\NNN.cmd` and exits with its code.
    pub fn command(&self) -> (String, Vec<String>) {
        let arguments = ["/d", "/c", r"C:\winimg\payload.cmd", &self.number()];
        (
            r"C:\Windows\System32\cmd.exe".to_owned(),
            arguments.map(str::to_owned).into(),
        )
    }

    /// Returns the script's name on the disc without `.cmd`: `007`, or `007-2` for a step's second.
    pub fn number(&self) -> String {
        match self.part {
            0 => format!("{:03}", self.script),
            part => format!("{:03}-{}", self.script, part + 1),
        }
    }
}

/// A program and its arguments, unquoted: the guest agent quotes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramRun {
    pub program: String,
    pub arguments: Vec<String>,
    pub exit: ExitRule,
    pub timeout: Duration,
}

/// Interpretation of exit codes (Microsoft: Windows Installer error codes; robocopy return codes;
/// pnputil return values).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum ExitRule {
    Zero,
    /// 0 success; 3010 reboot needed; 1641 reboot started; 1618 another installation is running,
    /// retry.
    Msi,
    /// Any code: the result is checked afterwards (sysprep exits with 0 even if it could not parse
    /// its arguments).
    Any,
    /// Below 8 is success.
    Robocopy,
    /// 0 and 259 success; 3010 reboot needed; 1641 reboot started.
    Pnputil,
    /// 0 Windows is idle; 3010 it waits for a restart; 1618 it is busy, retry.
    Settled,
    Listed {
        ok: Vec<i64>,
        reboot: Vec<i64>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitVerdict {
    Success,
    /// Success; the engine reboots before the step's next op, or at its end.
    RebootNeeded,
    /// Success; the guest reboots by itself.
    RebootStarted,
    /// Retry later.
    Busy,
    Failed,
}

impl ExitRule {
    /// Returns true if some exit code means that a restart is needed or has started.
    fn may_restart(&self) -> bool {
        match self {
            Self::Listed { reboot, .. } => !reboot.is_empty(),
            Self::Msi | Self::Pnputil | Self::Settled => true,
            Self::Zero | Self::Any | Self::Robocopy => false,
        }
    }

    pub fn judge(&self, code: i64) -> ExitVerdict {
        match (self, code) {
            (Self::Listed { ok, reboot }, _) => match (reboot.contains(&code), code) {
                (true, 1641) => ExitVerdict::RebootStarted,
                (true, _) => ExitVerdict::RebootNeeded,
                (false, _) if ok.contains(&code) => ExitVerdict::Success,
                (false, _) => ExitVerdict::Failed,
            },
            (Self::Any, _)
            | (Self::Zero | Self::Msi | Self::Pnputil | Self::Settled, 0)
            | (Self::Pnputil, 259)
            | (Self::Robocopy, 0..=7) => ExitVerdict::Success,
            (Self::Msi | Self::Pnputil | Self::Settled, 3010) => ExitVerdict::RebootNeeded,
            (Self::Msi | Self::Pnputil, 1641) => ExitVerdict::RebootStarted,
            (Self::Msi | Self::Settled, 1618) => ExitVerdict::Busy,
            (Self::Zero | Self::Msi | Self::Pnputil | Self::Robocopy | Self::Settled, _) => {
                ExitVerdict::Failed
            }
        }
    }
}

/// An entry of the payload disc, found on the disc as `p\NNNN\…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PayloadEntry {
    /// The fetched file itself, as `p\NNNN\<file>`.
    Component { component: String, file: String },
    /// The unpacked archive's tree below `p\NNNN\`.
    Tree {
        component: String,
        strip: usize,
        only: Vec<String>,
    },
    /// A local file (as `p\NNNN\<its name>`) or folder (its content below `p\NNNN\`).
    Local { path: PathBuf },
    /// The driver packages of a folder below `p\NNNN\`: only the files that an INF names.
    Drivers {
        from: DriverFolder,
        only: Vec<String>,
    },
    /// A container image as one OCI archive, as `p\NNNN\<image>.tar`.
    Image { image: String },
    /// Text, as `p\NNNN\<file>`: exactly these characters, including line ends, in this encoding.
    Text {
        file: String,
        text: String,
        encoding: Encoding,
    },
}

/// Encoding of a text file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    #[serde(alias = "utf-8")]
    Utf8,
    #[serde(alias = "utf-8-bom")]
    Utf8Bom,
    #[serde(alias = "utf-16")]
    Utf16,
}

/// The source of driver packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriverFolder {
    /// The unpacked archive. The patterns of `only` select the files to unpack.
    Component(String),
    /// A local folder. The patterns of `only` select INFs.
    Local(PathBuf),
}

impl PayloadEntry {
    /// Returns the component that the entry belongs to.
    pub fn component(&self) -> Option<&str> {
        match self {
            Self::Component { component, .. }
            | Self::Tree { component, .. }
            | Self::Drivers {
                from: DriverFolder::Component(component),
                ..
            } => Some(component),
            Self::Drivers { .. } | Self::Image { .. } | Self::Local { .. } | Self::Text { .. } => {
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_code_means_what_its_program_says() {
        use ExitVerdict::{Busy, Failed, RebootNeeded, RebootStarted, Success};
        let listed = ExitRule::Listed {
            ok: vec![0, 7, 3010],
            reboot: vec![3010, 1641],
        };
        let (needed, started) = ((3010, RebootNeeded), (1641, RebootStarted));
        for (rule, good) in [
            (ExitRule::Zero, vec![(0, Success)]),
            (
                ExitRule::Msi,
                vec![(0, Success), needed, started, (1618, Busy)],
            ),
            (ExitRule::Robocopy, vec![(0, Success), (7, Success)]),
            (
                ExitRule::Pnputil,
                vec![(0, Success), (259, Success), needed, started],
            ),
            (ExitRule::Settled, vec![(0, Success), needed, (1618, Busy)]),
            (listed, vec![(0, Success), (7, Success), needed, started]),
        ] {
            for code in [0, 7, 8, 259, 1618, 1641, 3010] {
                let found = good.iter().find(|(good, _)| *good == code);
                let expected = found.map_or(Failed, |(_, verdict)| *verdict);
                assert_eq!(rule.judge(code), expected, "{rule:?} {code}");
            }
        }
        assert_eq!(ExitRule::Any.judge(8), Success);
    }
}
