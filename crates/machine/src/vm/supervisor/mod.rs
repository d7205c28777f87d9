//! Watches a machine, whatever hypervisor runs it: `start` until the guest's first answer, `steps` from then on, `machine` until it is
//! off; `settle` where no guest answers.
//!
//! All that is judged, named and timed stands here once. What the looks mean is decided by `judge`, `watchdog`, `keys` and `room`, purely and
//! from times that are given; what follows is said in `naming`. Of the hypervisor it knows what a [`Driver`] offers, and no more.

mod clock;
mod judge;
mod keys;
mod lookout;
mod machine;
mod naming;
pub mod room;
mod settle;
mod start;
mod steps;
mod watchdog;

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use self::clock::Clock;
pub use self::judge::BOOT_RESTARTS;
pub use self::machine::{Supervised, Terms};
use self::room::NoRoom;
use self::steps::Finding;
use super::driver::{Driver, Glance, Halt, Link, Oversight, State};
use super::screen::pictures::Pictures;
use super::screen::{self, Screen, ocr};
use super::seen::{self, Purpose, Seen};
use super::{MachinePlan, Platform, Start, lock};
use crate::guest::Ended;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Attended, Cancel, Sink};
use winimg_base::io::{folder_of, write_atomically};

/// Between two looks at drives, processor and screen.
pub const SAMPLE: Duration = Duration::from_secs(2);

/// A machine with what is known of it, shared by all that wait for it: its start, its watch, its guest's channel and cameras.
struct Supervisor {
    driver: Arc<dyn Driver>,
    cancel: Cancel,
    /// While it is on, nobody is to judge that the machine stands still.
    attended: Attended,
    clock: Arc<Clock>,
    platform: Platform,
    plan: MachinePlan,
    slowness: u32,
    sink: Arc<dyn Sink>,
    /// On `clock`.
    powered_on: OnceLock<Instant>,
    pictures: Mutex<Pictures>,
    purpose: Mutex<Purpose>,
    /// Since when the guest has been asked in vain, on `clock`.
    asked: Mutex<Option<Instant>>,
    finding: Mutex<Option<Finding>>,
    no_room: OnceLock<NoRoom>,
    over: Mutex<bool>,
    ended: Condvar,
}

impl Supervisor {
    fn new(
        driver: Arc<dyn Driver>,
        plan: MachinePlan,
        sink: Arc<dyn Sink>,
        cancel: Cancel,
        terms: &Terms,
    ) -> Result<Self> {
        let purpose = match plan.start {
            Start::Install { .. } => Purpose::Install,
            Start::Boot => Purpose::Boot,
            Start::Clone { .. } => Purpose::Clone,
        };
        Ok(Self {
            driver,
            cancel,
            attended: Attended::default(),
            clock: Arc::clone(&terms.clock),
            platform: terms.platform,
            slowness: terms.slowness,
            sink,
            powered_on: OnceLock::new(),
            pictures: Mutex::new(Pictures::open(plan.run_dir.join("screens"))?),
            plan,
            purpose: Mutex::new(purpose),
            asked: Mutex::default(),
            finding: Mutex::default(),
            no_room: OnceLock::new(),
            over: Mutex::default(),
            ended: Condvar::new(),
        })
    }

    /// Lets it go, once.
    fn power_on(&self) -> Result<()> {
        if self.powered_on.get().is_some() {
            return Ok(());
        }
        self.driver.power_on()?;
        let _ = self.powered_on.set(self.clock.now());
        Ok(())
    }

    /// What the driver says, and whether the machine only waits for room.
    fn glance(&self, fresh: bool) -> Result<Glance> {
        let mut glance = self.driver.glance(fresh)?;
        if let State::Stopped(halt) = &glance.state
            && self.no_room.get().is_none()
            && (*halt == Halt::NoRoom || self.clock.stands())
        {
            glance.state = State::Held;
        }
        Ok(glance)
    }

    fn halted(&self, halt: &Halt) -> Error {
        if let Some(no_room) = self.no_room.get() {
            return no_room.error();
        }
        let look = || self.last_look(self.purpose().words());
        match halt {
            Halt::NoRoom => room::write_failed(self.disk_folder()),
            Halt::Crash(panic) => seen::crashed(panic, &look()),
            Halt::Own(fault, words) => self.driver.halted(*fault, words, &look),
        }
    }

