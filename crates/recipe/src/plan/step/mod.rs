//! The verbs: each file compiles one family of them to ops, and says what they leave behind.
//!
//! Programs are named by full path. Ops are unconditional; where something depends on what is there, it stands in the
//! step's script on the payload disc, which the plan shows whole.

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

use super::Op;
use super::site::Site;
use crate::recipe::Verb;

pub(super) use firewall::expected as firewall_rule;
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

/// Adds the step's ops and expectations; `None` is only a way out early, what is wrong has been said.
pub(super) fn compile(site: &mut Site<'_>) -> Option<()> {
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
        } => files::file(site, path, content, *encoding),
        Verb::Directory { path } => files::directory(site, path),
        Verb::Remove { path, recursive } => files::remove(site, path, *recursive),
        Verb::Cmd { script, exit_codes } => script::cmd(site, script, exit_codes),
        Verb::Powershell { script, exit_codes } => script::powershell(site, script, exit_codes),
        Verb::Service(service) => service::service(site, service),
        Verb::Registry { key, value, data } => {
            registry::registry(site, key, value.as_deref(), data)
        }
        Verb::Environment { name, value } => {
            registry::environment(site, name, value.as_deref());
            Some(())
        }
        Verb::Path { add } => search_path::path(site, add),
        Verb::Msi {
            from,
            properties,
            exit_codes,
        } => msi::msi(site, from, properties, exit_codes),
        Verb::Exe(exe) => exe::exe(site, exe),
        Verb::Feature(feature) => windows_image::feature(site, feature),
        Verb::Capability(capability) => windows_image::capability(site, capability),
        Verb::Driver(driver) => driver::driver(site, driver),
        Verb::Update(update) => update::update(site, update),
        Verb::Checkpoint => Some(()),
        Verb::Cleanup(cleanup) => cleanup::cleanup(site, cleanup),
        Verb::Firewall(rule) => firewall::firewall(site, rule),
        Verb::User(user) => account::user(site, user),
        Verb::Group(group) => account::group(site, group),
        Verb::Acl(acl) => acl::acl(site, acl),
        Verb::Task(task) => task::task(site, task),
        Verb::Defender(defender) => defender::defender(site, defender),
        Verb::Image(image) => image::image(site, image),
        Verb::Reboot => {
            site.ops.push(Op::Reboot);
            Some(())
        }
        Verb::Settle => {
            site.settle();
            Some(())
        }
        Verb::Assert(assertion) => assert::assert(site, assertion),
        Verb::Generalize {
            answer_file,
            mode_vm,
        } => generalize::generalize(site, answer_file, *mode_vm),
    }
}

fn args<const N: usize>(list: [&str; N]) -> Vec<String> {
    list.map(str::to_owned).into()
}
