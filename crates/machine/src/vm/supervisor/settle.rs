//! Waits from a clone's power-on until it is idle. Uses the watch of an installation, but here
//! inactivity is the goal, unless the screen waits for input.
//!
//! An idle clone is not necessarily a good one: the caller powers it off and checks its disk.

use std::sync::Arc;
use std::time::Duration;

use super::Supervisor;
use super::errors;
use super::judge::{MachineSample, MachineVerdict, SampleJudge, WatchLimits};
use super::start::{GLANCE, StartWatch};
use crate::vm::SettleOutcome;
use crate::vm::screen::ScreenGrid;
use crate::vm::supervisor::driver::GuestTimeout;
use winimg_base::error::Result;

/// A clock on the screen changes once a minute; anything more frequent is Windows at work.
const CLOCK_INTERVAL: Duration = Duration::from_secs(50);

pub struct SettleWatch {
    supervisor: Arc<Supervisor>,
    starting: StartWatch,
    quiet: Duration,
    idle: IdleDetector,
}

impl SettleWatch {
    pub fn new(supervisor: &Arc<Supervisor>, quiet: Duration) -> Self {
        Self {
            supervisor: Arc::clone(supervisor),
            starting: StartWatch::new(supervisor),
            quiet,
            idle: IdleDetector::new(quiet),
        }
    }

    pub fn wait(mut self, timeout: Duration) -> SettleOutcome {
        let after = self.wait_until_idle(timeout);
        SettleOutcome {
            restarts: self.starting.restarts(),
            after,
        }
    }

    fn wait_until_idle(&mut self, timeout: Duration) -> Result<Duration> {
        self.supervisor.power_on()?;
        let began = self.supervisor.elapsed();
        loop {
            self.supervisor.cancel.check()?;
            let observed = self.observe_idle();
            if let Some(after) = observed.map_err(|e| self.starting.or_death(e))? {
                self.starting.report("no more activity");
                return Ok(after);
            }
            if self.supervisor.elapsed().saturating_sub(began) >= timeout {
                let late = GuestTimeout {
                    fact: "the clone did not become idle",
                    ..GuestTimeout::default()
                };
                return Err(errors::too_late(
                    &self.starting.observe_now(),
                    timeout,
                    late,
                ));
            }
            self.supervisor.cancel.sleep(GLANCE)?;
        }
    }

    /// Returns the start of the idle time, once it is long enough.
    fn observe_idle(&mut self) -> Result<Option<Duration>> {
        let Some((sample, verdict)) = self.starting.observe()? else {
            return Ok(None);
        };
        if self.supervisor.attended.is_on() {
            self.idle = IdleDetector::new(self.quiet);
            return self.starting.conclude_watch(&verdict).map(|()| None);
        }
        let stalled = match verdict {
            MachineVerdict::Stalled { since } => Some(since),
            MachineVerdict::Fine => None,
            ended => return self.starting.conclude_watch(&ended).map(|()| None),
        };
        let idle = self.idle.judge_sample(&sample);
        let Some(since) = idle.or(stalled) else {
            return Ok(None);
        };
        if sample.firmware_for.is_some() || self.starting.waits_for_input(sample.screen) {
            self.starting
                .conclude_watch(&MachineVerdict::Stalled { since })?;
        }
        Ok(idle)
    }
}

/// Detects an idle machine with a [`SampleJudge`] that does not see the clock of the lock screen.
struct IdleDetector {
    judge: SampleJudge,
    /// Last screen and the time of its first sample.
    last: Option<(ScreenGrid, Duration)>,
    /// Screen that the judge gets: the one before the clock changed.
    shown: Option<ScreenGrid>,
}

impl IdleDetector {
    fn new(quiet: Duration) -> Self {
        Self {
            judge: SampleJudge::new(WatchLimits::from_quiet_time(quiet)),
            last: None,
            shown: None,
        }
    }

    /// Returns the start of the idle time, once it is long enough.
    fn judge_sample(&mut self, sample: &MachineSample) -> Option<Duration> {
        let screen = sample.screen.clone();
        let shown = screen.map(|screen| self.without_clock(screen, sample.at));
        let sample = MachineSample {
            screen: shown,
            ..sample.clone()
        };
        match self.judge.judge_sample(sample) {
            MachineVerdict::Stalled { since } => Some(since),
            _ => None,
        }
    }

    fn without_clock(&mut self, screen: ScreenGrid, at: Duration) -> ScreenGrid {
        if let (Some((last, since)), Some(shown)) = (&self.last, &self.shown) {
            if last.is_unchanged(&screen) {
                return shown.clone();
            }
            let shown = shown.clone();
            let is_clock =
                at.saturating_sub(*since) >= CLOCK_INTERVAL && !last.differs_widely(&screen);
            self.last = Some((screen.clone(), at));
            if is_clock {
                return shown;
            }
        } else {
            self.last = Some((screen.clone(), at));
        }
        self.shown.insert(screen).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 20 by 20 cells; as many of them as `text` says differ from a screen of another `shade`.
    fn screen(shade: u64, text: usize) -> Option<ScreenGrid> {
        let mut ppm = b"P6\n320 320\n255\n".to_vec();
        for y in 0..320 {
            for x in 0..320 {
                let lit = y / 16 * 20 + x / 16 < text;
                ppm.extend([if lit { (shade % 250) as u8 + 1 } else { 0 }; 3]);
            }
        }
        ScreenGrid::from_ppm(&ppm)
    }

    /// When a machine with a sample every 2 s is found at rest that has to be quiet for 90 s, and
    /// since when.
    fn rests(change: impl Fn(u64, &mut MachineSample)) -> Option<(u64, u64)> {
        let mut rest = IdleDetector::new(Duration::from_secs(90));
        (0..600).step_by(2).find_map(|second| {
            let mut sample = MachineSample {
                at: Duration::from_secs(second),
                screen: screen(0, 15),
                demand: Some(Duration::from_millis(second * 40)),
                ..MachineSample::default()
            };
            change(second, &mut sample);
            let since = rest.judge_sample(&sample)?;
            Some((second, since.as_secs()))
        })
    }

    #[test]
    fn a_clock_does_not_keep_a_clone_from_rest_but_work_does() {
        assert_eq!(rests(|_, _| {}), Some((90, 0)));
        let clock = rests(|t, s| s.screen = screen((t + 34) / 60, 15));
        assert_eq!(
            clock,
            Some((116, 26)),
            "a minute that changes at 26 s, 86 s …"
        );
        let spinner = rests(|t, s| s.screen = screen(t / 10, 15));
        assert_eq!(spinner, None, "a wheel that turns");
        let page = rests(|t, s| s.screen = screen(t / 60, 40));
        assert_eq!(page, None, "another page each minute");
        let busy = rests(|t, s| s.demand = Some(Duration::from_millis(t * 900)));
        assert_eq!(busy, None, "a processor at work");
        let written = rests(|t, s| s.io = t.min(200) << 20);
        let since = "drives at work until 200 s: the last of it is little for 90 s";
        assert_eq!(written, Some((286, 196)), "{since}");
        let restart = rests(|t, s| s.restarts = u32::from(t >= 60));
        assert_eq!(restart, Some((150, 60)), "a restart at 60 s");
    }
}
