//! Detects a boot that hangs before the guest draws anything. A loader reads from a drive, and
//! Windows draws within seconds of that; a guest that does neither for long but keeps the processor
//! busy is in an endless loop.
//!
//! Pure. A guest that has drawn since the last restart or used a drive passes this check; idle
//! guests are handled by [`SampleJudge`](super::SampleJudge).

use std::time::Duration;

use super::{IDLE_SHARE, MachineSample};
use crate::vm::screen::ScreenGrid;

#[derive(Debug)]
pub struct DarkStartJudge {
    limit: Duration,
    restarts: u32,
    /// Screen left by the firmware.
    firmware_screen: Option<ScreenGrid>,
    has_drawn: bool,
    /// First sample since the last drive activity.
    since: Option<MachineSample>,
}

impl DarkStartJudge {
    pub fn new(limit: Duration) -> Self {
        Self {
            limit,
            restarts: 0,
            firmware_screen: None,
            has_drawn: false,
            since: None,
        }
    }

    /// Returns the start of the hang, once it has lasted for `limit`.
    pub fn judge_sample(&mut self, sample: &MachineSample) -> Option<Duration> {
        if sample.restarts != self.restarts || sample.firmware_for.is_some() {
            *self = Self {
                restarts: sample.restarts,
                ..Self::new(self.limit)
            };
        }
        if sample.firmware_for.is_some() {
            return None;
        }
        let (Some(screen), Some(demand)) = (&sample.screen, sample.demand) else {
            self.since = None;
            return None;
        };
        let firmware_screen = self.firmware_screen.get_or_insert_with(|| screen.clone());
        self.has_drawn |= !screen.is_blank() && !firmware_screen.is_unchanged(screen);
        if self.has_drawn {
            return None;
        }
        let since = match &mut self.since {
            Some(since) if since.io == sample.io => since,
            since => since.insert(sample.clone()),
        };
        let time = sample.at.saturating_sub(since.at);
        let used = demand.saturating_sub(since.demand.unwrap_or(demand));
        let is_busy = used.as_secs_f64() > IDLE_SHARE * time.as_secs_f64();
        (time >= self.limit && is_busy).then_some(since.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 6 by 6 cells, half of them of this shade.
    fn screen(shade: u8) -> Option<ScreenGrid> {
        let mut ppm = b"P6\n96 96\n255\n".to_vec();
        for y in 0..96 {
            let shade = if y < 48 { shade } else { 0 };
            ppm.extend([shade; 96 * 3]);
        }
        ScreenGrid::from_ppm(&ppm)
    }

    const LOGO: u8 = 1;
    const WINDOWS: u8 = 2;

    /// Returns when a guest that spins from the start (as altered by `change`) is reported within
    /// ten minutes, and since when it hangs. The firmware is done at 10 s.
    fn hangs(change: impl Fn(u64, &mut MachineSample)) -> Option<(u64, u64)> {
        let mut dark = DarkStartJudge::new(Duration::from_secs(360));
        (0..600).step_by(2).find_map(|second| {
            let mut sample = MachineSample {
                at: Duration::from_secs(second),
                screen: screen(LOGO),
                demand: Some(Duration::from_secs(second * 2)),
                firmware_for: (second < 10).then_some(Duration::from_secs(second)),
                ..MachineSample::default()
            };
            change(second, &mut sample);
            Some((second, dark.judge_sample(&sample)?.as_secs()))
        })
    }

    #[test]
    fn only_a_start_that_neither_draws_nor_reads_is_in_a_loop() {
        let since_10 = Some((370, 10));
        assert_eq!(hangs(|_, _| {}), since_10);
        let black = hangs(|t, s| s.screen = screen(if t < 20 { LOGO } else { 0 }));
        assert_eq!(black, since_10, "a loader that cleared the screen");
        let came = hangs(|t, s| s.screen = screen(if t < 4 { 0 } else { LOGO }));
        assert_eq!(came, since_10, "a logo that the firmware drew");
        let loaded = hangs(|t, s| s.io = t.min(60) << 20);
        assert_eq!(loaded, Some((420, 60)), "a loader that read until 60 s");
        let restarted = hangs(|t, s| s.restarts = u32::from(t >= 100));
        assert_eq!(restarted, Some((460, 100)), "a restart at 100 s");
    }

    #[test]
    fn what_draws_reads_or_rests_is_not() {
        let drawn = hangs(|t, s| s.screen = screen(if t < 20 { LOGO } else { WINDOWS }));
        assert_eq!(drawn, None, "Windows drew once, and works behind that");
        let cleared = hangs(|t, s| s.screen = screen(if t == 20 { WINDOWS } else { 0 }));
        assert_eq!(cleared, None, "a picture, then black again");
        let reads = hangs(|t, s| s.io = t / 300 * 4096);
        assert_eq!(reads, None, "a little from a drive now and then");
        let rests = hangs(|t, s| s.demand = Some(Duration::from_millis(t * 400)));
        assert_eq!(rests, None, "a processor that rests");
        let firmware = hangs(|t, s| s.firmware_for = Some(Duration::from_secs(t)));
        assert_eq!(firmware, None, "the firmware, which has a limit of its own");
        assert_eq!(hangs(|_, s| s.screen = None), None, "no picture");
        assert_eq!(hangs(|_, s| s.demand = None), None, "no figure of the host");
    }
}
