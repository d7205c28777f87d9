//! What would happen, decided whole before anything is started.
//!
//! A plan is made from a recipe alone, purely: guest ops, command lines, scripts and payload entries are values
//! that `winimg plan` shows and the build carries out unchanged. Nothing here reads a network, a guest or a clock;
//! of the host only the files beside the recipe are looked at (file or folder, and the text of an own `answer_file`).

mod age;
mod batch;
mod build_settings;
pub mod chain;
pub mod change;
pub mod check;
mod clone;
mod expect;
mod inputs;
mod json;
pub mod key;
mod make;
mod principal;
mod reg;
mod seal;
mod services;
mod settle;
mod shut_out;
mod site;
mod step;
mod target;
mod text;
mod undecided;
mod withhold;
mod words;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::recipe::{Encoding, GuestPath};
use winimg_base::diag::Diagnostics;
use winimg_base::text::Place;

pub use age::aged;
pub use build_settings::{BUILD_SETTINGS, BuildSetting};
pub use chain::{Chain, Link, Part};
pub use check::{Check, Expected, Planned};
pub use clone::CloneCheck;
pub use expect::keep_what_lasts;
pub use inputs::{evaluated, unused};
pub use json::json;
pub use make::{make, read};
pub use seal::SEALED;
pub use settle::Settle;
pub use shut_out::shut_out;
pub use step::{SEAL_FAILED, SEAL_LOG, SEAL_SCRIPT, start_seal};
pub use target::on_release;
pub use text::text;
pub use undecided::undecided;

/// The SID of an account that every Windows has, by its English name.
pub fn known_sid(name: &str) -> Option<&'static str> {
    principal::known(name).map(|(_, sid)| sid)
}

/// How long a restart may take unless the step says otherwise.
pub const REBOOT_TIMEOUT: Duration = Duration::from_secs(20 * 60);

/// How long a power-off may take unless the step before it has a longer `timeout`. Pending servicing can take
/// minutes; a machine that is ended earlier leaves a damaged image.
pub const OFF_TIMEOUT: Duration = Duration::from_secs(600);

/// The whole plan.
#[derive(Clone, Debug)]
pub struct Plan {
    pub steps: Vec<PlannedStep>,
    /// What goes onto the payload disc; an entry's number is its index, its folder `p\NNNN`.
    pub payload: Vec<Entry>,
    /// What must hold on a clone after its first boot, as written.
    pub clone_checks: Vec<CloneCheck>,
    /// What the user should know although the plan could be made. Never an error.
    pub warnings: Diagnostics,
}

impl Plan {
    /// Whether the image's Windows starts its own hypervisor: Hyper-V's role is on, and the feature that starts the
    /// hypervisor is not off.
    pub fn starts_hypervisor(&self) -> bool {
        let claims = || self.steps.iter().flat_map(|step| &step.expects);
        let has = |wanted: &str, state: bool| {
            claims().any(|claim| {
                matches!(claim, Planned::Feature { name, enabled }
                    if *enabled == state && name.eq_ignore_ascii_case(wanted))
            })
        };
        let role = ["Microsoft-Hyper-V", "Microsoft-Hyper-V-Online"];
        role.iter().any(|name| has(name, true)) && !has("Microsoft-Hyper-V-Online", false)
    }
}

/// A step as the engine carries it out.
#[derive(Clone, Debug)]
pub struct PlannedStep {
    pub name: String,
    pub verb: &'static str,
    pub place: Place,
    pub skipped: Option<String>,
    /// The variables without a value that it names: what it would do is not known, and it has no ops.
    pub undecided: Vec<String>,
    pub ops: Vec<Op>,
    /// Indices of the payload entries that the ops use, ascending.
    pub entries: Vec<u32>,
    /// For `Op::Reboot` and for restarts that an exit code asks for.
    pub reboot_timeout: Duration,
    /// For a power-off between this step and the next.
    pub off_timeout: Duration,
    /// Whether Windows goes on servicing itself after the step: `feature`, `capability`, `update`, `cleanup`.
    pub is_servicing: bool,
    /// How the engine waits for Windows after a restart or a start that follows servicing.
    pub settle: Settle,
    /// A log that the step's program writes in the guest; worth reading when the step fails.
    pub guest_log: Option<GuestPath>,
    /// What holds after the whole plan: checks that a later step overrides are not listed.
    pub expects: Vec<Planned>,
}

/// All that the engine and the fake machines know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Copies payload entries into place, or uses them where they are: the disc's script `s\NNN.cmd`, run by the
    /// bootstrap's `payload.cmd`.
    Put(Put),
    Run(Run),
    Reboot,
    /// Waits until Windows is at rest, and carries out a restart that is pending.
    Settle(Settle),
    /// All discs out of the drives, the payload's too: none may lie in one when sysprep runs.
    Eject,
    /// Starts the task that seals Windows and powers the machine off, and waits for that.
    Seal {
        timeout: Duration,
    },
}

