//! The verbs. Each file compiles a group of verbs to ops and to checks of the finished image.
//!
//! Programs are named by full path. Ops are unconditional; conditions are in the step's script on
//! the payload disc, which the plan shows completely.

mod account;
mod acl;
mod assert;
mod cleanup;
mod defender;
mod driver;
mod exe;
mod files;
mod firewall;
mod generalize;
mod image;
mod msi;
mod registry;
mod restore;
mod script;
mod seal_task;
mod search_path;
mod service;
mod task;
mod update;
mod windows_image;

pub use seal_task::{SEAL_FAILED, SEAL_LOG, SEAL_SCRIPT, start_seal};

use super::PlannedOp;
use super::step_compiler::StepCompiler;
use crate::recipe::Verb;

pub(super) use firewall::build_check as firewall_rule;
pub(super) use generalize::clean_up;
pub(super) use service::start_name;

pub(super) const CMD: &str = r"C:\Windows\System32\cmd.exe";
pub(super) const FIND: &str = r"C:\Windows\System32\find.exe";
pub(super) const POWERSHELL: &str = r"C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe";

pub(super) fn verb_name(verb: &Verb) -> &'static str {
    match verb {
        Verb::Undecided { verb, .. } => verb,
        Verb::Copy { .. } => "copy",
        Verb::Extract { .. } => "extract",
        Verb::File { .. } => "file",
        Verb::Directory { .. } => "directory",
        Verb::Remove { .. } => "remove",
        Verb::Cmd { .. } => "cmd",
        Verb::Powershell { .. } => "powershell",
        Verb::Service(_) => "service",
        Verb::Registry { .. } => "registry",
        Verb::Environment { .. } => "environment",
        Verb::Path { .. } => "path",
        Verb::Msi { .. } => "msi",
        Verb::Exe(_) => "exe",
        Verb::Feature(_) => "feature",
        Verb::Capability(_) => "capability",
        Verb::Driver(_) => "driver",
        Verb::Update(_) => "update",
        Verb::Checkpoint => "checkpoint",
        Verb::Cleanup(_) => "cleanup",
        Verb::Firewall(_) => "firewall",
        Verb::User(_) => "user",
        Verb::Group(_) => "group",
        Verb::Acl(_) => "acl",
        Verb::Task(_) => "task",
        Verb::Defender(_) => "defender",
        Verb::Image(_) => "image",
        Verb::Reboot => "reboot",
        Verb::Settle => "settle",
        Verb::Assert(_) => "assert",
        Verb::Generalize { .. } => "generalize",
    }
}

/// Adds the step's ops and checks. `None` only means an early return; the error is already
/// reported.
pub(super) fn compile(site: &mut StepCompiler<'_>) -> Option<()> {
    let step = site.step;
    match &step.verb {
        Verb::Undecided { .. } => Some(()),
        Verb::Copy { from, to } => files::copy(site, from, to),
        Verb::Extract {
            component,
            to,
            strip,
            only,
        } => files::extract(site, component, to, *strip, only),
        Verb::File {
            path,
            content,
            encoding,
        } => files::compile_file(site, path, content, *encoding),
        Verb::Directory { path } => files::compile_directory(site, path),
        Verb::Remove { path, recursive } => files::remove(site, path, *recursive),
        Verb::Cmd { script, exit_codes } => script::compile_cmd(site, script, exit_codes),
        Verb::Powershell { script, exit_codes } => {
            script::compile_powershell(site, script, exit_codes)
        }
        Verb::Service(service) => service::compile_service(site, service),
        Verb::Registry { key, value, data } => {
            registry::compile_registry(site, key, value.as_deref(), data)
        }
        Verb::Environment { name, value } => {
            registry::compile_environment(site, name, value.as_deref());
            Some(())
        }
        Verb::Path { add } => search_path::compile_path(site, add),
        Verb::Msi {
            from,
            properties,
            exit_codes,
        } => msi::compile_msi(site, from, properties, exit_codes),
        Verb::Exe(exe) => exe::compile_exe(site, exe),
        Verb::Feature(feature) => windows_image::compile_feature(site, feature),
        Verb::Capability(capability) => windows_image::compile_capability(site, capability),
        Verb::Driver(driver) => driver::compile_driver(site, driver),
        Verb::Update(update) => update::update(site, update),
        Verb::Checkpoint => Some(()),
        Verb::Cleanup(cleanup) => cleanup::cleanup(site, cleanup),
        Verb::Firewall(rule) => firewall::compile_firewall(site, rule),
        Verb::User(user) => account::compile_user(site, user),
        Verb::Group(group) => account::group(site, group),
        Verb::Acl(acl) => acl::compile_acl(site, acl),
        Verb::Task(task) => task::compile_task(site, task),
        Verb::Defender(defender) => defender::compile_defender(site, defender),
        Verb::Image(image) => image::compile_image(site, image),
        Verb::Reboot => {
            site.ops.push(PlannedOp::Reboot);
            Some(())
        }
        Verb::Settle => {
            site.add_settle();
            Some(())
        }
        Verb::Assert(assertion) => assert::assert(site, assertion),
        Verb::Generalize {
            answer_file,
            mode_vm,
        } => generalize::compile_generalize(site, answer_file, *mode_vm),
    }
}

fn to_arguments<const N: usize>(list: [&str; N]) -> Vec<String> {
    list.map(str::to_owned).into()
}
