//! A running QEMU: the driver that the supervisor works with.
//!
//! Translates the driver's operations to QMP. Decides nothing.

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
use super::firmware_log::FirmwareLogTail;
use super::process::{ChildProcess, describe};
use super::qmp::{PATIENCE, QmpClient};
use super::rundir::RunDir;
use super::tpm::SwtpmProcess;
use super::{commands, events};
use crate::vm::observation::MachineObservation;
use crate::vm::screen::pictures;
use crate::vm::supervisor::driver::{
    ChannelLink, FirmwareEvent, GuestChannel, HaltReason, HypervisorFault, MachineDriver,
    MachineLoad, MachineState, MachineStatus,
};
use crate::vm::supervisor::{PausableClock, Supervisor};
use crate::vm::{HypervisorKind, MachinePlan, StartMode, lock};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_recipe::Firmware;

/// Limit for QEMU to open its monitor.
const START: Duration = Duration::from_secs(30);

/// Called with the error of a machine that fails to start; may clear the cached accelerator.
pub type FailureHook = Box<dyn Fn(&Error) + Send + Sync>;

pub struct QemuMachine {
    pub dir: RunDir,
    pub slowness: u32,
    qmp: QmpClient,
    process: ChildProcess,
    /// Declared after `process`, so that it is dropped later.
    tpm: Option<SwtpmProcess>,
    /// Exit status of swtpm, if it ended before QEMU.
    tpm_lost: OnceLock<ExitStatus>,
    /// This machine's part of the firmware's log.
    firmware_log: Mutex<FirmwareLogTail>,
    /// Locked while a picture is in its file.
    screen: Mutex<()>,
    doubt: FailureHook,
}

/// Context for starting QEMU, besides the plan.
pub struct QemuContext {
    pub cancel: Cancel,
    /// Clock of the events.
    pub clock: Arc<PausableClock>,
    pub slowness: u32,
    pub doubt: FailureHook,
    /// Path of swtpm, if the plan has a TPM.
    pub swtpm: Option<PathBuf>,
}

