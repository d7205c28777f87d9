//! What the bootstrap set for the build, and the last step takes back.

use winimg_recipe::plan::{self, PlannedCheck};
use winimg_recipe::*;

use crate::plan::recipe::Maker;

/// What the plan's last step says is gone, by the value's name or the key's.
fn taken_back(recipe: Recipe) -> Vec<String> {
    let plan = plan::make(&recipe).expect("a plan");
    let last = plan.steps.last().expect("a step");
    last.expects
        .iter()
        .filter_map(|expectation| match expectation {
            PlannedCheck::Registry {
                key,
                value,
                data: RegistryValueData::Absent,
            } => Some(value.clone().unwrap_or_else(|| {
                let (_, name) = key.as_str().rsplit_once('\\').expect("a path");
                name.to_owned()
            })),
            _ => None,
        })
        .collect()
}

#[test]
fn what_the_bootstrap_set_is_taken_back_unless_a_step_sets_it() {
    const AU: &str = r"hkey_local_machine\software\policies\microsoft\windows\windowsupdate\au";
    let all = [
        "NewNetworkWindowOff",
        "Category",
        "DisablePrivacyExperience",
        "DoNotOpenServerManagerAtLogon",
        "ShutdownReasonOn",
        "NoAutoUpdate",
        "NoAutoRebootWithLoggedOnUsers",
        "RealTimeIsUniversal",
    ];
    assert_eq!(taken_back(Maker::new().made()), all, "without a seal");
    let sealed = |maker: Maker| maker.step("seal", |m| m.generalize()).made();
    assert_eq!(taken_back(sealed(Maker::new())), all);
    let own = Maker::new()
        .step("updates of ones own", |m| {
            m.registry(AU, Some("noautoupdate"), RegistryValueData::Dword(0))
        })
        .step("no question", |m| {
            let key = r"HKLM\SYSTEM\CurrentControlSet\Control\Network\NewNetworkWindowOff";
            m.registry(key, None, RegistryValueData::Sz(String::new()))
        })
        .step("the clock's own", |m| {
            let key = r"HKLM\SYSTEM\CurrentControlSet\Control\TimeZoneInformation";
            m.registry(
                key,
                Some("RealTimeIsUniversal"),
                RegistryValueData::Dword(1),
            )
        })
        .but(|step| step.skipped = Some("false".into()));
    let kept = ["NewNetworkWindowOff", "NoAutoUpdate"];
    let gone: Vec<&str> = all
        .into_iter()
        .filter(|name| !kept.contains(name))
        .collect();
    assert_eq!(taken_back(sealed(own)), gone);
}
