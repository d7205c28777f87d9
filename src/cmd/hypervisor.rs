//! `--hypervisor`: selects the hypervisor.

use super::{CommandContext, recipe::report};
use clap::ValueEnum as _;

use crate::cli::{AccelArg, HypervisorArgs};
use winimg_base::error::{Error, Kind, Result};
use winimg_machine::vm::{Accel, Hypervisor, HypervisorKind};
use winimg_recipe::Recipe;
use winimg_supply::store::Store;

/// A hypervisor besides those of the table, provided by a program that embeds winimg.
pub struct ExternalHypervisor {
    /// Platform that its disks are compatible with.
    pub platform: HypervisorKind,
    pub open: Box<dyn FnOnce() -> Result<Box<dyn Hypervisor>>>,
}

/// Finds such a hypervisor by the value of `--hypervisor`.
pub type FindHypervisor = fn(&str) -> Option<ExternalHypervisor>;

/// Returns the hypervisor's name from the command line or this host's configuration.
fn name<'a>(args: &'a HypervisorArgs, context: &'a CommandContext) -> &'a str {
    let configured = context.host.config.hypervisor.as_deref();
    args.hypervisor
        .as_deref()
        .or(configured)
        .unwrap_or_else(|| HypervisorKind::DEFAULT.name())
}

/// Returns the accelerator from the command line or this host's configuration.
pub fn choose_accel(given: Option<AccelArg>, context: &CommandContext) -> Accel {
    given
        .or_else(|| {
            let word = context.host.config.accel?;
            AccelArg::from_str(word, false).ok()
        })
        .unwrap_or(AccelArg::Auto)
        .into()
}

/// Returns the selected platform, which need not be installed.
pub fn choose_platform(args: &HypervisorArgs, context: &CommandContext) -> Result<HypervisorKind> {
    let name = name(args, context);
    HypervisorKind::from_name(name)
        .or_else(|| (context.others)(name).map(|other| other.platform))
        .ok_or_else(|| {
            Error::new(Kind::Recipe, "no such hypervisor")
                .at("--hypervisor")
                .expected(HypervisorKind::list_names())
                .found(name)
        })
}

/// Rejects hardware that this platform does not support, and steps that would make its guests
/// unreachable.
pub fn check_recipe(
    platform: HypervisorKind,
    recipe: &Recipe,
    context: &CommandContext,
) -> Result<()> {
    platform.check(&recipe.machine)?;
    let complaints = (platform.spec().find_lockouts)(recipe);
    let fits = (!complaints.has_errors()).then_some(());
    report(fits, complaints, context)
}

/// Opens the selected hypervisor. It caches facts about this host in the store.
pub fn open(
    args: &HypervisorArgs,
    store: &Store,
    context: &CommandContext,
) -> Result<Box<dyn Hypervisor>> {
    if let Some(other) = (context.others)(name(args, context)) {
        return (other.open)();
    }
    let platform = choose_platform(args, context)?;
    (platform.spec().open)(store.folder())
}
