//! Decides when a build seals a layer.
//!
//! Pure. A layer costs a power-off and a boot, so it must save more than that: one is sealed when
//! the machine restarts anyway, and when a minute of work would be lost.

use std::time::Duration;

use clap::ValueEnum;
use winimg_recipe::plan::BuildPlan;
use winimg_recipe::{Recipe, Verb};

/// Work that is worth a layer.
const WORTH: Duration = Duration::from_secs(60);

/// Maximum layers in one chain, besides the finished disk. QEMU joins the relative names of all
/// layers below a disk into one path of at most 4096 bytes (Linux: PATH_MAX); at 64 characters per
/// key the limit is about 55.
pub const MAX_DEPTH: usize = 40;

/// Which layers a build seals. `--help` shows the sentences below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LayerPolicy {
    /// After the installation, after restarts and `checkpoint` steps, and after each minute of
    /// steps
    Auto,
    /// After every step as well
    Each,
    /// Do not create or reuse layers
    None,
}

/// Returns true if a layer is to be sealed after a step, counted from 1.
///
/// `restart_owed`: the step needs a restart that is still pending. `worked`: the time of all steps
/// since the last layer.
pub fn is_due(
    layers: LayerPolicy,
    recipe: &Recipe,
    plan: &BuildPlan,
    number: usize,
    restart_owed: bool,
    worked: Duration,
) -> bool {
    let verb = recipe.steps.get(number - 1).map(|step| &step.verb);
    // A generalized Windows must not be booted again before it is deployed (Microsoft: Sysprep
    // process overview).
    let seals = matches!(verb, Some(Verb::Generalize(_)));
    // Booting again would undo the cleanup right before the seal: services recreate removed files.
    let mut earlier = recipe.steps.iter().take(number - 1);
    let rested = earlier.any(|step| matches!(step.verb, Verb::Settle));
    let is_skipped = plan.steps[number - 1].skipped.is_some();
    if layers == LayerPolicy::None || is_skipped || seals || rested {
        return false;
    }
    // The finished disk becomes a layer anyway.
    let more = plan.steps[number..].iter().any(|s| s.skipped.is_none());
    let wanted = matches!(verb, Some(Verb::Checkpoint)) || layers == LayerPolicy::Each;
    more && (restart_owed || wanted || worked >= WORTH)
}
