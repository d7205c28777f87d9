//! From recipe to plan: the steps in their order, their numbers, and what must hold between them.

use std::path::Path;

use super::site::Site;
use super::{
    OFF_TIMEOUT, Op, Plan, PlannedStep, REBOOT_TIMEOUT, Settle, clone, expect, inputs, services,
    step, target,
};
use crate::recipe::{self, Options, Recipe, Step, Verb};
use winimg_base::argv;
use winimg_base::diag::{Diagnostic, Diagnostics, Severity};
use winimg_base::text::Place;

/// Reads a recipe; with mistakes in it, what planning has to say about the rest is said with them.
pub fn read(path: &Path, options: &Options) -> (Option<Recipe>, Diagnostics) {
    recipe::read_judged(path, options, &|draft| {
        let found = make(draft).err().map_or_else(Vec::new, |found| found.0);
        let errors = found.into_iter();
        errors.filter(|d| d.severity == Severity::Error).collect()
    })
}

/// Compiles every step. All complaints come at once; with an error among them there is no plan.
pub fn make(recipe: &Recipe) -> Result<Plan, Diagnostics> {
    let mut complaints = Diagnostics::default();
    let mut payload = Vec::new();
    let mut steps = Vec::new();
    let mut is_sealed = false;
    inputs::judge(recipe, &mut complaints);
    services::judge(recipe, &mut complaints);
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
            is_sealed |= seals(written);
        }
        steps.push(planned(site));
    }
    if !is_sealed {
        let number = u32::try_from(steps.len() + 1).unwrap_or(u32::MAX);
        let place = recipe.steps.last().map_or(&recipe.name.place, |s| &s.place);
        complaints.push(unsealed(place));
        steps.push(step::clean_up(recipe, number, place));
    }
    expect::keep_what_lasts(steps.iter_mut().map(|step| &mut step.expects));
    let clone_checks = clone::checks(recipe, &mut complaints);
    let judged = target::judge(recipe, &steps, &payload);
    complaints.0.extend(judged.0);
    if complaints.has_errors() {
        return Err(complaints);
    }
    Ok(Plan {
        steps,
        payload,
        clone_checks,
        warnings: complaints,
    })
}

fn planned(site: Site<'_>) -> PlannedStep {
    let step = site.step;
    let reboot_timeout = match step.verb {
        Verb::Reboot => site.timeout(REBOOT_TIMEOUT),
        _ => site.timeout_of_at_least(REBOOT_TIMEOUT),
    };
    let off_timeout = site.timeout_of_at_least(OFF_TIMEOUT);
    PlannedStep {
        name: step.name.clone(),
        verb: step::verb_name(&step.verb),
        place: step.place.clone(),
        skipped: step.skipped.clone(),
        undecided: match &step.verb {
            Verb::Undecided { variables, .. } if step.skipped.is_none() => variables.clone(),
            _ => Vec::new(),
        },
        ops: site.ops,
        entries: site.entries,
        reboot_timeout,
        off_timeout,
        is_servicing: is_servicing(&step.verb),
        settle: Settle::after_restart(site.recipe, step.timeout),
        guest_log: site.guest_log,
        expects: site.expects,
    }
}

/// Whether Windows may go on servicing itself after the verb's programs have ended.
fn is_servicing(verb: &Verb) -> bool {
    match verb {
        Verb::Feature(_) | Verb::Capability(_) | Verb::Update(_) => true,
        Verb::Cleanup(cleanup) => cleanup.component_store,
        _ => false,
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

fn unsealed(place: &Place) -> Diagnostic {
    Diagnostic::warning(
        "no `generalize` step: every machine made from the image has the same identity",
    )
    .at(place, "the last step")
    .help("end the recipe with a step `generalize = {}`")
}

fn seals(step: &Step) -> bool {
    matches!(step.verb, Verb::Generalize { .. })
}
