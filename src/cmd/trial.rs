//! `winimg try`: boots clones of a finished image as its targets would.

use std::path::{Path, PathBuf};

use super::trial_runner::{CloneSize, FOLDER, TrialRunner, TrialSettings, find_artifact};
use super::{CommandContext, hypervisor, is_record, must_exist, print, target_specs};
use crate::build_report::{self, REPORT};
use crate::cli;
use crate::record::{self, BuildManifest};
use crate::trial;
use crate::trial::user_data::UserData;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_recipe::target::TargetSpec;

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
    let settings = TrialSettings {
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
    let mut runner = TrialRunner::set_up(settings, &targets)?;
    let mut text = String::new();
    let mut failed = Vec::new();
    for target in &targets {
        let image = subject.find_image(target)?;
        let result = runner.run_trial(target, &image, subject.manifest.as_ref())?;
        let (outcome, summary) = (result.describe_outcome(), result.summarize());
        let page = trial::page_path(target, &folder);
        text += &format!("{outcome}\n  {summary}\n  details: {}\n", page.display());
        if !result.is_good() {
            failed.push(target);
        }
    }
    // A build's page shows the trials beside it.
    if args.output.is_none() && subject.folder.join(REPORT).exists() {
        build_report::update(&subject.folder, &context.recording, context.sink.as_ref());
    }
    print(&text)?;
    if failed.is_empty() {
        Ok(())
    } else {
        Err(trial::failed_trials_error(&failed, &folder).mark_reported())
    }
}

/// Reads the user data, and checks that the platform of every target supports it.
fn read_user_data(file: &Path, targets: &[TargetSpec]) -> Result<UserData> {
    must_exist(file)?;
    let data = UserData::read(file)?;
    data.check(targets)?;
    Ok(data)
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
    let all = target_specs::read_targets(context)?;
    names
        .iter()
        .map(|name| target_specs::find_target(name, &all).cloned())
        .collect()
}

/// Relays a clone's connection to its metadata server; QEMU starts it for each one. Prints nothing:
/// standard error is QEMU's.
pub fn relay(socket: &Path) -> Result<()> {
    trial::metadata::server::relay_connection(socket, std::io::stdin(), std::io::stdout())
}
