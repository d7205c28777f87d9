//! Watches Setup or an installed Windows from power-on to the guest's first answer: takes samples,
//! reports progress, presses the boot prompt's key, and ends as soon as the outcome is clear.
//!
//! An answer does not mean that Setup has finished: the caller of `VirtualMachine::wait_for_guest`
//! checks that.

use std::sync::Arc;
use std::time::Duration;

use super::boot_prompt::{KeyAction, PromptKeys};
use super::errors::{self, WatchContext};
use super::judge::{MachineSample, MachineVerdict, SampleJudge, WatchLimits};
use super::observer::MachineObserver;
use super::{SAMPLE, Supervisor};
use crate::vm::StartMode;
use crate::vm::observation::MachineObservation;
use crate::vm::screen::ScreenGrid;
use crate::vm::supervisor::driver::{FirmwareEvent, GuestChannel, MachineState, MachineStatus};
use crate::vm::symptoms;
use winimg_base::error::{Error, Result};
use winimg_base::event::Event;
use winimg_recipe::Firmware;

pub const GLANCE: Duration = Duration::from_millis(100);
/// Time to wait for the last events of a dying machine.
const DEATH: Duration = Duration::from_millis(200);

pub struct StartWatch {
    supervisor: Arc<Supervisor>,
    lookout: MachineObserver,
    keys: PromptKeys,
    limits: WatchLimits,
    judge: SampleJudge,
    next_sample: Duration,
    nothing_boots: bool,
    /// Start of the inactivity, once it has lasted long enough to be checked.
    still_since: Option<Duration>,
    /// Last screen that was read; `true` if it waits for input.
    read: Option<(ScreenGrid, bool)>,
}

impl StartWatch {
    pub fn new(supervisor: &Arc<Supervisor>) -> Self {
        let still = supervisor.plan.still_limit;
        let limits = WatchLimits::from_purpose(supervisor.purpose(), still, supervisor.slowness);
        Self {
            lookout: MachineObserver::new(Arc::clone(supervisor)),
            keys: new_prompt_keys(supervisor),
            limits,
            judge: SampleJudge::new(limits),
            next_sample: SAMPLE,
            nothing_boots: false,
            still_since: None,
            read: None,
            supervisor: Arc::clone(supervisor),
        }
    }

    /// Waits for the first answer and returns the lookout for the watch that follows.
    pub fn wait(mut self, channel: &mut dyn GuestChannel) -> Result<MachineObserver> {
        let timeout = self.supervisor.plan.timeout;
        self.supervisor.power_on()?;
        loop {
            self.supervisor.cancel.check()?;
            self.check_once().map_err(|e| self.or_death(e))?;
            let left = timeout.saturating_sub(self.supervisor.elapsed());
            // The guest may already be shutting down: keep watching then.
            if channel.try_open(left)? {
                self.lookout.report(channel.describe_success().into());
                return Ok(self.lookout);
            }
            if self.supervisor.elapsed() >= timeout {
                return Err(errors::too_late(
                    &self.observe_now(),
                    timeout,
                    channel.describe_timeout(),
                ));
            }
            self.supervisor.cancel.sleep(GLANCE)?;
        }
    }

    fn check_once(&mut self) -> Result<()> {
        match self.observe()? {
            Some((sample, verdict)) => {
                let verdict = self.with_patience(&sample, verdict);
                self.conclude_watch(&verdict)
            }
            None => Ok(()),
        }
    }

    /// Fails at once at a known dialog. Any other screen may last for the whole limit: on a slow
    /// host a working Setup was as quiet as one that waits for input.
    fn with_patience(&mut self, sample: &MachineSample, verdict: MachineVerdict) -> MachineVerdict {
        let MachineVerdict::Stalled { since } = verdict else {
            self.still_since = None;
            return verdict;
        };
        let since = *self.still_since.get_or_insert(since);
        let is_over = sample.at.saturating_sub(since) >= self.supervisor.plan.still_limit;
        if is_over || self.waits_for_input(sample.screen.clone()) {
            MachineVerdict::Stalled { since }
        } else {
            MachineVerdict::Fine
        }
    }

    /// Returns true for a stop error, a known dialog or a known page. Each screen is read once.
    pub fn waits_for_input(&mut self, screen: Option<ScreenGrid>) -> bool {
        let Some(screen) = screen.filter(|s| !s.is_blank()) else {
            return false;
        };
        if screen.is_stop_blue() {
            return true;
        }
        match &self.read {
            Some((read, waits)) if read.is_unchanged(&screen) => *waits,
            _ => {
                let text = self.supervisor.read(self.picture()).join("\n");
                let waits = symptoms::find_on_screen(&text).is_some();
                self.read = Some((screen, waits));
                waits
            }
        }
    }

