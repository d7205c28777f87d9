//! The steps of a recipe: one module per verb.
//!
//! A verb's module has its type, `read`, which makes it from TOML and reports each error at its
//! place, and `compile`, which adds its ops and its checks of the finished image. Its keys are in
//! the TOML file of the same name beside it. Modules without such a file are shared by several
//! verbs.
//!
//! Programs are named by full path. Ops are unconditional; conditions are in the step's script on
//! the payload disc, which the plan shows completely.

pub(crate) mod absent;
pub(crate) mod account;
mod acl;
mod assert;
mod capability;
mod checkpoint;
mod cleanup;
mod cmd;
mod content;
mod copy;
mod defender;
mod directory;
mod dism;
mod driver;
mod environment;
mod exe;
mod exit_codes;
mod extract;
mod feature;
mod file;
pub(crate) mod firewall;
pub(crate) mod generalize;
mod group;
mod image;
pub(crate) mod items;
mod msi;
mod path;
mod powershell;
mod reboot;
pub(crate) mod registry;
mod remove;
mod script;
pub(crate) mod service;
mod task;
mod task_definition;
mod update;
mod user;

use std::time::Duration;

use crate::document::value::TomlValue;
use crate::fields::LoweringContext;
use crate::ops::compiler::StepCompiler;
use winimg_base::text::Place;

pub use acl::{AccessRule, AclSpec};
pub use assert::Assertion;
pub use capability::CapabilitySpec;
pub use cleanup::CleanupSpec;
pub use cmd::CmdSpec;
pub use content::StepContent;
pub use copy::CopySpec;
pub use defender::DefenderSpec;
pub use directory::DirectorySpec;
pub use driver::DriverSpec;
pub use environment::EnvironmentSpec;
pub use exe::{ExeProgram, ExeSpec};
pub use exit_codes::ExitCodes;
pub use extract::ExtractSpec;
pub use feature::FeatureSpec;
pub use file::FileSpec;
pub use firewall::{FirewallProfile, FirewallProtocol, FirewallRule};
pub use generalize::{GeneralizeSpec, SealAnswer};
pub use group::GroupSpec;
pub use image::ImageImport;
use items::RecipeItems;
pub use msi::MsiSpec;
pub use path::PathSpec;
pub use powershell::PowershellSpec;
pub use registry::RegistrySpec;
pub use remove::RemoveSpec;
pub use service::{ServiceSpec, ServiceState};
pub use task::TaskSpec;
pub use task_definition::{TaskAction, TaskTrigger, TaskUser};
pub use update::{CATEGORIES, UpdateSpec};
pub use user::{UserPassword, UserSpec, UserState};

/// `[[steps]]`
#[derive(Clone, Debug)]
pub struct RecipeStep {
    pub name: String,
    /// The step's header in the TOML, for errors in the guest.
    pub place: Place,
    /// The `when` that turned it off, as written.
    pub skipped: Option<String>,
    pub timeout: Option<Duration>,
    pub verb: Verb,
}

/// The action of a step. One variant per verb key.
#[derive(Clone, Debug)]
pub enum Verb {
    /// Unknown until the step's variables are set.
    Undecided {
        /// The verb key in the TOML.
        verb: &'static str,
        /// Their names.
        variables: Vec<String>,
    },
    /// Waits until Windows is idle, before the `before_seal` steps. Has no key in the TOML.
    Settle,
    Acl(AclSpec),
    Assert(Assertion),
    Capability(CapabilitySpec),
    Checkpoint,
    Cleanup(CleanupSpec),
    Cmd(CmdSpec),
    Copy(CopySpec),
    Defender(DefenderSpec),
    Directory(DirectorySpec),
    Driver(DriverSpec),
    Environment(EnvironmentSpec),
    Exe(ExeSpec),
    Extract(ExtractSpec),
    Feature(FeatureSpec),
    File(FileSpec),
    Firewall(FirewallRule),
    Generalize(GeneralizeSpec),
    Group(GroupSpec),
    Image(ImageImport),
    Msi(MsiSpec),
    Path(PathSpec),
    Powershell(PowershellSpec),
    Reboot,
    Registry(RegistrySpec),
    Remove(RemoveSpec),
    Service(ServiceSpec),
    Task(TaskSpec),
    Update(UpdateSpec),
    User(UserSpec),
}

impl Verb {
    /// Reads the value of a verb key.
    ///
    /// # Panics
    ///
    /// Panics if a TOML file has a verb that is missing here.
    pub(crate) fn read(
        cx: &LoweringContext<'_>,
        key: &str,
        value: &TomlValue,
        items: RecipeItems<'_>,
    ) -> Option<Self> {
        match key {
            "acl" => acl::read(cx, value).map(Self::Acl),
            "assert" => assert::read(cx, value).map(Self::Assert),
            "capability" => capability::read(cx, value, items).map(Self::Capability),
            "checkpoint" => checkpoint::read(cx, value).map(|()| Self::Checkpoint),
            "cleanup" => cleanup::read(cx, value).map(Self::Cleanup),
            "cmd" => cmd::read(cx, value).map(Self::Cmd),
            "copy" => copy::read(cx, value, items).map(Self::Copy),
            "defender" => defender::read(cx, value).map(Self::Defender),
            "directory" => directory::read(cx, value).map(Self::Directory),
            "driver" => driver::read(cx, value, items).map(Self::Driver),
            "environment" => environment::read(cx, value).map(Self::Environment),
            "exe" => exe::read(cx, value, items).map(Self::Exe),
            "extract" => extract::read(cx, value, items).map(Self::Extract),
            "feature" => feature::read(cx, value, items).map(Self::Feature),
            "file" => file::read(cx, value).map(Self::File),
            "firewall" => firewall::read(cx, value).map(Self::Firewall),
            "generalize" => generalize::read(cx, value, items).map(Self::Generalize),
            "group" => group::read(cx, value).map(Self::Group),
            "image" => image::read(cx, value, items).map(Self::Image),
            "msi" => msi::read(cx, value, items).map(Self::Msi),
            "path" => path::read(cx, value).map(Self::Path),
            "powershell" => powershell::read(cx, value, items).map(Self::Powershell),
            "reboot" => reboot::read(cx, value).map(|()| Self::Reboot),
            "registry" => registry::read(cx, value).map(Self::Registry),
            "remove" => remove::read(cx, value).map(Self::Remove),
            "service" => service::read(cx, value).map(Self::Service),
            "task" => task::read(cx, value, items).map(Self::Task),
            "update" => update::read(cx, value, items).map(Self::Update),
            "user" => user::read(cx, value).map(Self::User),
            _ => panic!("no module reads the verb `{key}`"),
        }
    }

