//! Takes back what the bootstrap set in the registry for the time of the build, at the end of every plan.
//!
//! A setting that a `registry` step of the recipe makes is the image's own, and stays. What a script sets is not known.

use super::super::batch::Script;
use super::super::{BUILD_SETTINGS, BuildSetting, Planned};
use super::registry::REG;
use crate::recipe::{Recipe, RegistryData, Step, Verb};

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
