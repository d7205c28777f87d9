//! When a build seals a layer.
//!
//! Pure. A layer costs a power-off and a boot, so it has to save more than that: it is taken where the machine restarts
//! anyway, and where a minute of work would be lost.

use std::time::Duration;

use winimg_recipe::plan::{Op, Plan, PlannedStep, Until};

/// Work that is worth a layer.
const WORTH: Duration = Duration::from_secs(60);

/// Layers in one chain, beside the finished disk. QEMU joins the relative names of all layers below a disk to one path, which
/// may have 4096 bytes (Linux: PATH_MAX); with a key's 64 characters that ends at about 55.
pub const DEEPEST: usize = 40;

/// Which layers a build seals, `--layers`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layers {
    /// After the installation, `checkpoint` steps, restarts, and a minute of steps.
    #[default]
    Auto,
    /// After every step too.
    Each,
    /// None is sealed and none is used.
    None,
}

/// Whether a layer is sealed after `step`. `restart_owed`: the step ends with a restart that has not been made. `worked`: the
/// time of all steps since the last layer.
pub fn is_due(
    layers: Layers,
    plan: &Plan,
    number: usize,
    restart_owed: bool,
    worked: Duration,
) -> bool {
    let Some(step) = number.checked_sub(1).and_then(|n| plan.steps.get(n)) else {
        return false;
    };
    if layers == Layers::None || step.skipped.is_some() || seals(step) {
        return false;
    }
    // The finished disk becomes a layer by itself.
    let more = plan.steps[number..].iter().any(|s| s.skipped.is_none());
    let wanted = step.verb == "checkpoint" || layers == Layers::Each;
    more && (restart_owed || wanted || worked >= WORTH)
}

/// A generalized Windows must not be booted again before it is deployed (Microsoft: Sysprep process overview).
fn seals(step: &PlannedStep) -> bool {
    let is_wait = |op: &Op| matches!(op, Op::Wait(Until::Generalized { .. }));
    step.ops.iter().any(is_wait)
}
