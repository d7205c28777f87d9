//! What a machine shows from outside: restarts, the firmware's log, drives, processor and screen, gathered every 2 s.
//!
//! Keeps the pictures that are worth it. Judges nothing (`watch` does) and presses nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use qapi::qmp::ImageFormat;

use super::running::{Moved, Running};
use super::stage::{Line, Tail};
use crate::vm::screen::Screen;
use crate::vm::seen::{Purpose, Seen};
use crate::vm::watch::Sample;
use crate::vm::{MachinePlan, Start};
use winimg_base::error::Result;
use winimg_base::event::{Event, Sink};
use winimg_base::io::folder_of;
use winimg_recipe::recipe::Firmware;

/// Bytes moved on all drives that show that something was started, whatever the firmware's log says. Firmware reads a few KB.
const STARTED: u64 = 16 << 20;

pub struct Lookout {
    pub running: Arc<Running>,
    pub sink: Arc<dyn Sink>,
    pub purpose: Purpose,
    log: Tail,
    pub restarts: u32,
    told: String,
    /// Where the firmware handed over last.
    booted: Option<Line>,
    /// When the firmware began its work, and how much had been moved by then.
    firmware_since: (Duration, u64),
    pub failed_options: Vec<String>,
    pub moved: Moved,
    disk_folder: PathBuf,
}

impl Lookout {
    pub fn new(running: Arc<Running>, plan: &MachinePlan, sink: Arc<dyn Sink>) -> Self {
        let log = match plan.firmware {
            Firmware::Uefi => running.dir.serial(),
            Firmware::Bios => running.dir.bios_log(),
        };
        Self {
            log: Tail::after(log, running.log_start),
            purpose: match plan.start {
                Start::Install { .. } => Purpose::Install,
                Start::Boot => Purpose::Boot,
            },
            running,
            sink,
            restarts: 0,
            told: String::new(),
            booted: None,
            firmware_since: Default::default(),
            failed_options: Vec::new(),
            moved: Moved::default(),
            disk_folder: folder_of(&plan.disk).to_path_buf(),
        }
    }

    /// Whether the guest restarted since the last call.
    pub fn count_restarts(&mut self, now: Duration) -> bool {
        let restarts = self.running.seen().restarts;
        let again = restarts > self.restarts;
        if again {
            self.restarts = restarts;
            self.begin_again(now);
        }
        again
    }

    /// The firmware is at work once more.
    pub fn begin_again(&mut self, now: Duration) {
        self.booted = None;
        self.failed_options.clear();
        self.firmware_since = (now, self.moved.total);
    }

    /// The lines of the firmware's log that came since the last call.
    pub fn read_log(&mut self) -> Result<Vec<Line>> {
        let lines = self.log.read()?;
        for line in &lines {
            match line {
                Line::Failed(text) => {
                    self.booted = None;
                    self.failed_options.push(text.clone());
                }
                Line::NothingBoots => self.booted = None,
                Line::DiscStarts | Line::DiskStarts => self.booted = Some(line.clone()),
                Line::KeyPrompt => {}
            }
        }
        Ok(lines)
    }

    pub fn look_at_drives(&mut self) -> Result<()> {
        self.moved = self.running.moved()?;
        Ok(())
    }

    pub fn sample(&mut self, now: Duration, nothing_boots: bool) -> Sample {
        let state = self.running.state();
        // A machine that is over answers no more questions, and needs none.
        self.moved = self.running.moved().unwrap_or(self.moved);
        let (since, moved_before) = self.firmware_since;
        let idle = self.booted.is_none() && self.moved.total.saturating_sub(moved_before) < STARTED;
        Sample {
            at: now,
            screen: self.look_at_screen(now),
            io: self.moved.total,
            demand: self.running.process.demand(),
            restarts: self.restarts,
            state,
            nothing_boots,
            write_failed: self.moved.disk_failures > 0,
            firmware_for: idle.then(|| now.saturating_sub(since)),
        }
    }

    fn look_at_screen(&self, now: Duration) -> Option<Screen> {
        let file = self.running.dir.sample();
        self.running.dump_screen(&file, ImageFormat::ppm).ok()?;
        let screen = Screen::from_ppm(&std::fs::read(&file).ok()?)?;
        let _ = std::fs::remove_file(&file);
        let mut pictures = self.running.pictures();
        if pictures.wants(&screen) {
            let file = pictures.next();
            if self.running.dump_screen(&file, ImageFormat::png).is_ok() {
                pictures.taken(&screen, now, &self.stage());
                self.sink.emit(&Event::Screen {
                    file: file.display().to_string(),
                });
            }
        }
        drop(pictures);
        Some(screen)
    }

    /// All that is known, with a last picture.
    pub fn seen(&self, now: Duration, still_since: Option<Duration>) -> Seen {
        Seen {
            purpose: self.purpose,
            elapsed: now,
            still_since,
            restarts: self.restarts,
            started: self.booted.is_some() || self.purpose == Purpose::Steps,
            disk_written: self.moved.disk_written,
            disk_folder: self.disk_folder.clone(),
            failed_options: self.failed_options.clone(),
            ..self.running.last_look(&self.stage())
        }
    }

    /// Where the machine is, in a few words.
    pub fn stage(&self) -> String {
        let what = match (self.purpose, &self.booted, self.restarts) {
            (Purpose::Steps, _, _) => return "Windows".to_string(),
            (_, None, _) => "firmware",
            (Purpose::Install, Some(Line::DiscStarts), _) | (Purpose::Install, Some(_), 1..) => {
                "Windows Setup"
            }
            (_, Some(_), _) => "the disk boots",
        };
        match self.restarts {
            0 => what.to_string(),
            n => format!("{what} (restart {n})"),
        }
    }

    /// Tells the stage, once.
    pub fn tell(&mut self, text: String) {
        if text != self.told {
            let phase = match self.purpose {
                Purpose::Install => "install",
                Purpose::Boot | Purpose::Steps => "boot",
            };
            self.sink.emit(&Event::Progress {
                phase,
                text: text.clone(),
            });
            self.told = text;
        }
    }
}
