//! From recipe to plan: the steps in their order, their numbers, and what must hold between them.

use super::site::Site;
use super::{Op, Plan, PlannedStep, REBOOT_TIMEOUT, expect, step};
use crate::argv;
use crate::diag::{Diagnostic, Diagnostics, Severity};
use crate::recipe::{Recipe, Step, Verb};

/// Compiles every step. All complaints come at once; with an error among them there is no plan.
pub fn make(recipe: &Recipe) -> Result<Plan, Diagnostics> {
    let mut complaints = Diagnostics::default();
    let mut payload = Vec::new();
    let mut steps = Vec::new();
    order(recipe, &mut complaints);
    for (index, written) in recipe.steps.iter().enumerate() {
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        let mut site = Site {
            recipe,
            step: written,
            number,
            payload: &mut payload,
            complaints: &mut complaints,
            ops: Vec::new(),
            entries: Vec::new(),
            expects: Vec::new(),
            guest_log: None,
        };
        if written.skipped.is_none() {
            step::compile(&mut site);
            arguments(&mut site);
        }
        steps.push(planned(site));
    }
    if complaints.has_errors() {
        return Err(complaints);
    }
    expect::keep_what_lasts(&mut steps);
    Ok(Plan {
        steps,
        payload,
        warnings: complaints,
    })
}

fn planned(site: Site<'_>) -> PlannedStep {
    let step = site.step;
    let reboot_timeout = match step.verb {
        Verb::Reboot => site.timeout(REBOOT_TIMEOUT),
        _ => REBOOT_TIMEOUT,
    };
    PlannedStep {
        name: step.name.clone(),
        verb: step::verb_name(&step.verb),
        place: step.place.clone(),
        skipped: step.skipped.clone(),
        ops: site.ops,
        entries: site.entries,
        reboot_timeout,
        guest_log: site.guest_log,
        expects: site.expects,
    }
}

/// Every argument must survive the guest agent, so that nothing comes as a surprise in the guest.
fn arguments(site: &mut Site<'_>) {
    let faults: Vec<String> = site
        .ops
        .iter()
        .filter_map(|op| match op {
            Op::Run(run) => argv::check(&run.program, &run.arguments)
                .err()
                .map(|why| format!("{} cannot be run: {why}", argv::base_name(&run.program))),
            _ => None,
        })
        .collect();
    let place = &site.step.place;
    for fault in faults {
        site.error(place, fault, "");
    }
}

/// `generalize` seals the image, so nothing may run after it; without it clones share one identity.
fn order(recipe: &Recipe, complaints: &mut Diagnostics) {
    let active: Vec<&Step> = recipe
        .steps
        .iter()
        .filter(|s| s.skipped.is_none())
        .collect();
    let seals = |step: &&Step| matches!(step.verb, Verb::Generalize { .. });
    let Some(first) = active.iter().position(seals) else {
        let place = active.last().map_or(&recipe.name.place, |step| &step.place);
        complaints.push(
            Diagnostic::warning(
                "no `generalize` step: every machine made from the image has the same identity",
            )
            .at(place, "the last step")
            .help("end the recipe with a step `generalize = {}`"),
        );
        return;
    };
    let sealed = active[first];
    for step in &active[first + 1..] {
        let message = match step.verb {
            Verb::Generalize { .. } => {
                format!("step `{}` seals the image a second time", step.name)
            }
            _ => format!("step `{}` comes after the image is sealed", step.name),
        };
        complaints.push(Diagnostic {
            severity: Severity::Error,
            message,
            place: Some(step.place.clone()),
            label: "cannot run any more".to_owned(),
            help: vec![format!(
                "`generalize` at {} must be the last step that runs",
                sealed.place
            )],
        });
    }
}
