//! Judges samples of a machine that installs Windows: does it work, or is it over?
//!
//! Pure: samples come with their times, verdicts go out. A screen alone never condemns: a machine stands still only when the screen,
//! the drives and the processor all do, for the whole limit. Asks nothing of the guest, which may be behind an error box.

mod blink;
mod dark;

use std::collections::VecDeque;
use std::time::Duration;

use self::blink::Blinks;
use self::dark::Dark;
use crate::vm::driver::{Halt, State};
use crate::vm::screen::Screen;
use crate::vm::seen::Purpose;

/// Guest restarts of a normal installation are 2 to 6 (WinPE, first boot, OOBE, and those that drivers add).
const SETUP_RESTARTS: u32 = 8;
/// An installed Windows restarts by itself for pending updates, two or three times at most, before its agent answers.
pub const BOOT_RESTARTS: u32 = 5;
/// From power-on or a restart to the firmware's handing over, with hardware acceleration; it takes seconds.
const FIRMWARE: Duration = Duration::from_secs(120);
/// Of the limit for standing still: that long a start may draw nothing and read nothing at a busy processor, with hardware acceleration.
const DARK: u32 = 8;
/// The longest of it, unless the limit for standing still is longer.
const LONGEST_DARK: Duration = Duration::from_secs(360);
/// While steps run, the agent's silence says more than the screen: Windows stands still for less time there.
const STEPS_SHARE: u32 = 4;
/// After that long, unless the limit is shorter, a Setup or a start that stands still is looked at. While steps run, the least
/// that their share of the limit comes to.
const EARLY: Duration = Duration::from_secs(45);

/// A guest that waits for a person wants less than this share of one processor. Measured without hardware acceleration, running and waiting to
/// run together: SeaBIOS with a blinking cursor and an idle Linux console 0.01 to 0.03, on an overloaded host 0.05 to 0.25; a guest in a loop 1.0
/// or more on both, although the overloaded host let it run for only 0.07.
const IDLE_SHARE: f64 = 0.5;

/// Bytes per second below which drives count as quiet: Windows in an error box still writes a log now and then.
const QUIET_BYTES: f64 = 64.0 * 1024.0;

#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Since power-on.
    pub at: Duration,
    /// `None` when no picture could be had: then nothing is said about standing still.
    pub screen: Option<Screen>,
    /// Bytes read and written on all drives since power-on.
    pub io: u64,
    /// Processor time that the machine has used or waited for; `None` where the host does not say.
    pub demand: Option<Duration>,
    pub restarts: u32,
    pub state: State,
    pub nothing_boots: bool,
    /// How long the firmware has been at work without starting anything.
    pub firmware_for: Option<Duration>,
    pub write_failed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Fine,
    Stopped(Halt),
    Gone(String),
    PoweredOff,
    RestartLoop {
        restarts: u32,
    },
    NoBootDevice,
    FirmwareLate,
    DiskFailed,
    StandsStill {
        since: Duration,
    },
    /// In a loop since then, before anything was drawn.
    Hangs {
        since: Duration,
    },
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// After which standing still is a verdict. What it comes to is for the caller to say: a box that is known is the end, a
    /// screen that says nothing may stand for longer.
    pub still: Duration,
    pub restarts: u32,
    pub firmware: Duration,
    /// Of a start at which nothing is drawn.
    pub dark: Duration,
}

impl Limits {
    /// Standing still needs no patience for a slow processor, which is busy; what the firmware does does.
    pub fn of(purpose: Purpose, still: Duration, slowness: u32) -> Self {
        let looked_at = match purpose {
            Purpose::Install | Purpose::Boot => still.min(EARLY),
            Purpose::Steps => (still / STEPS_SHARE).max(still.min(EARLY)),
            Purpose::Clone => still,
        };
        Self {
            still: looked_at,
            restarts: match purpose {
                Purpose::Install | Purpose::Clone => SETUP_RESTARTS,
                Purpose::Boot | Purpose::Steps => BOOT_RESTARTS,
            },
            firmware: FIRMWARE * slowness.max(1),
            dark: match purpose {
                // What it starts into is judged by its agent's silence.
                Purpose::Steps => Duration::MAX,
                _ => (still * DARK).min(LONGEST_DARK).max(still) * slowness.max(1),
            },
        }
    }

    /// Of a judge that is only asked whether a machine rests.
    pub fn resting(quiet: Duration) -> Self {
        Self {
            still: quiet,
            restarts: u32::MAX,
            firmware: Duration::MAX,
            dark: Duration::MAX,
        }
    }
}

/// Keeps the samples of the last `limits.still`.
#[derive(Debug)]
pub struct Judge {
    limits: Limits,
    window: VecDeque<Sample>,
    blinks: Blinks,
    dark: Dark,
}

