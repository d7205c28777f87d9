//! Judges samples of a Windows that has answered once and runs steps: a crash, a box that hangs it, or restarts for ever.
//!
//! Pure. An idle screen is what a good Windows shows while a step works, so a screen alone condemns nothing here: the guest must have been
//! asked and be silent as well. What a guest that answers was seen with is known to be harmless.

use std::collections::VecDeque;
use std::time::Duration;

use super::judge::{Judge, Limits, Sample, Verdict};
use crate::vm::screen::Screen;

/// An agent that was silent for less counts as one that answers.
const ALIVE: Duration = Duration::from_secs(5);
/// Silence that condemns at a screen that is known to be harmless, or shows nothing: servicing keeps the agent silent for half a minute, and
/// Windows shuts down behind a black screen.
const LONG_SILENCE: Duration = Duration::from_secs(300);
/// Harmless screens that are remembered.
const KNOWN: usize = 16;

#[derive(Debug)]
pub struct Watchdog {
    judge: Judge,
    still: Duration,
    known: VecDeque<Screen>,
    shown: Option<(Screen, Duration)>,
    /// Restarts up to the agent's last sign of life: those were wanted.
    restarts: u32,
    /// Nothing moves, whatever the agent does.
    pub stands: bool,
}

impl Watchdog {
    pub fn new(limits: Limits) -> Self {
        Self {
            judge: Judge::new(limits),
            still: limits.still,
            known: VecDeque::new(),
            shown: None,
            restarts: 0,
            stands: false,
        }
    }

    /// `silent`: how long the agent has been asked in vain, or its port has been closed; `None` when nobody asked.
    pub fn look(&mut self, sample: Sample, silent: Option<Duration>) -> Verdict {
        let silent = silent.unwrap_or_default();
        let screen = sample.screen.clone();
        if silent < ALIVE {
            self.restarts = sample.restarts;
        }
        self.remember(screen.as_ref(), sample.at, silent);
        let sample = Sample {
            restarts: sample.restarts.saturating_sub(self.restarts),
            ..sample
        };
        let verdict = self.judge.look(sample);
        self.stands = matches!(verdict, Verdict::StandsStill { .. });
        match verdict {
            Verdict::StandsStill { .. } if silent < self.patience(screen.as_ref()) => Verdict::Fine,
            // Steps power off and restart as they like; the step that waits for it judges it.
            Verdict::PoweredOff | Verdict::Stopped(_) | Verdict::Gone(_) => Verdict::Fine,
            verdict => verdict,
        }
    }

    /// Harmless is a screen that was there before the agent's last answer.
    fn remember(&mut self, screen: Option<&Screen>, at: Duration, silent: Duration) {
        let Some(screen) = screen.filter(|s| !s.is_stop_blue()) else {
            return;
        };
        let same = |(shown, _): &&(Screen, Duration)| shown.stands(screen);
        let Some((_, since)) = self.shown.as_ref().filter(same) else {
            self.shown = Some((screen.clone(), at));
            return;
        };
        if silent >= ALIVE || silent >= at.saturating_sub(*since) || self.is_known(screen) {
            return;
        }
        if self.known.len() == KNOWN {
            self.known.pop_front();
        }
        self.known.push_back(screen.clone());
    }

    fn is_known(&self, screen: &Screen) -> bool {
        self.known.iter().any(|known| known.stands(screen))
    }

