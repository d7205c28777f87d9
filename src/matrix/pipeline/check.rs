//! Settings that an engine needs and `[pipeline]` does not have.

use super::{JobRunner, PipelineEngine, PipelineSource};
use winimg_base::diag::{Diagnostic, Diagnostics};
use winimg_supply::publish::{Destination, FlagValues};

/// Returns all complaints at once.
pub fn check_settings(engine: &PipelineEngine, source: PipelineSource<'_>) -> Diagnostics {
    let pipeline = source.pipeline;
    let lacks = match engine.runner {
        JobRunner::Labels => pipeline.labels.is_empty().then_some((
            "labels",
            "add the labels of runners with KVM, such as `labels = [\"self-hosted\", \"linux\", \
             \"kvm\"]`",
        )),
        JobRunner::Queue => pipeline.queue.is_none().then_some((
            "queue",
            "add the queue of agents with KVM, such as `queue = \"kvm\"`",
        )),
        JobRunner::Pods => pipeline.image.is_none().then_some((
            "image",
            "add a container image with winimg, QEMU and OVMF, such as `image = \
             \"registry.example.com/team/winimg:1\"`",
        )),
    };
    let mut found = Diagnostics::default();
    if let Some((key, help)) = lacks {
        let fact = format!("[pipeline] has no `{key}`, which {} needs", engine.label);
        found.0.push(report_error(&fact, &pipeline.place, help));
    }
    for (fact, help) in (engine.check)(source) {
        found.0.push(report_error(&fact, &pipeline.place, help));
    }
    let publish = pipeline.publish.iter().map(|publish| &publish.to);
    for target in pipeline.store.iter().chain(publish) {
        let wrong = source.schedule.variants.iter().find_map(|variant| {
            let address = target.render(&variant.name);
            let parsed = Destination::parse(&address, FlagValues::default());
            parsed.err().map(|e| (address, e))
        });
        if let Some((address, why)) = wrong {
            let fact = format!("\"{address}\" is not a destination of `winimg publish`");
            let why = why.to_string();
            let why = why.lines().next().unwrap_or_default();
            let help = format!("{why}; `winimg publish --help` lists all destinations");
            found.0.push(report_error(&fact, &target.place, &help));
        }
    }
    found
}

fn report_error(fact: &str, place: &winimg_base::text::Place, help: &str) -> Diagnostic {
    Diagnostic::error(fact.to_owned())
        .at(place, "")
        .help(help.to_owned())
}
