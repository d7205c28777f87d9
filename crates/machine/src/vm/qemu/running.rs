//! A running QEMU, as the supervisor drives it.
//!
//! Translates QMP into the few questions and orders that the rest needs. Decides nothing.

mod channel;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use qapi::Empty;
use qapi::qmp::{
    QKeyCode, QmpCommand, cont, query_blockstats, query_status, quit, stop, system_powerdown,
    system_reset,
};

use self::channel::AgentChannel;
use super::args::{DISK_DRIVE, INSTALL_DRIVE};
use super::commands;
use super::process::{Process, describe};
use super::qmp::{PATIENCE, Qmp};
use super::rundir::RunDir;
use super::stage::Tail;
use super::tpm::Tpm;
use super::{Doubt, events};
use crate::vm::driver::{
    Boot, Channel, Driver, Fault, Glance, Halt, Hold, Line, Link, Load, Oversight, State,
};
use crate::vm::screen::pictures;
use crate::vm::seen::Seen;
use crate::vm::supervisor::Clock;
use crate::vm::{MachinePlan, Platform, Start, lock};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_recipe::recipe::Firmware;

/// How long QEMU may take to open its monitor.
const START: Duration = Duration::from_secs(30);

pub struct Running {
    pub dir: RunDir,
    pub slowness: u32,
    qmp: Qmp,
    process: Process,
    /// Behind QEMU, so that it is dropped later.
    tpm: Option<Tpm>,
    /// How the TPM ended, once that was seen before QEMU's own end.
    tpm_lost: OnceLock<ExitStatus>,
    /// This machine's part of the firmware's log.
    firmware_log: Mutex<Tail>,
    /// Held while a picture lies in its file.
    screen: Mutex<()>,
    doubt: Doubt,
}

/// What a QEMU is started under, besides the plan.
pub struct Conditions {
    pub cancel: Cancel,
    /// Events get its times.
    pub clock: Arc<Clock>,
    pub slowness: u32,
    pub doubt: Doubt,
    /// The program, where the plan has a TPM.
    pub swtpm: Option<PathBuf>,
}

impl Running {
    /// The machine stands before its first instruction.
    pub fn start(
        program: &Path,
        arguments: &[String],
        dir: RunDir,
        plan: &MachinePlan,
        conditions: Conditions,
    ) -> Result<Self> {
        let heading = match plan.start {
            Start::Install { .. } => "installs Windows",
            Start::Boot => "boots from its disk",
            Start::Clone { .. } => "starts as a clone",
        };
        let heading = format!("=== {}: a machine {heading} ===", pictures::now());

        for socket in [dir.qmp(), dir.agent()] {
            // What a dead process left; QEMU makes its own.
            let _ = std::fs::remove_file(socket);
        }
        let serial = begin_log(&dir.serial(), &heading)?;
        let firmware_log = match plan.firmware {
            Firmware::Uefi => Tail::after(dir.serial(), serial),
            Firmware::Bios => {
                let start = begin_log(&dir.bios_log(), &heading)?;
                Tail::after(dir.bios_log(), start)
            }
        };
        begin_log(&dir.stderr(), &heading)?;
        let cancel = &conditions.cancel;
        let tpm = conditions.swtpm.as_ref().map(|swtpm| {
            begin_log(&dir.tpm_log(), &heading)?;
            // A clone is one machine, however often it is started.
            let keeps_state = matches!(plan.start, Start::Clone { .. });
            Tpm::start(swtpm, &dir, keeps_state, cancel)
        });
        let tpm = tpm.transpose()?;
        let started = || -> Result<(Process, Qmp)> {
            let process = Process::spawn(program, arguments, &dir.stderr())?;
            let alive = || match process.ended() {
                Some(status) => Err(process.death("QEMU did not start: it", status)),
                None => conditions.cancel.check(),
            };
            let qmp = Qmp::connect(&dir.qmp(), START, &alive, conditions.clock)?;
            Ok((process, qmp))
        };
        let (process, qmp) = started().inspect_err(|error| (conditions.doubt)(error))?;
        Ok(Self {
            qmp,
            process,
            tpm,
            tpm_lost: OnceLock::new(),
            dir,
            slowness: conditions.slowness,
            firmware_log: Mutex::new(firmware_log),
            screen: Mutex::default(),
            doubt: conditions.doubt,
        })
    }

