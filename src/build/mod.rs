//! The main job, from a plan to artifacts. Reads as a table of contents; the chapters are the modules.

mod boot;
mod evidence;
mod expected;
pub mod free_space;
pub mod inputs;
mod media;
pub mod payload;
pub mod run;
mod scratch;
mod seal;
mod step_log;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crate::error::{Error, Kind, Result};
use crate::event::{Cancel, Event, Sink};
use crate::export::{self, Artifact};
use crate::fetch::FetchOptions;
use crate::lock::Lock;
use crate::plan::Plan;
use crate::recipe::Recipe;
use crate::store::Store;
use crate::text::Secret;
use crate::verify::{self, Expected};
use crate::vm::{Accel, Hypervisor, MachinePlan, Probe, Start};

pub use inputs::Inputs;
pub use media::{Media, windows_build};
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
    /// Leave the machine's disk and working files after a failure.
    pub keep_on_error: bool,
    /// Look whether the sealed disk is what the recipe says before anything is exported.
    pub verify: bool,
    /// Seconds since 1970 for everything in the output that holds a time.
    pub epoch: i64,
    pub store: &'a Store,
    /// Whether and how patiently the network is asked.
    pub fetch: FetchOptions,
    /// The lock that the recipe's inputs were taken from.
    pub lock: Option<&'a Lock>,
    /// What was odd before the build began: for the manifest.
    pub remarks: Vec<String>,
}

/// A finished build, for the records.
pub struct Built {
    pub inputs: Inputs,
    pub media: Media,
    pub probe: Probe,
    pub steps: Vec<StepRecord>,
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
) -> Result<Built> {
    let outcome = chapters(request, hypervisor, scratch, sink, cancel);
    outcome.map_err(|error| {
        // Where an interrupt was noticed is nobody's affair.
        let error = match error.kind() {
            Kind::Cancelled => Error::cancelled(),
            _ => error,
        };
        let error = evidence::keep(error, &request.output, scratch.run(), sink.as_ref());
        if !request.keep_on_error {
            return error;
        }
        let kept = scratch.keep();
        let error = error.lines([format!(
            "the machine's disk and discs are kept in {}",
            kept.display()
        )]);
        // Deleted when the steps begin; before that, a person who asks to keep everything has to know.
        if kept.join(media::ANSWER_DISC).exists() {
            error.lines(["answer.iso among them holds the Administrator's password of this build"])
        } else {
            error
        }
    })
}

fn chapters(
    request: &Request,
    hypervisor: &dyn Hypervisor,
    scratch: &Scratch,
    sink: &Arc<dyn Sink>,
    cancel: &Cancel,
) -> Result<Built> {
    let recipe = request.recipe;
    let probe = hypervisor.probe(request.accel, recipe.machine.firmware, cancel)?;
    for remark in &probe.remarks {
        sink.warn(remark.clone());
    }
    let phase = |name| Phase::start(name, sink);

    let fetching = phase("fetch");
    let (plan, store) = (request.plan, request.store);
    let mut inputs = inputs::fetch(recipe, plan, store, sink, cancel, &request.fetch)?;
    fetching.done();

    let reading = phase("media");
    let media = media::prepare(
        recipe,
        &inputs,
        &request.password,
        scratch.work(),
        request.epoch,
        sink,
    )?;
    inputs::fetch_images(&mut inputs, request, &media.base_build(), sink, cancel)?;
    let payload = payload::write(request.plan, &inputs, scratch.work(), request.epoch, cancel)?;
    let expected = expected::resolve(request.plan, &inputs)?;
    let disk = scratch.work().join("disk.qcow2");
    seal::create(&disk, recipe.machine.disk_size, cancel)?;
    reading.done();

    let installing = phase("install");
    let plan = machine_plan(request, &probe, &media, &disk, scratch.run());
    let mut machine = hypervisor.start(plan, Arc::clone(sink), cancel.clone())?;
    let mut guest = boot::install(machine.as_mut(), probe.slowness, sink, cancel)?;
    installing.done();

    let provisioning = phase("provision");
    let logs = request.output.join("logs");
    let engine = run::Engine {
        guest: guest.as_mut(),
        plan: request.plan,
        payload: &payload,
        logs: &logs,
        slowness: probe.slowness,
        sink: Arc::clone(sink),
        cancel: cancel.clone(),
        answer_disc: media.answer_disc.clone(),
    };
    let steps = engine.run()?;
    provisioning.done();

    let sealing = phase("seal");
    seal::power_off(machine.as_mut(), guest, probe.slowness)?;
    drop(machine);
    seal::check(&disk, cancel)?;
    let doubts = free_space::clear(&disk, cancel)?;
    doubts.iter().for_each(|doubt| sink.warn(doubt.clone()));
    sealing.done();

    let mut warnings = warnings(request, &inputs, &media);
    warnings.extend(doubts);
    if request.verify {
        let verifying = phase("verify");
        warnings.extend(checked(&disk, &expected, sink, cancel)?);
        verifying.done();
    } else {
        let told = "the sealed disk was not checked: --no-verify";
        sink.warn(told);
        warnings.push(told.into());
    }

    let exporting = phase("export");
    let artifacts = export::export(
        &export_job(request, &media.guest_facts(), &disk),
        sink.as_ref(),
        cancel,
    )?;
    exporting.done();
    Ok(Built {
        inputs,
        media,
        probe,
        steps,
        artifacts,
        expected,
        warnings,
    })
}

