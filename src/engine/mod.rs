//! The main job, from a plan to artifacts. Reads as a table of contents; the chapters are the modules.

mod boot;
mod chain;
mod checkpoint;
pub mod console;
pub mod evidence;
mod expected;
pub mod forecast;
mod image_state;
pub mod inputs;
mod leftovers;
mod media;
pub mod outside;
pub mod pause;
pub mod payload;
mod phase;
mod provision;
mod resume;
pub mod run;
mod scratch;
mod session;
pub mod shell;
#[cfg(test)]
mod standing;
mod step_log;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::export::{self, Artifact};
use crate::verify;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Event, Sink};
use winimg_base::text::Secret;
use winimg_formats::disk::Image;
use winimg_machine::vm::{Accel, Hypervisor, Probe};
use winimg_recipe::lock::LockFile;
use winimg_recipe::plan::{Chain, Expected, Plan};
use winimg_recipe::recipe::Recipe;
use winimg_supply::fetch::FetchOptions;
use winimg_supply::store::{LayerRecord, Store};

use tracing::{debug, debug_span};

use evidence::Recording;
use leftovers::clear_earlier;
use pause::Pauses;
use provision::Course;
use resume::Resumed;
use session::{Notes, Session};

pub use checkpoint::Layers;
pub use inputs::Inputs;
pub use leftovers::{Leftovers, run_dirs};
pub use media::{Media, windows_build};
pub use phase::Phase;
pub use run::StepRecord;
pub use scratch::Scratch;

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
    /// Of what decides the output beside the finished disk: the same again, and nothing is to be done.
    pub fingerprint: Digest,
    /// Begin with the installation although a layer holds it. Layers are sealed all the same.
    pub fresh: bool,
    /// Look whether the sealed disk is what the recipe says before anything is exported.
    pub verify: bool,
    /// Seconds since 1970 for everything in the output that holds a time.
    pub epoch: i64,
    pub store: &'a Store,
    /// Whether and how patiently the network is asked.
    pub fetch: FetchOptions,
    /// The lock that the recipe's inputs were taken from.
    pub lock: Option<&'a LockFile>,
    /// What was odd before the build began: for the manifest.
    pub remarks: Vec<String>,
    /// What was traced so far; a build that fails leaves it beside its page.
    pub recording: Recording,
}

/// How a build ended.
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
    /// What has to hold in the image, step by step.
    pub expected: Vec<Expected>,
    /// What was odd but did not stop the build.
    pub warnings: Vec<String>,
}

/// Builds the image. On failure the evidence is in `<output>/failure` and the error says so.
pub fn run(
    request: &Request,
    scratch: &mut Scratch,
    hypervisor: &dyn Hypervisor,
    sink: &Arc<dyn Sink>,
    cancel: &Cancel,
) -> Result<Outcome> {
    let _span = debug_span!("build", recipe = request.recipe.name.value).entered();
    let mut session = Session::new(request, hypervisor, scratch, sink, cancel);
    let outcome = chapters(request, scratch, &mut session, sink, cancel);
    outcome.map_err(|error| {
        // Where an interrupt was noticed is nobody's affair.
        let error = match error.kind() {
            Kind::Cancelled => Error::cancelled(),
            _ => error,
        };
        session.stop();
        let error = kept(error, request, scratch, &session, sink.as_ref(), cancel);
        if !request.pauses.keeps() {
            return error;
        }
        let kept = scratch.keep().to_path_buf();
        let mut lines = vec![format!("the build's discs are kept in {}", kept.display())];
        lines.extend(session.keep().map(|disk| match disk {
            Ok(disk) => format!("the machine's disk is kept: {}", disk.display()),
            Err(error) => format!("the machine's disk could not be kept: {error}"),
        }));
        // Deleted when Windows is installed; before that, a person who asks to keep everything has to know.
        if kept.join(media::ANSWER_DISC).exists() {
            lines.push(
                "answer.iso among them holds the Administrator's password of this build".into(),
            );
        }
        error.lines(lines)
    })
}

/// What nothing that is kept or shown may hold.
pub fn secrets(recipe: &Recipe, password: &Secret) -> Vec<Secret> {
    let key = recipe.media.product_key.as_ref();
    let key = key.map(|key| Secret::new(key.value.clone()));
    let is_secret = |key: &Secret| !key.expose().eq_ignore_ascii_case("kms");
    std::iter::once(password.clone())
        .chain(key.filter(is_secret))
        .collect()
}

