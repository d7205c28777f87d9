//! The machine that a build works on, and the layers it stands on: installed, booted from a layer, powered off and sealed.
//!
//! Only one machine at a time. A layer is sealed from a disk that Windows has shut down and QEMU has closed, never from a
//! running one. Knows which phase and step the build is in. Decides nothing about when a layer is worth while.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::debug;

use super::evidence::Reached;
use super::media::Discs;
use super::run::{StepRecord, Unrest};
use super::{Request, Scratch, boot};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Event, Phase};
use winimg_base::io;
use winimg_formats::disk::{DiskForm, Image};
use winimg_machine::guest::Guest;
use winimg_machine::vm::{self, Hypervisor, Machine, MachinePlan, Network, Platform, Probe, Start};
use winimg_recipe::plan::{Chain, Link, OFF_TIMEOUT, PlannedStep};
use winimg_supply::store::{About, Draft, Layer};

/// What a layer's record keeps for the manifest of a later build.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Notes {
    pub probe: Option<Probe>,
    pub steps: Vec<StepRecord>,
    /// How many layers lie below the machine's disk.
    pub depth: usize,
    /// What was odd on the way.
    pub warnings: Vec<String>,
    /// What the next start has to be followed by.
    #[serde(default)]
    pub unrest: Unrest,
}

/// Where the machine's disk lies.
enum Ground {
    /// A layer in the making, over the layer with this key.
    Draft(Draft, Option<Digest>),
    /// A disk that no layer is made from.
    Scratch(PathBuf),
}

pub struct Session<'a> {
    pub request: &'a Request<'a>,
    hypervisor: &'a dyn Hypervisor,
    pub run_dir: PathBuf,
    /// For the machine's disk and the discs.
    pub work: PathBuf,
    probe: Option<Probe>,
    // Dropped in this order: a machine goes before the disk that it has open.
    guest: Option<Box<dyn Guest>>,
    machine: Option<Box<dyn Machine>>,
    ground: Option<Ground>,
    /// The phase that runs, or that failed.
    pub phase: Option<Phase>,
    /// The step that runs, or that ran last.
    pub step: Option<Reached>,
    /// Of every layer and of the finished disk.
    pub notes: Notes,
    /// Known once the inputs and the media are.
    pub chain: Option<Chain>,
    /// For the next power-off, before scaling: the longest that a step since the last start asks for.
    off_timeout: Duration,
}

impl<'a> Session<'a> {
    pub fn new(
        request: &'a Request<'a>,
        hypervisor: &'a dyn Hypervisor,
        scratch: &Scratch,
    ) -> Self {
        Self {
            request,
            hypervisor,
            run_dir: scratch.run().to_path_buf(),
            work: scratch.work().to_path_buf(),
            probe: None,
            guest: None,
            machine: None,
            ground: None,
            phase: None,
            step: None,
            notes: Notes::default(),
            chain: None,
            off_timeout: OFF_TIMEOUT,
        }
    }

    /// Does the work as a phase of the build.
    pub fn in_phase<T>(
        &mut self,
        phase: Phase,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let request = self.request;
        self.phase = Some(phase);
        request.pauses.console().enter(phase.name());
        let (store, recipe) = (request.store, &request.recipe.name.value);
        let last = store.last_duration(recipe, phase);
        let started = Instant::now();
        let done = super::phase::carry_out(phase, last, request.sink, || work(self))?;
        let seconds = started.elapsed().as_secs_f64();
        if let Err(error) = store.record_duration(recipe, phase, seconds) {
            debug!(%error, "the phase's duration could not be remembered");
        }
        self.phase = None;
        Ok(done)
    }

    /// The build has come to a step. `runs`: its program runs now.
    pub fn at_step(&mut self, number: usize, step: &PlannedStep, runs: bool) {
        let name = step.name.clone();
        if runs && step.skipped.is_none() {
            let of = self.request.plan.steps.len();
            self.request.pauses.console().reach(number, of, &name);
        }
        self.step = Some(Reached { number, name, runs });
    }

    /// The step may have begun what the next power-off has to finish.
    pub fn has_run(&mut self, step: &PlannedStep) {
        self.off_timeout = self.off_timeout.max(step.off_timeout);
    }

