//! From the disk after the last step to artifacts: verifies it, seals it as a layer and exports it.

use std::path::Path;

use super::session::BuildSession;
use super::{BuildRequest, InstallMedia, evidence};
use crate::export::{self, ExportJob, ExportedArtifact};
use crate::usage::{self, DiskUsage, SealedUsage};
use crate::verify::{self, FindingSeverity};
use winimg_base::digest::Digest;
use winimg_base::error::{Kind, Result};
use winimg_base::event::{Event, Phase};
use winimg_formats::disk::{Disk, DiskImage};
use winimg_recipe::plan::{BuildChain, StepChecks};
use winimg_recipe::target::TargetSpec;
use winimg_supply::store::{LayerLookup, StoredLayer};

/// Results of verifying the sealed disk.
pub struct VerifiedDisk {
    /// Warnings about the disk, for the manifest.
    pub warnings: Vec<String>,
    pub usage: Option<DiskUsage>,
}

/// Verifies the sealed disk and computes its disk usage, also by layer. `below`: the key of the
/// topmost layer below the disk.
pub fn verify(
    session: &mut BuildSession,
    disk: &Path,
    below: Option<Digest>,
    expected: &[StepChecks],
) -> Result<VerifiedDisk> {
    if session.request.verify {
        return session.in_phase(Phase::Verify, |session| {
            check_disk(session, disk, below, expected)
        });
    }
    let warning = "the sealed disk was not checked: --no-verify";
    session.request.sink.warn(warning);
    Ok(VerifiedDisk {
        warnings: vec![warning.into()],
        usage: None,
    })
}

fn check_disk(
    session: &BuildSession,
    disk: &Path,
    below: Option<Digest>,
    expected: &[StepChecks],
) -> Result<VerifiedDisk> {
    let request = session.request;
    let layers = request.store.layers_folder();
    let opened = DiskImage::with_layers(disk, &layers).open(request.cancel)?;
    let targets: Vec<&TargetSpec> = request.recipe.named_targets().collect();
    let report = verify::check(opened.as_ref(), Some(expected), &targets, request.cancel)?;
    verify::report(&report, "the sealed disk", request.sink.as_ref());
    let summary = report.summarize();
    if !report.is_good() {
        return Err(verify::failed_image_error("the sealed disk", &summary)
            .cure("each finding above names its step; --no-verify exports the disk as it is"));
    }
    request.sink.emit(&Event::Progress {
        phase: Phase::Verify,
        text: summary,
    });
    let mut warnings: Vec<String> = report
        .findings
        .iter()
        .filter(|finding| finding.severity == FindingSeverity::Warning)
        .map(|finding| finding.problem.fact.clone())
        .collect();
    let usage = match compute_usage(session, opened.as_ref(), below) {
        Err(error) if error.kind() == Kind::Cancelled => return Err(error),
        Err(error) => {
            let why = error.problem().in_one_line();
            let warning = format!("could not compute the disk usage: {why}");
            request.sink.warn(warning.clone());
            warnings.push(warning);
            None
        }
        Ok(usage) => usage,
    };
    Ok(VerifiedDisk { warnings, usage })
}

/// Computes the size of the disk by folder, with the share of each layer.
fn compute_usage(
    session: &BuildSession,
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
    let mut sealed = vec![SealedUsage::read(last, disk, request.cancel)?];
    while let Some(key) = below {
        let LayerLookup::Layer(layer) = request.store.find_layer(&key, request.cancel)? else {
            break;
        };
        let opened = DiskImage::with_layers(&layer.disk_path(), &folder).open(request.cancel)?;
        let after = layer.record().last_link_name();
        sealed.push(SealedUsage::read(after, opened.as_ref(), request.cancel)?);
        below = layer.record().parent.clone();
    }
    sealed.reverse();
    Ok(usage::from_layers(&sealed))
}

/// Seals the disk as a layer, unless it is one, and uploads the layer to the shared cache.
pub fn seal(session: &mut BuildSession, chain: &BuildChain) -> Result<Option<StoredLayer>> {
    let request = session.request;
    let layer = session.seal(chain.links())?;
    if let Some(layer) = &layer {
        share(request, layer)?;
    }
    Ok(layer)
}

/// Uploads the finished disk to the shared cache, even one of an earlier build, which may have
/// stopped before the upload.
pub fn share(request: &BuildRequest, layer: &StoredLayer) -> Result<()> {
    let remote = request.fetch.shared.as_ref();
    remote.map_or(Ok(()), |remote| remote.push_finished(layer, request.store))
}

/// Writes every output that the recipe names.
pub fn export(
    session: &mut BuildSession,
    media: &InstallMedia,
    disk: &Path,
) -> Result<Vec<ExportedArtifact>> {
    let request = session.request;
    let recipe = request.recipe;
    let (layers, guest) = (request.store.layers_folder(), media.guest_facts());
    let job = ExportJob {
        source: DiskImage::with_layers(disk, &layers),
        name: &recipe.name.value,
        outputs: &recipe.outputs,
        directory: &request.output,
        replaces_existing: true,
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

/// Copies the screenshots for the build's report. A failure is only a warning.
pub fn keep_screens(session: &BuildSession) {
    let request = session.request;
    let warning = match evidence::keep_screens(&session.run_dir, &request.output) {
        Ok(left_out) => evidence::describe_left_out(left_out),
        Err(e) => Some(format!("could not save the screenshots: {e}")),
    };
    if let Some(warning) = warning {
        request.sink.warn(warning);
    }
}
