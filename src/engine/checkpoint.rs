//! When a build seals a layer.
//!
//! Pure. A layer costs a power-off and a boot, so it has to save more than that: it is taken where the machine restarts
//! anyway, and where a minute of work would be lost.

use std::time::Duration;

use clap::ValueEnum;
use winimg_recipe::plan::Plan;
use winimg_recipe::recipe::{Recipe, Verb};

/// Work that is worth a layer.
const WORTH: Duration = Duration::from_secs(60);

/// Layers in one chain, beside the finished disk. QEMU joins the relative names of all layers below a disk to one path, which
/// may have 4096 bytes (Linux: PATH_MAX); with a key's 64 characters that ends at about 55.
pub const DEEPEST: usize = 40;

/// Which layers a build seals. `--help` shows the sentences below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Layers {
    /// After the installation, after restarts and `checkpoint` steps, and after each minute of steps
    Auto,
    /// After every step as well
    Each,
    /// Do not create or reuse layers
    None,
}

/// Whether a layer is sealed after a step, counted from 1. `restart_owed`: the step ends with a restart that has not been made.
/// `worked`: the time of all steps since the last layer.
pub fn is_due(
    layers: Layers,
    recipe: &Recipe,
    plan: &Plan,
    number: usize,
    restart_owed: bool,
    worked: Duration,
) -> bool {
    let verb = recipe.steps.get(number - 1).map(|step| &step.verb);
    // A generalized Windows must not be booted again before it is deployed (Microsoft: Sysprep process overview).
    let seals = matches!(verb, Some(Verb::Generalize { .. }));
    // What is done right before the seal would be undone by a start: services make anew what was removed.
    let mut earlier = recipe.steps.iter().take(number - 1);
    let rested = earlier.any(|step| matches!(step.verb, Verb::Settle));
    let is_skipped = plan.steps[number - 1].skipped.is_some();
    if layers == Layers::None || is_skipped || seals || rested {
        return false;
    }
    // The finished disk becomes a layer by itself.
    let more = plan.steps[number..].iter().any(|s| s.skipped.is_none());
    let wanted = matches!(verb, Some(Verb::Checkpoint)) || layers == Layers::Each;
    more && (restart_owed || wanted || worked >= WORTH)
}