impl QemuMachine {
    /// Starts QEMU with the machine paused at its first instruction.
    pub fn start(
        program: &Path,
        arguments: &[String],
        dir: RunDir,
        plan: &MachinePlan,
        conditions: QemuContext,
    ) -> Result<Self> {
        let heading = match plan.start {
            StartMode::Install { .. } => "installs Windows",
            StartMode::Boot => "boots from its disk",
            StartMode::Clone { .. } => "starts as a clone",
        };
        let heading = format!("=== {}: a machine {heading} ===", pictures::format_now());

        for socket in [dir.qmp_socket(), dir.agent_socket()] {
            // Left by a dead process; QEMU creates its own.
            let _ = std::fs::remove_file(socket);
        }
        let serial = begin_log(&dir.serial_log(), &heading)?;
        let firmware_log = match plan.firmware {
            Firmware::Uefi => FirmwareLogTail::from_offset(dir.serial_log(), serial),
            Firmware::Bios => {
                let start = begin_log(&dir.bios_log(), &heading)?;
                FirmwareLogTail::from_offset(dir.bios_log(), start)
            }
        };
        begin_log(&dir.qemu_log(), &heading)?;
        let cancel = &conditions.cancel;
        let tpm = conditions.swtpm.as_ref().map(|swtpm| {
            begin_log(&dir.tpm_log(), &heading)?;
            // A clone keeps its TPM over all starts.
            let keeps_state = matches!(plan.start, StartMode::Clone { .. });
            SwtpmProcess::start(swtpm, &dir, keeps_state, cancel)
        });
        let tpm = tpm.transpose()?;
        let (process, qmp) = launch(program, arguments, &dir, cancel, conditions.clock)
            .inspect_err(|error| (conditions.doubt)(error))?;
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

    /// Executes a command with an empty reply.
    fn order(&self, command: &impl QmpCommand<Ok = Empty>) -> Result<()> {
        self.qmp.order(command, PATIENCE)
    }

    pub fn events(&self) -> events::QemuEvents {
        self.qmp.events()
    }

    fn read_state(&self) -> MachineState {
        if let Some(status) = self.process.exit_status() {
            // The last events may not have been read yet.
            self.qmp.wait_closed(Duration::from_secs(1));
            return match self.events().shutdown {
                Some(shutdown) if shutdown.guest => MachineState::Off,
                Some(shutdown) => {
                    MachineState::Gone(format!("{} ({})", describe(status), shutdown.reason))
                }
                None => MachineState::Gone(describe(status)),
            };
        }
        let seen = self.events();
        if seen.shutdown.as_ref().is_some_and(|s| s.guest) {
            return MachineState::Off;
        }
        if let Some(status) = self.tpm.as_ref().and_then(SwtpmProcess::exit_status) {
            // swtpm ends together with QEMU, possibly a moment earlier.
            return match self.process.wait(Duration::from_secs(1)) {
                Some(_) => self.read_state(),
                None => MachineState::Gone(describe(*self.tpm_lost.get_or_init(|| status))),
            };
        }
        // The common case needs only a lock, no request to QEMU.
        if !seen.stopped {
            return MachineState::Running;
        }
        if seen.no_room {
            return MachineState::Stopped(HaltReason::DiskFull);
        }
        let status = match self.qmp.query(&query_status {}, PATIENCE) {
            // It resumed between the event and the query.
            Ok(status) if status.is_running() => return MachineState::Running,
            status => status.map_or_else(|_| "paused".to_string(), |s| s.status),
        };
        let fault = match status.as_str() {
            "io-error" => HypervisorFault::Drive,
            "internal-error" => HypervisorFault::Internal,
            _ => HypervisorFault::Other,
        };
        if let Some(panic) = seen.panic {
            return MachineState::Stopped(HaltReason::Crash(panic));
        }
        let mut words = status;
        for fault in &seen.faults {
            words.push_str(&format!(" ({fault})"));
        }
        MachineState::Stopped(HaltReason::Hypervisor(fault, words))
    }

    /// Inserts an ISO into the answer drive, or ejects both discs. Forced, because the guest may
    /// have locked the tray.
    pub fn change_discs(&self, iso: Option<&Path>) -> Result<()> {
        let Some(iso) = iso else {
            return commands::eject_all().iter().try_for_each(|e| self.order(e));
        };
        let iso = HypervisorKind::Qemu.resolve_path(iso)?;
        self.order(&commands::insert(&iso))
            .map_err(|e| e.at(iso.display()))
    }
}

impl MachineDriver for QemuMachine {
    fn power_on(&self) -> Result<()> {
        self.order(&cont {})
    }

    fn read_status(&self, _fresh: bool) -> Result<MachineStatus> {
        let state = self.read_state();
        let seen = self.events();
        Ok(MachineStatus {
            state,
            restarts: seen.restarts,
            link: ChannelLink {
                open: seen.port.open,
                changed: seen.port_changed,
            },
            log_text: None,
        })
    }

