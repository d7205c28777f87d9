//! `winimg try`: starts clones of a finished image as its targets would.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use super::verify::opened;
use super::{Context, hypervisor, is_record, must_exist, print, report, targets};
use crate::cli;
use crate::engine::{self, Scratch};
use crate::page::REPORT;
use crate::record::manifest::{Artifact, Tried};
use crate::record::{self, Manifest};
use crate::trial::result::Network;
use crate::trial::user_data::UserData;
use crate::trial::{self, Request, result};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Sink;
use winimg_base::io;
use winimg_formats::disk::Disk;
use winimg_machine::vm::{Accel, Hypervisor, Platform, Probe};
use winimg_recipe::recipe::target::{Condition, Demand, Output, Target};
use winimg_recipe::recipe::{Firmware, Recipe};
use winimg_supply::store::Store;

pub fn run(args: &cli::Try, context: &Context) -> Result<()> {
    let subject = Subject::of(args)?;
    let targets = wanted(args, subject.manifest.as_ref(), context)?;
    hypervisor::platform(&args.hypervisor, context)?.check_clones()?;
    let user_data = args
        .user_data
        .as_deref()
        .map(|file| user_data(file, &targets));
    let user_data = user_data.transpose()?;
    let store = super::store(context)?;
    let hypervisor = hypervisor::open(&args.hypervisor, &store, context)?;
    let folder = args
        .output
        .clone()
        .unwrap_or_else(|| subject.folder.join(FOLDER));
    let folder = std::path::absolute(&folder).map_err(|e| Error::io("find", &folder, e))?;
    let conditions = Conditions {
        hypervisor: hypervisor.as_ref(),
        store: &store,
        folder: &folder,
        user_data: user_data.as_ref(),
        network: args.network.into(),
        patience: args.patience,
        machine: Size {
            accel: hypervisor::accel(args.accel, context),
            cpus: args.cpus,
            memory: args.memory,
        },
        sink: &context.sink,
        context,
    };
    let mut bench = Bench::set_up(conditions, &targets)?;
    let mut text = String::new();
    let mut failed = Vec::new();
    for target in &targets {
        let image = subject.image(target)?;
        let result = bench.tried(target, &image, subject.manifest.as_ref())?;
        let (outcome, summary) = (result.outcome(), result.summary());
        let page = trial::page_of(target, &folder);
        text += &format!("{outcome}\n  {summary}\n  details: {}\n", page.display());
        if !result.is_good() {
            failed.push(target);
        }
    }
    // A build's page shows the trials beside it.
    if args.output.is_none() && subject.folder.join(REPORT).exists() {
        report::keep_current(&subject.folder, context);
    }
    print(&text)?;
    match failed.is_empty() {
        true => Ok(()),
        false => Err(trial::failed(&failed, &folder).reported()),
    }
}

/// What each clone is given, as far as every target's platform takes it.
fn user_data(file: &Path, targets: &[Target]) -> Result<UserData> {
    must_exist(file)?;
    let data = UserData::read(file)?;
    data.check(targets)?;
    Ok(data)
}

/// The folder of the results, beside a manifest or an image.
const FOLDER: &str = "try";

/// Refuses before anything is built what `build --try` could not try.
pub fn can_be_tried(recipe: &Recipe, platform: Platform) -> Result<()> {
    platform.check_clones()?;
    match recipe.named_targets().next() {
        Some(_) => Ok(()),
        None => Err(Error::new(
            Kind::Recipe,
            "the recipe names no target, so it is not known what to try the image as",
        )
        .at("--try")
        .cure("write `target = [\"NAME\"]` into the recipe; winimg targets lists them")),
    }
}

/// Tries what a build made, as each target that its recipe names; an image that does not come up is an error.
pub fn of_build(
    args: &cli::Build,
    request: &engine::Request,
    hypervisor: &dyn Hypervisor,
    manifest: &Manifest,
    context: &Context,
) -> Result<Vec<Tried>> {
    record::built::remove_earlier(&request.output)?;
    let folder = request.output.join(FOLDER);
    let conditions = Conditions {
        hypervisor,
        store: request.store,
        folder: &folder,
        user_data: None,
        network: Network::Isolated,
        patience: args.patience,
        machine: Size {
            accel: hypervisor::accel(args.accel, context),
            cpus: request.recipe.machine.cpus,
            memory: request.recipe.machine.memory,
        },
        sink: request.sink,
        context,
    };
    let mut bench = Bench::set_up(conditions, request.recipe.named_targets())?;
    let mut tries = Vec::new();
    for target in request.recipe.named_targets() {
        let image = artifact(manifest, &request.output, target)?;
        if !bench.tried(target, &image, Some(manifest))?.is_good() {
            return Err(trial::failed(&[target], &folder));
        }
        let file = format!("{FOLDER}/{}.json", target.name);
        tries.push(Tried {
            target: target.name.clone(),
            sha256: io::sha256(&request.output.join(&file))?.0.hex(),
            file,
        });
    }
    Ok(tries)
}

/// What clones are started with.
struct Conditions<'a> {
    hypervisor: &'a dyn Hypervisor,
    store: &'a Store,
    folder: &'a Path,
    user_data: Option<&'a UserData>,
    network: Network,
    patience: cli::PatienceArgs,
    machine: Size,
    sink: &'a Arc<dyn Sink>,
    context: &'a Context,
}

/// Where one run tries its images, as one target after the other.
struct Bench<'a> {
    conditions: Conditions<'a>,
    scratch: Scratch,
    /// Those that were tried so far: a second target takes the first one's, where it is the same file.
    images: Vec<Opened>,
}

