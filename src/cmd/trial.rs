//! `winimg try`: boots clones of a finished image as its targets would.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use super::verify::open_disk;
use super::{CommandContext, hypervisor, is_record, must_exist, print, report, targets};
use crate::cli;
use crate::engine::{self, ScratchDirs};
use crate::page::REPORT;
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
use winimg_recipe::recipe::target::{RuleDemand, TargetCondition, TargetSpec};
use winimg_recipe::recipe::{Firmware, OutputFormat, Recipe};
use winimg_supply::store::Store;

pub fn run(args: &cli::TryArgs, context: &CommandContext) -> Result<()> {
    let subject = TrialSubject::from_args(args)?;
    let targets = select_targets(args, subject.manifest.as_ref(), context)?;
    hypervisor::choose_platform(&args.hypervisor, context)?.check_clones()?;
    let user_data = args
        .user_data
        .as_deref()
        .map(|file| read_user_data(file, &targets))
        .transpose()?;
    let store = super::open_store(context)?;
    let hypervisor = hypervisor::open(&args.hypervisor, &store, context)?;
    let folder = args
        .output
        .clone()
        .unwrap_or_else(|| subject.folder.join(FOLDER));
    let folder = std::path::absolute(&folder).map_err(|e| Error::io("find", &folder, e))?;
    let conditions = TrialSettings {
        hypervisor: hypervisor.as_ref(),
        store: &store,
        folder: &folder,
        user_data: user_data.as_ref(),
        network: args.network.into(),
        patience: args.patience,
        machine: CloneSize {
            accel: hypervisor::choose_accel(args.accel, context),
            cpus: args.cpus,
            memory: args.memory,
        },
        sink: &context.sink,
        context,
    };
    let mut bench = TrialRunner::set_up(conditions, &targets)?;
    let mut text = String::new();
    let mut failed = Vec::new();
    for target in &targets {
        let image = subject.find_image(target)?;
        let result = bench.run_trial(target, &image, subject.manifest.as_ref())?;
        let (outcome, summary) = (result.describe_outcome(), result.summarize());
        let page = trial::page_path(target, &folder);
        text += &format!("{outcome}\n  {summary}\n  details: {}\n", page.display());
        if !result.is_good() {
            failed.push(target);
        }
    }
    // A build's page shows the trials beside it.
    if args.output.is_none() && subject.folder.join(REPORT).exists() {
        report::update_page(&subject.folder, context);
    }
    print(&text)?;
    if failed.is_empty() {
        Ok(())
    } else {
        Err(trial::report_failed(&failed, &folder).mark_reported())
    }
}

/// Reads the user data, and checks that the platform of every target supports it.
fn read_user_data(file: &Path, targets: &[TargetSpec]) -> Result<UserData> {
    must_exist(file)?;
    let data = UserData::read(file)?;
    data.check(targets)?;
    Ok(data)
}