    /// What the host can do; asked once, and only when a machine is to be started.
    pub fn probe(&mut self) -> Result<&Probe> {
        let probe = match self.probe.take() {
            Some(probe) => probe,
            None => {
                let request = self.request;
                let firmware = request.recipe.machine.firmware;
                let probe = self
                    .hypervisor
                    .probe(request.accel, firmware, request.cancel)?;
                for remark in &probe.remarks {
                    request.sink.warn(remark.clone());
                }
                debug!(
                    version = probe.version,
                    accel = probe.accel,
                    slowness = probe.slowness,
                    "the hypervisor was looked at"
                );
                request.sink.emit(&Event::HostProbed {
                    hypervisor: probe.version.clone(),
                    accelerator: probe.accel.clone(),
                });
                self.notes.probe = Some(probe.clone());
                probe
            }
        };
        Ok(self.probe.insert(probe))
    }

    pub fn platform(&self) -> Platform {
        self.hypervisor.platform()
    }

    fn disk_form(&self) -> DiskForm {
        self.platform().disk_form()
    }

    pub fn slowness(&self) -> u32 {
        self.probe.as_ref().map_or(1, |probe| probe.slowness)
    }

    /// Installs Windows on an empty disk; the guest is then ready for its steps.
    pub fn install(&mut self, discs: &Discs) -> Result<()> {
        let slowness = self.probe()?.slowness;
        let ground = self.new_ground(None)?;
        let disk = ground.disk(self.disk_form());
        self.ground = Some(ground);
        let bytes = self.request.recipe.machine.disk_size;
        self.hypervisor
            .create_disk(&disk, bytes, self.request.cancel)?;
        let start = Start::Install {
            install_disc: discs.install.clone(),
            answer_disc: discs.answer.clone(),
        };
        self.start(start, discs.room)?;
        let machine = running(&mut self.machine)?;
        let mut guest = boot::install(machine, slowness, self.request.sink, self.request.cancel)?;
        boot::remove_answer_files(guest.as_mut(), slowness)?;
        self.guest = Some(guest);
        Ok(())
    }

    /// Boots a new overlay over the layer.
    pub fn boot(&mut self, layer: &Layer) -> Result<()> {
        self.probe()?;
        let ground = self.new_ground(Some(layer.record().key.clone()))?;
        let disk = ground.disk(self.disk_form());
        self.ground = Some(ground);
        let below = Draft::backing(&layer.record().key, self.disk_form());
        self.hypervisor
            .create_disk_over(&disk, &below, self.request.cancel)?;
        let variables = self.run_dir.join(vm::VARIABLES);
        match layer.variables() {
            Some(kept) => {
                io::copy(&kept, &variables)?;
            }
            None => io::remove_if_there(&variables)?,
        }
        self.start(Start::Boot, 0)?;
        self.guest = Some(running(&mut self.machine)?.guest()?);
        Ok(())
    }

    pub fn guest(&mut self) -> Result<&mut dyn Guest> {
        match &mut self.guest {
            Some(guest) => Ok(guest.as_mut()),
            None => Err(Error::new(Kind::Failed, "no machine runs")),
        }
    }

    /// Powers the machine off; its disk is closed, whole, and holds no deleted bytes.
    pub fn power_off(&mut self) -> Result<()> {
        let slowness = self.slowness();
        if let Some(mut guest) = self.guest.take() {
            // A seal powers the machine off by itself.
            if !guest.is_off()? {
                guest.shut_down()?;
            }
            drop(guest);
            let timeout = self.off_timeout * slowness;
            debug!(?timeout, "the machine is to power off");
            running(&mut self.machine)?.wait_off(timeout)?;
            self.off_timeout = OFF_TIMEOUT;
        }
        self.machine = None;
        let disk = self.disk().unwrap_or_default();
        let layers = self.request.store.layers_folder();
        let image = Image::layered(&disk, &layers);
        let doubts = self.hypervisor.close_disk(image, self.request.cancel)?;
        for doubt in doubts {
            self.request.sink.warn(doubt.clone());
            if !self.notes.warnings.contains(&doubt) {
                self.notes.warnings.push(doubt);
            }
        }
        Ok(())
    }

