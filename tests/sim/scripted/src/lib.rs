//! A machine that plays a script: restarts, hangs, crashes, a lost agent, replies to commands.
//!
//! Holds to the same traits, texts and kinds of error as the real one, and watches the cancel signal in every wait. Never claims to have installed
//! anything: its version says what it is. Everything asked of it goes into a transcript.

mod guest;
pub mod script;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use self::guest::FakeGuest;
use self::script::{InstallOutcome, OffOutcome, RebootOutcome, Script};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Event, Phase, Sink};
use winimg_machine::guest::Guest;
use winimg_machine::vm::{
    Accel, Hypervisor, HypervisorKind, HypervisorProbe, MachinePlan, NetworkAccess, ScreenCamera,
    SettleOutcome, StartMode, VirtualMachine,
};
use winimg_recipe::Firmware;

/// `--hypervisor fake:FILE`
pub fn open(file: &Path) -> Result<Box<dyn Hypervisor>> {
    Ok(Box::new(Fake {
        script: Script::read(file)?,
        left: Mutex::default(),
    }))
}

struct Fake {
    script: Script,
    /// What the last machine left on its disk, for one that boots from it.
    left: Mutex<Option<Arc<Shared>>>,
}

impl Fake {
    /// The files of the disk, the used entries and the restarts to come: those of the machine before, or as the script
    /// begins.
    fn found(&self, start: &StartMode) -> (BTreeMap<String, Vec<u8>>, Vec<u32>, u32) {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if let (StartMode::Boot, Some(left)) = (start, left.as_ref()) {
            let stage = left.lock();
            return (stage.files.clone(), stage.used.clone(), stage.again);
        }
        let files = self.script.files.iter();
        let files = files.map(|(p, t)| (key(p), t.clone().into_bytes()));
        let used = vec![0; self.script.run.len()];
        (files.collect(), used, self.script.reboot.again)
    }
}

impl Hypervisor for Fake {
    /// The disks are QEMU's.
    fn platform(&self) -> HypervisorKind {
        HypervisorKind::Qemu
    }

    fn probe(
        &self,
        _accel: Accel,
        _firmware: Firmware,
        _cancel: &Cancel,
    ) -> Result<HypervisorProbe> {
        let probe = &self.script.probe;
        Ok(HypervisorProbe {
            version: probe.version.clone(),
            accel: probe.accel.clone(),
            remarks: probe.remarks.clone(),
            slowness: probe.slowness,
        })
    }

    fn start(
        &self,
        plan: MachinePlan,
        sink: Arc<dyn Sink>,
        cancel: Cancel,
    ) -> Result<Box<dyn VirtualMachine>> {
        let transcript = match &self.script.transcript {
            Some(path) => path.clone(),
            None => plan.run_dir.join("transcript"),
        };
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&transcript);
        let (files, used, again) = self.found(&plan.start);
        let stage = Stage {
            file: file.map_err(|e| Error::io("open", &transcript, e))?,
            power: Power::On,
            files,
            used,
            again,
        };
        let shared = Arc::new(Shared {
            script: self.script.clone(),
            cancel,
            stage: Mutex::new(stage),
        });
        shared.note(&format!(
            "start {} firmware={:?} disk={:?} cpus={} memory={} network={} secure_boot={}",
            plan.name,
            plan.firmware,
            plan.controller,
            plan.cpus,
            plan.memory,
            plan.network != NetworkAccess::None,
            plan.secure_boot
        ));
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&shared));
        Ok(Box::new(FakeMachine { shared, plan, sink }))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Power {
    On,
    /// The guest is restarting and has not been waited for.
    Restarting,
    Off,
    /// The machine is dead.
    Dead,
}

/// What machine and guest share.
struct Shared {
    script: Script,
    cancel: Cancel,
    stage: Mutex<Stage>,
}

struct Stage {
    file: File,
    power: Power,
    files: BTreeMap<String, Vec<u8>>,
    /// How often each `[[run]]` has matched.
    used: Vec<u32>,
    /// How often Windows still restarts by itself.
    again: u32,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, line: &str) {
        // A transcript that can't be written shows in the test that reads it.
        let _ = writeln!(
            self.lock().file,
            "{}",
            line.replace('\r', "\\r").replace('\n', "\\n")
        );
    }

    fn check(&self) -> Result<()> {
        self.cancel.check()?;
        match self.lock().power {
            Power::Dead => Err(crashed()),
            Power::Off => Err(Error::new(Kind::Machine, "the guest powered off")),
            Power::On | Power::Restarting => Ok(()),
        }
    }

    fn wait(&self, milliseconds: u64) -> Result<()> {
        self.cancel.sleep(Duration::from_millis(milliseconds))
    }

    /// The restart as the script has it. `within` is the caller's limit.
    fn come_back(&self, within: Duration) -> Result<()> {
        let reboot = self.script.reboot;
        match reboot.outcome {
            RebootOutcome::ComesBack => {
                let delay = Duration::from_millis(reboot.delay_ms);
                self.cancel.sleep(delay.min(within))?;
                if delay > within {
                    return Err(not_back(within));
                }
                self.lock().power = Power::On;
                Ok(())
            }
            RebootOutcome::StaysAway => {
                self.cancel.sleep(within)?;
                Err(not_back(within))
            }
            RebootOutcome::PowersOff => {
                self.lock().power = Power::Off;
                Err(Error::new(
                    Kind::Machine,
                    "the guest powered off instead of restarting",
                ))
            }
        }
    }
}

/// Windows paths are the same whatever their case.
fn key(path: &str) -> String {
    path.to_lowercase()
}

fn crashed() -> Error {
    Error::new(Kind::Machine, "QEMU died: signal 6 (SIGABRT)")
        .lines(["the fake machine's script says so"])
}