    fn patience(&self, screen: Option<&Screen>) -> Duration {
        match screen {
            Some(screen) if !screen.is_blank() && !self.is_known(screen) => self.still,
            _ => self.still.max(LONG_SILENCE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::seen::Purpose;

    /// A screen whose upper half has this shade.
    fn screen(shade: u8) -> Option<Screen> {
        let mut ppm = b"P6\n320 160\n255\n".to_vec();
        for y in 0..160 {
            for _ in 0..320 {
                ppm.extend([if y < 80 { shade } else { 0 }; 3]);
            }
        }
        Screen::from_ppm(&ppm)
    }

    fn blue() -> Option<Screen> {
        let mut ppm = b"P6\n320 160\n255\n".to_vec();
        for n in 0..320 * 160 {
            ppm.extend(if n % 20 == 0 {
                [255; 3]
            } else {
                [0, 0x78, 0xd7]
            });
        }
        Screen::from_ppm(&ppm)
    }

    const IDLE: u8 = 1;
    const BOX: u8 = 2;

    /// A second of a life: screen, restarts, busy, and since when the agent is silent.
    struct Moment {
        screen: Option<Screen>,
        restarts: u32,
        busy: bool,
        silent_since: Option<u64>,
    }

    /// The first verdict that is not fine, over 20 minutes of an idle desktop with an agent that answers, but for what `change`
    /// makes of each second.
    fn run(change: impl Fn(u64, &mut Moment)) -> Option<(u64, Verdict)> {
        let limits = Limits::of(Purpose::Steps, Duration::from_secs(45), 1);
        let mut dog = Watchdog::new(limits);
        let mut io = 0;
        (0..1200).step_by(2).find_map(|second| {
            let mut moment = Moment {
                screen: screen(IDLE),
                restarts: 0,
                busy: false,
                silent_since: None,
            };
            change(second, &mut moment);
            io += u64::from(moment.busy) << 22;
            let sample = Sample {
                at: Duration::from_secs(second),
                screen: moment.screen,
                io,
                demand: Some(Duration::from_millis(second * 40)),
                restarts: moment.restarts,
                ..Sample::default()
            };
            let silent = moment
                .silent_since
                .and_then(|since| second.checked_sub(since))
                .map(Duration::from_secs);
            let verdict = dog.look(sample, silent);
            (verdict != Verdict::Fine).then_some((second, verdict))
        })
    }

    fn still(at: u64, since: u64) -> Option<(u64, Verdict)> {
        let since = Duration::from_secs(since);
        Some((at, Verdict::StandsStill { since }))
    }

    #[test]
    fn what_condemns_while_steps_run_and_what_does_not() {
        let at_100 = |t: u64, shade| screen(if t >= 100 { shade } else { IDLE });
        assert_eq!(
            run(|_, _| {}),
            None,
            "an hour-long program on an idle desktop"
        );
        let harmless = run(|t, m| m.screen = at_100(t, BOX));
        assert_eq!(
            harmless, None,
            "a window that a step opened, while the agent answers"
        );
        let boxed = run(|t, m| (m.screen, m.silent_since) = (at_100(t, BOX), Some(100)));
        assert_eq!(
            boxed,
            still(146, 100),
            "a box, and an agent that is silent from then on"
        );
        let crashed = run(|t, m| {
            m.screen = if t >= 100 { blue() } else { screen(IDLE) };
            m.silent_since = Some(104);
        });
        assert_eq!(
            crashed,
            still(150, 104),
            "a stop error while the last answer is fresh"
        );
        let silent = run(|_, m| m.silent_since = Some(100));
        assert_eq!(
            silent,
            still(400, 354),
            "minutes of silence at the screen it always shows"
        );
        let servicing = run(|t, m| {
            (m.screen, m.silent_since) = (at_100(t, BOX), Some(100));
            m.busy = t >= 100;
        });
        assert_eq!(servicing, None, "silent for long, but the drives work");
        let black = run(|t, m| (m.screen, m.silent_since) = (at_100(t, 0), Some(100)));
        let black = black.map(|(at, _)| at);
        assert_eq!(black, Some(400), "Windows shuts down behind a black screen");
    }

    #[test]
    fn restarts_count_only_from_the_agents_last_answer() {
        let planned = run(|t, m| m.restarts = (t / 60) as u32);
        assert_eq!(planned, None, "the agent answers between them");
        let for_ever = run(|t, m| {
            m.restarts = (t / 20) as u32;
            m.silent_since = Some(101);
            m.screen = screen((t / 10) as u8);
        });
        let looping = Verdict::RestartLoop { restarts: 6 };
        assert_eq!(for_ever, Some((220, looping)));
    }
}
