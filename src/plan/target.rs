//! What the place that an image is for does not bear of a plan's steps.
//!
//! Judges by Windows' own names of features; knows no component and no pack.

use super::{Expectation, PlannedStep};
use crate::diag::{Diagnostic, Diagnostics};
use crate::recipe::Recipe;
use crate::text::Place;

/// The Hyper-V role of Windows Server by DISM's names. Its management tools are features of their own.
const HYPERV_ROLE: [&str; 3] = [
    "Microsoft-Hyper-V",
    "Microsoft-Hyper-V-Offline",
    "Microsoft-Hyper-V-Online",
];

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
                Expectation::Feature { name, enabled } if *enabled && is_role(name) => Some(name),
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