    /// Gives a command whose reply says nothing but that it was taken.
    fn order(&self, command: &impl QmpCommand<Ok = Empty>) -> Result<()> {
        self.qmp.order(command, PATIENCE)
    }

    pub fn seen(&self) -> events::Seen {
        self.qmp.seen()
    }

    fn state(&self) -> State {
        if let Some(status) = self.process.ended() {
            // Its last events may still be on their way.
            self.qmp.wait_closed(Duration::from_secs(1));
            return match self.seen().shutdown {
                Some(shutdown) if shutdown.guest => State::Off,
                Some(shutdown) => {
                    State::Gone(format!("{} ({})", describe(status), shutdown.reason))
                }
                None => State::Gone(describe(status)),
            };
        }
        let seen = self.seen();
        if seen.shutdown.as_ref().is_some_and(|s| s.guest) {
            return State::Off;
        }
        if let Some(status) = self.tpm.as_ref().and_then(Tpm::ended) {
            // A QEMU that ends takes swtpm along, and may be gone a moment later than it.
            return match self.process.wait(Duration::from_secs(1)) {
                Some(_) => self.state(),
                None => State::Gone(describe(*self.tpm_lost.get_or_init(|| status))),
            };
        }
        // The common case costs a lock, no question to QEMU.
        if !seen.stopped {
            return State::Running;
        }
        if seen.no_room {
            return State::Stopped(Halt::NoRoom);
        }
        let status = match self.qmp.query(&query_status {}, PATIENCE) {
            // It went on between the event and the question.
            Ok(status) if status.runs() => return State::Running,
            status => status.map_or_else(|_| "paused".to_string(), |s| s.status),
        };
        let fault = match status.as_str() {
            "io-error" => Fault::Drive,
            "internal-error" => Fault::Internal,
            _ => Fault::Other,
        };
        if let Some(panic) = seen.panic {
            return State::Stopped(Halt::Crash(panic));
        }
        let mut words = status;
        for fault in &seen.faults {
            words.push_str(&format!(" ({fault})"));
        }
        State::Stopped(Halt::Own(fault, words))
    }

    /// Puts an ISO into the answer drive, or empties both. The guest may have locked the tray: it is forced.
    pub fn discs(&self, iso: Option<&Path>) -> Result<()> {
        let Some(iso) = iso else {
            return commands::eject_all().iter().try_for_each(|e| self.order(e));
        };
        let iso = Platform::Qemu.absolute(iso)?;
        self.order(&commands::insert(&iso))
            .map_err(|e| e.at(iso.display()))
    }
}

impl Driver for Running {
    fn power_on(&self) -> Result<()> {
        self.order(&cont {})
    }

    fn glance(&self, _fresh: bool) -> Result<Glance> {
        let state = self.state();
        let seen = self.seen();
        Ok(Glance {
            state,
            restarts: seen.restarts,
            link: Link {
                open: seen.port.open,
                changed: seen.port_changed,
            },
            words: None,
        })
    }

    fn load(&self) -> Result<Load> {
        let question = query_blockstats { query_nodes: None };
        let mut load = Load {
            demand: self.process.demand(),
            ..Load::default()
        };
        for drive in self.qmp.query(&question, PATIENCE)? {
            let stats = drive.stats;
            load.moved += stats.rd_bytes + stats.wr_bytes;
            match drive.device.as_str() {
                INSTALL_DRIVE => load.disc_read = stats.rd_bytes,
                DISK_DRIVE => {
                    load.disk_written = stats.wr_bytes;
                    load.disk_failures = stats.failed_wr_operations;
                }
                _ => {}
            }
        }
        Ok(load)
    }