impl PlannedStep {
    /// Whether the step may restart Windows, or leaves servicing behind that may.
    pub fn may_restart(&self) -> bool {
        self.is_servicing || self.ops.iter().any(Op::may_restart)
    }
}

impl Op {
    fn may_restart(&self) -> bool {
        match self {
            Self::Put(put) => put.exit.may_restart(),
            Self::Run(run) => run.exit.may_restart(),
            Self::Reboot => true,
            Self::Settle(_) | Self::Eject | Self::Seal { .. } => false,
        }
    }
}

/// One script of the payload disc. The text is what `s\NNN.cmd` holds, CRLF added when written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    pub script: u32,
    /// 0 for a step's first script, then 1, 2, …: the guest may be restarted between them.
    pub part: u32,
    pub text: String,
    pub exit: ExitRule,
    pub timeout: Duration,
}

impl Put {
    /// What carries it out: `payload.cmd` finds the disc's drive, calls its `s\NNN.cmd` and ends with its code.
    pub fn command(&self) -> (String, Vec<String>) {
        let arguments = ["/d", "/c", r"C:\winimg\payload.cmd", &self.number()];
        (
            r"C:\Windows\System32\cmd.exe".to_owned(),
            arguments.map(str::to_owned).into(),
        )
    }

    /// `007`, or `007-2` for a step's second: the script's name on the disc without `.cmd`.
    pub fn number(&self) -> String {
        match self.part {
            0 => format!("{:03}", self.script),
            part => format!("{:03}-{}", self.script, part + 1),
        }
    }
}

/// A program and its arguments, raw: the guest agent quotes, we never do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub program: String,
    pub arguments: Vec<String>,
    pub exit: ExitRule,
    pub timeout: Duration,
}

/// What an exit code means (Microsoft: Windows Installer error codes; robocopy return codes; pnputil return values).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum ExitRule {
    Zero,
    /// 0 good; 3010 reboot needed; 1641 reboot started; 1618 another installation runs, try again.
    Msi,
    /// Any code: the evidence is looked at afterwards (sysprep ends with 0 even when it could not parse its arguments).
    Any,
    /// Below 8 is success.
    Robocopy,
    /// 0 and 259 good; 3010 reboot needed; 1641 reboot started.
    Pnputil,
    /// 0 Windows is at rest; 3010 it waits for a restart; 1618 it is at work, ask again.
    Settled,
    Listed {
        ok: Vec<i64>,
        reboot: Vec<i64>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Success,
    /// Good, and the engine reboots before the step's next op, or at its end.
    RebootNeeded,
    /// Good, and the guest reboots by itself.
    RebootStarted,
    /// Try again later.
    Busy,
    Failed,
}

impl ExitRule {
    /// Whether a code asks for a restart or says that one has begun.
    fn may_restart(&self) -> bool {
        match self {
            Self::Listed { reboot, .. } => !reboot.is_empty(),
            Self::Msi | Self::Pnputil | Self::Settled => true,
            Self::Zero | Self::Any | Self::Robocopy => false,
        }
    }

    pub fn judge(&self, code: i64) -> Verdict {
        match (self, code) {
            (Self::Listed { ok, reboot }, _) => match (reboot.contains(&code), code) {
                (true, 1641) => Verdict::RebootStarted,
                (true, _) => Verdict::RebootNeeded,
                (false, _) if ok.contains(&code) => Verdict::Success,
                (false, _) => Verdict::Failed,
            },
            (Self::Any, _)
            | (Self::Zero | Self::Msi | Self::Pnputil | Self::Settled, 0)
            | (Self::Pnputil, 259)
            | (Self::Robocopy, 0..=7) => Verdict::Success,
            (Self::Msi | Self::Pnputil | Self::Settled, 3010) => Verdict::RebootNeeded,
            (Self::Msi | Self::Pnputil, 1641) => Verdict::RebootStarted,
            (Self::Msi | Self::Settled, 1618) => Verdict::Busy,
            (Self::Zero | Self::Msi | Self::Pnputil | Self::Robocopy | Self::Settled, _) => {
                Verdict::Failed
            }
        }
    }
}

/// An entry of the payload disc, found on the disc as `p\NNNN\…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
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
    /// The driver packages of a folder below `p\NNNN\`: of its files, those that an INF names.
    Drivers {
        from: DriverFolder,
        only: Vec<String>,
    },
    /// A container image as one OCI archive, as `p\NNNN\<image>.tar`.
    Image { image: String },
    /// Text, as `p\NNNN\<file>`: these characters exactly (line ends too), in this encoding.
    Text {
        file: String,
        text: String,
        encoding: Encoding,
    },
}

/// Where driver packages are taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriverFolder {
    /// The unpacked archive. The patterns of `only` choose what is unpacked.
    Component(String),
    /// A local folder. The patterns of `only` choose INFs.
    Local(PathBuf),
}

impl Entry {
    /// The component that the entry is a part of.
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
        use Verdict::{Busy, Failed, RebootNeeded, RebootStarted, Success};
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
