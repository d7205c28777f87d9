//! Watches a machine of any hypervisor: `start` until the guest's first answer, `step_watch` from
//! then on, `machine` until it is off; `settle` for machines whose guest never answers.
//!
//! All judgements, error messages and deadlines are here. `judge`, `watchdog`, `boot_prompt` and
//! `disk_space` decide purely, from samples and times that they are given; `errors` builds the
//! errors. The hypervisor is only accessed through [`MachineDriver`].

mod boot_prompt;
mod clock;
pub mod disk_space;
pub mod driver;
mod errors;
mod judge;
mod machine;
mod observer;
mod settle;
mod start;
mod step_watch;
mod watchdog;

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use self::clock::PausableClock;
use self::disk_space::DiskFull;
use self::driver::{ChannelLink, HaltReason, MachineDriver, MachineState, MachineStatus};
pub use self::judge::BOOT_RESTARTS;
pub use self::machine::{SupervisedMachine, SupervisorSettings};
use self::step_watch::WatchFinding;
use super::observation::{self, MachineObservation};
use super::purpose::MachinePurpose;
use super::screen::pictures::ScreenPictures;
use super::screen::{self, ScreenGrid, ocr};
use super::{HypervisorKind, MachinePlan, StartMode, lock};
use crate::guest::GuestFailure;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Sink, UserControl};
use winimg_base::io::{folder_of, write_atomically};

/// Interval between two samples of drives, processor and screen.
pub const SAMPLE: Duration = Duration::from_secs(2);

/// Shared state of a machine, used by its start, its watch, its guest channel and its cameras.
pub struct Supervisor {
    driver: Arc<dyn MachineDriver>,
    cancel: Cancel,
    /// While it is on, an inactive machine is not an error.
    attended: UserControl,
    clock: Arc<PausableClock>,
    platform: HypervisorKind,
    plan: MachinePlan,
    slowness: u32,
    sink: Arc<dyn Sink>,
    /// Time of power-on, on `clock`.
    powered_on: OnceLock<Instant>,
    pictures: Mutex<ScreenPictures>,
    purpose: Mutex<MachinePurpose>,
    /// Time of the first unanswered request to the guest, on `clock`.
    asked: Mutex<Option<Instant>>,
    finding: Mutex<Option<WatchFinding>>,
    no_room: OnceLock<DiskFull>,
    over: Mutex<bool>,
    ended: Condvar,
}

impl Supervisor {
    fn new(
        driver: Arc<dyn MachineDriver>,
        plan: MachinePlan,
        sink: Arc<dyn Sink>,
        cancel: Cancel,
        terms: &SupervisorSettings,
    ) -> Result<Self> {
        let purpose = match plan.start {
            StartMode::Install { .. } => MachinePurpose::Install,
            StartMode::Boot => MachinePurpose::Boot,
            StartMode::Clone { .. } => MachinePurpose::Clone,
        };
        Ok(Self {
            driver,
            cancel,
            attended: UserControl::default(),
            clock: Arc::clone(&terms.clock),
            platform: terms.platform,
            slowness: terms.slowness,
            sink,
            powered_on: OnceLock::new(),
            pictures: Mutex::new(ScreenPictures::open(plan.run_dir.join("screens"))?),
            plan,
            purpose: Mutex::new(purpose),
            asked: Mutex::default(),
            finding: Mutex::default(),
            no_room: OnceLock::new(),
            over: Mutex::default(),
            ended: Condvar::new(),
        })
    }

    /// Powers the machine on, once.
    fn power_on(&self) -> Result<()> {
        if self.powered_on.get().is_some() {
            return Ok(());
        }
        self.driver.power_on()?;
        let _ = self.powered_on.set(self.clock.now());
        Ok(())
    }

    /// Reads the driver's status; a machine paused for disk space is reported as held.
    fn read_status(&self, fresh: bool) -> Result<MachineStatus> {
        let mut glance = self.driver.read_status(fresh)?;
        if let MachineState::Stopped(halt) = &glance.state
            && self.no_room.get().is_none()
            && (*halt == HaltReason::DiskFull || self.clock.is_stopped())
        {
            glance.state = MachineState::PausedForSpace;
        }
        Ok(glance)
    }

    fn report_halt(&self, halt: &HaltReason) -> Error {
        if let Some(no_room) = self.no_room.get() {
            return no_room.error();
        }
        let stage = self.purpose().label();
        match halt {
            HaltReason::DiskFull => disk_space::write_failed(self.disk_folder()),
            HaltReason::Crash(panic) => observation::crash_error(panic, &self.last_look(stage)),
            HaltReason::Hypervisor(fault, words) => {
                self.driver
                    .describe_halt(*fault, words, &|| self.last_look(stage))
            }
        }
    }

