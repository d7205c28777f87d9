//! Selects the accelerator and the firmware, and starts machines with them.

use std::path::Path;
use std::sync::{Arc, Mutex};

use super::accel_cache::{self, AccelCache, AccelQuery};
use super::accel_choice::{self, AccelChoice, HostAccel};
use super::firmware::{self, FirmwarePair, FirmwarePaths};
use super::program::{self, QemuProgram};
use super::rundir::RunDir;
use super::running::{FailureHook, QemuContext, QemuMachine};
use super::{args, canary, tpm};
use crate::vm::supervisor::{PausableClock, SupervisedMachine, SupervisorSettings, disk_space};
use crate::vm::{
    Accel, HostRequirements, Hypervisor, HypervisorKind, HypervisorProbe, MachinePlan,
    VirtualMachine, lock,
};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Sink};
use winimg_base::io::folder_of;
use winimg_recipe::Firmware;

/// Selected accelerator of a combination. `question` is `None` on a host without a boot id.
#[derive(Clone)]
struct ChosenAccel {
    asked: (Accel, Firmware),
    choice: AccelChoice,
    question: Option<AccelQuery>,
}

/// QEMU found in `PATH` or set with `WINIMG_QEMU`.
pub struct QemuHypervisor {
    program: QemuProgram,
    places: FirmwarePaths,
    /// Results of the canary, which runs once per combination.
    chosen: Mutex<Vec<ChosenAccel>>,
    verdicts: AccelCache,
}

impl QemuHypervisor {
    pub fn find() -> Result<Self> {
        Ok(Self::new(program::find()?, FirmwarePaths::from_system()))
    }

    pub fn new(program: QemuProgram, places: FirmwarePaths) -> Self {
        Self {
            program,
            places,
            chosen: Mutex::default(),
            verdicts: AccelCache::default(),
        }
    }

    /// Caches the canary's results in this folder for later builds.
    #[must_use]
    pub fn with_cache(mut self, folder: &Path) -> Self {
        self.verdicts = AccelCache::kept_in(folder);
        self
    }

    fn choose(
        &self,
        accel: Accel,
        firmware: Firmware,
        uefi: Option<&FirmwarePair>,
    ) -> Result<ChosenAccel> {
        let mut known = lock(&self.chosen);
        if let Some(chosen) = known.iter().find(|c| c.asked == (accel, firmware)) {
            return Ok(chosen.clone());
        }
        let host = HostAccel {
            accelerators: &self.program.accelerators,
            kvm_obstacle: accel_choice::kvm_obstacle(),
            is_amd: accel_choice::is_amd(),
        };
        let now = jiff::Timestamp::now().as_second();
        let question = self.build_query(accel, firmware, &host);
        let kept = question.as_ref().and_then(|q| self.verdicts.find(q, now));
        tracing::debug!(?accel, known = kept.is_some(), "the accelerator is chosen");
        let choice = match kept {
            Some(choice) => choice,
            None => {
                let send = &mut |how: &_| canary::send(&self.program, how, uefi);
                let choice = accel_choice::choose(accel, &host, send)?;
                if let Some(question) = &question {
                    self.verdicts.keep(question, &choice, now);
                }
                choice
            }
        };
        tracing::debug!(?choice, "the accelerator was chosen");
        let chosen = ChosenAccel {
            asked: (accel, firmware),
            choice,
            question,
        };
        known.push(chosen.clone());
        Ok(chosen)
    }

    fn build_query(
        &self,
        accel: Accel,
        firmware: Firmware,
        host: &HostAccel<'_>,
    ) -> Option<AccelQuery> {
        Some(AccelQuery {
            host: accel_cache::read_boot_id()?,
            accel,
            firmware,
            program: self.program.path.clone(),
            version: self.program.version.clone(),
            kvm_obstacle: host.kvm_obstacle.clone(),
            is_amd: host.is_amd,
        })
    }

