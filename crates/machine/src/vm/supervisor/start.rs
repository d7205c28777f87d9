//! From power-on to the guest's first answer, of Setup or of an installed Windows, and every look at one that starts: looks, reports, presses the one key, and ends as soon as
//! something is over.
//!
//! An answer alone says nothing of Setup's end: the caller of `Machine::guest` looks for that.

use std::sync::Arc;
use std::time::Duration;

use super::judge::{Judge, Limits, Sample, Verdict};
use super::keys::{Act, Keys};
use super::lookout::Lookout;
use super::naming::{self, About};
use super::{SAMPLE, Supervisor};
use crate::vm::Start;
use crate::vm::driver::{Channel, Glance, Line, Oversight, State};
use crate::vm::screen::{Screen, dialog};
use crate::vm::seen::Seen;
use winimg_base::error::{Error, Result};
use winimg_base::event::Event;
use winimg_recipe::recipe::Firmware;

pub const GLANCE: Duration = Duration::from_millis(100);
/// For the last events of a machine that dies.
const DEATH: Duration = Duration::from_millis(200);

pub struct Starting {
    supervisor: Arc<Supervisor>,
    lookout: Lookout,
    keys: Keys,
    limits: Limits,
    judge: Judge,
    next_sample: Duration,
    nothing_boots: bool,
    /// Since when nothing moves, once that is long enough to be looked at.
    still_since: Option<Duration>,
    /// The last screen that was read, and whether it waits for a person.
    read: Option<(Screen, bool)>,
}

impl Starting {
    pub fn new(supervisor: &Arc<Supervisor>) -> Self {
        let still = supervisor.plan.still_limit;
        let limits = Limits::of(supervisor.purpose(), still, supervisor.slowness);
        Self {
            lookout: Lookout::new(Arc::clone(supervisor)),
            keys: keys(supervisor),
            limits,
            judge: Judge::new(limits),
            next_sample: SAMPLE,
            nothing_boots: false,
            still_since: None,
            read: None,
            supervisor: Arc::clone(supervisor),
        }
    }

    /// Ends with what goes on watching.
    pub fn wait(mut self, channel: &mut dyn Channel) -> Result<Lookout> {
        let timeout = self.supervisor.plan.timeout;
        self.supervisor.power_on()?;
        loop {
            self.supervisor.cancel.check()?;
            self.look().map_err(|e| self.or_death(e))?;
            let left = timeout.saturating_sub(self.supervisor.elapsed());
            // The guest may be going down already: then the watch goes on.
            if channel.try_open(left)? {
                self.lookout.report(channel.opened().into());
                return Ok(self.lookout);
            }
            if self.supervisor.elapsed() >= timeout {
                return Err(naming::too_late(&self.seen(), timeout, channel.late()));
            }
            self.supervisor.cancel.sleep(GLANCE)?;
        }
    }

    fn look(&mut self) -> Result<()> {
        match self.observe()? {
            Some((sample, verdict)) => {
                let verdict = self.with_patience(&sample, verdict);
                self.conclude(&verdict)
            }
            None => Ok(()),
        }
    }

    /// A box that is known is the end at once. Any other screen may stand for the whole limit: a Setup at work on a slow host was
    /// measured with drives and a processor as quiet as those of one that waits for a person.
    fn with_patience(&mut self, sample: &Sample, verdict: Verdict) -> Verdict {
        let Verdict::StandsStill { since } = verdict else {
            self.still_since = None;
            return verdict;
        };
        let since = *self.still_since.get_or_insert(since);
        let is_over = sample.at.saturating_sub(since) >= self.supervisor.plan.still_limit;
        if is_over || self.waits_for_a_person(sample.screen.clone()) {
            Verdict::StandsStill { since }
        } else {
            Verdict::Fine
        }
    }

    /// A stop error, a box or a page that is known. Each screen is read once.
    pub fn waits_for_a_person(&mut self, screen: Option<Screen>) -> bool {
        let Some(screen) = screen.filter(|s| !s.is_blank()) else {
            return false;
        };
        if screen.is_stop_blue() {
            return true;
        }
        match &self.read {
            Some((read, waits)) if read.stands(&screen) => *waits,
            _ => {
                let text = self.supervisor.read(self.picture()).join("\n");
                let waits = dialog::find(&text).is_some();
                self.read = Some((screen, waits));
                waits
            }
        }
    }

