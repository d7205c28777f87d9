//! Checks that the targets of a recipe accept the image that its plan makes.
//!
//! Pure. Knows rules and conditions but no platforms: the requirements of each target are in its
//! file. A contradiction names both sides: what the recipe does, at its line, and the target's rule
//! with its reason and source.

mod conditions;
mod image_conditions;
mod seal;

use super::{PayloadEntry, PlannedStep};
use crate::target::{RecipeTarget, RuleDemand, RuleSeverity, TargetCondition, TargetRule};
use crate::{OutputFormat, Recipe};
use conditions::{ConditionFinding, ConditionReason, PlanFacts};
use winimg_base::diag::{Diagnostic, Diagnostics};
use winimg_base::text::Place;
use winimg_formats::wim::WindowsRelease;

/// Reports all contradictions. `steps` contain the checks of the finished image.
pub(super) fn judge(
    recipe: &Recipe,
    steps: &[PlannedStep],
    payload: &[PayloadEntry],
) -> Diagnostics {
    let facts = PlanFacts::new(recipe, steps, payload);
    let rules = find_applied_rules(recipe);
    Diagnostics(
        rules
            .iter()
            .flat_map(|rule| rule.find_violations(&facts))
            .collect(),
    )
}

/// Reports contradictions with the release of the medium, if the recipe does not determine the
/// release.WindowsRelease
pub fn on_release(recipe: &Recipe, release: WindowsRelease) -> Diagnostics {
    let mut facts = PlanFacts::new(recipe, &[], &[]);
    if facts.release.is_some() {
        return Diagnostics::default();
    }
    facts.release = Some(release);
    Diagnostics(
        find_applied_rules(recipe)
            .iter()
            .filter(|applied| minds_release(applied.rule))
            .flat_map(|applied| applied.find_violations(&facts))
            .collect(),
    )
}

/// A rule that applies to a recipe.
struct AppliedRule<'a> {
    rule: &'a TargetRule,
    /// The targets that have it: a rule shared by targets is reported once.
    targets: Vec<&'a str>,
    /// The line of the recipe that makes it apply: a target's name, or an output.
    place: Place,
    /// The output, if none of the targets is named.
    by_output: Option<OutputFormat>,
}

fn find_applied_rules(recipe: &Recipe) -> Vec<AppliedRule<'_>> {
    let mut found: Vec<AppliedRule<'_>> = Vec::new();
    for aim in &recipe.targets {
        for rule in &aim.target.rules {
            let Some((place, by_output)) = find_cause(recipe, aim, rule) else {
                continue;
            };
            let same = found
                .iter_mut()
                .find(|one| one.rule.place == rule.place && one.rule.why == rule.why);
            match same {
                Some(one) => one.targets.push(&aim.target.name),
                None => found.push(AppliedRule {
                    rule,
                    targets: vec![&aim.target.name],
                    place,
                    by_output,
                }),
            }
        }
    }
    found
}

/// Returns the place in the recipe, and the output if any, that makes the rule apply.
fn find_cause(
    recipe: &Recipe,
    aim: &RecipeTarget,
    rule: &TargetRule,
) -> Option<(Place, Option<OutputFormat>)> {
    if let Some(named) = &aim.named {
        return Some((named.clone(), None));
    }
    let output = rule.output.filter(|one| recipe.outputs.has(*one))?;
    let written = recipe.written.get(&format!("outputs.{}", output.name()));
    Some((written.unwrap_or(&recipe.name.place).clone(), Some(output)))
}

fn minds_release(rule: &TargetRule) -> bool {
    let (RuleDemand::Needs(condition) | RuleDemand::Refuses(condition)) = &rule.demand;
    matches!(condition, TargetCondition::Windows(_))
        || matches!(rule.when, Some(TargetCondition::Windows(_)))
}

impl AppliedRule<'_> {
    /// Returns a diagnostic for each place that violates the rule.
    fn find_violations(&self, facts: &PlanFacts<'_>) -> Vec<Diagnostic> {
        let mut context = None;
        if let Some(when) = &self.rule.when {
            match facts.evaluate(when) {
                ConditionFinding::Met(sides) => context = sides.into_iter().next(),
                ConditionFinding::NotMet(_) | ConditionFinding::Unknown => return Vec::new(),
            }
        }
        let sides = match &self.rule.demand {
            RuleDemand::Refuses(condition) => match facts.evaluate(condition) {
                ConditionFinding::Met(sides) => sides,
                ConditionFinding::NotMet(_) | ConditionFinding::Unknown => Vec::new(),
            },
            RuleDemand::Needs(condition) => match facts.evaluate(condition) {
                ConditionFinding::NotMet(reason) => vec![reason],
                ConditionFinding::Met(_) | ConditionFinding::Unknown => Vec::new(),
            },
        };
        sides
            .into_iter()
            .map(|reason| self.report_violation(reason, context.as_ref()))
            .collect()
    }

    /// Renders a diagnostic with both sides: what the recipe does, and the rule with its source.
    fn report_violation(
        &self,
        reason: ConditionReason,
        context: Option<&ConditionReason>,
    ) -> Diagnostic {
        let rule = self.rule;
        let quoted: Vec<String> = self
            .targets
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        let s = if quoted.len() > 1 { "s" } else { "" };
        let fact = format!("target{s} {}: {}", quoted.join(", "), rule.why);
        let complaint = match rule.report {
            RuleSeverity::Refuse => Diagnostic::error(fact),
            RuleSeverity::Warn => Diagnostic::warning(fact),
        };
        let own = reason.place.as_ref();
        let mut complaint = complaint.at(own.unwrap_or(&self.place), reason.words);
        if let Some(context) = context {
            complaint = complaint.help(match &context.place {
                Some(at) => format!("{} ({at})", context.words),
                None => context.words.clone(),
            });
        }
        if own.is_some_and(|own| *own != self.place) {
            complaint = complaint.help(match self.by_output {
                Some(output) => {
                    format!(
                        "the output `{}` at {} is for this target",
                        output.name(),
                        self.place
                    )
                }
                None => format!("the target is named at {}", self.place),
            });
        }
        complaint = complaint.help(rule.describe_origin());
        match &rule.cure {
            Some(cure) => complaint.help(cure),
            None => complaint,
        }
    }
}