    /// Returns the verb's key in the TOML.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Undecided { verb, .. } => verb,
            Self::Settle => "settle",
            Self::Acl(_) => "acl",
            Self::Assert(_) => "assert",
            Self::Capability(_) => "capability",
            Self::Checkpoint => "checkpoint",
            Self::Cleanup(_) => "cleanup",
            Self::Cmd(_) => "cmd",
            Self::Copy(_) => "copy",
            Self::Defender(_) => "defender",
            Self::Directory(_) => "directory",
            Self::Driver(_) => "driver",
            Self::Environment(_) => "environment",
            Self::Exe(_) => "exe",
            Self::Extract(_) => "extract",
            Self::Feature(_) => "feature",
            Self::File(_) => "file",
            Self::Firewall(_) => "firewall",
            Self::Generalize(_) => "generalize",
            Self::Group(_) => "group",
            Self::Image(_) => "image",
            Self::Msi(_) => "msi",
            Self::Path(_) => "path",
            Self::Powershell(_) => "powershell",
            Self::Reboot => "reboot",
            Self::Registry(_) => "registry",
            Self::Remove(_) => "remove",
            Self::Service(_) => "service",
            Self::Task(_) => "task",
            Self::Update(_) => "update",
            Self::User(_) => "user",
        }
    }

    /// Adds the step's ops and checks. `None` only means an early return; the error is already
    /// reported.
    pub(crate) fn compile(&self, site: &mut StepCompiler<'_>) -> Option<()> {
        match self {
            Self::Undecided { .. } | Self::Checkpoint => {}
            Self::Settle => site.add_settle(),
            Self::Acl(acl) => acl::compile(site, acl)?,
            Self::Assert(assertion) => assert::compile(site, assertion)?,
            Self::Capability(capability) => capability::compile(site, capability)?,
            Self::Cleanup(cleanup) => cleanup::compile(site, cleanup)?,
            Self::Cmd(cmd) => cmd::compile(site, cmd)?,
            Self::Copy(copy) => copy::compile(site, copy)?,
            Self::Defender(defender) => defender::compile(site, defender),
            Self::Directory(directory) => directory::compile(site, directory)?,
            Self::Driver(driver) => driver::compile(site, driver)?,
            Self::Environment(environment) => environment::compile(site, environment),
            Self::Exe(exe) => exe::compile(site, exe)?,
            Self::Extract(extract) => extract::compile(site, extract)?,
            Self::Feature(feature) => feature::compile(site, feature)?,
            Self::File(file) => file::compile(site, file)?,
            Self::Firewall(rule) => firewall::compile(site, rule)?,
            Self::Generalize(generalize) => generalize::compile(site, generalize)?,
            Self::Group(group) => group::compile(site, group)?,
            Self::Image(image) => image::compile(site, image)?,
            Self::Msi(msi) => msi::compile(site, msi)?,
            Self::Path(path) => path::compile(site, path)?,
            Self::Powershell(powershell) => powershell::compile(site, powershell)?,
            Self::Reboot => reboot::compile(site),
            Self::Registry(registry) => registry::compile(site, registry)?,
            Self::Remove(remove) => remove::compile(site, remove)?,
            Self::Service(service) => service::compile(site, service)?,
            Self::Task(task) => task::compile(site, task)?,
            Self::Update(update) => update::compile(site, update)?,
            Self::User(user) => user::compile(site, user)?,
        }
        Some(())
    }

    /// Returns true if Windows may continue servicing after the verb's programs have exited.
    pub(crate) fn is_servicing(&self) -> bool {
        match self {
            Self::Feature(_) | Self::Capability(_) | Self::Update(_) => true,
            Self::Cleanup(cleanup) => cleanup.component_store,
            Self::Undecided { .. }
            | Self::Settle
            | Self::Acl(_)
            | Self::Assert(_)
            | Self::Checkpoint
            | Self::Cmd(_)
            | Self::Copy(_)
            | Self::Defender(_)
            | Self::Directory(_)
            | Self::Driver(_)
            | Self::Environment(_)
            | Self::Exe(_)
            | Self::Extract(_)
            | Self::File(_)
            | Self::Firewall(_)
            | Self::Generalize(_)
            | Self::Group(_)
            | Self::Image(_)
            | Self::Msi(_)
            | Self::Path(_)
            | Self::Powershell(_)
            | Self::Reboot
            | Self::Registry(_)
            | Self::Remove(_)
            | Self::Service(_)
            | Self::Task(_)
            | Self::User(_) => false,
        }
    }
}
