//! QEMU on this host.
//!
//! `program` and `firmware` find what is installed, `canary` and `choice` decide the accelerator, `args` writes the command line, `process`,
//! `qmp` and `commands` hold the child, `tpm` the one beside it, `running` drives them for the supervisor. Downloads and configures nothing.

pub mod args;
pub mod canary;
pub mod choice;
mod commands;
pub mod events;
pub mod firmware;
pub mod process;
pub mod program;
pub mod qmp;
pub mod rundir;
mod running;
pub mod stage;
pub mod tpm;
mod verdicts;

use std::path::Path;
use std::sync::{Arc, Mutex};

use self::choice::{Choice, Host};
use self::firmware::{Pair, Places};
use self::program::Program;
use self::rundir::RunDir;
use self::running::{Conditions, Running};
use self::verdicts::{Question, Verdicts};
use super::driver::Hold;
use super::supervisor::{Clock, Supervised, Terms, room};
use super::{Accel, Hypervisor, Machine, MachinePlan, Needs, Platform, Probe, lock};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Sink};
use winimg_base::io::folder_of;
use winimg_recipe::recipe::Firmware;

/// Lets the accelerator's verdict be forgotten where an error speaks against it.
type Doubt = Box<dyn Fn(&Error) + Send + Sync>;

/// What was asked for and what was chosen. `question`: none on a host that does not say when it was started.
#[derive(Clone)]
struct Chosen {
    asked: (Accel, Firmware),
    choice: Choice,
    question: Option<Question>,
}

/// QEMU as found in `PATH` or named by `WINIMG_QEMU`.
pub struct Qemu {
    program: Program,
    places: Places,
    /// The canary is booted once for each combination.
    chosen: Mutex<Vec<Chosen>>,
    verdicts: Verdicts,
}

impl Qemu {
    pub fn find() -> Result<Self> {
        Ok(Self::new(program::find()?, Places::system()))
    }

    pub fn new(program: Program, places: Places) -> Self {
        Self {
            program,
            places,
            chosen: Mutex::default(),
            verdicts: Verdicts::default(),
        }
    }

    /// Keeps what the canary said in this folder, for the next builds.
    #[must_use]
    pub fn remembering(mut self, folder: &Path) -> Self {
        self.verdicts = Verdicts::kept_in(folder);
        self
    }

    fn choose(&self, accel: Accel, firmware: Firmware, uefi: Option<&Pair>) -> Result<Chosen> {
        let mut known = lock(&self.chosen);
        if let Some(chosen) = known.iter().find(|c| c.asked == (accel, firmware)) {
            return Ok(chosen.clone());
        }
        let host = Host {
            accelerators: &self.program.accelerators,
            kvm_obstacle: choice::kvm_obstacle(),
            is_amd: choice::is_amd(),
        };
        let now = jiff::Timestamp::now().as_second();
        let question = self.question(accel, firmware, &host);
        let kept = question.as_ref().and_then(|q| self.verdicts.find(q, now));
        tracing::debug!(?accel, known = kept.is_some(), "the accelerator is chosen");
        let choice = match kept {
            Some(choice) => choice,
            None => {
                let send = &mut |how: &_| canary::send(&self.program, how, uefi);
                let choice = choice::choose(accel, &host, send)?;
                if let Some(question) = &question {
                    self.verdicts.keep(question, &choice, now);
                }
                choice
            }
        };
        tracing::debug!(?choice, "the accelerator was chosen");
        let chosen = Chosen {
            asked: (accel, firmware),
            choice,
            question,
        };
        known.push(chosen.clone());
        Ok(chosen)
    }

    fn question(&self, accel: Accel, firmware: Firmware, host: &Host<'_>) -> Option<Question> {
        Some(Question {
            host: verdicts::host()?,
            accel,
            firmware,
            program: self.program.path.clone(),
            version: self.program.version.clone(),
            kvm_obstacle: host.kvm_obstacle.clone(),
            is_amd: host.is_amd,
        })
    }

    /// For errors of a machine that does not come up.
    fn doubt(&self, question: Option<Question>) -> Doubt {
        let verdicts = self.verdicts.clone();
        Box::new(move |error| {
            if matches!(error.kind(), Kind::Machine | Kind::Trial)
                && let Some(question) = &question
            {
                verdicts.forget(question);
            }
        })
    }

    fn firmware(&self, firmware: Firmware, secure_boot: bool) -> Result<Option<Pair>> {
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

impl Hypervisor for Qemu {
    fn platform(&self) -> Platform {
        Platform::Qemu
    }

    fn probe(&self, accel: Accel, firmware: Firmware, cancel: &Cancel) -> Result<Probe> {
        cancel.check()?;
        let uefi = self.firmware(firmware, false)?;
        let choice = self.choose(accel, firmware, uefi.as_ref())?.choice;
        Ok(Probe {
            version: format!("QEMU {}", self.program.version),
            accel: choice.how.accel,
            remarks: choice.remarks,
            slowness: choice.slowness,
        })
    }

    fn check_host(&self, needs: &Needs, _cancel: &Cancel) -> Result<()> {
        self.firmware(needs.firmware, needs.secure_boot)?;
        match needs.tpm {
            true => tpm::find().map(drop),
            false => Ok(()),
        }
    }

    /// The machine is made and stands before its first instruction; `Machine::guest` lets it go.
    fn start(
        &self,
        plan: MachinePlan,
        sink: Arc<dyn Sink>,
        cancel: Cancel,
    ) -> Result<Box<dyn Machine>> {
        let plan = plan.absolute(self.platform())?;
        let dir = RunDir::new(&plan.run_dir)?;
        let uefi = self.firmware(plan.firmware, plan.secure_boot)?;
        let Chosen {
            choice, question, ..
        } = self.choose(plan.accel, plan.firmware, uefi.as_ref())?;
        if let Some(pair) = &uefi {
            own_variables(pair, &dir.vars())?;
        }
        tracing::debug!(?uefi, "the firmware was chosen");
        args::check_forwards(&plan.network)?;
        let swtpm = match plan.tpm {
            true => Some(tpm::find()?.path),
            false => None,
        };
        let arguments = args::arguments(&plan, &choice.how, uefi.as_ref(), &dir);
        room::check(folder_of(&plan.disk), plan.room)?;
        let patience = room::patience()?;
        let clock = Arc::<Clock>::default();
        let running = Running::start(
            &self.program.path,
            &arguments,
            dir,
            &plan,
            Conditions {
                cancel: cancel.clone(),
                clock: Arc::clone(&clock),
                slowness: choice.slowness,
                doubt: self.doubt(question),
                swtpm,
            },
        )?;
        let running = Arc::new(running);
        let terms = Terms {
            platform: self.platform(),
            slowness: choice.slowness,
            clock,
            room: Some((Arc::clone(&running) as Arc<dyn Hold>, patience)),
        };
        let machine = Supervised::new(running, plan, sink, cancel, terms)?;
        Ok(Box::new(machine))
    }
}

/// A copy of the empty variables for this machine alone; one that is already there is a layer's and stays.
fn own_variables(pair: &Pair, vars: &Path) -> Result<()> {
    if vars.exists() {
        return Ok(());
    }
    let bytes = std::fs::read(&pair.vars).map_err(|e| Error::io("read", &pair.vars, e))?;
    // Read and written rather than copied: the template may be read-only, and its rights must not come along.
    std::fs::write(vars, bytes).map_err(|e| Error::io("write", vars, e))
}
