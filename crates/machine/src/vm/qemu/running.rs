//! A running QEMU, shared by the machine and the agent: both see it die, pause or being interrupted.
//!
//! Translates QMP into the few questions and orders that the rest needs. Decides nothing.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use qapi::Empty;
use qapi::qmp::{ImageFormat, QKeyCode, QmpCommand, cont, query_blockstats, query_status, quit};

use super::args::{DISK_DRIVE, INSTALL_DRIVE};
use super::clock::Clock;
use super::commands;
use super::events;
use super::process::Process;
use super::qmp::{PATIENCE, Qmp};
use super::room::NoRoom;
use super::rundir::RunDir;
use super::watchdog::Finding;
use crate::vm::bugcheck;
use crate::vm::screen::Screen;
use crate::vm::screen::ocr;
use crate::vm::screen::pictures::{self, Pictures};
use crate::vm::seen::{Purpose, Seen};
use crate::vm::watch::State;
use crate::vm::{MachinePlan, Platform, Start};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Attended, Cancel};
use winimg_recipe::recipe::Firmware;

/// How long QEMU may take to open its monitor.
const START: Duration = Duration::from_secs(30);

pub struct Running {
    pub qmp: Qmp,
    pub process: Process,
    pub dir: RunDir,
    pub cancel: Cancel,
    /// While it is on, nobody is to judge that the machine stands still.
    pub attended: Attended,
    /// Where this machine's part of the firmware's log begins.
    pub log_start: u64,
    pub clock: Arc<Clock>,
    /// On `clock`.
    powered_on: OnceLock<Instant>,
    pictures: Mutex<Pictures>,
    /// Since when the agent has been asked in vain, on `clock`.
    asked: Mutex<Option<Instant>>,
    finding: Mutex<Option<Finding>>,
    no_room: OnceLock<NoRoom>,
    purpose: Mutex<Purpose>,
}

/// Bytes moved so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    pub disc_read: u64,
    pub disk_written: u64,
    /// Writes to the disk that failed on the host.
    pub disk_failures: u64,
    pub total: u64,
}

impl Running {
    pub fn start(
        program: &Path,
        arguments: &[String],
        dir: RunDir,
        cancel: Cancel,
        plan: &MachinePlan,
    ) -> Result<Self> {
        let (purpose, heading) = match plan.start {
            Start::Install { .. } => (Purpose::Install, "installs Windows"),
            Start::Boot => (Purpose::Boot, "boots from its disk"),
        };
        let heading = format!("=== {}: a machine {heading} ===", pictures::now());

        for socket in [dir.qmp(), dir.agent()] {
            // What a dead process left; QEMU makes its own.
            let _ = std::fs::remove_file(socket);
        }
        let pictures = Mutex::new(Pictures::open(dir.screens())?);
        let mut log_start = begin_log(&dir.serial(), &heading)?;
        if plan.firmware == Firmware::Bios {
            log_start = begin_log(&dir.bios_log(), &heading)?;
        }
        begin_log(&dir.stderr(), &heading)?;
        let process = Process::spawn(program, arguments, &dir.stderr())?;
        let alive = || match process.ended() {
            Some(status) => Err(process.death("QEMU did not start: it", status)),
            None => cancel.check(),
        };
        let clock = Arc::<Clock>::default();
        let qmp = Qmp::connect(&dir.qmp(), START, &alive, Arc::clone(&clock))?;
        Ok(Self {
            qmp,
            process,
            dir,
            cancel,
            attended: Attended::default(),
            log_start,
            clock,
            powered_on: OnceLock::new(),
            pictures,
            asked: Mutex::default(),
            finding: Mutex::default(),
            no_room: OnceLock::new(),
            purpose: Mutex::new(purpose),
        })
    }

    /// Lets the machine go, from its first instruction on.
    pub fn power_on(&self) -> Result<()> {
        self.order(&cont {})?;
        let _ = self.powered_on.set(self.clock.now());
        Ok(())
    }