    /// Reads the status and reacts to it. Returns a sample and its verdict if one was due.
    pub fn observe(&mut self) -> Result<Option<(MachineSample, MachineVerdict)>> {
        let is_due = self.supervisor.elapsed() >= self.next_sample;
        let glance = self.supervisor.read_status(is_due)?;
        if glance.state == MachineState::PausedForSpace {
            return Ok(None);
        }
        let now = self.supervisor.elapsed();
        let restarted = self.lookout.count_restarts(&glance, now);
        if restarted {
            self.keys.guest_restarted();
            self.nothing_boots = false;
            let count = self.lookout.restarts;
            self.supervisor.sink.emit(&Event::Restarted { count });
        }
        let stage = self.lookout.describe_stage();
        self.lookout.report(stage);
        self.read_firmware(now)?;
        self.press_keys(now)?;
        // A restart is judged at once, so that a loop is reported with the count shown last.
        if !restarted && !is_due && glance.state == MachineState::Running {
            return Ok(None);
        }
        let judged = self.judge(glance, now);
        self.next_sample = self.supervisor.elapsed() + SAMPLE;
        Ok(Some(judged))
    }

    fn judge(&mut self, glance: MachineStatus, now: Duration) -> (MachineSample, MachineVerdict) {
        let runs = glance.state == MachineState::Running;
        let sample = self.lookout.take_sample(glance, now, self.nothing_boots);
        if runs && self.supervisor.attended.is_on() {
            // Not an error: a person is controlling the machine.
            self.judge = SampleJudge::new(self.limits);
            return (sample, MachineVerdict::Fine);
        }
        let verdict = self.judge.judge_sample(sample.clone());
        (sample, verdict)
    }

    fn read_firmware(&mut self, now: Duration) -> Result<()> {
        for line in self.lookout.read_firmware()? {
            if matches!(line, FirmwareEvent::DiscStarts | FirmwareEvent::KeyPrompt) {
                self.lookout.look_at_drives()?;
            }
            self.keys.observe(&line, now, self.lookout.load.disc_read);
        }
        Ok(())
    }

    fn press_keys(&mut self, now: Duration) -> Result<()> {
        if self.keys.is_pressing() {
            self.lookout.look_at_drives()?;
        }
        match self.keys.next_action(now, self.lookout.load.disc_read) {
            KeyAction::Nothing => {}
            KeyAction::PressUp => self.supervisor.driver.press_up()?,
            KeyAction::StartOver => {
                let retry = self.keys.retries;
                self.supervisor.sink.note(format!(
                    "the install disc's key prompt was missed: attempt {}",
                    retry + 1
                ));
                self.lookout.begin_again(now);
                self.supervisor.driver.reset()?;
            }
            KeyAction::GiveUp => self.nothing_boots = true,
        }
        Ok(())
    }

    /// Returns the number of restarts by the guest since power-on.
    pub fn restarts(&self) -> u32 {
        self.lookout.restarts
    }

    /// Returns the picture of the last sample as a PPM.
    pub fn picture(&self) -> &[u8] {
        &self.lookout.ppm
    }

    pub fn report(&mut self, text: &str) {
        self.lookout.report(text.into());
    }

    /// Returns all observations, with a last picture.
    pub fn observe_now(&self) -> MachineObservation {
        self.lookout.observe_now(None)
    }

    /// Fails with the error of a verdict that ends the watch.
    pub fn conclude_watch(&mut self, verdict: &MachineVerdict) -> Result<()> {
        let since = match verdict {
            MachineVerdict::Fine => return Ok(()),
            MachineVerdict::Stopped(halt) => return Err(self.supervisor.report_halt(halt)),
            MachineVerdict::Gone(how) => return Err(self.supervisor.driver.describe_exit(how)),
            MachineVerdict::Stalled { since } | MachineVerdict::Hangs { since } => Some(*since),
            _ => None,
        };
        let about = WatchContext {
            platform: self.supervisor.platform,
            firmware: self.limits.firmware,
            retries: self.keys.retries,
        };
        match errors::explain_verdict(verdict, &self.lookout.observe_now(since), &about) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Replaces an error that was caused by the machine's death with an error about that death.
    pub fn or_death(&mut self, error: Error) -> Error {
        if !self.supervisor.driver.has_ended(DEATH) {
            return error;
        }
        match self.supervisor.read_status(false) {
            Ok(glance) if glance.state != MachineState::Running => {
                let verdict = SampleJudge::judge_state(&glance.state);
                self.conclude_watch(&verdict).err().unwrap_or(error)
            }
            _ => error,
        }
    }
}

/// Follows the firmware's log if there is one. Microsoft's BIOS loader prompts only if a bootable
/// disk exists, and then the disk is booted first anyway.
fn new_prompt_keys(supervisor: &Supervisor) -> PromptKeys {
    let plan = &supervisor.plan;
    let asks =
        matches!(&plan.start, StartMode::Install { install_disc, .. } if install_disc.prompts);
    if supervisor.driver.has_firmware_log() {
        PromptKeys::new(asks && plan.firmware == Firmware::Uefi)
    } else {
        PromptKeys::new_without_log(asks)
    }
}