    fn load(&self) -> Result<MachineLoad> {
        let question = query_blockstats { query_nodes: None };
        let mut load = MachineLoad {
            demand: self.process.measure_demand(),
            ..MachineLoad::default()
        };
        for drive in self.qmp.query(&question, PATIENCE)? {
            let stats = drive.stats;
            load.transferred += stats.rd_bytes + stats.wr_bytes;
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

    fn take_picture(&self) -> Result<Vec<u8>> {
        let _screen = lock(&self.screen);
        let file = self.dir.screen_file();
        self.order(&commands::take_picture(&file))?;
        let bytes = std::fs::read(&file).map_err(|e| Error::io("read", &file, e));
        let _ = std::fs::remove_file(file);
        bytes
    }

    fn has_firmware_log(&self) -> bool {
        true
    }

    fn read_firmware_log(&self) -> Result<Vec<FirmwareEvent>> {
        lock(&self.firmware_log).read()
    }

    fn reset(&self) -> Result<()> {
        self.order(&system_reset {})
    }

    fn pause(&self) -> Result<()> {
        self.order(&stop {})
    }

    fn go_on(&self) -> Result<()> {
        self.order(&cont {})
    }

    fn found_no_room(&self) -> bool {
        self.events().no_room
    }

    fn press_up(&self) -> Result<()> {
        self.order(&commands::send_key_press(QKeyCode::up))
    }

    fn press_power_button(&self) -> Result<()> {
        self.order(&system_powerdown {})
    }

    fn open_channel(self: Arc<Self>, oversight: Arc<Supervisor>) -> Result<Box<dyn GuestChannel>> {
        Ok(Box::new(AgentChannel::new(self, &oversight)?))
    }

    fn has_ended(&self, patience: Duration) -> bool {
        self.process.wait(patience).is_some()
    }

    fn check_disk_released(&self) -> Result<bool> {
        let Some(status) = self.process.exit_status() else {
            return Ok(false);
        };
        if let Some(tpm) = &self.tpm {
            tpm.stop();
        }
        if status.success() {
            Ok(true)
        } else {
            Err(Error::new(
                Kind::Machine,
                format!(
                    "the guest powered off, but QEMU ended with {}",
                    describe(status)
                ),
            )
            .at(self.dir.qemu_log().display())
            .lines(self.process.last_words()))
        }
    }

    /// Sends `quit`, waits a second, then sends SIGKILL.
    fn stop(&self) {
        if self.process.exit_status().is_none() {
            let _ = self.qmp.order(&quit {}, Duration::from_secs(1));
            self.process.end();
        }
        if let Some(tpm) = &self.tpm {
            tpm.stop();
        }
    }

    fn describe_halt(
        &self,
        fault: HypervisorFault,
        words: &str,
        _look: &dyn Fn() -> MachineObservation,
    ) -> Error {
        let error = Error::new(Kind::Machine, format!("the machine stopped: {words}"))
            .at(self.dir.qemu_log().display())
            .lines(self.process.last_words());
        match fault {
            HypervisorFault::Drive => error.cure("check the host's log (dmesg) for disk errors"),
            HypervisorFault::Internal => {
                error.cure("virtualisation on this host is broken: use --accel tcg or another host")
            }
            _ => error,
        }
    }

    fn describe_exit(&self, how: &str) -> Error {
        if let (Some(tpm), Some(status)) = (&self.tpm, self.tpm_lost.get()) {
            return tpm.describe_death(*status);
        }
        Error::new(Kind::Machine, format!("QEMU died: {how}"))
            .at(self.dir.qemu_log().display())
            .lines(self.process.last_words())
    }

    fn note_failed_start(&self, error: &Error) {
        (self.doubt)(error);
    }
}

/// Starts QEMU and connects to its monitor.
fn launch(
    program: &Path,
    arguments: &[String],
    dir: &RunDir,
    cancel: &Cancel,
    clock: Arc<PausableClock>,
) -> Result<(ChildProcess, QmpClient)> {
    let process = ChildProcess::spawn(program, arguments, &dir.qemu_log())?;
    let qmp = QmpClient::connect(
        &dir.qmp_socket(),
        START,
        &|| match process.exit_status() {
            Some(status) => Err(process.describe_death("QEMU did not start: it", status)),
            None => cancel.check(),
        },
        clock,
    )?;
    Ok((process, qmp))
}

/// Appends a heading to a log that is shared by consecutive machines. Returns the length after it.
fn begin_log(path: &Path, heading: &str) -> Result<u64> {
    append_heading(path, heading).map_err(|e| Error::io("write", path, e))
}

fn append_heading(path: &Path, heading: &str) -> std::io::Result<u64> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    // An unfinished line of the previous machine must not run into the heading.
    let gap = if file.metadata()?.len() > 0 { "\n" } else { "" };
    file.write_all(format!("{gap}{heading}\n").as_bytes())?;
    Ok(file.metadata()?.len())
}