fn not_back(within: Duration) -> Error {
    Error::new(
        Kind::Machine,
        format!("the guest did not come back within {} s", within.as_secs()),
    )
}

struct FakeMachine {
    shared: Arc<Shared>,
    plan: MachinePlan,
    sink: Arc<dyn Sink>,
}

impl FakeMachine {
    fn report(&self, text: String) {
        self.sink.emit(&Event::Progress {
            phase: Phase::Install,
            text,
        });
    }

    fn fail(&self, fact: &str) -> Error {
        let restarts = self.shared.script.install.restarts;
        Error::new(Kind::Setup, fact).found(format!(
            "the fake machine's script, after {restarts} restarts"
        ))
    }
}

impl VirtualMachine for FakeMachine {
    fn wait_for_guest(&mut self) -> Result<Box<dyn Guest>> {
        if matches!(self.plan.start, StartMode::Boot) {
            self.shared.note("boot");
            return Ok(Box::new(FakeGuest {
                shared: Arc::clone(&self.shared),
            }));
        }
        self.shared.note("guest");
        let install = &self.shared.script.install;
        for text in &install.progress {
            self.shared.wait(install.delay_ms)?;
            self.report(text.clone());
        }
        for count in 1..=install.restarts {
            self.shared.wait(install.delay_ms)?;
            self.sink.emit(&Event::Restarted { count });
            self.report(format!("Windows Setup (restart {count})"));
        }
        Err(match install.outcome {
            InstallOutcome::Ready => {
                return Ok(Box::new(FakeGuest {
                    shared: Arc::clone(&self.shared),
                }));
            }
            InstallOutcome::StandsStill => self.fail("Windows Setup is waiting for input"),
            InstallOutcome::NothingBoots => self.fail("the firmware finds nothing to boot"),
            InstallOutcome::RestartLoop => self.fail("Windows Setup keeps restarting"),
            InstallOutcome::PowersOff => {
                self.shared.lock().power = Power::Off;
                self.fail("the machine powered off while Windows was being installed")
            }
            InstallOutcome::Crashes => {
                self.shared.lock().power = Power::Dead;
                crashed()
            }
            InstallOutcome::Hangs => {
                self.shared.cancel.sleep(self.plan.timeout)?;
                self.fail(&format!(
                    "the guest agent did not answer within {} s",
                    self.plan.timeout.as_secs()
                ))
            }
        })
    }

    /// At rest at once.
    fn wait_settled(&mut self, _quiet: Duration, _timeout: Duration) -> SettleOutcome {
        self.shared.note("settle");
        SettleOutcome {
            restarts: 0,
            after: self.shared.check().map(|()| Duration::ZERO),
        }
    }

    fn press_power_button(&mut self) -> Result<()> {
        self.shared.note("press_power_button");
        self.shared.check()?;
        self.shared.lock().power = Power::Off;
        Ok(())
    }

    fn wait_off(&mut self, timeout: Duration) -> Result<()> {
        self.shared.note("wait_off");
        let off = self.shared.script.off;
        let deadline = Instant::now() + timeout;
        while self.shared.lock().power == Power::On || off.outcome == OffOutcome::StaysOn {
            self.shared.wait(10)?;
            if Instant::now() >= deadline {
                let kind = match self.plan.start {
                    StartMode::Clone { .. } => Kind::Trial,
                    StartMode::Install { .. } | StartMode::Boot => Kind::Machine,
                };
                let fact = format!("the guest did not power off within {} s", timeout.as_secs());
                return Err(Error::new(kind, fact));
            }
        }
        self.shared.wait(off.delay_ms)?;
        if off.outcome == OffOutcome::Crashes || self.shared.lock().power == Power::Dead {
            self.shared.lock().power = Power::Dead;
            return Err(crashed());
        }
        if let Some(disk) = &self.shared.script.disk {
            std::fs::copy(disk, &self.plan.disk).map_err(|e| Error::io("copy", disk, e))?;
        }
        Ok(())
    }

    fn stop(&mut self) {
        let mut stage = self.shared.lock();
        if matches!(stage.power, Power::On | Power::Restarting) {
            stage.power = Power::Dead;
            drop(stage);
            self.shared.note("stop");
        }
    }

    /// A picture of one black pixel.
    fn take_screenshot(&mut self, file: &Path) -> Result<()> {
        self.shared.note("screenshot");
        std::fs::write(file, BLACK_PIXEL).map_err(|e| Error::io("write", file, e))
    }

    /// The same pixel in either format.
    fn camera(&self) -> ScreenCamera {
        let shared = Arc::clone(&self.shared);
        Box::new(move |file| {
            if matches!(shared.lock().power, Power::Off | Power::Dead) {
                return Err(crashed());
            }
            let is_ppm = file.extension().is_some_and(|e| e == "ppm");
            let picture: &[u8] = if is_ppm { BLACK_PPM } else { BLACK_PIXEL };
            std::fs::write(file, picture).map_err(|e| Error::io("write", file, e))
        })
    }
}

impl Drop for FakeMachine {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A PPM of one black pixel (Netpbm: ppm format).
const BLACK_PPM: &[u8] = b"P6\n1 1\n255\n\0\0\0";

/// A PNG of one black pixel (W3C: PNG specification, grayscale of 1 bit).
const BLACK_PIXEL: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0,
    1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0x37, 0x6e, 0xf9, 0x24, 0, 0, 0, 10, b'I', b'D', b'A', b'T',
    0x78, 0x01, 0x63, 0x60, 0, 0, 0, 2, 0, 1, 0x73, 0x75, 0x01, 0x18, 0, 0, 0, 0, b'I', b'E', b'N',
    b'D', 0xae, 0x42, 0x60, 0x82,
];
