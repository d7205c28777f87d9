//! Services that two steps lay claim to: the later step wins in the guest, and what the earlier one set up beside the program
//! stays. Most often two packs of one kind, or packs in the wrong order. Judges nothing about a service's own settings.

use crate::recipe::{Recipe, Service, Step, Verb};
use winimg_base::diag::{Diagnostic, Diagnostics};

/// A warning for each step that gives a service another program than an earlier one did.
pub(super) fn judge(recipe: &Recipe, complaints: &mut Diagnostics) {
    let running = recipe.steps.iter().filter(|s| s.skipped.is_none());
    let mut makers: Vec<(&Step, &Service)> = Vec::new();
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
                "step `{}` gives the service `{name}` another program than step `{}` does",
                step.name, first.name
            );
            let help = format!(
                "{} has the other: leave one of the two out, or see whether their packs are included in the right order",
                first.place
            );
            complaints.push(
                Diagnostic::warning(fact)
                    .at(&program.place, "the later one stays")
                    .help(help),
            );
        }
        makers.push((step, service));
    }
}

fn is_other(one: &Service, two: &Service) -> bool {
    one.program.as_ref().map(|p| &p.value) != two.program.as_ref().map(|p| &p.value)
        || one.arguments != two.arguments
}
