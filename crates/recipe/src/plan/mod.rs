//! Plans a build completely before anything is started.
//!
//! A plan is made from a recipe alone: guest ops, command lines, scripts and payload entries are
//! values that `winimg plan` shows and the build executes unchanged. Planning does not access the
//! network, a guest or the clock; on the host it only reads the files beside the recipe (file or
//! folder, and the text of a custom `answer_file`).

mod age;
pub mod chain;
pub mod change;
mod clone;
mod describe;
mod expect;
mod inputs;
mod json;
pub mod key;
mod lockout;
mod make;
mod redact;
mod services;
mod target;
mod text;
mod undecided;

use crate::ops::principal;
use winimg_base::diag::Diagnostics;

pub use crate::ops::check::{self, ImageCheck, PlannedCheck, StepChecks};
pub use crate::ops::{
    DriverFolder, ExitRule, ExitVerdict, OFF_TIMEOUT, PayloadEntry, PayloadScript, PlannedOp,
    PlannedStep, ProgramRun, REBOOT_TIMEOUT, SettleWait,
};
pub use crate::verbs::generalize::{
    BUILD_SETTINGS, BuildSetting, SEAL_FAILED, SEAL_LOG, SEAL_SCRIPT, SEALED, start_seal,
};
pub use age::warn_old_updates;
pub use chain::{BuildChain, BuildPart, ChainLink};
pub use clone::PlannedCloneCheck;
pub use expect::keep_what_lasts;
pub use inputs::{find_evaluation_release, warn_unused};
pub use json::render_json;
pub use lockout::shut_out;
pub use make::{make, read};
pub use target::on_release;
pub use text::render_text;
pub use undecided::render_undecided;

/// Returns the SID of a well-known account by its English name.
pub fn known_sid(name: &str) -> Option<&'static str> {
    principal::find_known(name).map(|(_, sid)| sid)
}

/// The whole plan.
#[derive(Clone, Debug)]
pub struct BuildPlan {
    pub steps: Vec<PlannedStep>,
    /// Entries of the payload disc; an entry's number is its index, its folder `p\NNNN`.
    pub payload: Vec<PayloadEntry>,
    /// Checks of a clone after its first boot, in the order of the recipe.
    pub clone_checks: Vec<PlannedCloneCheck>,
    /// Warnings; never errors.
    pub warnings: Diagnostics,
}

impl BuildPlan {
    /// Returns true if the image's Windows starts its own hypervisor: the Hyper-V role is enabled,
    /// and the feature that starts the hypervisor is not disabled.
    pub fn starts_hypervisor(&self) -> bool {
        let role = ["Microsoft-Hyper-V", "Microsoft-Hyper-V-Online"];
        role.iter().any(|name| self.expects_feature(name, true))
            && !self.expects_feature("Microsoft-Hyper-V-Online", false)
    }

    fn expects_feature(&self, wanted: &str, state: bool) -> bool {
        let mut checks = self.steps.iter().flat_map(|step| &step.expects);
        checks.any(|check| {
            matches!(check, PlannedCheck::Feature { name, enabled }
                if *enabled == state && name.eq_ignore_ascii_case(wanted))
        })
    }
}
