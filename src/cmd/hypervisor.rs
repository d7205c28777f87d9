//! `--hypervisor`: what machines run on.

use super::{Context, recipe::report};
use clap::ValueEnum as _;

use crate::cli::{AccelArg, HypervisorArgs};
use winimg_base::error::{Error, Kind, Result};
use winimg_machine::vm::{self, Accel, Hypervisor, Platform};
use winimg_recipe::plan;
use winimg_recipe::recipe::Recipe;
use winimg_supply::store::Store;

/// A hypervisor beside QEMU and Hyper-V, which another program than winimg brings.
pub struct Other {
    /// Whose disks its machines leave.
    pub platform: Platform,
    pub open: Box<dyn FnOnce() -> Result<Box<dyn Hypervisor>>>,
}

/// Such hypervisors by what stands after `--hypervisor`; `None` for a name that is none of theirs.
pub type Others = fn(&str) -> Option<Other>;

const DEFAULT: &str = if cfg!(windows) { "hyperv" } else { "qemu" };

/// As the command line or this host's configuration names it.
fn name<'a>(args: &'a HypervisorArgs, context: &'a Context) -> &'a str {
    let configured = context.host.said.hypervisor.as_deref();
    args.hypervisor.as_deref().or(configured).unwrap_or(DEFAULT)
}

/// The accelerator that the command line or this host's configuration names.
pub fn accel(given: Option<AccelArg>, context: &Context) -> Accel {
    let configured = || {
        context
            .host
            .said
            .accel
            .and_then(|word| AccelArg::from_str(word, false).ok())
    };
    given.or_else(configured).unwrap_or(AccelArg::Auto).into()
}

/// For what is only looked up: nothing has to be installed.
pub fn platform(args: &HypervisorArgs, context: &Context) -> Result<Platform> {
    let name = name(args, context);
    let is_it = |platform: &Platform| platform.name() == name;
    match [Platform::Qemu, Platform::HyperV].into_iter().find(is_it) {
        Some(platform) => Ok(platform),
        None => (context.others)(name)
            .map(|other| other.platform)
            .ok_or_else(|| unknown(name)),
    }
}

/// Refuses what this platform's machines can't give, and steps after which they could not be reached.
pub fn fits(platform: Platform, recipe: &Recipe, context: &Context) -> Result<()> {
    platform.check(&recipe.machine)?;
    match platform {
        Platform::Qemu => Ok(()),
        Platform::HyperV => {
            let complaints = plan::shut_out(recipe);
            let fits = (!complaints.has_errors()).then_some(());
            report(fits, complaints, context)
        }
    }
}

/// One that machines can be started with. What it learns of this host is kept in the store.
pub fn open(
    args: &HypervisorArgs,
    store: &Store,
    context: &Context,
) -> Result<Box<dyn Hypervisor>> {
    if let Some(other) = (context.others)(name(args, context)) {
        return (other.open)();
    }
    match platform(args, context)? {
        Platform::Qemu => qemu(store),
        Platform::HyperV => Ok(Box::new(vm::hyperv::HyperV::find()?)),
    }
}

#[cfg(unix)]
fn qemu(store: &Store) -> Result<Box<dyn Hypervisor>> {
    let qemu = vm::qemu::Qemu::find()?;
    Ok(Box::new(qemu.remembering(store.folder())))
}

#[cfg(not(unix))]
fn qemu(_: &Store) -> Result<Box<dyn Hypervisor>> {
    let fact = "winimg does not start QEMU on a Windows host";
    Err(Error::new(Kind::Host, fact)
        .at("--hypervisor")
        .cure("leave it away, so that Hyper-V runs the machine; or build on Linux"))
}

fn unknown(name: &str) -> Error {
    Error::new(Kind::Recipe, "no such hypervisor")
        .at("--hypervisor")
        .expected("qemu or hyperv")
        .found(name)
}