    fn picture(&self) -> Result<Vec<u8>> {
        let _screen = lock(&self.screen);
        let file = self.dir.screen();
        self.order(&commands::picture(&file))?;
        let bytes = std::fs::read(&file).map_err(|e| Error::io("read", &file, e));
        let _ = std::fs::remove_file(file);
        bytes
    }

    fn firmware(&self) -> Option<&dyn Boot> {
        Some(self)
    }

    fn press_up(&self) -> Result<()> {
        self.order(&commands::press(QKeyCode::up))
    }

    fn press_power_button(&self) -> Result<()> {
        self.order(&system_powerdown {})
    }

    fn channel(self: Arc<Self>, oversight: Arc<dyn Oversight>) -> Result<Box<dyn Channel>> {
        Ok(Box::new(AgentChannel::new(self, &oversight)?))
    }

    fn has_ended(&self, patience: Duration) -> bool {
        self.process.wait(patience).is_some()
    }

    fn settle(&self) -> Result<bool> {
        let Some(status) = self.process.ended() else {
            return Ok(false);
        };
        if let Some(tpm) = &self.tpm {
            tpm.stop();
        }
        match status.success() {
            true => Ok(true),
            false => Err(Error::new(
                Kind::Machine,
                format!(
                    "the guest powered off, but QEMU ended with {}",
                    describe(status)
                ),
            )
            .at(self.dir.stderr().display())
            .lines(self.process.last_words())),
        }
    }

    /// `quit` and a second for it, then SIGKILL.
    fn stop(&self) {
        if self.process.ended().is_none() {
            let _ = self.qmp.order(&quit {}, Duration::from_secs(1));
            self.process.end();
        }
        if let Some(tpm) = &self.tpm {
            tpm.stop();
        }
    }

    fn halted(&self, fault: Fault, words: &str, _look: &dyn Fn() -> Seen) -> Error {
        let error = Error::new(Kind::Machine, format!("the machine stopped: {words}"))
            .at(self.dir.stderr().display())
            .lines(self.process.last_words());
        match fault {
            Fault::Drive => error.cure("look in the host's log (dmesg) for why its disk failed"),
            Fault::Internal => error
                .cure("this host's virtualisation is broken: take --accel tcg, or another host"),
            _ => error,
        }
    }

    fn gone(&self, how: &str) -> Error {
        if let (Some(tpm), Some(status)) = (&self.tpm, self.tpm_lost.get()) {
            return tpm.died(*status);
        }
        Error::new(Kind::Machine, format!("QEMU died: {how}"))
            .at(self.dir.stderr().display())
            .lines(self.process.last_words())
    }

    fn doubt(&self, error: &Error) {
        (self.doubt)(error);
    }
}

impl Boot for Running {
    fn log(&self) -> Result<Vec<Line>> {
        lock(&self.firmware_log).read()
    }

    fn reset(&self) -> Result<()> {
        self.order(&system_reset {})
    }
}

impl Hold for Running {
    fn hold(&self) -> Result<()> {
        self.order(&stop {})
    }

    fn go_on(&self) -> Result<()> {
        self.order(&cont {})
    }

    fn found_no_room(&self) -> bool {
        self.seen().no_room
    }
}

/// Adds a heading to a log that several machines write to, one after the other; the length with it.
fn begin_log(path: &Path, heading: &str) -> Result<u64> {
    let write = || -> std::io::Result<u64> {
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        // A line that a machine did not finish must not swallow the heading.
        let gap = if file.metadata()?.len() > 0 { "\n" } else { "" };
        file.write_all(format!("{gap}{heading}\n").as_bytes())?;
        Ok(file.metadata()?.len())
    };
    write().map_err(|e| Error::io("write", path, e))
}