    /// Makes a layer of the powered-off disk. `None` where no layers are made: then the disk stays where it is.
    pub fn seal(&mut self, links: &[Link]) -> Result<Option<Layer>> {
        let (draft, parent) = match self.ground.take() {
            Some(Ground::Draft(draft, parent)) => (draft, parent),
            other => {
                self.ground = other;
                return Ok(None);
            }
        };
        let variables = self.run_dir.join(vm::VARIABLES);
        if variables.exists() {
            io::copy(&variables, &draft.variables())?;
        }
        self.notes.depth += 1;
        let about = About {
            parent: parent.as_ref(),
            recipe: &self.request.recipe.name.value,
            links,
            notes: json!(self.notes),
            made: jiff::Timestamp::now().as_second(),
        };
        let layer = self.request.store.seal(draft, about, self.request.cancel)?;
        Ok(Some(layer))
    }

    /// The machine's disk, as long as no layer was made of it.
    pub fn disk(&self) -> Option<PathBuf> {
        let ground = self.ground.as_ref();
        ground.map(|ground| ground.disk(self.disk_form()))
    }

    /// The layer that the machine's disk stands on.
    pub fn below(&self) -> Option<Digest> {
        match &self.ground {
            Some(Ground::Draft(_, parent)) => parent.clone(),
            Some(Ground::Scratch(_)) | None => None,
        }
    }

    /// Ends the machine at once.
    pub fn stop(&mut self) {
        self.guest = None;
        self.machine = None;
    }

    /// Leaves the disk for the user, in the working directory. It stays an overlay over the layers that it stands on.
    pub fn keep(mut self) -> Option<Result<PathBuf>> {
        self.stop();
        match self.ground.take()? {
            Ground::Scratch(disk) => Some(Ok(disk)),
            Ground::Draft(draft, parent) => {
                let form = self.disk_form();
                let kept = self.work.join(form.file_name());
                let layers = self.request.store.layers_folder();
                let parent = parent.map(|key| layers.join(key.hex()).join(form.file_name()));
                let moved = io::move_file(&draft.disk(form), &kept).and_then(|()| match parent {
                    // The build may have been interrupted; this is not.
                    Some(parent) => self
                        .hypervisor
                        .move_parent(&kept, &parent, &Cancel::default()),
                    None => Ok(()),
                });
                Some(moved.map(|()| kept))
            }
        }
    }

    fn new_ground(&self, parent: Option<Digest>) -> Result<Ground> {
        match self.request.layers {
            super::Layers::None => {
                let name = self.disk_form().file_name();
                Ok(Ground::Scratch(self.work.join(name)))
            }
            _ => Ok(Ground::Draft(self.request.store.draft()?, parent)),
        }
    }

    /// `room`: bytes that have to be free for the disk, beside the machine's own floor.
    fn start(&mut self, start: Start, room: u64) -> Result<()> {
        let (machine, setup) = (&self.request.recipe.machine, &self.request.recipe.setup);
        let plan = MachinePlan {
            name: self.request.recipe.name.value.clone(),
            firmware: machine.firmware,
            secure_boot: machine.secure_boot,
            controller: machine.disk_bus.into(),
            disk: self.disk().unwrap_or_default(),
            room,
            cpus: machine.cpus,
            memory: machine.memory,
            network: match machine.network {
                true => Network::Open,
                false => Network::None,
            },
            tpm: machine.tpm,
            password: self.request.password.clone(),
            start,
            run_dir: self.run_dir.clone(),
            accel: self.request.accel,
            timeout: setup.timeout * self.slowness(),
            still_limit: setup.still_limit,
        };
        debug!(
            disk = %plan.disk.display(),
            firmware = ?plan.firmware,
            secure_boot = plan.secure_boot,
            controller = ?plan.controller,
            cpus = plan.cpus,
            memory = plan.memory,
            timeout = ?plan.timeout,
            "a machine is to start"
        );
        let (sink, cancel) = (self.request.sink.clone(), self.request.cancel.clone());
        let machine = self.hypervisor.start(plan, sink, cancel)?;
        self.request.pauses.console().show(machine.as_ref());
        self.request.sink.emit(&Event::MachineStarted {
            output: self.request.output.display().to_string(),
        });
        self.machine = Some(machine);
        Ok(())
    }
}

impl Ground {
    fn disk(&self, form: DiskForm) -> PathBuf {
        match self {
            Self::Draft(draft, _) => draft.disk(form),
            Self::Scratch(disk) => disk.clone(),
        }
    }
}

fn running(machine: &mut Option<Box<dyn Machine>>) -> Result<&mut dyn Machine> {
    match machine {
        Some(machine) => Ok(machine.as_mut()),
        None => Err(Error::new(Kind::Failed, "no machine runs")),
    }
}
