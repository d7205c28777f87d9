//! The request for a build, and its result for the records.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use super::evidence::TraceRecording;
use super::inputs::InputContext;
use super::pause::BuildPauses;
use super::{BuildInputs, InstallMedia, LayerPolicy, StepRecord};
use crate::export::ExportedArtifact;
use crate::usage::DiskUsage;
use winimg_base::digest::Digest;
use winimg_base::event::{Cancel, Sink};
use winimg_base::text::Secret;
use winimg_machine::vm::{Accel, HypervisorKind, HypervisorProbe};
use winimg_recipe::Recipe;
use winimg_recipe::lock::LockFile;
use winimg_recipe::plan::{BuildChain, BuildPlan, StepChecks};
use winimg_supply::fetch::FetchOptions;
use winimg_supply::store::{LayerRecord, Store};
use winimg_trust::Signer;

/// Everything that a build needs to know.
pub struct BuildRequest<'a> {
    pub recipe: &'a Recipe,
    pub plan: &'a BuildPlan,
    /// The directory for artifacts, logs and the manifest.
    pub output: PathBuf,
    pub accel: Accel,
    /// Password of the built-in Administrator during the build; never part of the image.
    pub password: Secret,
    /// When to pause for the user, and what to keep after a failure.
    pub pauses: &'a BuildPauses,
    pub layers: LayerPolicy,
    /// Hash of everything besides the disk that affects the output. Unchanged: nothing is built.
    pub fingerprint: Digest,
    /// Ignore existing layers and start with the installation. Layers are still sealed.
    pub fresh: bool,
    /// Never start a VM: without a finished disk in a cache the build fails.
    pub from_cache: bool,
    /// Verify the sealed disk against the recipe before exporting anything.
    pub verify: bool,
    /// Seconds since 1970, used for every timestamp in the output.
    pub epoch: i64,
    pub store: &'a Store,
    pub fetch: FetchOptions,
    /// The lock file that resolved the recipe's inputs.
    pub lock: Option<&'a LockFile>,
    /// The signers of that lock file, if a signature is required.
    pub lock_signers: &'a [Signer],
    /// Warnings from before the build, for the manifest.
    pub remarks: Vec<String>,
    /// The trace so far; a failed build saves it next to its report.
    pub recording: TraceRecording,
    pub sink: &'a Arc<dyn Sink>,
    pub cancel: &'a Cancel,
}

pub enum EngineOutcome {
    Built(Box<FinishedBuild>),
    /// The output directory already has what this build would produce.
    Unchanged,
}

/// A finished build, for the records.
pub struct FinishedBuild {
    /// Hash of everything that affects the output; `None` if it is unknown.
    pub key: Option<Digest>,
    pub inputs: BuildInputs,
    pub media: InstallMedia,
    pub platform: HypervisorKind,
    /// The host that ran the steps; that of an earlier build if all steps came from a layer.
    pub probe: HypervisorProbe,
    /// All steps, including those that came from a layer.
    pub steps: Vec<StepRecord>,
    /// The layer that the build resumed from.
    pub resumed: Option<LayerRecord>,
    pub artifacts: Vec<ExportedArtifact>,
    /// Disk usage of the sealed disk by folder; `None` if it was not computed.
    pub usage: Option<DiskUsage>,
    /// The checks for the image, by step.
    pub expected: Vec<StepChecks>,
    /// Warnings that did not stop the build.
    pub warnings: Vec<String>,
}

impl BuildRequest<'_> {
    pub fn to_input_context(&self, platform: HypervisorKind) -> InputContext<'_> {
        InputContext {
            recipe: self.recipe,
            plan: self.plan,
            store: self.store,
            options: &self.fetch,
            platform,
            sink: self.sink,
            cancel: self.cancel,
        }
    }

    /// Returns the hash of everything that affects the output directory.
    pub fn output_key(&self, chain: &BuildChain) -> Digest {
        #[derive(Serialize)]
        struct OutputKey<'a> {
            format: u32,
            disk: Option<&'a Digest>,
            fingerprint: &'a Digest,
        }
        Digest::of_json(&OutputKey {
            format: 1,
            disk: chain.links().last().map(|link| &link.key),
            fingerprint: &self.fingerprint,
        })
    }

    /// Collects the warnings from before a VM started.
    pub fn collect_warnings(&self, inputs: &BuildInputs, media: &InstallMedia) -> Vec<String> {
        let planned = self.plan.warnings.0.iter();
        let mut all = self.remarks.clone();
        all.extend(planned.map(|d| d.problem.fact.clone()));
        all.extend(inputs.describe_unverified());
        all.extend(media.warnings.iter().cloned());
        all
    }
}
