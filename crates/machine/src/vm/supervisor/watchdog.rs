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

/// Judges the samples of a Windows whose agent has answered once. Pure.
#[derive(Debug)]
pub struct Watchdog {
    judge: Judge,
    still: Duration,
    known: VecDeque<Screen>,
    /// What is on the screen, and since when.
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
            // Steps power off and restart as they like; whoever waits for it judges it.
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

    fn idle() -> Moment {
        Moment {
            screen: screen(IDLE),
            restarts: 0,
            busy: false,
            silent_since: None,
        }
    }

    /// The first verdict that is not fine, over 20 minutes.
    fn run(life: impl Fn(u64) -> Moment) -> Option<(u64, Verdict)> {
        let limits = Limits::of(Purpose::Steps, Duration::from_secs(45), 1);
        let mut dog = Watchdog::new(limits);
        let mut io = 0;
        (0..1200).step_by(2).find_map(|second| {
            let moment = life(second);
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
        // An hour-long program on an idle desktop, with an agent that answers.
        assert_eq!(run(|_| idle()), None);
        // A box appears and the agent is silent from then on.
        let boxed = |t: u64| Moment {
            screen: screen(if t >= 100 { BOX } else { IDLE }),
            silent_since: Some(100),
            ..idle()
        };
        assert_eq!(run(boxed), still(146, 100));
        // The same box while the agent answers: a window that a step opened.
        let harmless = |t: u64| Moment {
            silent_since: None,
            ..boxed(t)
        };
        assert_eq!(run(harmless), None);
        // A stop error, whose picture is seen while the agent's last answer is fresh.
        let crashed = |t: u64| Moment {
            screen: if t >= 100 { blue() } else { screen(IDLE) },
            silent_since: Some(104),
            ..idle()
        };
        assert_eq!(run(crashed), still(150, 104));
        // Silent at the screen it always shows, for minutes: the agent is gone, or Windows is.
        let silent = |_| Moment {
            silent_since: Some(100),
            ..idle()
        };
        assert_eq!(run(silent), still(400, 354));
        // Servicing: silent for long, but the drives work.
        let servicing = |t: u64| Moment {
            screen: screen(if t >= 100 { BOX } else { IDLE }),
            busy: t >= 100,
            silent_since: Some(100),
            ..idle()
        };
        assert_eq!(run(servicing), None);
        // Windows shuts down behind a black screen.
        let black = |t: u64| Moment {
            screen: screen(if t >= 100 { 0 } else { IDLE }),
            silent_since: Some(100),
            ..idle()
        };
        assert_eq!(run(black).map(|(at, _)| at), Some(400));
    }

    #[test]
    fn restarts_count_only_from_the_agents_last_answer() {
        // One planned restart after the other, the agent answers between them.
        let planned = |t: u64| Moment {
            restarts: (t / 60) as u32,
            ..idle()
        };
        assert_eq!(run(planned), None);
        let for_ever = |t: u64| Moment {
            restarts: (t / 20) as u32,
            silent_since: Some(101),
            screen: screen((t / 10) as u8),
            ..idle()
        };
        let looping = Verdict::RestartLoop { restarts: 6 };
        assert_eq!(run(for_ever), Some((220, looping)));
    }
}
