//! The VM of a build and the layers below its disk: installed, booted from a layer, powered off
//! and sealed.
//!
//! Only one VM at a time. A layer is sealed from a disk that Windows has shut down and QEMU has
//! closed, never from a running one. Tracks the current phase and step. Does not decide when a
//! layer is worthwhile.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::debug;

use super::evidence::ReachedStep;
use super::media::InstallDiscs;
use super::run::{SettleReason, StepRecord};
use super::{BuildRequest, ScratchDirs, boot};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Event, Phase};
use winimg_base::io;
use winimg_formats::disk::{DiskImage, MachineDiskFormat};
use winimg_machine::guest::Guest;
use winimg_machine::vm::{
    self, Hypervisor, HypervisorKind, HypervisorProbe, MachinePlan, NetworkAccess, StartMode,
    VirtualMachine,
};
use winimg_recipe::plan::{BuildChain, ChainLink, OFF_TIMEOUT, PlannedStep};
use winimg_supply::store::{LayerDraft, LayerInfo, StoredLayer};

/// The part of a layer's record that a later build needs for its manifest.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct BuildNotes {
    pub probe: Option<HypervisorProbe>,
    pub steps: Vec<StepRecord>,
    /// Number of layers below the VM's disk.
    pub depth: usize,
    /// Warnings from the steps so far.
    pub warnings: Vec<String>,
    /// The wait that the next start needs.
    #[serde(default)]
    pub unrest: SettleReason,
}

/// The location of the VM's disk.
enum DiskLocation {
    /// A draft layer over the layer with this key.
    Draft(LayerDraft, Option<Digest>),
    /// A disk that never becomes a layer.
    Scratch(PathBuf),
}

pub struct BuildSession<'a> {
    pub request: &'a BuildRequest<'a>,
    hypervisor: &'a dyn Hypervisor,
    pub run_dir: PathBuf,
    /// The working directory for the VM's disk and the discs.
    pub work: PathBuf,
    probe: Option<HypervisorProbe>,
    // Drop order matters: the machine before the disk that it has open.
    guest: Option<Box<dyn Guest>>,
    machine: Option<Box<dyn VirtualMachine>>,
    ground: Option<DiskLocation>,
    /// The running phase, or the one that failed.
    pub phase: Option<Phase>,
    /// The running step, or the last one that ran.
    pub step: Option<ReachedStep>,
    /// Saved with every layer and with the finished disk.
    pub notes: BuildNotes,
    /// Set once the inputs and the media are read.
    pub chain: Option<BuildChain>,
    /// Timeout of the next power-off, before scaling: the longest of any step since the last start.
    off_timeout: Duration,
}

impl<'a> BuildSession<'a> {
    pub fn new(
        request: &'a BuildRequest<'a>,
        hypervisor: &'a dyn Hypervisor,
        scratch: &ScratchDirs,
    ) -> Self {
        Self {
            request,
            hypervisor,
            run_dir: scratch.run().to_path_buf(),
            work: scratch.work_dir().to_path_buf(),
            probe: None,
            guest: None,
            machine: None,
            ground: None,
            phase: None,
            step: None,
            notes: BuildNotes::default(),
            chain: None,
            off_timeout: OFF_TIMEOUT,
        }
    }

