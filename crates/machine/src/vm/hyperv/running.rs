//! A machine of Hyper-V that exists, shared by all that look at it: the install, the watch and the guest's channel.
//!
//! Translates calls into the few questions and orders that the rest needs. Decides nothing.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::call::{Arg, Call};
use super::errors::{Trouble, explain};
use super::figures::{self, ASKED, Figures};
use super::host::Host;
use super::making::{self, PAYLOAD, VM};
use super::picture;
use super::watch::Finding;
use crate::vm::screen::pictures::Pictures;
use crate::vm::screen::{Screen, ocr};
use crate::vm::seen::{Purpose, Seen};
use crate::vm::watch::State;
use crate::vm::{MachinePlan, Platform, Start};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Attended, Cancel};
use winimg_base::io::write_atomically;

/// Looks in a row that may fail before that is what is wrong.
const MISSES: u32 = 3;
/// A look at a machine, with what a busy host adds.
const LOOK: Duration = Duration::from_secs(60);
/// To turn it off and remove it.
const REMOVAL: Duration = Duration::from_secs(120);

pub struct Running {
    pub host: Arc<Host>,
    pub id: String,
    pub name: String,
    pub cancel: Cancel,
    /// While it is on, nobody is to judge that the machine stands still.
    pub attended: Attended,
    /// The build's private directory: pictures and logs.
    pub dir: PathBuf,
    pub disk: PathBuf,
    processors: u64,
    /// Where each DVD drive is, by the name it is kept under.
    pub drives: Vec<(&'static str, Value)>,
    /// The process that keeps our objects, as its generation.
    kept_by: AtomicU32,
    powered_on: OnceLock<Instant>,
    figures: Mutex<(Figures, Option<Instant>)>,
    misses: Mutex<(u32, Option<Trouble>)>,
    pictures: Mutex<Pictures>,
    purpose: Mutex<Purpose>,
    /// Since when the guest has been asked in vain.
    asked: Mutex<Option<Instant>>,
    finding: Mutex<Option<Finding>>,
    removed: AtomicBool,
}

impl Running {
    pub fn new(
        host: Arc<Host>,
        plan: &MachinePlan,
        made: (String, String),
        drives: Vec<(&'static str, Value)>,
        processors: u64,
        cancel: Cancel,
    ) -> Result<Self> {
        let (id, name) = made;
        let generation = host.generation(&cancel);
        let generation = generation.map_err(|trouble| explain("make the machine", &trouble))?;
        Ok(Self {
            kept_by: AtomicU32::new(generation),
            host,
            id,
            name,
            cancel,
            attended: Attended::default(),
            dir: plan.run_dir.clone(),
            disk: plan.disk.clone(),
            processors,
            drives,
            powered_on: OnceLock::new(),
            figures: Mutex::default(),
            misses: Mutex::default(),
            pictures: Mutex::new(Pictures::open(plan.run_dir.join("screens"))?),
            purpose: Mutex::new(match plan.start {
                Start::Install { .. } => Purpose::Install,
                Start::Boot => Purpose::Boot,
            }),
            asked: Mutex::default(),
            finding: Mutex::default(),
            removed: AtomicBool::new(false),
        })
    }

    pub fn power_on(&self) -> Result<()> {
        let call = Call::new(r"Hyper-V\Start-VM").kept("VM", VM);
        self.order("start the machine", &call)?;
        let _ = self.powered_on.set(Instant::now());
        Ok(())
    }

    /// Since power-on.
    pub fn elapsed(&self) -> Duration {
        self.powered_on
            .get()
            .map_or(Duration::ZERO, Instant::elapsed)
    }

    /// A call whose refusal ends the build.
    pub fn order(&self, doing: &str, call: &Call) -> Result<Vec<Value>> {
        self.host
            .call(call, &self.cancel)
            .map_err(|trouble| explain(doing, &trouble))
    }

    /// Asks Hyper-V. A single answer that fails is none: the machine is then what it was.
    pub fn look(&self) -> Figures {
        let call = Call::new(r"Hyper-V\Get-VM")
            .text("Id", &self.id)
            .select(&ASKED)
            .within(LOOK);
        let answer = self.host.call(&call, &self.cancel);
        let mut held = lock(&self.figures);
        let (figures, at) = &mut *held;
        match answer {
            Ok(answer) => {
                let now = Instant::now();
                let since = at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
                *at = Some(now);
                let answer = answer.into_iter().next().unwrap_or_default();
                figures.take(&answer, since, self.processors);
                *lock(&self.misses) = (0, None);
            }
            Err(Trouble::Interrupted) => {}
            Err(trouble) => {
                if matches!(trouble, Trouble::Refused(_)) && self.is_gone() {
                    figures.state = State::Gone("it vanished".into());
                }
                let mut misses = lock(&self.misses);
                *misses = (misses.0 + 1, Some(trouble));
            }
        }
        figures.clone()
    }

    fn is_gone(&self) -> bool {
        is_gone(&self.host, &self.id, &self.cancel)
    }

    pub fn figures(&self) -> Figures {
        lock(&self.figures).0.clone()
    }

    /// An error unless the machine runs, is found well and nobody interrupted. `fresh`: Hyper-V is asked now.
    pub fn check(&self, fresh: bool) -> Result<()> {
        self.cancel.check()?;
        if self.removed.load(Ordering::SeqCst) {
            return Err(Error::new(Kind::Machine, "the machine was stopped"));
        }
        let figures = match fresh {
            true => self.look(),
            false => self.figures(),
        };
        match &figures.state {
            State::Off => return Err(Error::new(Kind::Machine, "the guest powered off")),
            State::Paused(why) => return Err(figures::paused(why)),
            State::Gone(_) => return Err(figures::vanished(&self.name)),
            State::Running | State::Held => {}
        }
        if let (MISSES.., Some(trouble)) = &*lock(&self.misses) {
            return Err(explain("look at the machine", trouble));
        }
        let finding = lock(&self.finding);
        match finding.as_ref().and_then(Finding::error) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// The screen as a PPM. `None`: it can't be had now.
    pub fn ppm(&self) -> Option<Vec<u8>> {
        if self.removed.load(Ordering::SeqCst) {
            return None;
        }
        let call = Call::new("script:screen")
            .text("VmId", &self.id)
            .number("Width", picture::WIDTH)
            .number("Height", picture::HEIGHT)
            .select(&["*"])
            .within(LOOK);
        let answer = self.host.call(&call, &self.cancel).ok()?;
        picture::ppm(answer.first()?)
    }

    /// Writes the screen: a PPM when the name ends so, a PNG otherwise.
    pub fn dump_screen(&self, file: &Path) -> Result<()> {
        let none = || Error::new(Kind::Machine, "Hyper-V gives no picture of the screen now");
        let ppm = self.ppm().ok_or_else(none)?;
        if file.extension().is_some_and(|e| e == "ppm") {
            return write_atomically(file, &ppm);
        }
        write_atomically(file, &picture::png(&ppm).ok_or_else(none)?)
    }

    /// The machine's last picture with its text, and when it was taken.
    pub fn last_look(&self, stage: &str) -> Seen {
        let mut seen = Seen {
            purpose: self.purpose(),
            elapsed: self.elapsed(),
            restarts: self.figures().restarts,
            started: true,
            disk_written: self.disk_bytes(),
            disk_folder: winimg_base::io::folder_of(&self.disk).to_path_buf(),
            ..Seen::default()
        };
        let Some(ppm) = self.ppm() else {
            return seen;
        };
        let mut pictures = self.pictures();
        let file = pictures.stopped();
        let written = picture::png(&ppm).map(|png| write_atomically(&file, &png));
        if matches!(written, Some(Ok(()))) {
            pictures.taken_stopped(seen.elapsed, stage);
            seen.screenshot = Some(file);
        }
        drop(pictures);
        seen.blue = Screen::from_ppm(&ppm).is_some_and(|s| s.is_stop_blue());
        seen.text = self.words(&ppm);
        seen
    }

    /// What can be read on a picture.
    pub fn words(&self, ppm: &[u8]) -> Vec<String> {
        let stop = || self.cancel.is_cancelled() || self.removed.load(Ordering::SeqCst);
        ocr::read(ppm, &self.dir, ocr::PATIENCE, &stop)
    }

    /// The disk's file grows as the guest writes.
    pub fn disk_bytes(&self) -> u64 {
        std::fs::metadata(&self.disk).map_or(0, |found| found.len())
    }

    pub fn purpose(&self) -> Purpose {
        *lock(&self.purpose)
    }

    /// The guest has answered: from here on it is Windows that runs, whatever it was started for.
    pub fn steps_begin(&self) {
        *lock(&self.purpose) = Purpose::Steps;
    }

    pub fn pictures(&self) -> MutexGuard<'_, Pictures> {
        lock(&self.pictures)
    }

    /// The guest was asked, or answered.
    pub fn talked(&self, asked: bool) {
        let mut since = lock(&self.asked);
        match asked {
            true => {
                since.get_or_insert_with(Instant::now);
            }
            false => *since = None,
        }
    }

    pub fn silence(&self) -> Option<Duration> {
        lock(&self.asked).map(|since| since.elapsed())
    }

    pub fn find(&self, finding: Option<Finding>) {
        *lock(&self.finding) = finding;
    }

    pub fn has_finding(&self) -> bool {
        lock(&self.finding).is_some()
    }

    /// Types one key; its virtual-key code.
    pub fn press(&self, key: u64) -> Result<()> {
        let call = Call::new("script:key")
            .text("VmId", &self.id)
            .number("Key", key)
            .select(&["*"]);
        self.order("press a key", &call).map(|_| ())
    }

    /// Puts an ISO into the payload drive, or empties all drives.
    pub fn discs(&self, iso: Option<&Path>) -> Result<()> {
        self.keep_drives()?;
        if let Some(iso) = iso {
            let iso = Platform::HyperV.absolute(iso)?;
            let change = making::change_disc(PAYLOAD, Some(&iso));
            return self
                .order("put a disc into the machine", &change)
                .map(|_| ());
        }
        for (drive, _) in self.drives.iter().rev() {
            let change = making::change_disc(drive, None);
            self.order("take a disc out of the machine", &change)?;
        }
        Ok(())
    }

    /// Removes the drives of a machine that is off.
    pub fn remove_drives(&self) -> Result<()> {
        self.keep_drives()?;
        for (drive, _) in &self.drives {
            let remove = Call::new(r"Hyper-V\Remove-VMDvdDrive").kept("VMDvdDrive", drive);
            self.order("remove a drive of the machine", &remove)?;
        }
        Ok(())
    }

    /// A new process keeps nothing: the drives are found again by where they are.
    fn keep_drives(&self) -> Result<()> {
        let generation = self.host.generation(&self.cancel);
        let generation =
            generation.map_err(|trouble| explain("find the machine's drives", &trouble))?;
        if self.kept_by.load(Ordering::SeqCst) == generation {
            return Ok(());
        }
        for (drive, place) in &self.drives {
            let number = |name: &str| Arg::Number(place[name].as_u64().unwrap_or(0));
            let find = Call::new(r"Hyper-V\Get-VMDvdDrive")
                .kept("VM", VM)
                .with("ControllerNumber", number("ControllerNumber"))
                .with("ControllerLocation", number("ControllerLocation"))
                .keep(drive);
            self.order("find the machine's drives", &find)?;
        }
        self.kept_by.store(generation, Ordering::SeqCst);
        Ok(())
    }

    /// Ends it and removes it; its disk stays. Idempotent, and not stopped by an interrupt.
    pub fn stop(&self) {
        if self.removed.swap(true, Ordering::SeqCst) {
            return;
        }
        remove(&self.host, &self.id);
    }
}

/// Hyper-V answers, and does not list it. A refusal's own words differ by language.
fn is_gone(host: &Host, id: &str, cancel: &Cancel) -> bool {
    let list = Call::new(r"Hyper-V\Get-VM").select(&["Id"]).within(LOOK);
    host.call(&list, cancel).is_ok_and(|all| {
        let ids = all.iter().filter_map(|vm| vm["Id"].as_str());
        !ids.into_iter().any(|found| found.eq_ignore_ascii_case(id))
    })
}

/// Turns a machine off and removes it. Three attempts at most: Hyper-V may be busy with it.
pub fn remove(host: &Host, id: &str) -> bool {
    let never = Cancel::default();
    let call = |call: Call| host.call(&call.within(REMOVAL), &never);
    for attempt in 0..3 {
        if attempt > 0 {
            let _ = never.sleep(Duration::from_secs(1));
        }
        let found = call(
            Call::new(r"Hyper-V\Get-VM")
                .text("Id", id)
                .select(&["State"])
                .keep("leaving"),
        );
        let Ok(found) = found else {
            if is_gone(host, id, &never) {
                return true;
            }
            continue;
        };
        let state = found.first().map(|vm| vm["State"].clone());
        if state != Some(json!("Off")) {
            let off = Call::new(r"Hyper-V\Stop-VM").kept("VM", "leaving");
            let _ = call(off.on("TurnOff").on("Force"));
        }
        let gone = Call::new(r"Hyper-V\Remove-VM").kept("VM", "leaving");
        if call(gone.on("Force")).is_ok() {
            host.own(None);
            let _ = call(Call::new("script:own").text("VmId", ""));
            return true;
        }
    }
    false
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