    /// The machine's last picture with its text, and when it was taken.
    fn last_look(&self, stage: &str) -> Seen {
        let mut seen = Seen {
            purpose: self.purpose(),
            elapsed: self.elapsed(),
            restarts: self.driver.glance(false).map_or(0, |g| g.restarts),
            started: true,
            disk_folder: self.disk_folder().to_path_buf(),
            ..Seen::default()
        };
        let Ok(ppm) = self.driver.picture() else {
            return seen;
        };
        let mut pictures = self.pictures();
        let file = pictures.stopped();
        if write_picture(&file, &ppm).is_ok() {
            pictures.taken_stopped(seen.elapsed, stage);
            seen.screenshot = Some(file);
        }
        drop(pictures);
        seen.blue = Screen::from_ppm(&ppm).is_some_and(|s| s.is_stop_blue());
        seen.text = self.read(&ppm);
        seen
    }

    fn read(&self, ppm: &[u8]) -> Vec<String> {
        let stop = || self.cancel.is_cancelled() || self.driver.has_ended(Duration::ZERO);
        ocr::read(ppm, &self.plan.run_dir, ocr::PATIENCE, &stop)
    }

    /// Writes the screen: a PPM when the name ends so, a PNG otherwise.
    fn screenshot(&self, file: &Path) -> Result<()> {
        let file = self.platform.absolute(file)?;
        let ppm = self.driver.picture()?;
        match file.extension().is_some_and(|e| e == "ppm") {
            true => write_atomically(&file, &ppm),
            false => write_picture(&file, &ppm),
        }
    }

    fn purpose(&self) -> Purpose {
        *lock(&self.purpose)
    }

    /// The guest has answered: from here on it is Windows that runs, whatever it was started for.
    fn steps_begin(&self) {
        *lock(&self.purpose) = Purpose::Steps;
    }

    fn disk_folder(&self) -> &Path {
        folder_of(&self.plan.disk)
    }

    fn pictures(&self) -> MutexGuard<'_, Pictures> {
        lock(&self.pictures)
    }

    /// How long the guest has been asked in vain since its end of the channel opened, or that end has been closed.
    fn silence(&self, link: Link) -> Option<Duration> {
        let since = match (link.open, *lock(&self.asked), link.changed) {
            (true, asked, Some(changed)) => asked?.max(changed),
            (true, asked, None) => asked?,
            (false, _, changed) => changed?,
        };
        Some(self.clock.now().saturating_duration_since(since))
    }

    /// What the watch found last.
    fn find(&self, finding: Option<Finding>) {
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
}

impl Oversight for Supervisor {
    fn check(&self, fresh: bool) -> Result<(), Ended> {
        self.cancel.check()?;
        if let Some(error) = lock(&self.finding).as_ref().and_then(Finding::error) {
            return Err(error.into());
        }
        match self.glance(fresh)?.state {
            State::Running | State::Held => Ok(()),
            State::Off => Err(Ended::PoweredOff),
            State::Stopped(halt) => Err(self.halted(&halt).into()),
            State::Gone(how) => Err(self.driver.gone(&how).into()),
        }
    }

    fn talked(&self, asked: bool) {
        let mut since = lock(&self.asked);
        match asked {
            true => {
                since.get_or_insert_with(|| self.clock.now());
            }
            false => *since = None,
        }
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn elapsed(&self) -> Duration {
        let began = self.powered_on.get();
        began.map_or(Duration::ZERO, |began| {
            self.clock.now().saturating_duration_since(*began)
        })
    }
}

fn write_picture(file: &Path, ppm: &[u8]) -> Result<()> {
    let png = screen::png(ppm)
        .ok_or_else(|| Error::new(Kind::Machine, "the picture of the screen is cut short"))?;
    write_atomically(file, &png)
}

/// Something that watches beside the build.
fn spawn(name: &str, watch: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(watch);
    thread.map_err(|e| Error::new(Kind::Failed, "no thread can be started").because(e))
}