/// With the evidence of what happened. The machine is stopped by now, so its disk can be read.
fn kept(
    error: Error,
    request: &Request,
    scratch: &Scratch,
    session: &Session,
    sink: &dyn Sink,
    cancel: &Cancel,
) -> Error {
    let (disk, layers) = (session.disk(), request.store.layers_folder());
    let secrets = secrets(request.recipe, &request.password);
    if error.kind() != Kind::Cancelled
        && let Err(e) = request
            .recording
            .write(&scratch.run().join(evidence::DEBUG))
    {
        sink.warn(format!("{} could not be written: {e}", evidence::DEBUG));
    }
    let next = session.chain.as_ref();
    let next = next.map_or_else(String::new, |chain| resume::next(request, chain, cancel));
    let scene = evidence::Scene {
        output: &request.output,
        run_dir: scratch.run(),
        disk: disk
            .as_deref()
            .filter(|disk| disk.exists())
            .map(|disk| Image::layered(disk, &layers)),
        logs: &request.output.join("logs"),
        step: session
            .step
            .as_ref()
            .map(|(number, name)| (*number, name.as_str())),
        recipe: &request.recipe.name.value,
        phase: "",
        next: &next,
        secrets: &secrets,
    };
    evidence::keep(error, &scene, sink, cancel)
}

fn chapters(
    request: &Request,
    scratch: &Scratch,
    session: &mut Session,
    sink: &Arc<dyn Sink>,
    cancel: &Cancel,
) -> Result<Outcome> {
    let (recipe, plan, store) = (request.recipe, request.plan, request.store);
    let platform = session.platform();
    let phase = |name| Phase::start(name, sink);

    let fetching = phase("fetch");
    let source = inputs::Source {
        recipe,
        plan,
        store,
        options: &request.fetch,
        platform,
        sink,
        cancel,
    };
    let mut inputs = inputs::fetch(&source)?;
    fetching.done();

    let reading = phase("media");
    let media = media::read(&source, &inputs)?;
    inputs::fetch_images(&mut inputs, &source, &media.base_build())?;
    let expected = expected::resolve(plan, &inputs)?;
    let chain = chain::of(recipe, plan, &inputs, &media, platform)?;
    reading.done();

    for link in chain.links() {
        debug!(part = link.name, key = %link.key, "layer key");
    }
    session.chain = Some(chain.clone());

    // Held first, then looked for: no prune takes away what is found.
    let lease = store.lease()?;
    lease.hold(&inputs.digests())?;
    lease.hold(
        &chain
            .links()
            .iter()
            .map(|l| l.key.clone())
            .collect::<Vec<_>>(),
    )?;
    let resumed = resumed(request, &chain, sink, cancel)?;
    let key = output_key(request, &chain);
    debug!(%key, held = resumed.as_ref().map(|r| r.links), of = chain.links().len(), "the layers were looked at");
    let is_whole = |r: &Resumed| r.links == chain.links().len();
    if resumed.as_ref().is_some_and(is_whole) && store.output_is(&request.output, &key) {
        return Ok(Outcome::Unchanged);
    }
    clear_earlier(&request.output)?;
    inputs.share(recipe, request.fetch.shared.as_deref())?;
    let mut warnings = warnings(request, &inputs, &media);
    let disk = match resumed {
        Some(ref whole) if is_whole(whole) => {
            session.notes = notes(plan, whole);
            whole.layer.disk()
        }
        ref part => {
            let course = Course {
                request,
                links: chain.links(),
                inputs: &inputs,
                media: &media,
                work: scratch.work(),
                sink,
                cancel,
            };
            warnings.extend(course.run(session, part.as_ref())?);
            session.disk().unwrap_or_default()
        }
    };
    warnings.extend(session.notes.warnings.iter().cloned());
    let by_hand = request.pauses.by_hand();
    let keeps = request.layers != Layers::None && by_hand.is_empty();
    warnings.extend(by_hand);

    if request.verify {
        let verifying = phase("verify");
        warnings.extend(checked(&disk, store, &expected, sink, cancel)?);
        verifying.done();
    } else {
        let warning = "the sealed disk was not checked: --no-verify";
        sink.warn(warning);
        warnings.push(warning.into());
    }
    let layer = match keeps {
        true => session.seal(chain.links())?,
        false => None,
    };
    if let (Some(layer), Some(remote)) = (&layer, &request.fetch.shared) {
        remote.push_layer(layer, store)?;
    }
    let disk = layer.map_or(disk, |layer| layer.disk());

    let exporting = phase("export");
    let artifacts = export::export(
        &export_job(
            request,
            &media.guest_facts(),
            Image::layered(&disk, &store.layers_folder()),
        ),
        sink.as_ref(),
        cancel,
    )?;
    exporting.done();
    let notes = std::mem::take(&mut session.notes);
    Ok(Outcome::Built(Box::new(Built {
        key: keeps.then_some(key),
        inputs,
        media,
        probe: notes.probe.unwrap_or_default(),
        steps: notes.steps,
        resumed: resumed.map(|resumed| resumed.layer.record().clone()),
        artifacts,
        expected,
        warnings,
    })))
}

