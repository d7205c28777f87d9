//! Warns of services that two steps define: the later step wins in the guest, but other settings of
//! the earlier one remain. Usually caused by two packs of one kind, or by packs in the wrong order.
//! Does not check a service's other settings.

use crate::verbs::ServiceSpec;
use crate::{Recipe, RecipeStep, Verb};
use winimg_base::diag::{Diagnostic, Diagnostics};

/// Warns of each step that gives a service a different program than an earlier step.
pub(super) fn judge(recipe: &Recipe, complaints: &mut Diagnostics) {
    let running = recipe.steps.iter().filter(|s| s.skipped.is_none());
    let mut makers: Vec<(&RecipeStep, &ServiceSpec)> = Vec::new();
    for step in running {
        let Verb::Service(service) = &step.verb else {
            continue;
        };
        let Some(program) = &service.program else {
            continue;
        };
        let name = &service.name.value;
        let earlier = makers.iter().rposition(|(_, other)| {
            other.name.value.eq_ignore_ascii_case(name) && is_other(service, other)
        });
        if let Some((first, _)) = earlier.map(|n| makers[n]) {
            let fact = format!(
                "step `{}` gives the service `{name}` a different program than step `{}`",
                step.name, first.name
            );
            let help = format!(
                "the other is at {}: remove one of the two, or check that their packs are included \
                 in the right order",
                first.place
            );
            complaints.push(
                Diagnostic::warning(fact)
                    .at(&program.place, "the later one wins")
                    .help(help),
            );
        }
        makers.push((step, service));
    }
}

fn is_other(one: &ServiceSpec, two: &ServiceSpec) -> bool {
    one.program.as_ref().map(|p| &p.value) != two.program.as_ref().map(|p| &p.value)
        || one.arguments != two.arguments
}
