//! From power-on to the guest's first session, of Setup or of an installed Windows: looks, tells, presses the one key, and ends as soon as
//! something is over.
//!
//! A session alone says nothing of Setup's end: whoever asked for the guest looks for that.

use std::sync::Arc;
use std::time::Duration;

use super::running::Running;
use super::watch::{Lookout, SAMPLE};
use super::words;
use crate::guest::direct::{Direct, Opened};
use crate::vm::seen::Purpose;
use crate::vm::watch::{Judge, Limits, Sample, Verdict};
use crate::vm::{MachinePlan, Start};
use winimg_base::error::Result;
use winimg_base::event::Sink;

const GLANCE: Duration = Duration::from_millis(100);
/// Between two attempts at a session.
const ATTEMPT: Duration = Duration::from_secs(5);
/// The same while the guest's own services say nothing to Hyper-V: they may be switched off.
const BLIND_ATTEMPT: Duration = Duration::from_secs(30);
/// The prompt comes seconds after power-on and waits for five; fast hosts show it early, evaluation media late.
const PROMPT: Duration = Duration::from_secs(15);
const PRESS: Duration = Duration::from_millis(500);
/// Up: unlike Enter it answers no box that comes after the prompt (Microsoft: Virtual-Key Codes, VK_UP).
const UP: u64 = 0x26;

pub struct Install<'a> {
    running: Arc<Running>,
    plan: &'a MachinePlan,
    lookout: Lookout,
    judge: Judge,
    prompts: bool,
    next_press: Duration,
    next_sample: Duration,
    last_attempt: Duration,
    said: String,
}

impl<'a> Install<'a> {
    pub fn new(running: Arc<Running>, plan: &'a MachinePlan, sink: Arc<dyn Sink>) -> Self {
        let limits = Limits::of(running.purpose(), plan.still_limit, 1);
        Self {
            lookout: Lookout::new(Arc::clone(&running), sink),
            running,
            plan,
            judge: Judge::new(limits),
            prompts: matches!(&plan.start, Start::Install { install_disc, .. } if install_disc.prompts),
            next_press: Duration::ZERO,
            next_sample: SAMPLE,
            last_attempt: Duration::ZERO,
            said: String::new(),
        }
    }

    /// Ends with what goes on watching, and by which limits.
    pub fn wait(mut self, direct: &mut Direct) -> Result<(Lookout, Limits)> {
        self.running.power_on()?;
        loop {
            self.running.cancel.check()?;
            self.press()?;
            if self.running.elapsed() >= self.next_sample {
                self.look()?;
                self.next_sample = self.running.elapsed() + SAMPLE;
            }
            if self.may_attempt() && self.attempt(direct)? {
                self.lookout.tell("Windows takes a session".into());
                let limits = Limits::of(Purpose::Steps, self.plan.still_limit, 1);
                return Ok((self.lookout, limits));
            }
            if self.running.elapsed() >= self.plan.timeout {
                let seen = self.lookout.seen(None);
                let heartbeat = self.running.figures().heartbeat;
                return Err(words::too_late(
                    &seen,
                    self.plan.timeout,
                    &heartbeat,
                    &self.said,
                ));
            }
            self.running.cancel.sleep(GLANCE)?;
        }
    }

    fn press(&mut self) -> Result<()> {
        let now = self.running.elapsed();
        if self.prompts && now < PROMPT && now >= self.next_press {
            self.next_press = now + PRESS;
            self.running.press(UP)?;
        }
        Ok(())
    }

    fn look(&mut self) -> Result<()> {
        let sample = self.lookout.sample();
        let stage = self.lookout.stage();
        self.lookout.tell(stage);
        if self.running.attended.is_on() {
            return Ok(());
        }
        self.conclude(sample)
    }

    fn conclude(&mut self, sample: Sample) -> Result<()> {
        let verdict = self.judge.look(sample);
        let since = match &verdict {
            Verdict::Fine => return self.running.check(false),
            Verdict::StandsStill { since } => Some(*since),
            _ => None,
        };
        let seen = self.lookout.seen(since);
        match words::error(&verdict, &seen, &self.running.name) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn may_attempt(&self) -> bool {
        let wait = match self.running.figures().beats() {
            true => ATTEMPT,
            false => BLIND_ATTEMPT,
        };
        // The first attempt waits for a first look.
        let first = self.last_attempt.is_zero() && self.running.figures().beats();
        first || self.running.elapsed() >= self.last_attempt + wait
    }

    fn attempt(&mut self, direct: &mut Direct) -> Result<bool> {
        let left = self.plan.timeout.saturating_sub(self.running.elapsed());
        let opened = direct.try_open(left);
        self.last_attempt = self.running.elapsed().max(GLANCE);
        match opened? {
            Opened::Yes => Ok(true),
            Opened::NotYet(said) => {
                self.said = said;
                Ok(false)
            }
        }
    }
}