    /// Returns the hook for errors of a machine that fails to start.
    fn build_failure_hook(&self, question: Option<AccelQuery>) -> FailureHook {
        let verdicts = self.verdicts.clone();
        Box::new(move |error| {
            if matches!(error.kind(), Kind::Machine | Kind::Trial)
                && let Some(question) = &question
            {
                verdicts.forget(question);
            }
        })
    }

    fn find_firmware(&self, firmware: Firmware, secure_boot: bool) -> Result<Option<FirmwarePair>> {
        match (firmware, secure_boot) {
            (Firmware::Uefi, secure_boot) => firmware::find(&self.places, secure_boot).map(Some),
            (Firmware::Bios, false) => Ok(None),
            (Firmware::Bios, true) => {
                Err(Error::new(Kind::Recipe, "Secure Boot needs UEFI firmware")
                    .cure("set firmware = \"uefi\", or secure_boot = false"))
            }
        }
    }
}

impl Hypervisor for QemuHypervisor {
    fn platform(&self) -> HypervisorKind {
        HypervisorKind::Qemu
    }

    fn probe(&self, accel: Accel, firmware: Firmware, cancel: &Cancel) -> Result<HypervisorProbe> {
        cancel.check()?;
        let uefi = self.find_firmware(firmware, false)?;
        let choice = self.choose(accel, firmware, uefi.as_ref())?.choice;
        Ok(HypervisorProbe {
            version: format!("QEMU {}", self.program.version),
            accel: choice.how.accel,
            remarks: choice.remarks,
            slowness: choice.slowness,
        })
    }

    fn check_host(&self, needs: &HostRequirements, _cancel: &Cancel) -> Result<()> {
        self.find_firmware(needs.firmware, needs.secure_boot)?;
        if needs.tpm {
            tpm::find().map(drop)
        } else {
            Ok(())
        }
    }

    /// Creates the machine paused at its first instruction; `VirtualMachine::wait_for_guest` starts
    /// it.
    fn start(
        &self,
        plan: MachinePlan,
        sink: Arc<dyn Sink>,
        cancel: Cancel,
    ) -> Result<Box<dyn VirtualMachine>> {
        let plan = plan.resolve_paths(self.platform())?;
        let dir = RunDir::new(&plan.run_dir)?;
        let uefi = self.find_firmware(plan.firmware, plan.secure_boot)?;
        let ChosenAccel {
            choice, question, ..
        } = self.choose(plan.accel, plan.firmware, uefi.as_ref())?;
        if let Some(pair) = &uefi {
            own_variables(pair, &dir.variables_file())?;
        }
        tracing::debug!(?uefi, "the firmware was chosen");
        args::check_forwards(&plan.network)?;
        let swtpm = if plan.tpm {
            Some(tpm::find()?.path)
        } else {
            None
        };
        let arguments = args::build_arguments(&plan, &choice.how, uefi.as_ref(), &dir);
        disk_space::check(folder_of(&plan.disk), plan.room)?;
        let patience = disk_space::read_wait_limit()?;
        let clock = Arc::<PausableClock>::default();
        let running = QemuMachine::start(
            &self.program.path,
            &arguments,
            dir,
            &plan,
            QemuContext {
                cancel: cancel.clone(),
                clock: Arc::clone(&clock),
                slowness: choice.slowness,
                doubt: self.build_failure_hook(question),
                swtpm,
            },
        )?;
        let terms = SupervisorSettings {
            platform: self.platform(),
            slowness: choice.slowness,
            clock,
            room: Some(patience),
        };
        let machine = SupervisedMachine::new(Arc::new(running), plan, sink, cancel, terms)?;
        Ok(Box::new(machine))
    }
}

/// Copies the empty variables for this machine. An existing copy belongs to a layer and is kept.
fn own_variables(pair: &FirmwarePair, vars: &Path) -> Result<()> {
    if vars.exists() {
        return Ok(());
    }
    let bytes = std::fs::read(&pair.vars).map_err(|e| Error::io("read", &pair.vars, e))?;
    // Read and written rather than copied: the template's permissions may be read-only.
    std::fs::write(vars, bytes).map_err(|e| Error::io("write", vars, e))
}