impl Judge {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            window: VecDeque::new(),
            blinks: Blinks::default(),
            dark: Dark::new(limits.dark),
        }
    }

    pub fn look(&mut self, sample: Sample) -> Verdict {
        if sample.state != State::Running {
            return Self::state(&sample.state);
        }
        if sample.write_failed {
            return Verdict::DiskFailed;
        }
        if sample.restarts > self.limits.restarts {
            return Verdict::RestartLoop {
                restarts: sample.restarts,
            };
        }
        if sample.nothing_boots {
            return Verdict::NoBootDevice;
        }
        if sample
            .firmware_for
            .is_some_and(|time| time > self.limits.firmware)
        {
            return Verdict::FirmwareLate;
        }
        if let Some(since) = self.dark.look(&sample) {
            return Verdict::Hangs { since };
        }
        self.forget_moving(&sample);
        self.window.push_back(sample);
        self.standing()
    }

    /// What follows from the state alone.
    pub fn state(state: &State) -> Verdict {
        match state {
            State::Running | State::Held => Verdict::Fine,
            State::Stopped(halt) => Verdict::Stopped(halt.clone()),
            State::Gone(how) => Verdict::Gone(how.clone()),
            State::Off => Verdict::PoweredOff,
        }
    }

    /// A changed screen, a number that counts or a restart empties the window; what is older than the limit leaves it but for one
    /// sample.
    fn forget_moving(&mut self, sample: &Sample) {
        let same = |old: &Sample| {
            old.restarts == sample.restarts
                && matches!((&old.screen, &sample.screen), (Some(a), Some(b)) if a.stands(b))
        };
        if let Some(moved) = self.window.iter().rposition(|old| !same(old)) {
            self.window.drain(..=moved);
        }
        if self.window.is_empty() {
            self.blinks.begin(sample.screen.as_ref(), sample.at);
        }
        let counts = sample
            .screen
            .as_ref()
            .is_some_and(|s| self.blinks.counts(s, sample.at));
        if counts {
            self.window.clear();
        }
        while self
            .window
            .get(1)
            .is_some_and(|second| sample.at.saturating_sub(second.at) >= self.limits.still)
        {
            self.window.pop_front();
        }
    }

    fn standing(&self) -> Verdict {
        let (Some(first), Some(last)) = (self.window.front(), self.window.back()) else {
            return Verdict::Fine;
        };
        let time = last.at.saturating_sub(first.at);
        let seconds = time.as_secs_f64();
        let busy = match (first.demand, last.demand) {
            (Some(a), Some(b)) => b.saturating_sub(a).as_secs_f64() > IDLE_SHARE * seconds,
            _ => false,
        };
        let moved = last.io.saturating_sub(first.io) as f64;
        if time < self.limits.still
            || last.screen.is_none()
            || busy
            || moved > QUIET_BYTES * seconds
        {
            return Verdict::Fine;
        }
        Verdict::StandsStill { since: first.at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::driver::Fault;

    /// A screen of 20 by 10 cells; `text` cells differ from those of another number.
    fn screen(text: u8, cursor: bool) -> Option<Screen> {
        let mut ppm = b"P6\n320 160\n255\n".to_vec();
        for y in 0..160 {
            for x in 0..320 {
                let lit = cursor && y / 16 == 9 && x / 9 == 5;
                let shade = if y / 16 == 0 { text } else { 0 };
                ppm.extend([if lit { 255 } else { shade }; 3]);
            }
        }
        Screen::from_ppm(&ppm)
    }

    /// The same screen with one cell that shows a digit, and a cursor.
    fn digit(digit: u8, cursor: bool) -> Option<Screen> {
        let mut ppm = b"P6\n320 160\n255\n".to_vec();
        for y in 0..160 {
            for x in 0..320 {
                let lit = cursor && y / 16 == 9 && x / 9 == 5;
                let shade = if y / 16 == 4 && x / 16 == 4 {
                    digit + 1
                } else {
                    0
                };
                ppm.extend([if lit { 255 } else { shade }; 3]);
            }
        }
        Screen::from_ppm(&ppm)
    }

    fn limits(purpose: Purpose) -> Limits {
        Limits::of(purpose, Duration::from_secs(30), 1)
    }

    fn at(seconds: u64) -> Sample {
        Sample {
            at: Duration::from_secs(seconds),
            screen: screen(1, seconds.is_multiple_of(4)),
            demand: Some(Duration::from_millis(seconds * 40)),
            ..Sample::default()
        }
    }

    /// The same, but for what `change` makes of it.
    fn but(seconds: u64, change: impl FnOnce(&mut Sample)) -> Sample {
        let mut sample = at(seconds);
        change(&mut sample);
        sample
    }

    #[test]
    fn still_only_when_screen_drives_and_processor_all_stand() {
        // The first verdict that is not `Fine`, over two minutes of a sample every 2 s: when, and since when it stands.
        let run = |change: &dyn Fn(u64, &mut Sample)| {
            let mut judge = Judge::new(limits(Purpose::Install));
            (0..120).step_by(2).find_map(|second| {
                match judge.look(but(second, |s| change(second, s))) {
                    Verdict::Fine => None,
                    Verdict::StandsStill { since } => Some((second, since.as_secs())),
                    other => panic!("{other:?}"),
                }
            })
        };
        assert_eq!(run(&|_, _| {}), Some((30, 0)), "a blinking cursor");
        let came = run(&|t, s| s.screen = screen(u8::from(t >= 20), false));
        assert_eq!(came, Some((50, 20)), "a screen that came at 20 s");
        let changing = run(&|t, s| s.screen = screen((t / 10) as u8 + 1, false));
        assert_eq!(changing, None, "a screen that changes every 10 s");
        let busy = run(&|t, s| s.demand = Some(Duration::from_millis(t * 900)));
        assert_eq!(busy, None, "a processor at work behind the same screen");
        let io = run(&|t, s| s.io = t << 20);
        assert_eq!(io, None, "a disk at work behind the same screen");
        let until_40 = run(&|t, s| {
            s.io = (t.min(40) << 20) + (t / 10) * 4096;
            s.demand = Some(Duration::from_millis(t.min(40) * 1000 + t * 30));
        });
        assert_eq!(
            until_40,
            Some((70, 40)),
            "work, then a log line now and then"
        );
        // One digit that is 16 pixels wide and high changes one cell.
        let percent = run(&|t, s| s.screen = digit((t / 20) as u8, t.is_multiple_of(4)));
        assert_eq!(percent, None, "a percentage that counts every 20 s");
        let stuck = run(&|t, s| s.screen = digit((t.min(60) / 20) as u8, t.is_multiple_of(4)));
        assert_eq!(stuck, Some((90, 60)), "a percentage that stops at 60 s");
        let lamp = run(&|t, s| s.screen = digit((t / 10 % 2) as u8, false));
        assert_eq!(lamp, Some((30, 0)), "a lamp that goes on and off");
        assert_eq!(run(&|_, s| s.screen = None), None, "no picture");
        let restart = run(&|t, s| s.restarts = u32::from(t >= 20));
        assert_eq!(restart, Some((50, 20)), "a restart at 20 s");
    }

    #[test]
    fn what_is_over_is_named_at_once() {
        let look = |change: &dyn Fn(&mut Sample)| {
            Judge::new(limits(Purpose::Install)).look(but(2, change))
        };
        let state = |state: State| look(&|s| s.state = state.clone());
        let failed = Halt::Own(Fault::Drive, "io-error".into());
        let how = String::from("signal 6 (SIGABRT)");
        assert_eq!(
            state(State::Stopped(failed.clone())),
            Verdict::Stopped(failed)
        );
        assert_eq!(state(State::Gone(how.clone())), Verdict::Gone(how));
        assert_eq!(state(State::Off), Verdict::PoweredOff);
        assert_eq!(state(State::Held), Verdict::Fine);
        assert_eq!(look(&|s| s.nothing_boots = true), Verdict::NoBootDevice);
        assert_eq!(look(&|s| s.write_failed = true), Verdict::DiskFailed);
        assert_eq!(look(&|s| s.restarts = 8), Verdict::Fine);
        let looping = Verdict::RestartLoop { restarts: 9 };
        assert_eq!(look(&|s| s.restarts = 9), looping);
        let firmware = |seconds| look(&|s| s.firmware_for = Some(Duration::from_secs(seconds)));
        assert_eq!(firmware(120), Verdict::Fine);
        assert_eq!(firmware(121), Verdict::FirmwareLate);
    }

    #[test]
    fn a_limit_is_looked_at_early_and_steps_have_a_share_of_it() {
        let still = |purpose, seconds| {
            Limits::of(purpose, Duration::from_secs(seconds), 1)
                .still
                .as_secs()
        };
        for purpose in [Purpose::Install, Purpose::Boot] {
            assert_eq!(still(purpose, 180), 45, "the default");
            assert_eq!(still(purpose, 900), 45);
            assert_eq!(still(purpose, 4), 4);
        }
        let steps = |seconds| still(Purpose::Steps, seconds);
        assert_eq!((steps(180), steps(900)), (45, 225));
        assert_eq!((steps(60), steps(4)), (45, 4), "never more than the limit");
        let dark = |seconds| {
            Limits::of(Purpose::Install, Duration::from_secs(seconds), 1)
                .dark
                .as_secs()
        };
        assert_eq!((dark(30), dark(180), dark(900)), (240, 360, 900));
    }

    #[test]
    fn an_installed_windows_may_restart_less_often_and_a_slow_firmware_has_longer() {
        let judge = |purpose, slowness, sample| {
            Judge::new(Limits::of(purpose, Duration::from_secs(30), slowness)).look(sample)
        };
        let restarted = |restarts| Sample { restarts, ..at(2) };
        let loop_ = Verdict::RestartLoop { restarts: 6 };
        assert_eq!(judge(Purpose::Boot, 1, restarted(6)), loop_);
        assert_eq!(judge(Purpose::Boot, 1, restarted(5)), Verdict::Fine);
        assert_eq!(judge(Purpose::Install, 1, restarted(6)), Verdict::Fine);
        let firmware = Sample {
            firmware_for: Some(Duration::from_secs(1200)),
            ..at(2)
        };
        assert_eq!(judge(Purpose::Boot, 10, firmware.clone()), Verdict::Fine);
        assert_eq!(judge(Purpose::Boot, 9, firmware), Verdict::FirmwareLate);
    }
}
