//! A guest that follows the configuration: Setup takes its time and its restarts, PowerShell Direct opens late, programs answer as configured.
//!
//! Nothing runs between two calls: what was due meanwhile is made up for at the next. The guest's files lie on its disk, so that a copy, a layer and
//! a differencing disk bring their Windows along.

mod talk;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;
use wildmatch::WildMatchPattern;

use crate::config::{Config, Deed, Fault, Run};
use crate::engine::{Boot, Engine, Figures, Heartbeat, Picture, Power, SessionError, Spec};
use crate::{screen, state, windows};

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Life {
    spec: Option<Spec>,
    on: bool,
    /// Milliseconds since 1970, as all times here.
    powered: u64,
    stage: Stage,
    /// When the stage ends, unless it lasts.
    until: Option<u64>,
    restarts_left: u32,
    refusals_left: u32,
    windows: Option<windows::Windows>,
    /// Setup has just made it.
    fresh: bool,
    /// Of this start of Windows.
    boot: String,
    /// The start that the open session is of.
    session: String,
    jobs: BTreeMap<String, Job>,
    /// When a program takes the password, and when it powers the machine off.
    #[serde(default)]
    sealing: Option<(u64, u64)>,
    used: Vec<u32>,
    picture: Option<PathBuf>,
    still: bool,
    /// A box waits for a person; Windows itself goes on.
    #[serde(default)]
    boxed: bool,
    /// Nothing boots, or a write failed: what the screen says.
    dead_end: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Stage {
    #[default]
    Off,
    Setup,
    /// Windows starts, and restarts by itself while Setup has restarts left.
    Starting,
    Ready,
    Restarting,
    PoweringOff,
    DeadEnd,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Job {
    line: String,
    ends: u64,
    run: Option<Run>,
    /// Its effects are on the disk.
    done: bool,
    /// A restart ended it, and left its folder.
    cut: bool,
}

pub struct Scripted {
    config: Config,
    folder: PathBuf,
    life: Life,
}

/// Now, in milliseconds.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

/// `*` stands for any text; case is ignored.
pub fn matches(pattern: &str, text: &str) -> bool {
    WildMatchPattern::<'*', '\0'>::new_case_insensitive(pattern).matches(text)
}

impl Scripted {
    pub fn open(config: &Config, folder: &Path) -> Result<Self, String> {
        let life = match std::fs::read(folder.join("guest.json")) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| format!("guest.json: {e}"))?,
            Err(_) => Life::default(),
        };
        let mut guest = Self {
            config: config.clone(),
            folder: folder.to_path_buf(),
            life,
        };
        guest.life.used.resize(config.run.len(), 0);
        guest.advance()?;
        Ok(guest)
    }

    fn save(&self) -> Result<(), String> {
        if self.folder.is_dir() {
            state::write(&self.folder.join("guest.json"), &self.life)
        } else {
            Ok(())
        }
    }

    fn enter(&mut self, stage: Stage, for_ms: Option<u64>, at: u64) {
        self.life.stage = stage;
        self.life.until = for_ms.map(|ms| at + ms);
    }

    /// Goes through what was due.
    fn advance(&mut self) -> Result<(), String> {
        if self.life.on && self.life.sealing.is_some_and(|(_, off)| off <= now()) {
            self.off()?;
        }
        while let Some(due) = self.life.until.filter(|due| *due <= now()) {
            if self.life.still || !self.life.on {
                break;
            }
            match self.life.stage {
                Stage::Setup => self.applied(due)?,
                Stage::Starting if self.life.restarts_left > 0 => {
                    self.life.restarts_left -= 1;
                    self.start_windows(due);
                }
                Stage::Starting => self.enter(Stage::Ready, None, due),
                Stage::Restarting => self.start_windows(due),
                Stage::PoweringOff => self.off()?,
                Stage::Off | Stage::Ready | Stage::DeadEnd => self.life.until = None,
            }
        }
        self.finish_jobs();
        self.save()
    }

    /// Setup has written the disk, and restarts.
    fn applied(&mut self, at: u64) -> Result<(), String> {
        let disk = self.spec()?.disk.clone();
        let Some(from) = self.config.install.disk.clone() else {
            return Err("the configuration has no disk that Setup leaves".into());
        };
        windows::apply(&from, &disk, &self.folder)?;
        let files = self.config.files.iter();
        self.life.windows = Some(windows::Windows {
            number: Uuid::new_v4().as_u64_pair().0,
            boots: 0,
            files: files
                .map(|(path, text)| (path.to_lowercase(), text.clone().into_bytes()))
                .collect(),
        });
        self.life.fresh = true;
        self.life.restarts_left = self.config.install.restarts.max(1) - 1;
        self.start_windows(at);
        Ok(())
    }

    fn start_windows(&mut self, at: u64) {
        // Source: Microsoft: Msvm_ComputerSystem.OnTimeInMilliseconds, counted from power-on or the last reset.
        self.life.powered = at;
        self.life.boot = Uuid::new_v4().simple().to_string();
        if let Some(windows) = &mut self.life.windows {
            windows.boots += 1;
        }
        for job in self.life.jobs.values_mut().filter(|j| !j.done) {
            job.cut = true;
        }
        let stretch = self.config.install.stretch_ms;
        self.enter(Stage::Starting, Some(stretch), at);
    }

    /// Generalize takes the password of the account, and its sessions end.
    fn has_no_password(&self) -> bool {
        self.life.sealing.is_some_and(|(taken, _)| taken <= now())
    }

    fn spec(&self) -> Result<&Spec, String> {
        self.life
            .spec
            .as_ref()
            .ok_or_else(|| "the machine was never started".into())
    }

    /// Powers off: what Windows holds goes to the disk.
    fn off(&mut self) -> Result<(), String> {
        let disk = self.spec()?.disk.clone();
        if let Some(found) = &self.life.windows {
            windows::save(&disk, found, &self.folder, self.life.fresh)?;
            self.life.fresh = false;
        }
        self.life.on = false;
        self.enter(Stage::Off, None, 0);
        self.life.jobs.clear();
        self.life.sealing = None;
        Ok(())
    }

    fn power_on(&mut self, spec: &Spec) -> Result<(), String> {
        let at = now();
        let found = windows::load(&spec.disk, &self.folder);
        self.life = Life {
            spec: Some(spec.clone()),
            on: true,
            powered: at,
            used: vec![0; self.config.run.len()],
            refusals_left: self.config.install.refused,
            ..Life::default()
        };
        let stretch = self.config.install.stretch_ms;
        match found {
            Ok(Some(found)) if spec.boot.contains(&Boot::Disk) => {
                self.life.windows = Some(found);
                self.start_windows(at);
            }
            Ok(_) => {
                if self.boots_disc(spec) {
                    self.enter(Stage::Setup, Some(stretch), at)
                } else {
                    self.dead("no bootable device")
                }
            }
            Err(why) => self.dead(&why),
        }
        Ok(())
    }

    fn dead(&mut self, why: &str) {
        self.life.dead_end = why.into();
        self.enter(Stage::DeadEnd, None, 0);
    }

    fn boots_disc(&self, spec: &Spec) -> bool {
        spec.boot.iter().any(|b| match b {
            Boot::Dvd(n) => spec.dvds.get(*n).is_some_and(|d| d.is_some()),
            Boot::Disk => false,
        })
    }
}