    /// Runs `work` as a phase of the build.
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
            debug!(%error, "could not record the phase's duration");
        }
        self.phase = None;
        Ok(done)
    }

    /// Records that the build has reached a step. `is_running`: its program is running now.
    pub fn at_step(&mut self, number: usize, step: &PlannedStep, is_running: bool) {
        let name = step.name.clone();
        if is_running && step.skipped.is_none() {
            let of = self.request.plan.steps.len();
            self.request.pauses.console().start_step(number, of, &name);
        }
        self.step = Some(ReachedStep {
            number,
            name,
            is_running,
        });
    }

    /// Extends the power-off timeout: the step may have started work that Windows finishes when it
    /// shuts down.
    pub fn has_run(&mut self, step: &PlannedStep) {
        self.off_timeout = self.off_timeout.max(step.off_timeout);
    }

    /// Returns the host's capabilities, probed once and only when a VM is about to start.
    pub fn probe(&mut self) -> Result<&HypervisorProbe> {
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
                    "probed the hypervisor"
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

    pub fn platform(&self) -> HypervisorKind {
        self.hypervisor.platform()
    }

    fn disk_form(&self) -> MachineDiskFormat {
        self.platform().spec().disk_form
    }

    pub fn slowness(&self) -> u32 {
        self.probe.as_ref().map_or(1, |probe| probe.slowness)
    }

    /// Installs Windows on an empty disk; the guest is then ready for its steps.
    pub fn install(&mut self, discs: &InstallDiscs) -> Result<()> {
        let slowness = self.probe()?.slowness;
        let ground = self.new_ground(None)?;
        let disk = ground.disk(self.disk_form());
        self.ground = Some(ground);
        let bytes = self.request.recipe.machine.disk_size;
        self.hypervisor
            .create_disk(&disk, bytes, self.request.cancel)?;
        let start = StartMode::Install {
            install_disc: discs.install.clone(),
            answer_disc: discs.answer.clone(),
        };
        self.start(start, discs.room)?;
        let machine = require_running(&mut self.machine)?;
        let mut guest = boot::install(machine, slowness, self.request.sink, self.request.cancel)?;
        boot::remove_answer_files(guest.as_mut(), slowness)?;
        self.guest = Some(guest);
        Ok(())
    }

    /// Boots a new overlay over the layer.
    pub fn boot(&mut self, layer: &StoredLayer) -> Result<()> {
        self.probe()?;
        let ground = self.new_ground(Some(layer.record().key.clone()))?;
        let disk = ground.disk(self.disk_form());
        self.ground = Some(ground);
        let below = LayerDraft::backing_path(&layer.record().key, self.disk_form());
        self.hypervisor
            .create_disk_over(&disk, &below, self.request.cancel)?;
        let variables = self.run_dir.join(vm::VARIABLES);
        match layer.variables_path() {
            Some(kept) => {
                io::copy(&kept, &variables)?;
            }
            None => io::remove_if_exists(&variables)?,
        }
        self.start(StartMode::Boot, 0)?;
        self.guest = Some(require_running(&mut self.machine)?.wait_for_guest()?);
        Ok(())
    }

    pub fn guest(&mut self) -> Result<&mut dyn Guest> {
        match &mut self.guest {
            Some(guest) => Ok(guest.as_mut()),
            None => Err(Error::new(Kind::Failed, "no VM is running")),
        }
    }

    /// Powers the VM off. Its disk is then closed, complete and without deleted data.
    pub fn power_off(&mut self) -> Result<()> {
        let slowness = self.slowness();
        if let Some(mut guest) = self.guest.take() {
            // Sealing powers the VM off itself.
            if !guest.is_off()? {
                guest.shut_down()?;
            }
            drop(guest);
            let timeout = self.off_timeout * slowness;
            debug!(?timeout, "powering off the VM");
            require_running(&mut self.machine)?.wait_off(timeout)?;
            self.off_timeout = OFF_TIMEOUT;
        }
        self.machine = None;
        let disk = self.disk().unwrap_or_default();
        let layers = self.request.store.layers_folder();
        let image = DiskImage::with_layers(&disk, &layers);
        let doubts = self.hypervisor.close_disk(image, self.request.cancel)?;
        for doubt in doubts {
            self.request.sink.warn(doubt.clone());
            if !self.notes.warnings.contains(&doubt) {
                self.notes.warnings.push(doubt);
            }
        }
        Ok(())
    }

    /// Seals the powered-off disk as a layer. Returns `None` if layers are disabled; the disk then
    /// stays in place.
    pub fn seal(&mut self, links: &[ChainLink]) -> Result<Option<StoredLayer>> {
        let (draft, parent) = match self.ground.take() {
            Some(DiskLocation::Draft(draft, parent)) => (draft, parent),
            other => {
                self.ground = other;
                return Ok(None);
            }
        };
        let variables = self.run_dir.join(vm::VARIABLES);
        if variables.exists() {
            io::copy(&variables, &draft.variables_path())?;
        }
        self.notes.depth += 1;
        let about = LayerInfo {
            parent: parent.as_ref(),
            recipe: &self.request.recipe.name.value,
            links,
            notes: json!(self.notes),
            made: jiff::Timestamp::now().as_second(),
        };
        let layer = self.request.store.seal(draft, about, self.request.cancel)?;
        Ok(Some(layer))
    }

    /// Returns the VM's disk, as long as it was not sealed as a layer.
    pub fn disk(&self) -> Option<PathBuf> {
        let ground = self.ground.as_ref();
        ground.map(|ground| ground.disk(self.disk_form()))
    }

    /// Returns the key of the layer below the VM's disk.
    pub fn below(&self) -> Option<Digest> {
        match &self.ground {
            Some(DiskLocation::Draft(_, parent)) => parent.clone(),
            Some(DiskLocation::Scratch(_)) | None => None,
        }
    }

    /// Stops the VM immediately.
    pub fn stop(&mut self) {
        self.guest = None;
        self.machine = None;
    }

    /// Keeps the disk for the user in the working directory, still as an overlay over its layers.
    pub fn keep(mut self) -> Option<Result<PathBuf>> {
        self.stop();
        match self.ground.take()? {
            DiskLocation::Scratch(disk) => Some(Ok(disk)),
            DiskLocation::Draft(draft, parent) => {
                let form = self.disk_form();
                let kept = self.work.join(form.file_name());
                let layers = self.request.store.layers_folder();
                let parent = parent.map(|key| layers.join(key.hex()).join(form.file_name()));
                let moved =
                    io::move_file(&draft.disk_path(form), &kept).and_then(|()| match parent {
                        // Not cancellable: the build itself may have been interrupted.
                        Some(parent) => {
                            self.hypervisor
                                .move_parent(&kept, &parent, &Cancel::default())
                        }
                        None => Ok(()),
                    });
                Some(moved.map(|()| kept))
            }
        }
    }

    fn new_ground(&self, parent: Option<Digest>) -> Result<DiskLocation> {
        match self.request.layers {
            super::LayerPolicy::None => {
                let name = self.disk_form().file_name();
                Ok(DiskLocation::Scratch(self.work.join(name)))
            }
            _ => Ok(DiskLocation::Draft(
                self.request.store.create_draft()?,
                parent,
            )),
        }
    }

    /// Starts the VM. `room`: bytes to keep free for the disk, besides the machine's own minimum.
    fn start(&mut self, start: StartMode, room: u64) -> Result<()> {
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
            network: if machine.network {
                NetworkAccess::Open
            } else {
                NetworkAccess::None
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
            "starting a VM"
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

impl DiskLocation {
    fn disk(&self, form: MachineDiskFormat) -> PathBuf {
        match self {
            Self::Draft(draft, _) => draft.disk_path(form),
            Self::Scratch(disk) => disk.clone(),
        }
    }
}

fn require_running(
    machine: &mut Option<Box<dyn VirtualMachine>>,
) -> Result<&mut dyn VirtualMachine> {
    match machine {
        Some(machine) => Ok(machine.as_mut()),
        None => Err(Error::new(Kind::Failed, "no VM is running")),
    }
}