    /// Takes a last picture of the machine and reads its text.
    fn last_look(&self, stage: &str) -> MachineObservation {
        let mut seen = MachineObservation {
            purpose: self.purpose(),
            elapsed: self.elapsed(),
            restarts: self.driver.read_status(false).map_or(0, |g| g.restarts),
            started: true,
            disk_folder: self.disk_folder().to_path_buf(),
            ..MachineObservation::default()
        };
        let Ok(ppm) = self.driver.take_picture() else {
            return seen;
        };
        let mut pictures = self.lock_pictures();
        let file = pictures.stopped_file();
        if write_picture(&file, &ppm).is_ok() {
            pictures.taken_stopped(seen.elapsed, stage);
            seen.screenshot = Some(file);
        }
        drop(pictures);
        seen.blue = ScreenGrid::from_ppm(&ppm).is_some_and(|s| s.is_stop_blue());
        seen.text = self.read(&ppm);
        seen
    }

    fn read(&self, ppm: &[u8]) -> Vec<String> {
        ocr::read(ppm, &self.plan.run_dir, ocr::PATIENCE, &|| {
            self.cancel.is_cancelled() || self.driver.has_ended(Duration::ZERO)
        })
    }

    /// Writes the screen: a PPM if the extension is `ppm`, otherwise a PNG.
    fn save_screenshot(&self, file: &Path) -> Result<()> {
        let file = self.platform.resolve_path(file)?;
        let ppm = self.driver.take_picture()?;
        if file.extension().is_some_and(|e| e == "ppm") {
            write_atomically(&file, &ppm)
        } else {
            write_picture(&file, &ppm)
        }
    }

    fn purpose(&self) -> MachinePurpose {
        *lock(&self.purpose)
    }

    /// Called when the guest has answered: from now on Windows runs, whatever it was started for.
    fn steps_begin(&self) {
        *lock(&self.purpose) = MachinePurpose::Steps;
    }

    fn disk_folder(&self) -> &Path {
        folder_of(&self.plan.disk)
    }

    fn lock_pictures(&self) -> MutexGuard<'_, ScreenPictures> {
        lock(&self.pictures)
    }

    /// Returns how long the guest has left requests unanswered, or its end of the channel is
    /// closed.
    fn measure_silence(&self, link: ChannelLink) -> Option<Duration> {
        let since = match (link.open, *lock(&self.asked), link.changed) {
            (true, asked, Some(changed)) => asked?.max(changed),
            (true, asked, None) => asked?,
            (false, _, changed) => changed?,
        };
        Some(self.clock.now().saturating_duration_since(since))
    }

    /// Records the latest finding of the watch.
    fn find(&self, finding: Option<WatchFinding>) {
        *lock(&self.finding) = finding;
    }

    /// Waits for the watch's end, at most `time`.
    fn is_over(&self, time: Duration) -> bool {
        let over = lock(&self.over);
        let waited = self.ended.wait_timeout_while(over, time, |over| !*over);
        *waited.unwrap_or_else(PoisonError::into_inner).0 || self.driver.has_ended(Duration::ZERO)
    }

    fn end(&self) {
        *lock(&self.over) = true;
        self.ended.notify_all();
    }

    /// Fails unless the machine runs, is healthy and the build was not cancelled. With `fresh`, the
    /// hypervisor is queried now.
    pub fn check(&self, fresh: bool) -> Result<(), GuestFailure> {
        self.cancel.check()?;
        if let Some(error) = lock(&self.finding).as_ref().and_then(WatchFinding::error) {
            return Err(error.into());
        }
        match self.read_status(fresh)?.state {
            MachineState::Running | MachineState::PausedForSpace => Ok(()),
            MachineState::Off => Err(GuestFailure::PoweredOff),
            MachineState::Stopped(halt) => Err(self.report_halt(&halt).into()),
            MachineState::Gone(how) => Err(self.driver.describe_exit(&how).into()),
        }
    }

    /// Called when a request is sent to the guest (`true`) and when anything is received from it.
    pub fn record_contact(&self, asked: bool) {
        let mut since = lock(&self.asked);
        if asked {
            since.get_or_insert_with(|| self.clock.now());
        } else {
            *since = None
        }
    }

    /// Returns the time for deadlines; it is paused while the machine waits for disk space.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Returns the time since power-on, on the same clock.
    pub fn elapsed(&self) -> Duration {
        let began = self.powered_on.get();
        began.map_or(Duration::ZERO, |began| {
            self.clock.now().saturating_duration_since(*began)
        })
    }
}

fn write_picture(file: &Path, ppm: &[u8]) -> Result<()> {
    let png = screen::encode_png(ppm)
        .ok_or_else(|| Error::new(Kind::Machine, "the picture of the screen is incomplete"))?;
    write_atomically(file, &png)
}

/// Starts a named watch thread.
fn spawn(name: &str, watch: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(watch);
    thread.map_err(|e| Error::new(Kind::Failed, "cannot start a thread").because(e))
}