/// Looks at the sealed disk; what is doubtful about it goes into the manifest.
fn checked(
    disk: &Path,
    expected: &[Expected],
    sink: &Arc<dyn Sink>,
    cancel: &Cancel,
) -> Result<Vec<String>> {
    let opened = crate::disk::open(disk, cancel)?;
    let report = verify::check(opened.as_ref(), Some(expected), cancel)?;
    verify::tell(&report, "the sealed disk", sink.as_ref());
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
    Ok(doubtful.map(|f| f.what.clone()).collect())
}

fn warnings(request: &Request, inputs: &Inputs, media: &Media) -> Vec<String> {
    let planned = request.plan.warnings.0.iter().map(|d| d.message.clone());
    let remarks = request.remarks.iter().cloned();
    remarks
        .chain(planned)
        .chain(inputs.unproved())
        .chain(media.warnings.iter().cloned())
        .collect()
}

fn machine_plan(
    request: &Request,
    probe: &Probe,
    media: &Media,
    disk: &Path,
    run_dir: &Path,
) -> MachinePlan {
    let wish = &request.recipe.machine;
    let setup = &request.recipe.setup;
    MachinePlan {
        name: request.recipe.name.value.clone(),
        firmware: wish.firmware,
        secure_boot: wish.secure_boot,
        disk_bus: wish.disk_bus,
        disk: disk.to_path_buf(),
        room: 0,
        cpus: wish.cpus,
        memory: wish.memory,
        network: wish.network,
        start: Start::Install {
            install_disc: media.install_disc.clone(),
            answer_disc: media.answer_disc.clone(),
        },
        run_dir: run_dir.to_path_buf(),
        accel: request.accel,
        timeout: setup.timeout * probe.slowness,
        still_limit: setup.still_limit,
    }
}

fn export_job<'a>(
    request: &'a Request,
    guest: &'a export::GuestFacts,
    disk: &'a Path,
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

/// A phase's two events: at its start, and at its good end.
pub struct Phase<'a> {
    name: &'static str,
    started: Instant,
    sink: &'a Arc<dyn Sink>,
}

impl<'a> Phase<'a> {
    pub fn start(name: &'static str, sink: &'a Arc<dyn Sink>) -> Self {
        sink.emit(&Event::PhaseStarted { phase: name });
        Self {
            name,
            started: Instant::now(),
            sink,
        }
    }

    pub fn done(self) {
        self.sink.emit(&Event::PhaseFinished {
            phase: self.name,
            seconds: self.started.elapsed().as_secs_f64(),
        });
    }
}