    /// Since power-on, without the time that was waited for room.
    pub fn elapsed(&self) -> Duration {
        let began = self.powered_on.get();
        began.map_or(Duration::ZERO, |began| {
            self.clock.now().saturating_duration_since(*began)
        })
    }

    /// Gives a command whose reply says nothing but that it was taken.
    pub fn order(&self, command: &impl QmpCommand<Ok = Empty>) -> Result<()> {
        self.qmp.order(command, PATIENCE)
    }

    pub fn seen(&self) -> events::Seen {
        self.qmp.seen()
    }

    /// What the machine is doing, without waiting for anything.
    pub fn state(&self) -> State {
        if let Some(status) = self.process.ended() {
            // Its last events may still be on their way.
            self.qmp.wait_closed(Duration::from_secs(1));
            return match self.seen().shutdown {
                Some(shutdown) if shutdown.guest => State::Off,
                Some(shutdown) => State::Gone(format!(
                    "{} ({})",
                    super::process::describe(status),
                    shutdown.reason
                )),
                None => State::Gone(super::process::describe(status)),
            };
        }
        let seen = self.seen();
        if seen.shutdown.as_ref().is_some_and(|s| s.guest) {
            return State::Off;
        }
        if !seen.stopped {
            return State::Running;
        }
        if self.no_room.get().is_none() && (seen.no_room || self.clock.stands()) {
            return State::Held;
        }
        match self.qmp.query(&query_status {}, PATIENCE) {
            // It went on between the event and the question.
            Ok(status) if status.runs() => State::Running,
            status => {
                let mut why = status.map_or_else(|_| "paused".into(), |s| s.status);
                for fault in &seen.faults {
                    why.push_str(&format!(" ({fault})"));
                }
                State::Paused(why)
            }
        }
    }

    /// An error unless the machine runs, is found well and nobody interrupted. For waits of the agent.
    pub fn check(&self) -> Result<()> {
        self.cancel.check()?;
        let finding = lock(&self.finding).as_ref().and_then(Finding::error);
        if let Some(error) = finding {
            return Err(error);
        }
        // The common case costs a lock, no question to QEMU.
        if self.process.ended().is_none() && !self.seen().stopped {
            return Ok(());
        }
        match self.state() {
            State::Running | State::Held => Ok(()),
            State::Off => Err(Error::new(Kind::Machine, "the guest powered off")),
            State::Paused(why) => Err(self.paused(&why)),
            State::Gone(how) => Err(self.crashed(&how)),
        }
    }

    pub fn paused(&self, why: &str) -> Error {
        if let Some(no_room) = self.no_room.get() {
            return no_room.error();
        }
        if let Some(panic) = self.seen().panic {
            let stage = self.purpose().words();
            return bugcheck::error(&panic, &self.last_look(stage));
        }
        let error = Error::new(Kind::Machine, format!("the machine stopped: {why}"))
            .at(self.dir.stderr().display())
            .lines(self.process.last_words());
        match why {
            _ if why.starts_with("io-error") => {
                error.cure("the host's log (dmesg) tells why its disk failed")
            }
            _ if why.starts_with("internal-error") => error
                .cure("this host's virtualisation is broken: take --accel tcg, or another host"),
            _ => error,
        }
    }

    /// The machine's last picture with its text, and when it was taken.
    pub fn last_look(&self, stage: &str) -> Seen {
        let mut seen = Seen {
            purpose: self.purpose(),
            elapsed: self.elapsed(),
            restarts: self.seen().restarts,
            ..Seen::default()
        };
        let mut pictures = self.pictures();
        let file = pictures.stopped();
        if self.dump_screen(&file, ImageFormat::png).is_ok() {
            pictures.taken_stopped(seen.elapsed, stage);
            seen.screenshot = Some(file);
        }
        drop(pictures);
        let ppm = self.ppm().unwrap_or_default();
        seen.blue = Screen::from_ppm(&ppm).is_some_and(|s| s.is_stop_blue());
        seen.text = self.words(&ppm);
        seen
    }

    /// What can be read on the screen now.
    pub fn read_screen(&self) -> Vec<String> {
        self.words(&self.ppm().unwrap_or_default())
    }

