//! From power-on to the agent's first answer: looks, tells, presses the one key, and ends as soon as something is over.
//!
//! What the signs mean is decided in `watch`, `keys`, `stage` and `setup`; here they are only gathered.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;

use super::keys::{Act, Keys};
use super::running::{Moved, Running};
use super::screen::Screen;
use super::setup::{self, Seen};
use super::stage::{Line, Tail};
use super::watch::{Judge, Sample, Verdict};
use crate::error::{Error, Result};
use crate::event::{Event, Sink};
use crate::guest::agent::Agent;
use crate::recipe::Firmware;
use crate::vm::{MachinePlan, Start};

const PHASE: &str = "install";
const GLANCE: Duration = Duration::from_millis(100);
const SAMPLE: Duration = Duration::from_secs(2);
/// Pictures kept: enough for the last minutes of any Setup.
const PICTURES: u32 = 30;

pub struct Install<'a> {
    running: &'a Running,
    plan: &'a MachinePlan,
    sink: &'a dyn Sink,
    began: Instant,
    log: Tail,
    keys: Keys,
    judge: Judge,
    next_sample: Duration,
    restarts: u32,
    told: String,
    /// Where the firmware handed over last.
    booted: Option<Line>,
    nothing_boots: bool,
    failed_options: Vec<String>,
    moved: Moved,
    kept: Option<Screen>,
    pictures: u32,
}

impl<'a> Install<'a> {
    pub fn new(running: &'a Running, plan: &'a MachinePlan, sink: &'a dyn Sink) -> Result<Self> {
        let screens = running.dir.screens();
        std::fs::create_dir_all(&screens).map_err(|e| Error::io("create", &screens, e))?;
        let (log, prompts) = match plan.firmware {
            Firmware::Uefi => (running.dir.serial(), prompts(&plan.start)),
            // Microsoft's BIOS loader asks only when a disk boots, and then the disk comes first anyway.
            Firmware::Bios => (running.dir.bios_log(), false),
        };
        Ok(Self {
            running,
            plan,
            sink,
            began: Instant::now(),
            log: Tail::new(log),
            keys: Keys::new(prompts),
            judge: Judge::new(plan.still_limit),
            next_sample: SAMPLE,
            restarts: 0,
            told: String::new(),
            booted: None,
            nothing_boots: false,
            failed_options: Vec::new(),
            moved: Moved::default(),
            kept: None,
            pictures: 0,
        })
    }

    pub fn wait(mut self, agent: &mut Agent) -> Result<()> {
        self.running.ask("cont", json!({}))?;
        self.began = Instant::now();
        loop {
            self.running.cancel.check()?;
            self.look().map_err(|e| self.or_death(e))?;
            // A port that is open may still belong to a guest that is going down: then the watch goes on.
            if self.running.seen().port.open && agent.try_open(SAMPLE)? {
                self.tell("the guest agent answers".into());
                return Ok(());
            }
            if self.began.elapsed() >= self.plan.timeout {
                return Err(setup::too_late(&self.seen(None), self.plan.timeout));
            }
            self.running.cancel.sleep(GLANCE)?;
        }
    }

    fn look(&mut self) -> Result<()> {
        let now = self.began.elapsed();
        self.count_restarts();
        self.read_log(now)?;
        self.press_keys(now)?;
        if now >= self.next_sample || !matches!(self.running.state(), super::watch::State::Running)
        {
            self.next_sample = now + SAMPLE;
            let sample = self.sample(now);
            let verdict = self.judge.look(sample);
            return self.conclude(verdict);
        }
        Ok(())
    }

    fn count_restarts(&mut self) {
        let restarts = self.running.seen().restarts;
        if restarts > self.restarts {
            self.restarts = restarts;
            self.keys.guest_restarted();
            self.booted = None;
            self.nothing_boots = false;
            self.sink.emit(&Event::Restarted { count: restarts });
        }
        let text = self.stage();
        self.tell(text);
    }

    fn read_log(&mut self, now: Duration) -> Result<()> {
        for line in self.log.read()? {
            if matches!(line, Line::DiscStarts | Line::KeyPrompt) {
                self.moved = self.running.moved()?;
            }
            self.keys.saw(&line, now, self.moved.disc_read);
            match line {
                Line::Failed(text) => {
                    self.booted = None;
                    self.failed_options.push(text);
                }
                Line::NothingBoots => self.booted = None,
                Line::DiscStarts | Line::DiskStarts => self.booted = Some(line),
                Line::KeyPrompt => {}
            }
        }
        Ok(())
    }