/// An image that was opened, and what this host does for machines of its firmware.
struct Opened {
    file: PathBuf,
    disk: Arc<dyn Disk>,
    firmware: Firmware,
    probe: Probe,
    /// What holds one that had to be unpacked.
    _work: Option<TempDir>,
}

struct Size {
    accel: Accel,
    cpus: u32,
    /// Bytes.
    memory: u64,
}

impl<'a> Bench<'a> {
    /// Removes what earlier trials said of these targets.
    fn set_up<'t>(
        conditions: Conditions<'a>,
        targets: impl IntoIterator<Item = &'t Target>,
    ) -> Result<Self> {
        let Conditions { folder, sink, .. } = conditions;
        let scratch = Scratch::create(
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

    fn tried(
        &mut self,
        target: &Target,
        image: &Path,
        manifest: Option<&Manifest>,
    ) -> Result<result::Trial> {
        let place = self.opened(image)?;
        let (opened, conditions) = (&self.images[place], &self.conditions);
        trial::run(&Request {
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

    /// The image's place among those that are open. What the host lacks is said once.
    fn opened(&mut self, file: &Path) -> Result<usize> {
        if let Some(place) = self.images.iter().position(|image| image.file == file) {
            return Ok(place);
        }
        let Conditions {
            hypervisor,
            machine,
            sink,
            context,
            ..
        } = &self.conditions;
        let (disk, work) = opened(file, context)?;
        let firmware = trial::firmware(file, disk.as_ref())?;
        let probe = hypervisor.probe(machine.accel, firmware, &context.cancel)?;
        let said = |remark: &&String| self.images.iter().any(|i| i.probe.remarks.contains(remark));
        for remark in probe.remarks.iter().filter(|remark| !said(remark)) {
            sink.warn(remark.clone());
        }
        self.images.push(Opened {
            file: file.to_path_buf(),
            disk: disk.into(),
            firmware,
            probe,
            _work: work,
        });
        Ok(self.images.len() - 1)
    }
}

/// What is tried: one image, or those that a manifest lists.
struct Subject {
    image: Option<PathBuf>,
    folder: PathBuf,
    manifest: Option<Manifest>,
}

impl Subject {
    fn of(args: &cli::Try) -> Result<Self> {
        let file = match args.file.is_dir() {
            true => args.file.join(record::built::MANIFEST),
            false => args.file.clone(),
        };
        must_exist(&file)?;
        let is_manifest = is_record(&file);
        if is_manifest && args.manifest.is_some() {
            let fact = "--manifest goes with an image, not with another manifest";
            return Err(Error::new(Kind::Recipe, fact).cure("winimg try IMAGE --manifest FILE"));
        }
        let manifest = match is_manifest {
            true => Some(file.as_path()),
            false => args.manifest.as_deref(),
        };
        Ok(Self {
            manifest: manifest.map(Manifest::read).transpose()?,
            folder: io::folder_of(&file).to_path_buf(),
            image: (!is_manifest).then_some(file),
        })
    }

    fn image(&self, target: &Target) -> Result<PathBuf> {
        match (&self.image, &self.manifest) {
            (None, Some(manifest)) => artifact(manifest, &self.folder, target),
            (image, _) => Ok(image.clone().unwrap_or_default()),
        }
    }
}

/// The disk that a target would get, of those that the manifest in `folder` lists.
fn artifact(manifest: &Manifest, folder: &Path, target: &Target) -> Result<PathBuf> {
    // QEMU reads no VMA.
    let is_read = |a: &&Artifact| a.is_disk() && a.kind != Output::Vma.name();
    let disks: Vec<_> = manifest.artifacts.iter().filter(is_read).collect();
    let kinds = outputs(target);
    let fits = kinds
        .iter()
        .find_map(|kind| disks.iter().find(|a| a.kind == *kind));
    match fits.or(disks.first()) {
        Some(artifact) => Ok(folder.join(&artifact.file)),
        None => Err(Error::new(
            Kind::Recipe,
            "the manifest lists no disk image that QEMU reads",
        )
        .at(folder.display())
        .cure("give the image: winimg try IMAGE --manifest FILE")),
    }
}

/// The kinds of artifacts that a target takes, the likeliest first.
fn outputs(target: &Target) -> Vec<&'static str> {
    let needs = target.rules.iter().find_map(|rule| match &rule.demand {
        Demand::Needs(Condition::Output(outputs)) => Some(outputs.as_slice()),
        _ => None,
    });
    needs.unwrap_or_default().iter().map(|o| o.name()).collect()
}

/// The targets that were asked for, or those that the image was built for.
fn wanted(args: &cli::Try, manifest: Option<&Manifest>, context: &Context) -> Result<Vec<Target>> {
    let names = match (args.targets.is_empty(), manifest) {
        (false, _) => args.targets.clone(),
        (true, Some(manifest)) => manifest.targets.clone(),
        (true, None) => Vec::new(),
    };
    if names.is_empty() {
        let fact = "nothing says what to try the image as";
        return Err(Error::new(Kind::Recipe, fact)
            .expected("--as TARGET, or a manifest of a recipe that names its targets")
            .cure("winimg targets lists them"));
    }
    let all = targets::known(context)?;
    names
        .iter()
        .map(|name| targets::named(name, &all).cloned())
        .collect()
}

/// What QEMU starts for each connection of a clone to an address of its metadata. Says nothing: standard error is QEMU's.
pub fn relay(socket: &Path) -> Result<()> {
    trial::metadata::server::relay(socket, std::io::stdin(), std::io::stdout())
}
