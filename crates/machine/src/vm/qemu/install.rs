//! From power-on to the agent's first answer, of Setup or of an installed Windows: looks, tells, presses the one key, and ends as soon as
//! something is over.
//!
//! What the signs mean is decided in `watch`, `keys`, `stage`, `setup` and `boot`; here they are only brought together.

use std::sync::Arc;
use std::time::Duration;

use qapi::qmp::{QKeyCode, system_reset};

use super::keys::{Act, Keys};
use super::lookout::Lookout;
use super::running::Running;
use super::stage::Line;
use super::{boot, room, setup};
use crate::guest::agent::Agent;
use crate::vm::seen::Purpose;
use crate::vm::watch::{Judge, Limits, Sample, State, Verdict};
use crate::vm::{MachinePlan, Start};
use winimg_base::error::{Error, Result};
use winimg_base::event::{Event, Sink};
use winimg_recipe::recipe::Firmware;

const GLANCE: Duration = Duration::from_millis(100);
pub const SAMPLE: Duration = Duration::from_secs(2);

pub struct Install<'a> {
    running: Arc<Running>,
    plan: &'a MachinePlan,
    lookout: Lookout,
    slowness: u32,
    keys: Keys,
    limits: Limits,
    judge: Judge,
    next_sample: Duration,
    nothing_boots: bool,
}

impl<'a> Install<'a> {
    pub fn new(
        running: Arc<Running>,
        plan: &'a MachinePlan,
        sink: Arc<dyn Sink>,
        slowness: u32,
    ) -> Self {
        let lookout = Lookout::new(Arc::clone(&running), plan, sink);
        let limits = Limits::of(lookout.purpose, plan.still_limit, slowness);
        Self {
            running,
            plan,
            lookout,
            slowness,
            keys: Keys::new(prompts(plan)),
            limits,
            judge: Judge::new(limits),
            next_sample: SAMPLE,
            nothing_boots: false,
        }
    }

    /// Ends with what goes on watching, and by which limits.
    pub fn wait(mut self, agent: &mut Agent) -> Result<(Lookout, Limits)> {
        self.running.power_on()?;
        loop {
            self.running.cancel.check()?;
            self.look().map_err(|e| self.or_death(e))?;
            // A port that is open may still belong to a guest that is going down: then the watch goes on.
            if self.running.seen().port.open && agent.try_open(SAMPLE)? {
                self.lookout.tell("the guest agent answers".into());
                let limits = Limits::of(Purpose::Steps, self.plan.still_limit, self.slowness);
                return Ok((self.lookout, limits));
            }
            if self.running.elapsed() >= self.plan.timeout {
                return Err(self.too_late());
            }
            self.running.cancel.sleep(GLANCE)?;
        }
    }

    fn look(&mut self) -> Result<()> {
        let state = self.running.state();
        if state == State::Held {
            return Ok(());
        }
        let now = self.running.elapsed();
        let restarted = self.lookout.count_restarts(now);
        if restarted {
            self.keys.guest_restarted();
            self.nothing_boots = false;
            let count = self.lookout.restarts;
            self.lookout.sink.emit(&Event::Restarted { count });
        }
        let stage = self.lookout.stage();
        self.lookout.tell(stage);
        self.read_log(now)?;
        self.press_keys(now)?;
        // A restart is judged as soon as it is told: a loop is named with the count that the user saw last.
        if restarted || now >= self.next_sample || state != State::Running {
            self.next_sample = now + SAMPLE;
            let sample = self.lookout.sample(now, self.nothing_boots);
            let verdict = self.judge.look(sample);
            return self.conclude(verdict);
        }
        Ok(())
    }

    fn read_log(&mut self, now: Duration) -> Result<()> {
        for line in self.lookout.read_log()? {
            if matches!(line, Line::DiscStarts | Line::KeyPrompt) {
                self.lookout.look_at_drives()?;
            }
            self.keys.saw(&line, now, self.lookout.moved.disc_read);
        }
        Ok(())
    }

    fn press_keys(&mut self, now: Duration) -> Result<()> {
        if self.keys.is_pressing() {
            self.lookout.look_at_drives()?;
        }
        match self.keys.tick(now, self.lookout.moved.disc_read) {
            Act::Nothing => {}
            Act::PressUp => self.running.press(QKeyCode::up)?,
            Act::StartOver => {
                let retry = self.keys.retries;
                self.lookout.sink.note(format!(
                    "the install disc's key prompt was missed: attempt {}",
                    retry + 1
                ));
                self.lookout.begin_again(now);
                self.running.order(&system_reset {})?;
            }
            Act::GiveUp => self.nothing_boots = true,
        }
        Ok(())
    }

    fn conclude(&mut self, verdict: Verdict) -> Result<()> {
        let since = match &verdict {
            Verdict::Fine => return Ok(()),
            Verdict::Paused { why } => return Err(self.running.paused(why)),
            Verdict::Crashed { how } => return Err(self.running.crashed(how)),
            Verdict::StandsStill { since } => Some(*since),
            _ => None,
        };
        let seen = self.lookout.seen(self.running.elapsed(), since);
        let installing = seen.purpose == Purpose::Install;
        Err(match verdict {
            Verdict::DiskFailed => seen.shown(room::write_failed(&seen.disk_folder)),
            Verdict::FirmwareLate => boot::firmware_late(&seen, self.limits.firmware),
            Verdict::PoweredOff if installing => setup::powered_off(&seen),
            Verdict::PoweredOff => boot::powered_off(&seen),
            Verdict::RestartLoop { .. } if installing => setup::restart_loop(&seen),
            Verdict::RestartLoop { .. } => boot::restart_loop(&seen),
            Verdict::NoBootDevice if installing => setup::nothing_boots(&seen, self.keys.retries),
            Verdict::NoBootDevice => boot::nothing_boots(&seen),
            _ if installing => setup::stands_still(&seen),
            _ => boot::stands_still(&seen),
        })
    }

    fn too_late(&mut self) -> Error {
        let seen = self.lookout.seen(self.running.elapsed(), None);
        match seen.purpose {
            Purpose::Install => setup::too_late(&seen, self.plan.timeout),
            _ => boot::too_late(&seen, self.plan.timeout),
        }
    }

    /// A question that failed because QEMU died is reported as that death.
    fn or_death(&mut self, error: Error) -> Error {
        let patience = Duration::from_millis(200);
        if self.running.process.wait(patience).is_none() {
            return error;
        }
        let sample = Sample {
            state: self.running.state(),
            ..Sample::default()
        };
        match Judge::new(self.limits).look(sample) {
            Verdict::Fine => error,
            verdict => self.conclude(verdict).err().unwrap_or(error),
        }
    }
}

/// Whether the install disc asks for a key. Microsoft's BIOS loader asks only when a disk boots, and then the disk comes first anyway.
fn prompts(plan: &MachinePlan) -> bool {
    plan.firmware == Firmware::Uefi
        && matches!(&plan.start, Start::Install { install_disc, .. } if install_disc.prompts)
}