    fn ppm(&self) -> Option<Vec<u8>> {
        let file = self.dir.last();
        let dumped = self.dump_screen(&file, ImageFormat::ppm);
        let bytes = dumped.ok().and_then(|()| std::fs::read(&file).ok());
        let _ = std::fs::remove_file(file);
        bytes
    }

    fn words(&self, ppm: &[u8]) -> Vec<String> {
        let stop = || self.cancel.is_cancelled() || self.process.ended().is_some();
        ocr::read(ppm, self.dir.path(), ocr::PATIENCE, &stop)
    }

    pub fn purpose(&self) -> Purpose {
        *lock(&self.purpose)
    }

    /// The agent has answered: from here on it is Windows that runs, whatever it was started for.
    pub fn steps_begin(&self) {
        *lock(&self.purpose) = Purpose::Steps;
    }

    pub fn is_on(&self) -> bool {
        self.powered_on.get().is_some()
    }

    pub fn pictures(&self) -> MutexGuard<'_, Pictures> {
        lock(&self.pictures)
    }

    /// There will be no room: whoever waits for the guest gets the error.
    pub fn give_up(&self, no_room: NoRoom) {
        let _ = self.no_room.set(no_room);
    }

    /// The agent was asked, or answered.
    pub fn talked(&self, asked: bool) {
        let mut since = lock(&self.asked);
        match asked {
            true => {
                since.get_or_insert_with(|| self.clock.now());
            }
            false => *since = None,
        }
    }

    /// How long the agent has been asked in vain since its port opened, or its port has been closed.
    pub fn silence(&self) -> Option<Duration> {
        let seen = self.seen();
        let since = match (seen.port.open, *lock(&self.asked)) {
            (true, asked) => asked?.max(seen.port_changed?),
            (false, _) => seen.port_changed?,
        };
        Some(self.clock.now().saturating_duration_since(since))
    }

    /// What the watchdog found last.
    pub fn find(&self, finding: Option<Finding>) {
        *lock(&self.finding) = finding;
    }

    pub fn has_finding(&self) -> bool {
        lock(&self.finding).is_some()
    }

    pub fn crashed(&self, how: &str) -> Error {
        Error::new(Kind::Machine, format!("QEMU died: {how}"))
            .at(self.dir.stderr().display())
            .lines(self.process.last_words())
    }

    pub fn moved(&self) -> Result<Moved> {
        let question = query_blockstats { query_nodes: None };
        let mut moved = Moved::default();
        for drive in self.qmp.query(&question, PATIENCE)? {
            let stats = drive.stats;
            moved.total += stats.rd_bytes + stats.wr_bytes;
            match drive.device.as_str() {
                INSTALL_DRIVE => moved.disc_read = stats.rd_bytes,
                DISK_DRIVE => {
                    moved.disk_written = stats.wr_bytes;
                    moved.disk_failures = stats.failed_wr_operations;
                }
                _ => {}
            }
        }
        Ok(moved)
    }

    pub fn press(&self, key: QKeyCode) -> Result<()> {
        self.order(&commands::press(key))
    }

    pub fn dump_screen(&self, file: &Path, format: ImageFormat) -> Result<()> {
        self.order(&commands::picture(file, format))
    }

    /// Puts an ISO into the answer drive, or empties both.
    pub fn discs(&self, iso: Option<&Path>) -> Result<()> {
        let Some(iso) = iso else {
            return commands::eject_all().iter().try_for_each(|e| self.order(e));
        };
        let iso = Platform::Qemu.absolute(iso)?;
        self.order(&commands::insert(&iso))
            .map_err(|e| e.at(iso.display()))
    }

    /// `quit` and a second for it, then SIGKILL.
    pub fn stop(&self) {
        if self.process.ended().is_some() {
            return;
        }
        let second = Duration::from_secs(1);
        let _ = self.qmp.order(&quit {}, second);
        if self.process.wait(second).is_none() {
            self.process.kill();
            self.process.wait(Duration::from_secs(10));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
