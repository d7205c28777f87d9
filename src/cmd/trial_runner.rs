//! Trials of images for `winimg try` and `build --try`: one target after the other, with the images
//! that they share.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use super::disk::open_disk;
use super::{CommandContext, hypervisor};
use crate::cli;
use crate::engine::{self, ScratchDirs};
use crate::record::manifest::{ManifestArtifact, ManifestTrial};
use crate::record::{self, BuildManifest};
use crate::trial::result::TrialNetwork;
use crate::trial::user_data::UserData;
use crate::trial::{self, TrialRequest, result};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Sink;
use winimg_base::io;
use winimg_formats::disk::Disk;
use winimg_machine::vm::{Accel, Hypervisor, HypervisorKind, HypervisorProbe};
use winimg_recipe::target::{RuleDemand, TargetCondition, TargetSpec};
use winimg_recipe::{Firmware, OutputFormat, Recipe};
use winimg_supply::store::Store;

/// Name of the results folder, beside a manifest or an image.
pub const FOLDER: &str = "try";

/// Checks before building that `build --try` can try the image.
pub fn can_be_tried(recipe: &Recipe, platform: HypervisorKind) -> Result<()> {
    platform.check_clones()?;
    match recipe.named_targets().next() {
        Some(_) => Ok(()),
        None => Err(Error::new(
            Kind::Recipe,
            "the recipe names no target to try the image as",
        )
        .at("--try")
        .cure("add `target = [\"NAME\"]` to the recipe; `winimg targets` lists the targets")),
    }
}

/// Tries the image of a build as each target of its recipe; fails if a clone does not come up.
pub fn try_build(
    args: &cli::BuildArgs,
    request: &engine::BuildRequest,
    hypervisor: &dyn Hypervisor,
    manifest: &BuildManifest,
    context: &CommandContext,
) -> Result<Vec<ManifestTrial>> {
    record::writer::remove_earlier(&request.output)?;
    let folder = request.output.join(FOLDER);
    let settings = TrialSettings {
        hypervisor,
        store: request.store,
        folder: &folder,
        user_data: None,
        network: TrialNetwork::Isolated,
        patience: args.patience,
        machine: CloneSize {
            accel: hypervisor::choose_accel(args.accel, context),
            cpus: request.recipe.machine.cpus,
            memory: request.recipe.machine.memory,
        },
        sink: request.sink,
        context,
    };
    let mut runner = TrialRunner::set_up(settings, request.recipe.named_targets())?;
    let mut tries = Vec::new();
    for target in request.recipe.named_targets() {
        let image = find_artifact(manifest, &request.output, target)?;
        if !runner.run_trial(target, &image, Some(manifest))?.is_good() {
            return Err(trial::failed_trials_error(&[target], &folder));
        }
        let file = format!("{FOLDER}/{}.json", target.name);
        tries.push(ManifestTrial {
            target: target.name.clone(),
            sha256: io::compute_sha256(&request.output.join(&file))?.0.hex(),
            file,
        });
    }
    Ok(tries)
}

/// Settings of the clones.
pub struct TrialSettings<'a> {
    pub hypervisor: &'a dyn Hypervisor,
    pub store: &'a Store,
    pub folder: &'a Path,
    pub user_data: Option<&'a UserData>,
    pub network: TrialNetwork,
    pub patience: cli::CloneTimeoutArgs,
    pub machine: CloneSize,
    pub sink: &'a Arc<dyn Sink>,
    pub context: &'a CommandContext,
}

/// Runs trials of images, one target after the other.
pub struct TrialRunner<'a> {
    settings: TrialSettings<'a>,
    scratch: ScratchDirs,
    /// Opened images, which targets share.
    images: Vec<TrialImage>,
}

/// An opened image, and the result of probing this host with its firmware.
struct TrialImage {
    file: PathBuf,
    disk: Arc<dyn Disk>,
    firmware: Firmware,
    probe: HypervisorProbe,
    /// Folder of an unpacked image.
    _work: Option<TempDir>,
}

