//! From a disk that holds every step to artifacts: it is verified, made a layer, and exported.

use std::path::Path;

use super::Media;
use super::session::Session;
use crate::export::{self, Artifact, Job};
use crate::verify::{self, Finding, Severity};
use winimg_base::error::Result;
use winimg_base::event::{Event, Phase};
use winimg_formats::disk::Image;
use winimg_recipe::plan::{Chain, Expected};
use winimg_recipe::recipe::target::Target;
use winimg_supply::store::Layer;

/// Looks at the sealed disk; gives what is doubtful about it, for the manifest.
pub fn verify(session: &mut Session, disk: &Path, expected: &[Expected]) -> Result<Vec<String>> {
    if session.request.verify {
        return session.in_phase(Phase::Verify, |session| checked(session, disk, expected));
    }
    let warning = "the sealed disk was not checked: --no-verify";
    session.request.sink.warn(warning);
    Ok(vec![warning.into()])
}

fn checked(session: &Session, disk: &Path, expected: &[Expected]) -> Result<Vec<String>> {
    let request = session.request;
    let layers = request.store.layers_folder();
    let opened = Image::layered(disk, &layers).open(request.cancel)?;
    let targets: Vec<&Target> = request.recipe.named_targets().collect();
    let report = verify::check(opened.as_ref(), Some(expected), &targets, request.cancel)?;
    verify::report(&report, "the sealed disk", request.sink.as_ref());
    let summary = report.summary();
    if !report.is_good() {
        return Err(verify::failed("the sealed disk", &summary)
            .cure("each finding above names its step; --no-verify exports the disk as it is"));
    }
    request.sink.emit(&Event::Progress {
        phase: Phase::Verify,
        text: summary,
    });
    let doubtful = |f: &&Finding| f.severity == Severity::Warning;
    let doubtful = report.findings.iter().filter(doubtful);
    Ok(doubtful.map(|f| f.problem.fact.clone()).collect())
}

/// Makes a layer of the disk and gives it to the shared cache.
pub fn seal(session: &mut Session, chain: &Chain) -> Result<Option<Layer>> {
    let request = session.request;
    let layer = session.seal(chain.links())?;
    if let (Some(layer), Some(remote)) = (&layer, &request.fetch.shared) {
        remote.push_layer(layer, request.store)?;
    }
    Ok(layer)
}

/// Writes every output that the recipe names.
pub fn export(session: &mut Session, media: &Media, disk: &Path) -> Result<Vec<Artifact>> {
    let request = session.request;
    let recipe = request.recipe;
    let (layers, guest) = (request.store.layers_folder(), media.guest_facts());
    let job = Job {
        source: Image::layered(disk, &layers),
        name: &recipe.name.value,
        outputs: &recipe.outputs,
        directory: &request.output,
        firmware: recipe.machine.firmware,
        secure_boot: recipe.machine.secure_boot,
        disk_bus: recipe.machine.disk_bus,
        guest: &guest,
        cpus: recipe.machine.cpus,
        memory: recipe.machine.memory,
        epoch: request.epoch,
        threads: 0,
        properties: &[],
    };
    session.in_phase(Phase::Export, |_| {
        export::export(&job, request.sink.as_ref(), request.cancel)
    })
}
