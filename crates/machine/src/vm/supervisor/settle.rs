//! From a clone's power-on to a screen at which nothing happens any more: the watch of an installation, whose standing still is the
//! aim here, unless the screen is one that waits for a person.
//!
//! That nothing happens says nothing of what has become of the clone: the caller powers it off and reads its disk.

use std::sync::Arc;
use std::time::Duration;

use super::Supervisor;
use super::judge::{Judge, Limits, Sample, Verdict};
use super::naming;
use super::start::{GLANCE, Starting};
use crate::vm::Settled;
use crate::vm::driver::{Late, Oversight};
use crate::vm::screen::Screen;
use winimg_base::error::Result;

/// A clock on the screen goes on once a minute; what moves more often is Windows at work.
const CLOCK: Duration = Duration::from_secs(50);

pub struct Settling {
    supervisor: Arc<Supervisor>,
    starting: Starting,
    quiet: Duration,
    rest: Rest,
}

impl Settling {
    pub fn new(supervisor: &Arc<Supervisor>, quiet: Duration) -> Self {
        Self {
            supervisor: Arc::clone(supervisor),
            starting: Starting::new(supervisor),
            quiet,
            rest: Rest::new(quiet),
        }
    }

    pub fn wait(mut self, timeout: Duration) -> Settled {
        let after = self.rests(timeout);
        Settled {
            restarts: self.starting.restarts(),
            after,
        }
    }

    fn rests(&mut self, timeout: Duration) -> Result<Duration> {
        self.supervisor.power_on()?;
        let began = self.supervisor.elapsed();
        loop {
            self.supervisor.cancel.check()?;
            let looked = self.look();
            if let Some(after) = looked.map_err(|e| self.starting.or_death(e))? {
                self.starting.report("nothing moves any more");
                return Ok(after);
            }
            if self.supervisor.elapsed().saturating_sub(began) >= timeout {
                let late = Late {
                    fact: "the clone did not come to rest",
                    ..Late::default()
                };
                return Err(naming::too_late(&self.starting.seen(), timeout, late));
            }
            self.supervisor.cancel.sleep(GLANCE)?;
        }
    }

    /// Since when it rests, once that is long enough.
    fn look(&mut self) -> Result<Option<Duration>> {
        let Some((sample, verdict)) = self.starting.observe()? else {
            return Ok(None);
        };
        if self.supervisor.attended.is_on() {
            self.rest = Rest::new(self.quiet);
            return self.starting.conclude(&verdict).map(|()| None);
        }
        let stands = match verdict {
            Verdict::StandsStill { since } => Some(since),
            Verdict::Fine => None,
            ended => return self.starting.conclude(&ended).map(|()| None),
        };
        let rests = self.rest.look(&sample);
        let Some(since) = rests.or(stands) else {
            return Ok(None);
        };
        if sample.firmware_for.is_some() || self.starting.waits_for_a_person(sample.screen) {
            let stands = Verdict::StandsStill { since };
            self.starting.conclude(&stands)?;
        }
        Ok(rests)
    }
}

/// Whether a machine has come to rest: as a [`Judge`] sees it, but for the clock of a screen that nobody has logged on to.
struct Rest {
    judge: Judge,
    /// What was on the screen last, and since when.
    last: Option<(Screen, Duration)>,
    /// What the judge is shown: the screen as it was before a clock went on.
    shown: Option<Screen>,
}

impl Rest {
    fn new(quiet: Duration) -> Self {
        Self {
            judge: Judge::new(Limits::resting(quiet)),
            last: None,
            shown: None,
        }
    }

    /// Since when it rests, once that is long enough.
    fn look(&mut self, sample: &Sample) -> Option<Duration> {
        let screen = sample.screen.clone();
        let shown = screen.map(|screen| self.without_clock(screen, sample.at));
        let sample = Sample {
            screen: shown,
            ..sample.clone()
        };
        match self.judge.look(sample) {
            Verdict::StandsStill { since } => Some(since),
            _ => None,
        }
    }

    fn without_clock(&mut self, screen: Screen, at: Duration) -> Screen {
        if let (Some((last, since)), Some(shown)) = (&self.last, &self.shown) {
            if last.stands(&screen) {
                return shown.clone();
            }
            let shown = shown.clone();
            let is_clock = at.saturating_sub(*since) >= CLOCK && !last.is_another(&screen);
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
    fn screen(shade: u64, text: usize) -> Option<Screen> {
        let mut ppm = b"P6\n320 320\n255\n".to_vec();
        for y in 0..320 {
            for x in 0..320 {
                let lit = y / 16 * 20 + x / 16 < text;
                ppm.extend([if lit { (shade % 250) as u8 + 1 } else { 0 }; 3]);
            }
        }
        Screen::from_ppm(&ppm)
    }

    /// When a machine with a sample every 2 s is found at rest that has to be quiet for 90 s, and since when.
    fn rests(change: impl Fn(u64, &mut Sample)) -> Option<(u64, u64)> {
        let mut rest = Rest::new(Duration::from_secs(90));
        (0..600).step_by(2).find_map(|second| {
            let mut sample = Sample {
                at: Duration::from_secs(second),
                screen: screen(0, 15),
                demand: Some(Duration::from_millis(second * 40)),
                ..Sample::default()
            };
            change(second, &mut sample);
            let since = rest.look(&sample)?;
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
