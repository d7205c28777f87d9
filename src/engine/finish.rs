//! From a disk that holds every step to artifacts: it is verified, made a layer, and exported.

use std::path::Path;

use super::session::Session;
use super::{Media, Request, evidence};
use crate::export::{self, Artifact, Job};
use crate::usage::{self, DiskUsage, Sealed};
use crate::verify::{self, Finding, Severity};
use winimg_base::digest::Digest;
use winimg_base::error::{Kind, Result};
use winimg_base::event::{Event, Phase};
use winimg_formats::disk::{Disk, Image};
use winimg_recipe::plan::{Chain, Expected};
use winimg_recipe::recipe::target::Target;
use winimg_supply::store::{Kept, Layer};

/// What was seen of the sealed disk.
pub struct Verified {
    /// What is doubtful about it, for the manifest.
    pub warnings: Vec<String>,
    pub usage: Option<DiskUsage>,
}

/// Looks at the sealed disk, and at the layers that it stands on as far as their size is concerned. `below`: the first of them.
pub fn verify(
    session: &mut Session,
    disk: &Path,
    below: Option<Digest>,
    expected: &[Expected],
) -> Result<Verified> {
    if session.request.verify {
        return session.in_phase(Phase::Verify, |session| {
            checked(session, disk, below, expected)
        });
    }
    let warning = "the sealed disk was not checked: --no-verify";
    session.request.sink.warn(warning);
    Ok(Verified {
        warnings: vec![warning.into()],
        usage: None,
    })
}

fn checked(
    session: &Session,
    disk: &Path,
    below: Option<Digest>,
    expected: &[Expected],
) -> Result<Verified> {
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
    let mut warnings: Vec<String> = doubtful.map(|f| f.problem.fact.clone()).collect();
    let usage = match usage(session, opened.as_ref(), below) {
        Err(error) if error.kind() == Kind::Cancelled => return Err(error),
        Err(error) => {
            let why = error.problem().in_one_line();
            let warning = format!("what the disk holds was not counted: {why}");
            request.sink.warn(warning.clone());
            warnings.push(warning);
            None
        }
        Ok(usage) => usage,
    };
    Ok(Verified { warnings, usage })
}

/// The size of the disk by folder, and what each layer added to it.
fn usage(
    session: &Session,
    disk: &dyn Disk,
    mut below: Option<Digest>,
) -> Result<Option<DiskUsage>> {
    let request = session.request;
    let folder = request.store.layers_folder();
    let last = session
        .chain
        .as_ref()
        .and_then(|chain| chain.links().last());
    let last = last.map_or("", |link| &link.name);
    let mut sealed = vec![Sealed::read(last, disk, request.cancel)?];
    while let Some(key) = below {
        let Kept::Layer(layer) = request.store.layer(&key, request.cancel)? else {
            break;
        };
        let opened = Image::layered(&layer.disk(), &folder).open(request.cancel)?;
        let after = layer.record().after();
        sealed.push(Sealed::read(after, opened.as_ref(), request.cancel)?);
        below = layer.record().parent.clone();
    }
    sealed.reverse();
    Ok(usage::of_layers(&sealed))
}

/// Makes a layer of the disk, unless it is one, and gives that to the shared cache.
pub fn seal(session: &mut Session, chain: &Chain) -> Result<Option<Layer>> {
    let request = session.request;
    let layer = session.seal(chain.links())?;
    if let Some(layer) = &layer {
        share(request, layer)?;
    }
    Ok(layer)
}

/// Gives the finished disk to the shared cache, one of an earlier build as well: that may not have come so far.
pub fn share(request: &Request, layer: &Layer) -> Result<()> {
    let remote = request.fetch.shared.as_ref();
    remote.map_or(Ok(()), |remote| remote.push_finished(layer, request.store))
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
        kept: &[],
        firmware: recipe.machine.firmware,
        secure_boot: recipe.machine.secure_boot,
        disk_bus: recipe.machine.disk_bus,
        guest: &guest,
        cpus: recipe.machine.cpus,
        memory: recipe.machine.memory,
        nested_virtualization: request.plan.starts_hypervisor(),
        epoch: request.epoch,
        threads: 0,
        properties: &[],
    };
    session.in_phase(Phase::Export, |_| {
        export::export(&job, request.sink.as_ref(), request.cancel)
    })
}

/// The pictures of the screen for the build's page. One that is missing spoils nothing.
pub fn keep_screens(session: &Session) {
    let request = session.request;
    if let Err(e) = evidence::keep_screens(&session.run_dir, &request.output) {
        request
            .sink
            .warn(format!("the screens could not be kept: {e}"));
    }
}