/// Of everything that decides what lies in the output directory.
fn output_key(request: &Request, chain: &Chain) -> Digest {
    #[derive(Serialize)]
    struct OutputKey<'a> {
        format: u32,
        disk: Option<&'a Digest>,
        fingerprint: &'a Digest,
    }
    Digest::of_json(&OutputKey {
        format: 1,
        disk: chain.links().last().map(|link| &link.key),
        fingerprint: &request.fingerprint,
    })
}

/// The layer to go on from, told.
fn resumed(
    request: &Request,
    chain: &Chain,
    sink: &Arc<dyn Sink>,
    cancel: &Cancel,
) -> Result<Option<Resumed>> {
    if request.layers == Layers::None || request.fresh {
        return Ok(None);
    }
    // A step that the build is to stop before has to be before it.
    let all = chain.links().len();
    let limit = request.pauses.first_stop(request.plan).unwrap_or(all);
    let mut found = resume::find(request.store, chain, limit, sink, cancel)?;
    if let Some(remote) = &request.fetch.shared {
        let held = found.as_ref().map_or(0, |resumed| resumed.links);
        let links = &chain.links()[..limit.min(all)];
        if remote.pull_longest(links, held, request.store)? {
            found = resume::find(request.store, chain, limit, sink, cancel)?;
        }
    }
    let name = &request.recipe.name.value;
    resume::report(request.store, name, chain, found.as_ref(), sink.as_ref());
    Ok(found)
}

/// What an earlier build noted of the parts that the layer holds. Names and lines are those of today's recipe.
fn notes(plan: &Plan, resumed: &Resumed) -> Notes {
    let mut notes = resumed.notes.clone();
    for (record, step) in notes.steps.iter_mut().zip(&plan.steps) {
        record.name.clone_from(&step.name);
        record.place = step.place.to_string();
    }
    notes
}

/// Looks at the sealed disk; what is doubtful about it goes into the manifest.
fn checked(
    disk: &Path,
    store: &Store,
    expected: &[Expected],
    sink: &Arc<dyn Sink>,
    cancel: &Cancel,
) -> Result<Vec<String>> {
    let opened = winimg_formats::disk::open_layered(disk, &store.layers_folder(), cancel)?;
    let report = verify::check(opened.as_ref(), Some(expected), cancel)?;
    verify::report(&report, "the sealed disk", sink.as_ref());
    let summary = report.summary();
    if !report.is_good() {
        return Err(verify::failed("the sealed disk", &summary)
            .cure("each finding above names its step; --no-verify exports the disk as it is"));
    }
    sink.emit(&Event::Progress {
        phase: "verify",
        text: summary,
    });
    let doubtful = |f: &&verify::Finding| f.severity == verify::Severity::Warning;
    let doubtful = report.findings.iter().filter(doubtful);
    Ok(doubtful.map(|f| f.problem.fact.clone()).collect())
}

fn warnings(request: &Request, inputs: &Inputs, media: &Media) -> Vec<String> {
    let planned = request
        .plan
        .warnings
        .0
        .iter()
        .map(|d| d.problem.fact.clone());
    let remarks = request.remarks.iter().cloned();
    remarks
        .chain(planned)
        .chain(inputs.unproved())
        .chain(media.warnings.iter().cloned())
        .collect()
}

fn export_job<'a>(
    request: &'a Request,
    guest: &'a export::GuestFacts,
    disk: Image<'a>,
) -> export::Job<'a> {
    let recipe = request.recipe;
    export::Job {
        source: disk,
        name: &recipe.name.value,
        outputs: &recipe.outputs,
        directory: &request.output,
        firmware: recipe.machine.firmware,
        secure_boot: recipe.machine.secure_boot,
        disk_bus: recipe.machine.disk_bus,
        guest,
        cpus: recipe.machine.cpus,
        memory: recipe.machine.memory,
        epoch: request.epoch,
        threads: 0,
        level: export::DEFAULT_LEVEL,
        properties: &[],
    }
}
