//! Whether the image that a plan makes is one that its targets take.
//!
//! Pure. Knows rules and conditions, no platform: what each target needs and refuses is in its file. A contradiction names both
//! sides: what the recipe does, at its line, and the target's rule with its reason and source.

mod facts;
mod left;
mod seal;

use super::{Entry, PlannedStep};
use crate::recipe::Recipe;
use crate::recipe::target::{Aim, Condition, Demand, Output, Report, Rule};
use facts::{Facts, Finding, Side};
use winimg_base::diag::{Diagnostic, Diagnostics};
use winimg_base::text::Place;
use winimg_formats::wim::Release;

/// All contradictions. `steps` say what holds at the end.
pub(super) fn judge(recipe: &Recipe, steps: &[PlannedStep], payload: &[Entry]) -> Diagnostics {
    let facts = Facts::new(recipe, steps, payload);
    let found = applied(recipe);
    Diagnostics(found.iter().flat_map(|one| one.broken(&facts)).collect())
}

/// Those that only the medium shows: it has this release, and the recipe did not say so.
pub fn on_release(recipe: &Recipe, release: Release) -> Diagnostics {
    let mut facts = Facts::new(recipe, &[], &[]);
    if facts.release.is_some() {
        return Diagnostics::default();
    }
    facts.release = Some(release);
    let found = applied(recipe);
    let found = found.iter().filter(|one| minds_release(one.rule));
    Diagnostics(found.flat_map(|one| one.broken(&facts)).collect())
}

/// A rule that counts for a recipe.
struct Applied<'a> {
    rule: &'a Rule,
    /// Whose it is: a rule that targets share counts once.
    targets: Vec<&'a str>,
    /// The line of the recipe that makes it count: a target's name, or an output.
    place: Place,
    /// That output, where none of the targets is named.
    by_output: Option<Output>,
}

fn applied(recipe: &Recipe) -> Vec<Applied<'_>> {
    let mut found: Vec<Applied<'_>> = Vec::new();
    for aim in &recipe.targets {
        for rule in &aim.target.rules {
            let Some((place, by_output)) = counts(recipe, aim, rule) else {
                continue;
            };
            let mut before = found.iter_mut();
            let same = before.find(|one| one.rule.place == rule.place && one.rule.why == rule.why);
            match same {
                Some(one) => one.targets.push(&aim.target.name),
                None => found.push(Applied {
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

/// What in the recipe makes the rule count.
fn counts(recipe: &Recipe, aim: &Aim, rule: &Rule) -> Option<(Place, Option<Output>)> {
    if let Some(named) = &aim.named {
        return Some((named.clone(), None));
    }
    let output = rule.output.filter(|output| output.is_in(&recipe.outputs))?;
    let written = recipe.written.get(&format!("outputs.{}", output.name()));
    Some((written.unwrap_or(&recipe.name.place).clone(), Some(output)))
}

fn minds_release(rule: &Rule) -> bool {
    let (Demand::Needs(condition) | Demand::Refuses(condition)) = &rule.demand;
    let is_it = |condition: &Condition| matches!(condition, Condition::Windows(_));
    is_it(condition) || rule.when.as_ref().is_some_and(is_it)
}

impl Applied<'_> {
    /// A complaint for each place that breaks the rule.
    fn broken(&self, facts: &Facts<'_>) -> Vec<Diagnostic> {
        let mut context = None;
        if let Some(when) = &self.rule.when {
            match facts.find(when) {
                Finding::Is(sides) => context = sides.into_iter().next(),
                Finding::Not(_) | Finding::Unknown => return Vec::new(),
            }
        }
        let sides = match &self.rule.demand {
            Demand::Refuses(condition) => match facts.find(condition) {
                Finding::Is(sides) => sides,
                Finding::Not(_) | Finding::Unknown => Vec::new(),
            },
            Demand::Needs(condition) => match facts.find(condition) {
                Finding::Not(side) => vec![side],
                Finding::Is(_) | Finding::Unknown => Vec::new(),
            },
        };
        let complaint = |side: Side| self.complaint(side, context.as_ref());
        sides.into_iter().map(complaint).collect()
    }

    /// Both sides: what the recipe does, and the rule with its source.
    fn complaint(&self, side: Side, context: Option<&Side>) -> Diagnostic {
        let rule = self.rule;
        let quoted: Vec<String> = self
            .targets
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        let s = if quoted.len() > 1 { "s" } else { "" };
        let fact = format!("target{s} {}: {}", quoted.join(", "), rule.why);
        let complaint = match rule.report {
            Report::Refuse => Diagnostic::error(fact),
            Report::Warn => Diagnostic::warning(fact),
        };
        let own = side.place.as_ref();
        let mut complaint = complaint.at(own.unwrap_or(&self.place), side.words);
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
        complaint = complaint.help(rule.described());
        match &rule.cure {
            Some(cure) => complaint.help(cure),
            None => complaint,
        }
    }
}
