//! Judges samples of a machine that installs or boots Windows: is it working, or has it failed?
//!
//! Pure: maps timestamped samples to verdicts. The screen alone is never an error: a machine counts
//! as inactive only if screen, drives and processor are all quiet for the whole limit. Sends
//! nothing to the guest, which may be blocked by an error dialog.

mod blink;
mod dark_start;

use std::collections::VecDeque;
use std::time::Duration;

use self::blink::BlinkDetector;
use self::dark_start::DarkStartJudge;
use crate::vm::purpose::MachinePurpose;
use crate::vm::screen::ScreenGrid;
use crate::vm::supervisor::driver::{HaltReason, MachineState};

/// A normal installation restarts 2 to 6 times (WinPE, first boot, OOBE, and restarts for drivers).
const SETUP_RESTARTS: u32 = 8;
/// An installed Windows restarts by itself for pending updates, two or three times at most, before
/// its agent answers.
pub const BOOT_RESTARTS: u32 = 5;
/// Limit from power-on or a restart until the firmware boots something, with hardware acceleration.
/// Normally this takes seconds.
const FIRMWARE_LIMIT: Duration = Duration::from_secs(120);
/// Multiple of the stillness limit for which a start with a busy processor may draw and read
/// nothing, with hardware acceleration.
const DARK_FACTOR: u32 = 8;
/// Upper bound of that time, unless the stillness limit is longer.
const MAX_DARK: Duration = Duration::from_secs(360);
/// While steps run, the agent's silence is a better signal than the screen, so that only this
/// fraction of the stillness limit applies.
const STEPS_SHARE: u32 = 4;
/// Time after which an inactive Setup or start is checked, unless the limit is shorter. While steps
/// run, the minimum of their fraction of the limit.
const EARLY_CHECK: Duration = Duration::from_secs(45);

/// A guest that waits for input uses less than this share of one processor. Measured without
/// hardware acceleration, running and runnable time together: SeaBIOS with a blinking cursor and an
/// idle Linux console 0.01 to 0.03, on an overloaded host 0.05 to 0.25; a guest in a loop 1.0 or
/// more on both, although the overloaded host ran it for only 0.07.
const IDLE_SHARE: f64 = 0.5;

/// Bytes per second below which drives count as quiet: Windows at an error dialog still writes a
/// log now and then.
const QUIET_BYTES: f64 = 64.0 * 1024.0;

#[derive(Clone, Debug, Default)]
pub struct MachineSample {
    /// Since power-on.
    pub at: Duration,
    /// `None` if no picture could be taken: the machine does not count as inactive then.
    pub screen: Option<ScreenGrid>,
    /// Bytes read and written on all drives since power-on.
    pub io: u64,
    /// Processor time that the machine has used or waited for; `None` if the host does not report
    /// it.
    pub demand: Option<Duration>,
    pub restarts: u32,
    pub state: MachineState,
    pub nothing_boots: bool,
    /// Time the firmware has been working without starting anything.
    pub firmware_for: Option<Duration>,
    pub write_failed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineVerdict {
    Fine,
    Stopped(HaltReason),
    Gone(String),
    PoweredOff,
    RestartLoop {
        restarts: u32,
    },
    NoBootDevice,
    FirmwareLate,
    DiskFailed,
    Stalled {
        since: Duration,
    },
    /// In a loop since then, before anything was drawn.
    Hangs {
        since: Duration,
    },
}

#[derive(Clone, Copy, Debug)]
pub struct WatchLimits {
    /// Inactivity that leads to a verdict. The caller decides what follows: a known dialog is a
    /// failure, an unknown screen may last longer.
    pub still: Duration,
    pub restarts: u32,
    pub firmware: Duration,
    /// Limit for a start at which nothing is drawn.
    pub dark: Duration,
}

impl WatchLimits {
    /// Returns the limits of a purpose. A slow processor is busy, so the stillness limit is not
    /// scaled; the firmware's limit is.
    pub fn from_purpose(purpose: MachinePurpose, still: Duration, slowness: u32) -> Self {
        let checked_after = match purpose {
            MachinePurpose::Install | MachinePurpose::Boot => still.min(EARLY_CHECK),
            MachinePurpose::Steps => (still / STEPS_SHARE).max(still.min(EARLY_CHECK)),
            MachinePurpose::Clone => still,
        };
        Self {
            still: checked_after,
            restarts: match purpose {
                MachinePurpose::Install | MachinePurpose::Clone => SETUP_RESTARTS,
                MachinePurpose::Boot | MachinePurpose::Steps => BOOT_RESTARTS,
            },
            firmware: FIRMWARE_LIMIT * slowness.max(1),
            dark: match purpose {
                // A restarted Windows is judged by its agent's silence.
                MachinePurpose::Steps => Duration::MAX,
                _ => (still * DARK_FACTOR).min(MAX_DARK).max(still) * slowness.max(1),
            },
        }
    }

