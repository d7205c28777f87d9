//! Takes back what the bootstrap set in the registry for the time of the build, at the end of every plan.
//!
//! A setting that a `registry` step of the recipe makes is the image's own, and stays. What a script sets is not known.

use super::super::batch::Script;
use super::super::{BUILD_SETTINGS, BuildSetting, Planned};
use super::registry::REG;
use super::service::SC;
use crate::recipe::target::{Aim, Controller};
use crate::recipe::{Recipe, RegistryData, Step, Verb};

/// The service of QEMU's guest agent.
const AGENT: &str = "QEMU-GA";

/// Removes the settings, looks whether they are gone, and gives what then holds.
pub(super) fn restore(recipe: &Recipe, script: &mut Script) -> Vec<Planned> {
    let steps: Vec<&Step> = recipe
        .steps
        .iter()
        .filter(|s| s.skipped.is_none())
        .collect();
    let kept = |setting: &BuildSetting| steps.iter().any(|step| sets(&step.verb, setting));
    let mut gone = Vec::new();
    for setting in BUILD_SETTINGS.iter().filter(|s| !kept(s)) {
        let place = match setting.value {
            Some((name, _)) => format!("\"{}\" /v {name}", setting.key),
            None => format!("\"{}\"", setting.key),
        };
        script.line(format!("{REG} delete {place} /f >nul 2>&1"));
        script.line(format!("{REG} query {place} >nul 2>&1 && exit /b 1"));
        gone.push(Planned::Registry {
            key: setting.key.clone(),
            value: setting.value.map(|(name, _)| name.to_owned()),
            data: RegistryData::Absent,
        });
    }
    gone
}

/// Disables QEMU's guest agent on clones of platforms that have no virtio port for it: there it would start with each boot and
/// look for the port for ever. A recipe whose targets are not known to lack the port, or that sets the service itself, keeps it.
pub(super) fn disable_useless_agent(recipe: &Recipe, script: &mut Script) {
    let lacks_port = |aim: &Aim| {
        use Controller::{
            Ahci, Ide, LsiSas, Nvme, Pvscsi, VirtioBlk, VirtioScsi, VmbusNvme, VmbusScsi,
        };
        match aim.target.hardware.controller {
            Ide | LsiSas | Nvme | Pvscsi | VmbusNvme | VmbusScsi => true,
            Ahci | VirtioBlk | VirtioScsi => false,
        }
    };
    let sets_agent = |step: &Step| {
        let verb = &step.verb;
        step.skipped.is_none()
            && matches!(verb, Verb::Service(service) if service.name.value.eq_ignore_ascii_case(AGENT))
    };
    let named: Vec<&Aim> = recipe
        .targets
        .iter()
        .filter(|aim| aim.named.is_some())
        .collect();
    if named.is_empty() || !named.into_iter().all(lacks_port) || recipe.steps.iter().any(sets_agent)
    {
        return;
    }
    script.line(format!(
        "{SC} query {AGENT} >nul 2>&1 && {SC} config {AGENT} start= disabled"
    ));
}

/// Whether the step says what the value, or a value of the key, shall be.
fn sets(verb: &Verb, setting: &BuildSetting) -> bool {
    let Verb::Registry { key, value, data } = verb else {
        return false;
    };
    let name = value.as_deref().unwrap_or_default();
    let same_value = setting
        .value
        .is_none_or(|(own, _)| own.eq_ignore_ascii_case(name));
    key.value == setting.key && same_value && *data != RegistryData::Absent
}
