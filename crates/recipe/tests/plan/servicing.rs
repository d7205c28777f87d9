//! What follows a restart, and what a step's `timeout` is the limit of.

use std::time::Duration;

use winimg_recipe::plan::{self, BuildPlan};
use winimg_recipe::{self as recipe, ReadOptions};

const HEAD: &str = r#"
schema = 1
name = "node"
[media]
image = "datacenter-core"
[media.iso]
url = "https://example.com/windows.iso"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
[outputs]
raw = {}
"#;

fn plan(steps: &[&str]) -> BuildPlan {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recipe.toml");
    let steps = steps.iter().enumerate();
    let steps = steps.map(|(n, step)| format!("[[steps]]\nname = \"{n}\"\n{step}\n"));
    let text = format!("{HEAD}{}", steps.collect::<String>());
    std::fs::write(&path, text).unwrap();
    let (recipe, complaints) = recipe::read(&path, &ReadOptions::default());
    let recipe = recipe.unwrap_or_else(|| panic!("{}", complaints.render(false)));
    plan::make(&recipe).unwrap()
}

#[test]
fn steps_that_may_restart_windows_are_known() {
    let restarts = |step: &str| {
        let plan = plan(&[step]);
        (plan.steps[0].may_restart(), plan.steps[0].is_servicing)
    };
    for serviced in [
        "feature = 'Containers'",
        "feature = { names = ['SMB1Protocol'], state = 'disabled' }",
        "capability = { name = 'OpenSSH.Server~~~~0.0.1.0' }",
        "cleanup = { component_store = true }",
    ] {
        assert_eq!(restarts(serviced), (true, true), "{serviced}");
    }
    for asks in [
        "reboot = {}",
        "cmd = { script = 'x', exit_codes = { reboot = [3010] } }",
        "exe = { program = 'C:\\k\\x.exe' }",
    ] {
        assert_eq!(restarts(asks), (true, false), "{asks}");
    }
    for quiet in [
        "cmd = 'echo x'",
        "cleanup = { temp = true }",
        "directory = { path = 'C:\\k' }",
    ] {
        assert_eq!(restarts(quiet), (false, false), "{quiet}");
    }
}

#[test]
fn a_longer_timeout_of_a_step_counts_for_its_restart_its_wait_and_the_power_off() {
    let minutes = |time: Duration| time.as_secs() / 60;
    let limits = |step: &str| {
        let plan = plan(&[step]);
        let step = &plan.steps[0];
        let wait = step.settle.timeout;
        [step.reboot_timeout, wait, step.off_timeout].map(minutes)
    };
    let feature = "feature = 'Containers'";
    assert_eq!(limits(feature), [20, 20, 10]);
    assert_eq!(
        limits(&format!("{feature}\ntimeout = '3h'")),
        [180, 180, 180]
    );
    assert_eq!(limits(&format!("{feature}\ntimeout = '15m'")), [20, 20, 15]);
    assert_eq!(limits(&format!("{feature}\ntimeout = '1m'")), [20, 20, 10]);
    let reboot = "reboot = {}\ntimeout = '5m'";
    assert_eq!(limits(reboot), [5, 20, 10], "what the step is about");
}

#[test]
fn a_plan_knows_whether_windows_starts_a_hypervisor() {
    let starts = |steps: &[&str]| plan(steps).starts_hypervisor();
    let role = "feature = ['Containers', 'microsoft-hyper-v']";
    let off = "feature = { names = ['Microsoft-Hyper-V-Online'], state = 'disabled' }";
    let without =
        "feature = { names = ['Microsoft-Hyper-V'], without = ['Microsoft-Hyper-V-Online'] }";
    assert!(starts(&[role]));
    assert!(starts(&["feature = 'Microsoft-Hyper-V-Online'"]));
    assert!(!starts(&[role, off]), "in a step of its own");
    assert!(!starts(&[without]));
    assert!(!starts(&[
        "feature = 'Microsoft-Hyper-V-Management-PowerShell'"
    ]));
    assert!(!starts(&[]));
}
