//! What the place that an image is for, or the hypervisor that it is built on, does not bear of a plan's steps.
//!
//! Judges by Windows' own names of features and accounts; knows no component and no pack.

use super::{Planned, PlannedStep};
use crate::recipe::verb::{Password, User, UserState};
use crate::recipe::{Recipe, Verb};
use winimg_base::diag::{Diagnostic, Diagnostics};
use winimg_base::text::Place;

/// The Hyper-V role of Windows Server by DISM's names. Its management tools are features of their own.
const HYPERV_ROLE: [&str; 3] = [
    "Microsoft-Hyper-V",
    "Microsoft-Hyper-V-Offline",
    "Microsoft-Hyper-V-Online",
];

/// The account that winimg enters a guest of Hyper-V as.
const ADMINISTRATOR: &str = "Administrator";

/// Steps that leave the Hyper-V role in an image that `[outputs]` wants as an AMI. AWS' import-image refuses it: "Windows
/// Server VMs with the Hyper-V server role installed are not supported" (AWS: VM Import/Export user guide, requirements).
/// `steps` say what holds at the end.
pub(super) fn hyperv_in_ami(recipe: &Recipe, steps: &[PlannedStep]) -> Diagnostics {
    let mut found = Diagnostics::default();
    let Some(ami) = &recipe.outputs.ami else {
        return found;
    };
    let output = ami.place.as_ref().map(Place::to_string);
    let output = output.unwrap_or_else(|| "[outputs]".to_owned());
    for step in steps {
        let is_role = |name: &str| {
            HYPERV_ROLE
                .iter()
                .any(|role| role.eq_ignore_ascii_case(name))
        };
        let role = step
            .expects
            .iter()
            .find_map(|expectation| match expectation {
                Planned::Feature { name, enabled } if *enabled && is_role(name) => Some(name),
                _ => None,
            });
        let Some(role) = role else { continue };
        let message = format!(
            "step `{}`: AWS' import-image refuses a Windows with the Hyper-V role",
            step.name
        );
        found.push(
            Diagnostic::error(message)
                .at(&step.place, format!("enables {role}"))
                .help(format!("the output `ami` at {output} is made for import-image"))
                .help(
                    "leave the feature out, which containers with process isolation do not need, or remove that output",
                ),
        );
    }
    found
}

/// Steps after which PowerShell Direct would be refused: it logs on anew for each session, as the built-in Administrator
/// with the build's password (Microsoft: Manage Windows virtual machines with PowerShell Direct). For a build on Hyper-V.
pub fn shut_out(recipe: &Recipe) -> Diagnostics {
    let mut found = Diagnostics::default();
    for step in recipe.steps.iter().filter(|s| s.skipped.is_none()) {
        let Verb::User(user) = &step.verb else {
            continue;
        };
        let Some(does) = harms(user) else { continue };
        let message = format!(
            "step `{}`: Hyper-V's guests are reached as {ADMINISTRATOR}, and this step {does}",
            step.name
        );
        found.push(
            Diagnostic::error(message)
                .at(&user.name.place, "the rest of the build would be refused")
                .help(
                    "let the clone do it: a command in the specialize pass of the answer file that `generalize` is given",
                )
                .help("or build under QEMU, whose guest agent needs no account"),
        );
    }
    found
}

fn harms(user: &User) -> Option<&'static str> {
    if !user.name.value.eq_ignore_ascii_case(ADMINISTRATOR) {
        return None;
    }
    match (user.state, &user.password) {
        (UserState::Disabled, _) => Some("disables the account"),
        (UserState::Absent, _) => Some("removes the account"),
        (UserState::Present, Password::Published(_)) => Some("changes its password"),
        // A random one is for accounts that are made.
        (UserState::Present, Password::Random) => None,
    }
}