impl Engine for Scripted {
    fn start(&mut self, spec: &Spec) -> Result<(), String> {
        self.power_on(spec)?;
        self.save()
    }

    fn state(&mut self) -> Power {
        if self.life.on {
            Power::Running
        } else {
            Power::Off
        }
    }

    fn turn_off(&mut self) {
        if self.life.on {
            // What was on the disk stays there; an installation that was cut short has none.
            let _ = self.off();
        }
        let _ = self.save();
    }

    fn set_dvd(&mut self, slot: usize, disc: Option<&Path>) -> Result<(), String> {
        let drive = self.life.spec.as_mut().and_then(|s| s.dvds.get_mut(slot));
        *drive.ok_or("no such drive")? = disc.map(Path::to_path_buf);
        self.save()
    }

    fn screen(&mut self) -> Option<Picture> {
        if let Some(path) = &self.life.picture {
            return screen::read(path).ok();
        }
        let boots = self.life.windows.as_ref().map_or(0, |w| w.boots);
        Some(screen::of(&match self.life.stage {
            Stage::Off => String::new(),
            Stage::Setup => "Windows Setup".into(),
            Stage::DeadEnd => self.life.dead_end.clone(),
            stage => format!("Windows, start {boots}, {stage:?}"),
        }))
    }

    fn key(&mut self, _code: u32) -> Result<(), String> {
        Ok(())
    }

    fn open_session(&mut self, user: &str, password: &str) -> Result<(), SessionError> {
        match self.life.stage {
            Stage::Ready if !self.life.still => {}
            Stage::Starting if !self.life.still => return Err(SessionError::Credential),
            _ => return Err(SessionError::Ended),
        }
        if self.has_no_password() {
            return Err(SessionError::Credential);
        }
        if self.life.refusals_left > 0 {
            self.life.refusals_left -= 1;
            let _ = self.save();
            return Err(SessionError::Credential);
        }
        let right = self
            .config
            .install
            .password
            .as_deref()
            .is_none_or(|p| p == password);
        if !user.eq_ignore_ascii_case("Administrator") || !right || password.is_empty() {
            return Err(SessionError::Credential);
        }
        self.life.session = self.life.boot.clone();
        let _ = self.save();
        Ok(())
    }

    fn guest(&mut self, call: &str, arguments: &[Value]) -> Result<Value, SessionError> {
        let ended = self.life.session != self.life.boot || self.has_no_password();
        if self.life.stage != Stage::Ready || ended {
            return Err(SessionError::Ended);
        }
        if self.life.still {
            return Err(SessionError::Hangs);
        }
        let answer = self.carry_out(call, arguments);
        let _ = self.save();
        answer
    }

    fn heartbeat(&mut self) -> Heartbeat {
        match self.life.stage {
            Stage::Ready | Stage::Starting => Heartbeat::OkApplicationsUnknown,
            _ => Heartbeat::NoContact,
        }
    }

    fn figures(&mut self) -> Figures {
        let idle = self.life.still || self.life.boxed;
        let works = self.life.on && !idle && self.life.stage != Stage::DeadEnd;
        Figures {
            uptime: now().saturating_sub(self.life.powered) / 1000,
            cpu: if works { 12 } else { 0 },
        }
    }

    fn suffer(&mut self, fault: &Fault, about: &str) -> Result<(), String> {
        let at = now();
        match fault.deed {
            Deed::Restarts => {
                self.enter(Stage::Restarting, Some(self.config.install.restart_ms), at)
            }
            Deed::PowersOff => self.off()?,
            Deed::Forgets => self.life.jobs.retain(|id, _| !about.contains(id.as_str())),
            Deed::StandsStill => {
                self.life.still = true;
                self.life.picture.clone_from(&fault.picture);
            }
            Deed::ShowsBox => {
                self.life.boxed = true;
                self.life.picture.clone_from(&fault.picture);
                for job in self.life.jobs.values_mut().filter(|j| !j.done) {
                    job.ends = u64::MAX;
                }
            }
            other => return Err(format!("no {other:?} for a scripted guest")),
        }
        self.save()
    }
}