/// Name of the results folder, beside a manifest or an image.
const FOLDER: &str = "try";

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
    let conditions = TrialSettings {
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
    let mut bench = TrialRunner::set_up(conditions, request.recipe.named_targets())?;
    let mut tries = Vec::new();
    for target in request.recipe.named_targets() {
        let image = find_artifact(manifest, &request.output, target)?;
        if !bench.run_trial(target, &image, Some(manifest))?.is_good() {
            return Err(trial::report_failed(&[target], &folder));
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
struct TrialSettings<'a> {
    hypervisor: &'a dyn Hypervisor,
    store: &'a Store,
    folder: &'a Path,
    user_data: Option<&'a UserData>,
    network: TrialNetwork,
    patience: cli::CloneTimeoutArgs,
    machine: CloneSize,
    sink: &'a Arc<dyn Sink>,
    context: &'a CommandContext,
}

/// Runs trials of images, one target after the other.
struct TrialRunner<'a> {
    conditions: TrialSettings<'a>,
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

struct CloneSize {
    accel: Accel,
    cpus: u32,
    /// Bytes.
    memory: u64,
}

impl<'a> TrialRunner<'a> {
    /// Creates the scratch folder, and removes earlier results of these targets.
    fn set_up<'t>(
        conditions: TrialSettings<'a>,
        targets: impl IntoIterator<Item = &'t TargetSpec>,
    ) -> Result<Self> {
        let TrialSettings { folder, sink, .. } = conditions;
        let scratch = ScratchDirs::create(
            folder,
            conditions.hypervisor,
            conditions.store,
            sink.as_ref(),
            &conditions.context.cancel,
        )?;
        for target in targets {
            trial::remove_earlier(target, folder)?;
        }
        Ok(Self {
            conditions,
            scratch,
            images: Vec::new(),
        })
    }

    fn run_trial(
        &mut self,
        target: &TargetSpec,
        image: &Path,
        manifest: Option<&BuildManifest>,
    ) -> Result<result::TrialResult> {
        let place = self.open_image(image)?;
        let (opened, conditions) = (&self.images[place], &self.conditions);
        trial::run(&TrialRequest {
            image,
            disk: &opened.disk,
            firmware: opened.firmware,
            probe: &opened.probe,
            manifest,
            user_data: conditions.user_data,
            network: conditions.network,
            target,
            folder: conditions.folder,
            scratch: &self.scratch,
            hypervisor: conditions.hypervisor,
            accel: conditions.machine.accel,
            cpus: conditions.machine.cpus,
            memory: conditions.machine.memory,
            quiet: conditions.patience.settle,
            timeout: conditions.patience.boot_timeout,
            sink: conditions.sink,
            cancel: &conditions.context.cancel,
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
        } = &self.conditions;
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

/// Image to try, or the manifest that lists it.
struct TrialSubject {
    image: Option<PathBuf>,
    folder: PathBuf,
    manifest: Option<BuildManifest>,
}

impl TrialSubject {
    fn from_args(args: &cli::TryArgs) -> Result<Self> {
        let file = if args.file.is_dir() {
            args.file.join(record::writer::MANIFEST)
        } else {
            args.file.clone()
        };
        must_exist(&file)?;
        let is_manifest = is_record(&file);
        if is_manifest && args.manifest.is_some() {
            let fact = "--manifest needs an image, not another manifest";
            return Err(Error::new(Kind::Recipe, fact).cure("winimg try IMAGE --manifest FILE"));
        }
        let manifest = if is_manifest {
            Some(file.as_path())
        } else {
            args.manifest.as_deref()
        };
        Ok(Self {
            manifest: manifest.map(BuildManifest::read).transpose()?,
            folder: io::folder_of(&file).to_path_buf(),
            image: (!is_manifest).then_some(file),
        })
    }

    fn find_image(&self, target: &TargetSpec) -> Result<PathBuf> {
        match (&self.image, &self.manifest) {
            (None, Some(manifest)) => find_artifact(manifest, &self.folder, target),
            (image, _) => Ok(image.clone().unwrap_or_default()),
        }
    }
}

/// Returns the disk that the target would use, from the artifacts of the manifest in `folder`.
fn find_artifact(manifest: &BuildManifest, folder: &Path, target: &TargetSpec) -> Result<PathBuf> {
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

/// Returns the targets of the command line, or those that the image was built for.
fn select_targets(
    args: &cli::TryArgs,
    manifest: Option<&BuildManifest>,
    context: &CommandContext,
) -> Result<Vec<TargetSpec>> {
    let names = match (args.targets.is_empty(), manifest) {
        (false, _) => args.targets.clone(),
        (true, Some(manifest)) => manifest.targets.clone(),
        (true, None) => Vec::new(),
    };
    if names.is_empty() {
        let fact = "no target to try the image as";
        return Err(Error::new(Kind::Recipe, fact)
            .expected("--as TARGET, or a manifest of a recipe that names its targets")
            .cure("`winimg targets` lists the targets"));
    }
    let all = targets::read_targets(context)?;
    names
        .iter()
        .map(|name| targets::find_target(name, &all).cloned())
        .collect()
}

/// Relays a clone's connection to its metadata server; QEMU starts it for each one. Prints nothing:
/// standard error is QEMU's.
pub fn relay(socket: &Path) -> Result<()> {
    trial::metadata::server::relay_connection(socket, std::io::stdin(), std::io::stdout())
}
