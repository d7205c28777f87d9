//! The verbs: each file compiles one family of them to ops, and says what they leave behind.
//!
//! Programs are named by full path. Ops are unconditional; where something depends on what is there, it stands in the
//! step's script on the payload disc, which the plan shows whole.

mod assert;
mod files;
mod generalize;
mod msi;
mod registry;
mod script;
mod search_path;
mod service;

use super::Op;
use super::site::Site;
use crate::recipe::Verb;

pub(super) use generalize::clean_up;
pub(super) use service::start_name;

pub(super) const CMD: &str = r"C:\Windows\System32\cmd.exe";

pub(super) fn verb_name(verb: &Verb) -> &'static str {
    match verb {
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
        Verb::Reboot => "reboot",
        Verb::Assert(_) => "assert",
        Verb::Generalize { .. } => "generalize",
    }
}

/// Adds the step's ops and expectations; `None` is only a way out early, what is wrong has been said.
pub(super) fn compile(site: &mut Site<'_>) -> Option<()> {
    let step = site.step;
    match &step.verb {
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
        Verb::Environment { name, value } => registry::environment(site, name, value.as_deref()),
        Verb::Path { add } => search_path::path(site, add),
        Verb::Msi {
            from,
            properties,
            exit_codes,
        } => msi::msi(site, from, properties, exit_codes),
        Verb::Reboot => {
            site.ops.push(Op::Reboot);
            Some(())
        }
        Verb::Assert(assertion) => assert::assert(site, assertion),
        Verb::Generalize {
            answer_file,
            mode_vm,
        } => generalize::generalize(site, answer_file.as_ref(), *mode_vm),
    }
}

fn args<const N: usize>(list: [&str; N]) -> Vec<String> {
    list.map(str::to_owned).into()
}
