//! What a build is asked for, and what it gives back for the records.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use super::evidence::Recording;
use super::inputs::Source;
use super::pause::Pauses;
use super::{Inputs, Layers, Media, StepRecord};
use crate::export::Artifact;
use crate::usage::DiskUsage;
use winimg_base::digest::Digest;
use winimg_base::event::{Cancel, Sink};
use winimg_base::text::Secret;
use winimg_machine::vm::{Accel, Platform, Probe};
use winimg_recipe::lock::LockFile;
use winimg_recipe::plan::{Chain, Expected, Plan};
use winimg_recipe::recipe::Recipe;
use winimg_supply::fetch::FetchOptions;
use winimg_supply::store::{LayerRecord, Store};
use winimg_trust::Signer;

/// Everything that a build needs to know.
pub struct Request<'a> {
    pub recipe: &'a Recipe,
    pub plan: &'a Plan,
    /// Where artifacts, logs and the manifest go.
    pub output: PathBuf,
    pub accel: Accel,
    /// Of the built-in Administrator while the image is built; never in the image.
    pub password: Secret,
    /// Where the build waits for a person, and what stays after a failure.
    pub pauses: &'a Pauses,
    pub layers: Layers,
    /// Of what decides the output beside the finished disk: if it is the same again, nothing is built.
    pub fingerprint: Digest,
    /// Begin with the installation although a layer holds it. Layers are sealed all the same.
    pub fresh: bool,
    /// Start no machine: without a finished disk in a cache the build fails.
    pub from_cache: bool,
    /// Look whether the sealed disk is what the recipe says before anything is exported.
    pub verify: bool,
    /// Seconds since 1970 for everything in the output that holds a time.
    pub epoch: i64,
    pub store: &'a Store,
    pub fetch: FetchOptions,
    /// The lock that the recipe's inputs were taken from.
    pub lock: Option<&'a LockFile>,
    /// Who signed that lock, where somebody asks for it.
    pub lock_signers: &'a [Signer],
    /// What was odd before the build began: for the manifest.
    pub remarks: Vec<String>,
    /// What was traced so far; a build that fails leaves it beside its page.
    pub recording: Recording,
    pub sink: &'a Arc<dyn Sink>,
    pub cancel: &'a Cancel,
}

pub enum Outcome {
    Built(Box<Built>),
    /// The output directory holds already what this build would make.
    Unchanged,
}

/// A finished build, for the records.
pub struct Built {
    /// Of everything that decides the output; `None` where that is not known.
    pub key: Option<Digest>,
    pub inputs: Inputs,
    pub media: Media,
    /// Of the host that carried out the steps; an earlier build's, when all of them are in a layer.
    pub probe: Probe,
    /// Those too that a layer already held.
    pub steps: Vec<StepRecord>,
    /// The layer that the build went on from.
    pub resumed: Option<LayerRecord>,
    pub artifacts: Vec<Artifact>,
    /// What the sealed disk holds by folder; `None` where it was not looked at, or can't be counted.
    pub usage: Option<DiskUsage>,
    /// What has to hold in the image, step by step.
    pub expected: Vec<Expected>,
    /// What was odd but did not stop the build.
    pub warnings: Vec<String>,
}

impl Request<'_> {
    pub fn source(&self, platform: Platform) -> Source<'_> {
        Source {
            recipe: self.recipe,
            plan: self.plan,
            store: self.store,
            options: &self.fetch,
            platform,
            sink: self.sink,
            cancel: self.cancel,
        }
    }

    /// Of everything that decides what lies in the output directory.
    pub fn output_key(&self, chain: &Chain) -> Digest {
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

    /// What was odd before a machine started.
    pub fn warnings(&self, inputs: &Inputs, media: &Media) -> Vec<String> {
        let planned = self.plan.warnings.0.iter();
        let mut all = self.remarks.clone();
        all.extend(planned.map(|d| d.problem.fact.clone()));
        all.extend(inputs.unproved());
        all.extend(media.warnings.iter().cloned());
        all
    }
}
