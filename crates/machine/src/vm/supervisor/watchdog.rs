//! Judges samples of a Windows that runs steps: detects crashes, blocking dialogs and restart
//! loops.
//!
//! Pure. An idle screen is normal while a step works, so the screen alone is never an error: the
//! guest must also leave requests unanswered. Screens seen while the guest answers are known to be
//! harmless.

use std::collections::VecDeque;
use std::time::Duration;

use super::judge::{MachineSample, MachineVerdict, SampleJudge, WatchLimits};
use crate::vm::screen::ScreenGrid;

/// An agent that has been silent for less counts as answering.
const MAX_ANSWER_GAP: Duration = Duration::from_secs(5);
/// Limit for silence at a harmless or blank screen: servicing keeps the agent silent for half a
/// minute, and Windows shuts down behind a black screen.
const MAX_SILENCE: Duration = Duration::from_secs(300);
/// Number of harmless screens that are remembered.
const MAX_HARMLESS: usize = 16;

#[derive(Debug)]
pub struct Watchdog {
    judge: SampleJudge,
    still: Duration,
    harmless: VecDeque<ScreenGrid>,
    shown: Option<(ScreenGrid, Duration)>,
    /// Restarts up to the agent's last answer: those were intended.
    restarts: u32,
    /// True if nothing changes, regardless of the agent.
    pub is_stalled: bool,
}

impl Watchdog {
    pub fn new(limits: WatchLimits) -> Self {
        Self {
            judge: SampleJudge::new(limits),
            still: limits.still,
            harmless: VecDeque::new(),
            shown: None,
            restarts: 0,
            is_stalled: false,
        }
    }

    /// Judges a sample. `silence` is the time for which the agent has not answered or its port has
    /// been closed; `None` if no request is pending.
    pub fn judge_sample(
        &mut self,
        sample: MachineSample,
        silence: Option<Duration>,
    ) -> MachineVerdict {
        let silence = silence.unwrap_or_default();
        let screen = sample.screen.clone();
        if silence < MAX_ANSWER_GAP {
            self.restarts = sample.restarts;
        }
        self.record_screen(screen.as_ref(), sample.at, silence);
        let sample = MachineSample {
            restarts: sample.restarts.saturating_sub(self.restarts),
            ..sample
        };
        let verdict = self.judge.judge_sample(sample);
        self.is_stalled = matches!(verdict, MachineVerdict::Stalled { .. });
        match verdict {
            MachineVerdict::Stalled { .. } if silence < self.choose_limit(screen.as_ref()) => {
                MachineVerdict::Fine
            }
            // Steps may power off and restart; the waiting step decides about it.
            MachineVerdict::PoweredOff | MachineVerdict::Stopped(_) | MachineVerdict::Gone(_) => {
                MachineVerdict::Fine
            }
            verdict => verdict,
        }
    }

    /// Remembers a screen as harmless if it was shown before the agent's last answer.
    fn record_screen(&mut self, screen: Option<&ScreenGrid>, at: Duration, silence: Duration) {
        let Some(screen) = screen.filter(|s| !s.is_stop_blue()) else {
            return;
        };
        let unchanged = self
            .shown
            .as_ref()
            .filter(|(shown, _)| shown.is_unchanged(screen));
        let Some((_, since)) = unchanged else {
            self.shown = Some((screen.clone(), at));
            return;
        };
        if silence >= MAX_ANSWER_GAP
            || silence >= at.saturating_sub(*since)
            || self.is_harmless(screen)
        {
            return;
        }
        if self.harmless.len() == MAX_HARMLESS {
            self.harmless.pop_front();
        }
        self.harmless.push_back(screen.clone());
    }

    fn is_harmless(&self, screen: &ScreenGrid) -> bool {
        self.harmless
            .iter()
            .any(|harmless| harmless.is_unchanged(screen))
    }

    fn choose_limit(&self, screen: Option<&ScreenGrid>) -> Duration {
        match screen {
            Some(screen) if !screen.is_blank() && !self.is_harmless(screen) => self.still,
            _ => self.still.max(MAX_SILENCE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::purpose::MachinePurpose;

    /// A screen whose upper half has this shade.
    fn screen(shade: u8) -> Option<ScreenGrid> {
        let mut ppm = b"P6\n320 160\n255\n".to_vec();
        for y in 0..160 {
            for _ in 0..320 {
                ppm.extend([if y < 80 { shade } else { 0 }; 3]);
            }
        }
        ScreenGrid::from_ppm(&ppm)
    }

    fn blue() -> Option<ScreenGrid> {
        let mut ppm = b"P6\n320 160\n255\n".to_vec();
        for n in 0..320 * 160 {
            ppm.extend(if n % 20 == 0 {
                [255; 3]
            } else {
                [0, 0x78, 0xd7]
            });
        }
        ScreenGrid::from_ppm(&ppm)
    }

    const IDLE: u8 = 1;
    const BOX: u8 = 2;

    /// One second of a simulated machine.
    struct Moment {
        screen: Option<ScreenGrid>,
        restarts: u32,
        busy: bool,
        silent_since: Option<u64>,
    }

    /// The first verdict that is not fine, over 20 minutes of an idle desktop with an agent that
    /// answers, but for what `change` makes of each second.
    fn run(change: impl Fn(u64, &mut Moment)) -> Option<(u64, MachineVerdict)> {
        let limits = WatchLimits::from_purpose(MachinePurpose::Steps, Duration::from_secs(45), 1);
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
            let sample = MachineSample {
                at: Duration::from_secs(second),
                screen: moment.screen,
                io,
                demand: Some(Duration::from_millis(second * 40)),
                restarts: moment.restarts,
                ..MachineSample::default()
            };
            let silence = moment
                .silent_since
                .and_then(|since| second.checked_sub(since))
                .map(Duration::from_secs);
            let verdict = dog.judge_sample(sample, silence);
            (verdict != MachineVerdict::Fine).then_some((second, verdict))
        })
    }

    fn still(at: u64, since: u64) -> Option<(u64, MachineVerdict)> {
        let since = Duration::from_secs(since);
        Some((at, MachineVerdict::Stalled { since }))
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
        let silence = run(|_, m| m.silent_since = Some(100));
        assert_eq!(
            silence,
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
        let looping = MachineVerdict::RestartLoop { restarts: 6 };
        assert_eq!(for_ever, Some((220, looping)));
    }
}
