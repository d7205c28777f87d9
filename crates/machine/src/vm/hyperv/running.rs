//! A machine of Hyper-V that exists, as the supervisor drives it.
//!
//! Translates calls into the few questions and orders that the rest needs. Decides nothing.

mod channel;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::channel::Sessions;
use super::call::{Arg, Call};
use super::errors::{Trouble, explain};
use super::figures::{self, ASKED, Figures};
use super::host::Host;
use super::making::{self, PAYLOAD, VM};
use super::picture;
use crate::vm::driver::{Channel, Driver, Fault, Glance, Link, Load, Oversight, State};
use crate::vm::seen::Seen;
use crate::vm::{MachinePlan, Platform, lock};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::text::Secret;

/// Looks in a row that may fail before that is what is wrong.
const MISSES: u32 = 3;
/// A look at a machine, with what a busy host adds.
const LOOK: Duration = Duration::from_secs(60);
/// Up (Microsoft: Virtual-Key Codes, VK_UP).
const UP: u64 = 0x26;
/// To turn it off and remove it.
const REMOVAL: Duration = Duration::from_secs(120);

pub struct Running {
    pub host: Arc<Host>,
    pub id: String,
    pub cancel: Cancel,
    /// Of the guest's Administrator.
    pub password: Secret,
    name: String,
    disk: PathBuf,
    processors: u64,
    /// Where each DVD drive is, by the name it is kept under.
    drives: Vec<(&'static str, Value)>,
    /// The process that keeps our objects, as its generation.
    kept_by: AtomicU32,
    figures: Mutex<(Figures, Option<Instant>)>,
    misses: Mutex<(u32, Option<Trouble>)>,
    removed: AtomicBool,
}

impl Running {
    /// `made`: its id and its name.
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
            password: plan.password.clone(),
            disk: plan.disk.clone(),
            processors,
            drives,
            figures: Mutex::default(),
            misses: Mutex::default(),
            removed: AtomicBool::new(false),
        })
    }

    /// A call whose refusal ends the build.
    fn order(&self, doing: &str, call: &Call) -> Result<Vec<Value>> {
        self.host.order(doing, call, &self.cancel)
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

    fn is_removed(&self) -> bool {
        self.removed.load(Ordering::SeqCst)
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
    fn remove_drives(&self) -> Result<()> {
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

    /// With a checkpoint the machine's last writes would lie in another file than the one that is sealed.
    fn no_checkpoint(&self) -> Result<()> {
        let find = Call::new(r"Hyper-V\Get-VMHardDiskDrive")
            .kept("VM", VM)
            .select(&["Path"]);
        let found = self.order("look at the machine's disk", &find)?;
        let path = found.first().and_then(|disk| disk["Path"].as_str());
        let path = path.unwrap_or_default();
        let extension = path.rsplit('.').next().unwrap_or_default();
        if extension.eq_ignore_ascii_case("avhdx") {
            return Err(
                Error::new(Kind::Machine, "somebody made a checkpoint of the machine")
                    .at(path)
                    .expected(self.disk.display())
                    .cure("leave machines whose names begin with winimg- to winimg; backup programs make checkpoints, too"),
            );
        }
        Ok(())
    }
}

impl Driver for Running {
    fn power_on(&self) -> Result<()> {
        let call = Call::new(r"Hyper-V\Start-VM").kept("VM", VM);
        self.order("start the machine", &call).map(|_| ())
    }

    fn glance(&self, fresh: bool) -> Result<Glance> {
        if self.is_removed() {
            return Ok(Glance {
                state: State::Gone("it was removed".into()),
                ..Glance::default()
            });
        }
        let figures = match fresh {
            true => self.look(),
            false => self.figures(),
        };
        if let (State::Running, (MISSES.., Some(trouble))) = (&figures.state, &*lock(&self.misses))
        {
            return Err(explain("look at the machine", trouble));
        }
        Ok(Glance {
            words: Some(figures.words()),
            state: figures.state,
            restarts: figures.restarts,
            link: Link::default(),
        })
    }

    /// The disk's file grows as the guest writes; Hyper-V does not say what it reads.
    fn load(&self) -> Result<Load> {
        let written = std::fs::metadata(&self.disk).map_or(0, |found| found.len());
        Ok(Load {
            disk_written: written,
            moved: written,
            demand: Some(self.figures().demand),
            ..Load::default()
        })
    }

    fn picture(&self) -> Result<Vec<u8>> {
        let none = || Error::new(Kind::Machine, "Hyper-V gives no picture of the screen now");
        if self.is_removed() {
            return Err(none());
        }
        let call = Call::new("script:screen")
            .text("VmId", &self.id)
            .number("Width", picture::WIDTH)
            .number("Height", picture::HEIGHT)
            .select(&["*"])
            .within(LOOK);
        let answer = self.host.call(&call, &self.cancel).map_err(|_| none())?;
        answer.first().and_then(picture::ppm).ok_or_else(none)
    }

    fn press_up(&self) -> Result<()> {
        let call = Call::new("script:key")
            .text("VmId", &self.id)
            .number("Key", UP)
            .select(&["*"]);
        self.order("press a key", &call).map(|_| ())
    }

    fn press_power_button(&self) -> Result<()> {
        Platform::HyperV.check_clones()
    }

    fn channel(self: Arc<Self>, oversight: Arc<dyn Oversight>) -> Result<Box<dyn Channel>> {
        Ok(Box::new(Sessions::new(self, &oversight)))
    }

    /// Hyper-V sends no event when a machine ends: it is looked for.
    fn has_ended(&self, _patience: Duration) -> bool {
        self.is_removed()
    }

    /// Removes the machine: the disk is nobody's then.
    fn settle(&self) -> Result<bool> {
        self.no_checkpoint()?;
        self.remove_drives()?;
        self.stop();
        Ok(true)
    }

    /// Ends it and removes it; its disk stays. Not stopped by an interrupt.
    fn stop(&self) {
        if !self.removed.swap(true, Ordering::SeqCst) {
            remove(&self.host, &self.id);
        }
    }

    fn halted(&self, fault: Fault, words: &str, look: &dyn Fn() -> Seen) -> Error {
        look().shown(figures::halted(fault, words))
    }

    fn gone(&self, _how: &str) -> Error {
        match self.is_removed() {
            true => Error::new(Kind::Machine, "the machine was stopped"),
            false => figures::vanished(&self.name),
        }
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
