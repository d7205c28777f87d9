//! Reverts the registry settings that the bootstrap made for the build, at the end of every plan.
//!
//! A setting that a `registry` step of the recipe makes is kept. Settings made by scripts are
//! unknown.

use super::build_settings::{BUILD_SETTINGS, BuildSetting};
use crate::ops::PlannedCheck;
use crate::ops::batch::BatchScript;
use crate::ops::programs::{REG, SC};
use crate::target::{RecipeTarget, TargetController};
use crate::verbs::{RecipeStep, Verb};
use crate::{Recipe, RegistryValueData};

/// The service of QEMU's guest agent.
const AGENT: &str = "QEMU-GA";

/// Removes the settings, verifies that they are gone, and returns the checks for that.
pub fn restore(recipe: &Recipe, script: &mut BatchScript) -> Vec<PlannedCheck> {
    let steps: Vec<&RecipeStep> = recipe
        .steps
        .iter()
        .filter(|s| s.skipped.is_none())
        .collect();
    let mut gone = Vec::new();
    for setting in &BUILD_SETTINGS {
        if steps.iter().any(|step| is_set_by(&step.verb, setting)) {
            continue;
        }
        let place = match setting.value {
            Some((name, _)) => format!("\"{}\" /v {name}", setting.key),
            None => format!("\"{}\"", setting.key),
        };
        script.add_line(format!("{REG} delete {place} /f >nul 2>&1"));
        script.add_line(format!("{REG} query {place} >nul 2>&1 && exit /b 1"));
        gone.push(PlannedCheck::Registry {
            key: setting.key.clone(),
            value: setting.value.map(|(name, _)| name.to_owned()),
            data: RegistryValueData::Absent,
        });
    }
    gone
}

/// Disables QEMU's guest agent on clones of platforms without a virtio port for it, because it
/// would start with each boot and search for the port forever. It is kept if a target may have the
/// port, or if the recipe sets the service itself.
pub fn disable_useless_agent(recipe: &Recipe, script: &mut BatchScript) {
    let mut named = recipe
        .targets
        .iter()
        .filter(|aim| aim.named.is_some())
        .peekable();
    if named.peek().is_none() || named.any(may_have_port) || recipe.steps.iter().any(sets_agent) {
        return;
    }
    script.add_line(format!(
        "{SC} query {AGENT} >nul 2>&1 && {SC} config {AGENT} start= disabled"
    ));
}

fn may_have_port(aim: &RecipeTarget) -> bool {
    use TargetController::{
        Ahci, Ide, LsiSas, Nvme, Pvscsi, VirtioBlk, VirtioScsi, VmbusNvme, VmbusScsi,
    };
    match aim.target.hardware.controller {
        Ahci | VirtioBlk | VirtioScsi => true,
        Ide | LsiSas | Nvme | Pvscsi | VmbusNvme | VmbusScsi => false,
    }
}

fn sets_agent(step: &RecipeStep) -> bool {
    let Verb::Service(service) = &step.verb else {
        return false;
    };
    step.skipped.is_none() && service.name.value.eq_ignore_ascii_case(AGENT)
}

/// Returns true if the step sets the value, or a value of the key.
fn is_set_by(verb: &Verb, setting: &BuildSetting) -> bool {
    let Verb::Registry(registry) = verb else {
        return false;
    };
    let name = registry.value.as_deref().unwrap_or_default();
    let same_value = setting
        .value
        .is_none_or(|(own, _)| own.eq_ignore_ascii_case(name));
    registry.key.value == setting.key && same_value && registry.data != RegistryValueData::Absent
}
