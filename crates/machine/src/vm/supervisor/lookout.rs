//! What a machine shows from outside: restarts, the firmware's log, drives, processor and screen.
//!
//! Keeps the pictures that are worth it and reports where the machine is. Judges nothing and presses nothing.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use super::judge::Sample;
use super::{Supervisor, write_picture};
use crate::vm::driver::{Glance, Line, Load, State};
use crate::vm::screen::Screen;
use crate::vm::seen::{Purpose, Seen, time};
use winimg_base::error::Result;
use winimg_base::event::{Event, Phase};

/// Bytes moved on all drives that show that something was started, whatever the firmware's log says. Firmware reads a few KB.
const STARTED: u64 = 16 << 20;

pub struct Lookout {
    pub supervisor: Arc<Supervisor>,
    pub restarts: u32,
    pub load: Load,
    pub ppm: Vec<u8>,
    rendered: String,
    logged: Option<String>,
    /// `None` where the firmware says nothing.
    firmware: Option<FirmwareSaid>,
}

/// What the firmware said since power-on or the last restart.
#[derive(Default)]
struct FirmwareSaid {
    /// Where it handed over last.
    booted: Option<Line>,
    failed_options: Vec<String>,
    refused: bool,
    /// When it began its work, and how much had been moved by then.
    since: (Duration, u64),
}

impl Lookout {
    pub fn new(supervisor: Arc<Supervisor>) -> Self {
        let says = supervisor.driver.firmware().is_some();
        Self {
            supervisor,
            restarts: 0,
            load: Load::default(),
            ppm: Vec::new(),
            rendered: String::new(),
            logged: None,
            firmware: says.then(FirmwareSaid::default),
        }
    }

    /// Whether the guest restarted since the last call.
    pub fn count_restarts(&mut self, glance: &Glance, now: Duration) -> bool {
        let again = glance.restarts > self.restarts;
        if again {
            self.restarts = glance.restarts;
            self.begin_again(now);
        }
        again
    }

    /// The firmware is at work once more.
    pub fn begin_again(&mut self, now: Duration) {
        if let Some(firmware) = &mut self.firmware {
            *firmware = FirmwareSaid {
                since: (now, self.load.moved),
                ..FirmwareSaid::default()
            };
        }
    }

    /// What the firmware said since the last call.
    pub fn read_firmware(&mut self) -> Result<Vec<Line>> {
        let Some((said, firmware)) = self
            .firmware
            .as_mut()
            .zip(self.supervisor.driver.firmware())
        else {
            return Ok(Vec::new());
        };
        let lines = firmware.log()?;
        for line in &lines {
            match line {
                Line::Failed(text) | Line::Refused(text) => {
                    said.booted = None;
                    said.refused |= matches!(line, Line::Refused(_));
                    said.failed_options.push(text.clone());
                }
                Line::NothingBoots => said.booted = None,
                Line::DiscStarts | Line::DiskStarts => said.booted = Some(line.clone()),
                Line::KeyPrompt => {}
            }
        }
        Ok(lines)
    }

    pub fn look_at_drives(&mut self) -> Result<()> {
        self.load = self.supervisor.driver.load()?;
        Ok(())
    }

    pub fn sample(&mut self, glance: Glance, now: Duration, nothing_boots: bool) -> Sample {
        self.write_down(now, &glance);
        // A machine that is over answers no more questions, and needs none.
        self.load = self.supervisor.driver.load().unwrap_or(self.load);
        let screen = match glance.state {
            State::Running => self.look_at_screen(now),
            _ => None,
        };
        Sample {
            at: now,
            screen,
            io: self.load.moved,
            demand: self.load.demand,
            restarts: self.restarts,
            state: glance.state,
            nothing_boots,
            write_failed: self.load.disk_failures > 0,
            firmware_for: self.firmware_for(now),
        }
    }

    fn firmware_for(&self, now: Duration) -> Option<Duration> {
        let firmware = self.firmware.as_ref()?;
        let (since, moved_before) = firmware.since;
        let moved = self.load.moved.saturating_sub(moved_before);
        let idle = firmware.booted.is_none() && moved < STARTED;
        idle.then(|| now.saturating_sub(since))
    }

    fn look_at_screen(&mut self, now: Duration) -> Option<Screen> {
        self.ppm = self.supervisor.driver.picture().unwrap_or_default();
        let screen = Screen::from_ppm(&self.ppm)?;
        let mut pictures = self.supervisor.pictures();
        if pictures.wants(&screen) {
            let file = pictures.next();
            if write_picture(&file, &self.ppm).is_ok() {
                pictures.taken(&screen, now, &self.stage());
                self.supervisor.sink.emit(&Event::Screen {
                    file: file.display().to_string(),
                });
            }
        }
        drop(pictures);
        Some(screen)
    }

    /// What the hypervisor says of the machine, each change a line of its log.
    fn write_down(&mut self, now: Duration, glance: &Glance) {
        let Some(line) = &glance.words else { return };
        if self.logged.as_ref() == Some(line) {
            return;
        }
        let path = self.supervisor.plan.run_dir.join("machine.log");
        if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path) {
            // A full disk is reported by the work that needs it.
            let _ = writeln!(file, "{} after power-on: {line}", time(now));
        }
        self.logged.clone_from(&glance.words);
    }

    /// All that is known, with a last picture.
    pub fn seen(&self, still_since: Option<Duration>) -> Seen {
        let firmware = self.firmware.as_ref();
        let last = self.supervisor.last_look(&self.stage());
        Seen {
            still_since,
            restarts: self.restarts,
            started: firmware.is_none_or(|f| f.booted.is_some()) || last.purpose == Purpose::Steps,
            disk_written: self.load.disk_written,
            failed_options: firmware.map_or_else(Vec::new, |f| f.failed_options.clone()),
            refused: firmware.is_some_and(|f| f.refused),
            ..last
        }
    }

    /// Where the machine is, in a few words.
    pub fn stage(&self) -> String {
        let booted = self.firmware.as_ref().map(|f| &f.booted);
        let what = match (self.supervisor.purpose(), booted) {
            (Purpose::Steps, _) => return "Windows".to_string(),
            (_, Some(None)) => "firmware",
            (Purpose::Install, Some(Some(Line::DiskStarts))) if self.restarts == 0 => {
                "the disk boots"
            }
            (Purpose::Install, _) => "Windows Setup",
            (Purpose::Boot, _) => "the disk boots",
            (Purpose::Clone, _) => "the clone starts",
        };
        match self.restarts {
            0 => what.to_string(),
            n => format!("{what} (restart {n})"),
        }
    }

    /// Tells the user where the machine is, once.
    pub fn report(&mut self, text: String) {
        if text != self.rendered {
            let phase = match self.supervisor.purpose() {
                Purpose::Install => Phase::Install,
                Purpose::Boot | Purpose::Steps | Purpose::Clone => Phase::Boot,
            };
            self.supervisor.sink.emit(&Event::Progress {
                phase,
                text: text.clone(),
            });
            self.rendered = text;
        }
    }
}