    /// Returns limits that only detect an idle machine.
    pub fn from_quiet_time(quiet: Duration) -> Self {
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
pub struct SampleJudge {
    limits: WatchLimits,
    window: VecDeque<MachineSample>,
    blinks: BlinkDetector,
    dark: DarkStartJudge,
}

impl SampleJudge {
    pub fn new(limits: WatchLimits) -> Self {
        Self {
            limits,
            window: VecDeque::new(),
            blinks: BlinkDetector::default(),
            dark: DarkStartJudge::new(limits.dark),
        }
    }

    pub fn judge_sample(&mut self, sample: MachineSample) -> MachineVerdict {
        if sample.state != MachineState::Running {
            return Self::judge_state(&sample.state);
        }
        if sample.write_failed {
            return MachineVerdict::DiskFailed;
        }
        if sample.restarts > self.limits.restarts {
            return MachineVerdict::RestartLoop {
                restarts: sample.restarts,
            };
        }
        if sample.nothing_boots {
            return MachineVerdict::NoBootDevice;
        }
        if sample
            .firmware_for
            .is_some_and(|time| time > self.limits.firmware)
        {
            return MachineVerdict::FirmwareLate;
        }
        if let Some(since) = self.dark.judge_sample(&sample) {
            return MachineVerdict::Hangs { since };
        }
        self.forget_moving(&sample);
        self.window.push_back(sample);
        self.check_stillness()
    }

    /// Returns the verdict that follows from the state alone.
    pub fn judge_state(state: &MachineState) -> MachineVerdict {
        match state {
            MachineState::Running | MachineState::PausedForSpace => MachineVerdict::Fine,
            MachineState::Stopped(halt) => MachineVerdict::Stopped(halt.clone()),
            MachineState::Gone(how) => MachineVerdict::Gone(how.clone()),
            MachineState::Off => MachineVerdict::PoweredOff,
        }
    }

    /// Clears the window at a changed screen, a counting number or a restart. Otherwise removes the
    /// samples that are older than the limit, except one.
    fn forget_moving(&mut self, sample: &MachineSample) {
        if let Some(moved) = self
            .window
            .iter()
            .rposition(|old| !is_unchanged(old, sample))
        {
            self.window.drain(..=moved);
        }
        if self.window.is_empty() {
            self.blinks.begin(sample.screen.as_ref(), sample.at);
        }
        let counts = sample
            .screen
            .as_ref()
            .is_some_and(|s| self.blinks.detect_progress(s, sample.at));
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

    fn check_stillness(&self) -> MachineVerdict {
        let (Some(first), Some(last)) = (self.window.front(), self.window.back()) else {
            return MachineVerdict::Fine;
        };
        let time = last.at.saturating_sub(first.at);
        let seconds = time.as_secs_f64();
        let busy = match (first.demand, last.demand) {
            (Some(a), Some(b)) => b.saturating_sub(a).as_secs_f64() > IDLE_SHARE * seconds,
            _ => false,
        };
        let transferred = last.io.saturating_sub(first.io) as f64;
        if time < self.limits.still
            || last.screen.is_none()
            || busy
            || transferred > QUIET_BYTES * seconds
        {
            return MachineVerdict::Fine;
        }
        MachineVerdict::Stalled { since: first.at }
    }
}

fn is_unchanged(old: &MachineSample, new: &MachineSample) -> bool {
    old.restarts == new.restarts
        && matches!((&old.screen, &new.screen), (Some(a), Some(b)) if a.is_unchanged(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::supervisor::driver::HypervisorFault;

    /// A screen of 20 by 10 cells; `text` cells differ from those of another number.
    fn screen(text: u8, cursor: bool) -> Option<ScreenGrid> {
        let mut ppm = b"P6\n320 160\n255\n".to_vec();
        for y in 0..160 {
            for x in 0..320 {
                let lit = cursor && y / 16 == 9 && x / 9 == 5;
                let shade = if y / 16 == 0 { text } else { 0 };
                ppm.extend([if lit { 255 } else { shade }; 3]);
            }
        }
        ScreenGrid::from_ppm(&ppm)
    }

    /// The same screen with one cell that shows a digit, and a cursor.
    fn digit(digit: u8, cursor: bool) -> Option<ScreenGrid> {
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
        ScreenGrid::from_ppm(&ppm)
    }

    fn limits(purpose: MachinePurpose) -> WatchLimits {
        WatchLimits::from_purpose(purpose, Duration::from_secs(30), 1)
    }

    fn at(seconds: u64) -> MachineSample {
        MachineSample {
            at: Duration::from_secs(seconds),
            screen: screen(1, seconds.is_multiple_of(4)),
            demand: Some(Duration::from_millis(seconds * 40)),
            ..MachineSample::default()
        }
    }

    /// The same, but for what `change` makes of it.
    fn but(seconds: u64, change: impl FnOnce(&mut MachineSample)) -> MachineSample {
        let mut sample = at(seconds);
        change(&mut sample);
        sample
    }

    #[test]
    fn still_only_when_screen_drives_and_processor_all_stand() {
        // The first verdict that is not `Fine`, over two minutes of a sample every 2 s: when, and
        // since when it stands.
        let run = |change: &dyn Fn(u64, &mut MachineSample)| {
            let mut judge = SampleJudge::new(limits(MachinePurpose::Install));
            (0..120).step_by(2).find_map(|second| {
                match judge.judge_sample(but(second, |s| change(second, s))) {
                    MachineVerdict::Fine => None,
                    MachineVerdict::Stalled { since } => Some((second, since.as_secs())),
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
        let look = |change: &dyn Fn(&mut MachineSample)| {
            SampleJudge::new(limits(MachinePurpose::Install)).judge_sample(but(2, change))
        };
        let state = |state: MachineState| look(&|s| s.state = state.clone());
        let failed = HaltReason::Hypervisor(HypervisorFault::Drive, "io-error".into());
        let how = String::from("signal 6 (SIGABRT)");
        assert_eq!(
            state(MachineState::Stopped(failed.clone())),
            MachineVerdict::Stopped(failed)
        );
        assert_eq!(
            state(MachineState::Gone(how.clone())),
            MachineVerdict::Gone(how)
        );
        assert_eq!(state(MachineState::Off), MachineVerdict::PoweredOff);
        assert_eq!(state(MachineState::PausedForSpace), MachineVerdict::Fine);
        assert_eq!(
            look(&|s| s.nothing_boots = true),
            MachineVerdict::NoBootDevice
        );
        assert_eq!(look(&|s| s.write_failed = true), MachineVerdict::DiskFailed);
        assert_eq!(look(&|s| s.restarts = 8), MachineVerdict::Fine);
        let looping = MachineVerdict::RestartLoop { restarts: 9 };
        assert_eq!(look(&|s| s.restarts = 9), looping);
        let firmware = |seconds| look(&|s| s.firmware_for = Some(Duration::from_secs(seconds)));
        assert_eq!(firmware(120), MachineVerdict::Fine);
        assert_eq!(firmware(121), MachineVerdict::FirmwareLate);
    }

    #[test]
    fn a_limit_is_looked_at_early_and_steps_have_a_share_of_it() {
        let still = |purpose, seconds| {
            WatchLimits::from_purpose(purpose, Duration::from_secs(seconds), 1)
                .still
                .as_secs()
        };
        for purpose in [MachinePurpose::Install, MachinePurpose::Boot] {
            assert_eq!(still(purpose, 180), 45, "the default");
            assert_eq!(still(purpose, 900), 45);
            assert_eq!(still(purpose, 4), 4);
        }
        let steps = |seconds| still(MachinePurpose::Steps, seconds);
        assert_eq!((steps(180), steps(900)), (45, 225));
        assert_eq!((steps(60), steps(4)), (45, 4), "never more than the limit");
        let dark = |seconds| {
            WatchLimits::from_purpose(MachinePurpose::Install, Duration::from_secs(seconds), 1)
                .dark
                .as_secs()
        };
        assert_eq!((dark(30), dark(180), dark(900)), (240, 360, 900));
    }

    #[test]
    fn an_installed_windows_may_restart_less_often_and_a_slow_firmware_has_longer() {
        let judge = |purpose, slowness, sample| {
            SampleJudge::new(WatchLimits::from_purpose(
                purpose,
                Duration::from_secs(30),
                slowness,
            ))
            .judge_sample(sample)
        };
        let restarted = |restarts| MachineSample { restarts, ..at(2) };
        let loop_ = MachineVerdict::RestartLoop { restarts: 6 };
        assert_eq!(judge(MachinePurpose::Boot, 1, restarted(6)), loop_);
        assert_eq!(
            judge(MachinePurpose::Boot, 1, restarted(5)),
            MachineVerdict::Fine
        );
        assert_eq!(
            judge(MachinePurpose::Install, 1, restarted(6)),
            MachineVerdict::Fine
        );
        let firmware = MachineSample {
            firmware_for: Some(Duration::from_secs(1200)),
            ..at(2)
        };
        assert_eq!(
            judge(MachinePurpose::Boot, 10, firmware.clone()),
            MachineVerdict::Fine
        );
        assert_eq!(
            judge(MachinePurpose::Boot, 9, firmware),
            MachineVerdict::FirmwareLate
        );
    }
}