pub struct CloneSize {
    pub accel: Accel,
    pub cpus: u32,
    /// Bytes.
    pub memory: u64,
}

impl<'a> TrialRunner<'a> {
    /// Creates the scratch folder, and removes earlier results of these targets.
    pub fn set_up<'t>(
        settings: TrialSettings<'a>,
        targets: impl IntoIterator<Item = &'t TargetSpec>,
    ) -> Result<Self> {
        let TrialSettings { folder, sink, .. } = settings;
        let scratch = ScratchDirs::create(
            folder,
            settings.hypervisor,
            settings.store,
            sink.as_ref(),
            &settings.context.cancel,
        )?;
        for target in targets {
            trial::remove_earlier(target, folder)?;
        }
        Ok(Self {
            settings,
            scratch,
            images: Vec::new(),
        })
    }

    pub fn run_trial(
        &mut self,
        target: &TargetSpec,
        image: &Path,
        manifest: Option<&BuildManifest>,
    ) -> Result<result::TrialResult> {
        let place = self.open_image(image)?;
        let (opened, settings) = (&self.images[place], &self.settings);
        trial::run(&TrialRequest {
            image,
            disk: &opened.disk,
            firmware: opened.firmware,
            probe: &opened.probe,
            manifest,
            user_data: settings.user_data,
            network: settings.network,
            target,
            folder: settings.folder,
            scratch: &self.scratch,
            hypervisor: settings.hypervisor,
            accel: settings.machine.accel,
            cpus: settings.machine.cpus,
            memory: settings.machine.memory,
            quiet: settings.patience.settle,
            timeout: settings.patience.boot_timeout,
            sink: settings.sink,
            cancel: &settings.context.cancel,
        })
    }

    /// Opens the image unless it is open, and returns its index. Warns once about each limitation
    /// of the host.
    fn open_image(&mut self, file: &Path) -> Result<usize> {
        if let Some(place) = self.images.iter().position(|image| image.file == file) {
            return Ok(place);
        }
        let TrialSettings {
            hypervisor,
            machine,
            sink,
            context,
            ..
        } = &self.settings;
        let (disk, work) = open_disk(file, context)?;
        let firmware = trial::detect_firmware(file, disk.as_ref())?;
        let probe = hypervisor.probe(machine.accel, firmware, &context.cancel)?;
        for remark in &probe.remarks {
            if !self.images.iter().any(|i| i.probe.remarks.contains(remark)) {
                sink.warn(remark.clone());
            }
        }
        self.images.push(TrialImage {
            file: file.to_path_buf(),
            disk: disk.into(),
            firmware,
            probe,
            _work: work,
        });
        Ok(self.images.len() - 1)
    }
}

/// Returns the disk that the target would use, from the artifacts of the manifest in `folder`.
pub fn find_artifact(
    manifest: &BuildManifest,
    folder: &Path,
    target: &TargetSpec,
) -> Result<PathBuf> {
    // QEMU does not read VMA.
    let disks: Vec<&ManifestArtifact> = manifest
        .artifacts
        .iter()
        .filter(|a| a.is_disk() && a.kind != OutputFormat::Vma.name())
        .collect();
    let preferred = list_outputs(target)
        .iter()
        .find_map(|kind| disks.iter().find(|a| a.kind == *kind));
    match preferred.or(disks.first()) {
        Some(artifact) => Ok(folder.join(&artifact.file)),
        None => Err(Error::new(
            Kind::Recipe,
            "the manifest lists no disk image that QEMU can read",
        )
        .at(folder.display())
        .cure("give the image: winimg try IMAGE --manifest FILE")),
    }
}

/// Returns the kinds of artifacts that a target accepts, the preferred one first.
fn list_outputs(target: &TargetSpec) -> Vec<&'static str> {
    target
        .rules
        .iter()
        .find_map(|rule| match &rule.demand {
            RuleDemand::Needs(TargetCondition::Output(outputs)) => Some(outputs.as_slice()),
            _ => None,
        })
        .unwrap_or_default()
        .iter()
        .map(|o| o.name())
        .collect()
}