    /// Looks, and does what the look asks for; what it means, where that was due.
    pub fn observe(&mut self) -> Result<Option<(Sample, Verdict)>> {
        let is_due = self.supervisor.elapsed() >= self.next_sample;
        let glance = self.supervisor.glance(is_due)?;
        if glance.state == State::Held {
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
        let stage = self.lookout.stage();
        self.lookout.report(stage);
        self.read_firmware(now)?;
        self.press_keys(now)?;
        // A restart is judged as soon as it is reported: a loop is named with the count that the user saw last.
        if !restarted && !is_due && glance.state == State::Running {
            return Ok(None);
        }
        let judged = self.judge(glance, now);
        self.next_sample = self.supervisor.elapsed() + SAMPLE;
        Ok(Some(judged))
    }

    fn judge(&mut self, glance: Glance, now: Duration) -> (Sample, Verdict) {
        let runs = glance.state == State::Running;
        let sample = self.lookout.sample(glance, now, self.nothing_boots);
        if runs && self.supervisor.attended.is_on() {
            // What a person does to the machine is no fault of it.
            self.judge = Judge::new(self.limits);
            return (sample, Verdict::Fine);
        }
        let verdict = self.judge.look(sample.clone());
        (sample, verdict)
    }

    fn read_firmware(&mut self, now: Duration) -> Result<()> {
        for line in self.lookout.read_firmware()? {
            if matches!(line, Line::DiscStarts | Line::KeyPrompt) {
                self.lookout.look_at_drives()?;
            }
            self.keys.saw(&line, now, self.lookout.load.disc_read);
        }
        Ok(())
    }

    fn press_keys(&mut self, now: Duration) -> Result<()> {
        if self.keys.is_pressing() {
            self.lookout.look_at_drives()?;
        }
        match self.keys.tick(now, self.lookout.load.disc_read) {
            Act::Nothing => {}
            Act::PressUp => self.supervisor.driver.press_up()?,
            Act::StartOver => {
                let retry = self.keys.retries;
                self.supervisor.sink.note(format!(
                    "the install disc's key prompt was missed: attempt {}",
                    retry + 1
                ));
                self.lookout.begin_again(now);
                if let Some(firmware) = self.supervisor.driver.firmware() {
                    firmware.reset()?;
                }
            }
            Act::GiveUp => self.nothing_boots = true,
        }
        Ok(())
    }

    /// That the guest asked for, since power-on.
    pub fn restarts(&self) -> u32 {
        self.lookout.restarts
    }

    /// The picture of the last sample, as a PPM.
    pub fn picture(&self) -> &[u8] {
        &self.lookout.ppm
    }

    pub fn report(&mut self, text: &str) {
        self.lookout.report(text.into());
    }

    /// All that is known, with a last picture.
    pub fn seen(&self) -> Seen {
        self.lookout.seen(None)
    }

    /// The error of a verdict that ends the watch.
    pub fn conclude(&mut self, verdict: &Verdict) -> Result<()> {
        let since = match verdict {
            Verdict::Fine => return Ok(()),
            Verdict::Stopped(halt) => return Err(self.supervisor.halted(halt)),
            Verdict::Gone(how) => return Err(self.supervisor.driver.gone(how)),
            Verdict::StandsStill { since } | Verdict::Hangs { since } => Some(*since),
            _ => None,
        };
        let about = About {
            platform: self.supervisor.platform,
            firmware: self.limits.firmware,
            retries: self.keys.retries,
        };
        match naming::ending(verdict, &self.lookout.seen(since), &about) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// A question that failed because the machine died is reported as that death.
    pub fn or_death(&mut self, error: Error) -> Error {
        if !self.supervisor.driver.has_ended(DEATH) {
            return error;
        }
        match self.supervisor.glance(false) {
            Ok(glance) if glance.state != State::Running => {
                let verdict = Judge::state(&glance.state);
                self.conclude(&verdict).err().unwrap_or(error)
            }
            _ => error,
        }
    }
}

/// By the firmware's log, where there is one. Microsoft's BIOS loader asks only when a disk boots, and then the disk comes first anyway.
fn keys(supervisor: &Supervisor) -> Keys {
    let plan = &supervisor.plan;
    let asks = matches!(&plan.start, Start::Install { install_disc, .. } if install_disc.prompts);
    match supervisor.driver.firmware() {
        Some(_) => Keys::new(asks && plan.firmware == Firmware::Uefi),
        None => Keys::blind(asks),
    }
}