    fn press_keys(&mut self, now: Duration) -> Result<()> {
        if self.keys.is_pressing() {
            self.moved = self.running.moved()?;
        }
        match self.keys.tick(now, self.moved.disc_read) {
            Act::Nothing => {}
            Act::PressUp => self.running.press("up")?,
            Act::StartOver => {
                let retry = self.keys.retries;
                self.sink.note(format!(
                    "the install disc's key prompt was missed: attempt {}",
                    retry + 1
                ));
                self.failed_options.clear();
                self.running.ask("system_reset", json!({}))?;
            }
            Act::GiveUp => self.nothing_boots = true,
        }
        Ok(())
    }

    fn sample(&mut self, now: Duration) -> Sample {
        let state = self.running.state();
        // A machine that is over answers no more questions, and needs none.
        self.moved = self.running.moved().unwrap_or(self.moved);
        let screen = self.look_at_screen();
        Sample {
            at: now,
            screen,
            io: self.moved.total,
            demand: self.running.process.demand(),
            restarts: self.restarts,
            state,
            nothing_boots: self.nothing_boots,
        }
    }

    fn look_at_screen(&mut self) -> Option<Screen> {
        let file = self.running.dir.sample();
        self.running.dump_screen(&file, "ppm").ok()?;
        let screen = Screen::from_ppm(&std::fs::read(&file).ok()?)?;
        let _ = std::fs::remove_file(&file);
        if self
            .kept
            .as_ref()
            .is_none_or(|kept| screen.is_another(kept))
        {
            self.keep_picture();
            self.kept = Some(screen.clone());
        }
        Some(screen)
    }

    /// A ring: the picture after the thirtieth takes the first one's place.
    fn keep_picture(&mut self) {
        let name = |n: u32| self.running.dir.screens().join(format!("{n:04}.png"));
        let file = name(self.pictures);
        if self.running.dump_screen(&file, "png").is_err() {
            return;
        }
        if let Some(old) = self.pictures.checked_sub(PICTURES) {
            let _ = std::fs::remove_file(name(old));
        }
        self.pictures += 1;
        self.sink.emit(&Event::Screen {
            file: file.display().to_string(),
        });
    }

    fn conclude(&self, verdict: Verdict) -> Result<()> {
        let error = match verdict {
            Verdict::Fine => return Ok(()),
            Verdict::Paused { why } => self.running.paused(&why),
            Verdict::Crashed { how } => self.running.crashed(&how),
            Verdict::PoweredOff => setup::powered_off(&self.seen(None)),
            Verdict::RestartLoop { .. } => setup::restart_loop(&self.seen(None)),
            Verdict::NoBootDevice => setup::nothing_boots(&self.seen(None), self.keys.retries),
            Verdict::StandsStill { since } => setup::stands_still(&self.seen(Some(since))),
        };
        Err(error)
    }

    /// A question that failed because QEMU died is reported as that death.
    fn or_death(&self, error: Error) -> Error {
        if self
            .running
            .process
            .wait(Duration::from_millis(200))
            .is_none()
        {
            return error;
        }
        let mut judge = Judge::new(self.plan.still_limit);
        let sample = Sample {
            state: self.running.state(),
            ..Sample::default()
        };
        match judge.look(sample) {
            Verdict::Fine => error,
            verdict => self.conclude(verdict).err().unwrap_or(error),
        }
    }

    fn seen(&self, still_since: Option<Duration>) -> Seen {
        Seen {
            elapsed: self.began.elapsed(),
            still_since,
            restarts: self.restarts,
            setup_started: self.booted.is_some(),
            disk_written: self.moved.disk_written,
            failed_options: self.failed_options.clone(),
            screenshot: self.last_picture(),
        }
    }

    fn last_picture(&self) -> Option<PathBuf> {
        let file = self.running.dir.screens().join("stopped.png");
        let taken = self.running.dump_screen(&file, "png");
        taken.is_ok().then_some(file)
    }

    fn stage(&self) -> String {
        match (self.restarts, &self.booted) {
            (0, Some(Line::DiscStarts)) => "Windows Setup".to_string(),
            (0, Some(_)) => "the disk boots".to_string(),
            (0, None) => "firmware".to_string(),
            (n, Some(_)) => format!("Windows Setup (restart {n})"),
            (n, None) => format!("firmware (restart {n})"),
        }
    }

    fn tell(&mut self, text: String) {
        if text != self.told {
            self.sink.emit(&Event::Progress {
                phase: PHASE,
                text: text.clone(),
            });
            self.told = text;
        }
    }
}

/// Whether the install disc asks for a key.
fn prompts(start: &Start) -> bool {
    matches!(start, Start::Install { install_disc, .. } if install_disc.prompts)
}
