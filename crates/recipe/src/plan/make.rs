//! Makes a plan from a recipe: compiles the steps in order and checks them together.

use std::path::Path;

use super::{
    BuildPlan, OFF_TIMEOUT, PlannedOp, PlannedStep, REBOOT_TIMEOUT, SettleWait, clone, expect,
    inputs, services, target,
};
use crate::ops::compiler::StepCompiler;
use crate::verbs::generalize;
use crate::{self as recipe, ReadOptions, Recipe, RecipeStep, Verb};
use winimg_base::argv;
use winimg_base::diag::{Diagnostic, Diagnostics, Severity};
use winimg_base::text::Place;

/// Reads a recipe. If it has errors, the errors of planning the rest are reported as well.
pub fn read(path: &Path, options: &ReadOptions) -> (Option<Recipe>, Diagnostics) {
    recipe::read_judged(path, options, &|draft| {
        let found = make(draft).err().map_or_else(Vec::new, |found| found.0);
        found
            .into_iter()
            .filter(|diagnostic| diagnostic.severity == Severity::Error)
            .collect()
    })
}

/// Compiles every step. All diagnostics are returned at once; with an error there is no plan.
pub fn make(recipe: &Recipe) -> Result<BuildPlan, Diagnostics> {
    let mut diagnostics = Diagnostics::default();
    let mut payload = Vec::new();
    let mut steps = Vec::new();
    let mut is_sealed = false;
    inputs::judge(recipe, &mut diagnostics);
    services::judge(recipe, &mut diagnostics);
    for (index, step) in recipe.steps.iter().enumerate() {
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        let mut site = StepCompiler {
            recipe,
            step,
            number,
            payload: &mut payload,
            complaints: &mut diagnostics,
            ops: Vec::new(),
            entries: Vec::new(),
            expects: Vec::new(),
            guest_log: None,
        };
        if step.skipped.is_none() {
            step.verb.compile(&mut site);
            check_arguments(&mut site);
            is_sealed |= is_generalize(step);
        }
        steps.push(finish_step(site));
    }
    if !is_sealed {
        let number = u32::try_from(steps.len() + 1).unwrap_or(u32::MAX);
        let place = recipe.steps.last().map_or(&recipe.name.place, |s| &s.place);
        diagnostics.push(warn_unsealed(place));
        steps.push(generalize::clean_up(recipe, number, place));
    }
    expect::keep_what_lasts(steps.iter_mut().map(|step| &mut step.expects));
    let clone_checks = clone::plan_clone_checks(recipe, &mut diagnostics);
    let judged = target::judge(recipe, &steps, &payload);
    diagnostics.0.extend(judged.0);
    if diagnostics.has_errors() {
        return Err(diagnostics);
    }
    Ok(BuildPlan {
        steps,
        payload,
        clone_checks,
        warnings: diagnostics,
    })
}

fn finish_step(site: StepCompiler<'_>) -> PlannedStep {
    let step = site.step;
    let reboot_timeout = match step.verb {
        Verb::Reboot => site.timeout_or(REBOOT_TIMEOUT),
        _ => site.timeout_of_at_least(REBOOT_TIMEOUT),
    };
    let off_timeout = site.timeout_of_at_least(OFF_TIMEOUT);
    PlannedStep {
        name: step.name.clone(),
        verb: step.verb.name(),
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
        is_servicing: step.verb.is_servicing(),
        settle: SettleWait::after_restart(site.recipe, step.timeout),
        guest_log: site.guest_log,
        expects: site.expects,
    }
}

/// Checks that the guest agent passes every argument through unchanged.
fn check_arguments(site: &mut StepCompiler<'_>) {
    let faults: Vec<String> = site
        .ops
        .iter()
        .filter_map(|op| match op {
            PlannedOp::Run(run) => argv::check(&run.program, &run.arguments)
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

fn warn_unsealed(place: &Place) -> Diagnostic {
    Diagnostic::warning(
        "no `generalize` step: every machine made from the image has the same identity",
    )
    .at(place, "the last step")
    .help("end the recipe with a step `generalize = {}`")
}

fn is_generalize(step: &RecipeStep) -> bool {
    matches!(step.verb, Verb::Generalize(_))
}
