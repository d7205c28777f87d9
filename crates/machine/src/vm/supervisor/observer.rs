//! Observes a machine from outside: restarts, the firmware's log, drives, processor and screen.
//!
//! Saves notable screenshots and reports progress. Judges nothing and presses nothing.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use super::judge::MachineSample;
use super::{Supervisor, write_picture};
use crate::vm::observation::{MachineObservation, format_time};
use crate::vm::purpose::MachinePurpose;
use crate::vm::screen::ScreenGrid;
use crate::vm::supervisor::driver::{FirmwareEvent, MachineLoad, MachineState, MachineStatus};
use winimg_base::error::Result;
use winimg_base::event::{Event, Phase};

/// Bytes moved on all drives that show that something has started, regardless of the firmware's
/// log. Firmware reads a few KB.
const STARTED: u64 = 16 << 20;

pub struct MachineObserver {
    pub supervisor: Arc<Supervisor>,
    pub restarts: u32,
    pub load: MachineLoad,
    pub ppm: Vec<u8>,
    rendered: String,
    logged: Option<String>,
    /// `None` if the firmware has no log.
    firmware: Option<FirmwareProgress>,
}

/// Firmware events since power-on or the last restart.
#[derive(Default)]
struct FirmwareProgress {
    /// Medium that was started last.
    booted: Option<FirmwareEvent>,
    failed_options: Vec<String>,
    refused: bool,
    /// Start of the firmware's work, and the bytes moved until then.
    since: (Duration, u64),
}

impl MachineObserver {
    pub fn new(supervisor: Arc<Supervisor>) -> Self {
        let says = supervisor.driver.has_firmware_log();
        Self {
            supervisor,
            restarts: 0,
            load: MachineLoad::default(),
            ppm: Vec::new(),
            rendered: String::new(),
            logged: None,
            firmware: says.then(FirmwareProgress::default),
        }
    }

    /// Updates the restart count. Returns true if the guest has restarted since the last call.
    pub fn count_restarts(&mut self, glance: &MachineStatus, now: Duration) -> bool {
        let again = glance.restarts > self.restarts;
        if again {
            self.restarts = glance.restarts;
            self.begin_again(now);
        }
        again
    }

    /// Called when the firmware starts over.
    pub fn begin_again(&mut self, now: Duration) {
        if let Some(firmware) = &mut self.firmware {
            *firmware = FirmwareProgress {
                since: (now, self.load.transferred),
                ..FirmwareProgress::default()
            };
        }
    }

    /// Returns the firmware events since the last call.
    pub fn read_firmware(&mut self) -> Result<Vec<FirmwareEvent>> {
        let Some(said) = self.firmware.as_mut() else {
            return Ok(Vec::new());
        };
        let lines = self.supervisor.driver.read_firmware_log()?;
        for line in &lines {
            match line {
                FirmwareEvent::Failed(text) | FirmwareEvent::Refused(text) => {
                    said.booted = None;
                    said.refused |= matches!(line, FirmwareEvent::Refused(_));
                    said.failed_options.push(text.clone());
                }
                FirmwareEvent::NothingBoots => said.booted = None,
                FirmwareEvent::DiscStarts | FirmwareEvent::DiskStarts => {
                    said.booted = Some(line.clone())
                }
                FirmwareEvent::KeyPrompt => {}
            }
        }
        Ok(lines)
    }

    pub fn look_at_drives(&mut self) -> Result<()> {
        self.load = self.supervisor.driver.load()?;
        Ok(())
    }

    pub fn take_sample(
        &mut self,
        glance: MachineStatus,
        now: Duration,
        nothing_boots: bool,
    ) -> MachineSample {
        self.write_down(now, &glance);
        // A machine that has ended cannot be measured.
        self.load = self.supervisor.driver.load().unwrap_or(self.load);
        let screen = match glance.state {
            MachineState::Running => self.look_at_screen(now),
            _ => None,
        };
        MachineSample {
            at: now,
            screen,
            io: self.load.transferred,
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
        let moved = self.load.transferred.saturating_sub(moved_before);
        let idle = firmware.booted.is_none() && moved < STARTED;
        idle.then(|| now.saturating_sub(since))
    }

    fn look_at_screen(&mut self, now: Duration) -> Option<ScreenGrid> {
        self.ppm = self.supervisor.driver.take_picture().unwrap_or_default();
        let screen = ScreenGrid::from_ppm(&self.ppm)?;
        let mut pictures = self.supervisor.lock_pictures();
        if pictures.is_worth_keeping(&screen) {
            let file = pictures.next();
            if write_picture(&file, &self.ppm).is_ok() {
                pictures.record_picture(&screen, now, &self.describe_stage());
                self.supervisor.sink.emit(&Event::Screen {
                    file: file.display().to_string(),
                });
            }
        }
        drop(pictures);
        Some(screen)
    }

    /// Appends each change of the hypervisor's status to `machine.log`.
    fn write_down(&mut self, now: Duration, glance: &MachineStatus) {
        let Some(line) = &glance.log_text else { return };
        if self.logged.as_ref() == Some(line) {
            return;
        }
        let path = self.supervisor.plan.run_dir.join("machine.log");
        if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path) {
            // A full disk is reported by the operations that need it.
            let _ = writeln!(file, "{} after power-on: {line}", format_time(now));
        }
        self.logged.clone_from(&glance.log_text);
    }

    /// Returns all observations, with a last picture.
    pub fn observe_now(&self, still_since: Option<Duration>) -> MachineObservation {
        let firmware = self.firmware.as_ref();
        let last = self.supervisor.last_look(&self.describe_stage());
        MachineObservation {
            still_since,
            restarts: self.restarts,
            started: firmware.is_none_or(|f| f.booted.is_some())
                || last.purpose == MachinePurpose::Steps,
            disk_written: self.load.disk_written,
            failed_options: firmware.map_or_else(Vec::new, |f| f.failed_options.clone()),
            refused: firmware.is_some_and(|f| f.refused),
            ..last
        }
    }

    /// Describes the machine's current stage in a few words.
    pub fn describe_stage(&self) -> String {
        let booted = self.firmware.as_ref().map(|f| &f.booted);
        let what = match (self.supervisor.purpose(), booted) {
            (MachinePurpose::Steps, _) => return "Windows".to_string(),
            (_, Some(None)) => "firmware",
            (MachinePurpose::Install, Some(Some(FirmwareEvent::DiskStarts)))
                if self.restarts == 0 =>
            {
                "the disk boots"
            }
            (MachinePurpose::Install, _) => "Windows Setup",
            (MachinePurpose::Boot, _) => "the disk boots",
            (MachinePurpose::Clone, _) => "the clone starts",
        };
        match self.restarts {
            0 => what.to_string(),
            n => format!("{what} (restart {n})"),
        }
    }

    /// Reports a new stage to the user.
    pub fn report(&mut self, text: String) {
        if text != self.rendered {
            let phase = match self.supervisor.purpose() {
                MachinePurpose::Install => Phase::Install,
                MachinePurpose::Boot | MachinePurpose::Steps | MachinePurpose::Clone => Phase::Boot,
            };
            self.supervisor.sink.emit(&Event::Progress {
                phase,
                text: text.clone(),
            });
            self.rendered = text;
        }
    }
}
