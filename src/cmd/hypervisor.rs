//! `--hypervisor`: selects the hypervisor.

use super::{CommandContext, recipe::report};
use clap::ValueEnum as _;

use crate::cli::{AccelArg, HypervisorArgs};
use winimg_base::error::{Error, Kind, Result};
use winimg_machine::vm::{self, Accel, Hypervisor, HypervisorKind};
use winimg_recipe::plan;
use winimg_recipe::recipe::Recipe;
use winimg_supply::store::Store;

/// A hypervisor besides QEMU and Hyper-V, provided by a program that embeds winimg.
pub struct ExternalHypervisor {
    /// Platform that its disks are compatible with.
    pub platform: HypervisorKind,
    pub open: Box<dyn FnOnce() -> Result<Box<dyn Hypervisor>>>,
}

/// Finds such a hypervisor by the value of `--hypervisor`.
pub type FindHypervisor = fn(&str) -> Option<ExternalHypervisor>;

const DEFAULT: &str = if cfg!(windows) { "hyperv" } else { "qemu" };

/// Returns the hypervisor's name from the command line or this host's configuration.
fn name<'a>(args: &'a HypervisorArgs, context: &'a CommandContext) -> &'a str {
    let configured = context.host.said.hypervisor.as_deref();
    args.hypervisor.as_deref().or(configured).unwrap_or(DEFAULT)
}

/// Returns the accelerator from the command line or this host's configuration.
pub fn choose_accel(given: Option<AccelArg>, context: &CommandContext) -> Accel {
    given
        .or_else(|| {
            let word = context.host.said.accel?;
            AccelArg::from_str(word, false).ok()
        })
        .unwrap_or(AccelArg::Auto)
        .into()
}

/// Returns the selected platform, which need not be installed.
pub fn choose_platform(args: &HypervisorArgs, context: &CommandContext) -> Result<HypervisorKind> {
    let name = name(args, context);
    match [HypervisorKind::Qemu, HypervisorKind::HyperV]
        .into_iter()
        .find(|platform| platform.name() == name)
    {
        Some(platform) => Ok(platform),
        None => (context.others)(name)
            .map(|other| other.platform)
            .ok_or_else(|| reject_unknown(name)),
    }
}

/// Rejects hardware that this platform does not support, and steps that would make its guests
/// unreachable.
pub fn check_recipe(
    platform: HypervisorKind,
    recipe: &Recipe,
    context: &CommandContext,
) -> Result<()> {
    platform.check(&recipe.machine)?;
    match platform {
        HypervisorKind::Qemu => Ok(()),
        HypervisorKind::HyperV => {
            let complaints = plan::shut_out(recipe);
            let fits = (!complaints.has_errors()).then_some(());
            report(fits, complaints, context)
        }
    }
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
    match choose_platform(args, context)? {
        HypervisorKind::Qemu => open_qemu(store),
        HypervisorKind::HyperV => Ok(Box::new(vm::hyperv::HyperVHypervisor::find()?)),
    }
}

#[cfg(unix)]
fn open_qemu(store: &Store) -> Result<Box<dyn Hypervisor>> {
    let qemu = vm::qemu::QemuHypervisor::find()?;
    Ok(Box::new(qemu.with_cache(store.folder())))
}

#[cfg(not(unix))]
fn open_qemu(_: &Store) -> Result<Box<dyn Hypervisor>> {
    let fact = "winimg does not support QEMU on Windows hosts";
    Err(Error::new(Kind::Host, fact)
        .at("--hypervisor")
        .cure("omit --hypervisor to use Hyper-V, or build on Linux"))
}

fn reject_unknown(name: &str) -> Error {
    Error::new(Kind::Recipe, "no such hypervisor")
        .at("--hypervisor")
        .expected("qemu or hyperv")
        .found(name)
}
