//! Transfer rate and remaining time. Pure: the time is a parameter.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The rate is averaged over this time: short enough to show a slow server soon, long enough not to
/// flicker.
const WINDOW: Duration = Duration::from_secs(10);
/// Minimum time for a rate.
const MIN_TIME: Duration = Duration::from_secs(1);

/// One transfer or export.
#[derive(Clone, Debug, Default)]
pub struct RateMeter(VecDeque<(Instant, u64)>);

impl RateMeter {
    pub fn add(&mut self, now: Instant, done: u64) {
        // The transfer was restarted.
        if self.0.back().is_some_and(|(_, before)| *before > done) {
            self.0.clear();
        }
        self.0.push_back((now, done));
        while self.0.len() > 2 && now.duration_since(self.0[1].0) >= WINDOW {
            self.0.pop_front();
        }
    }

    /// Returns the rate in bytes per second.
    pub fn compute_rate(&self) -> Option<f64> {
        let (first, last) = (self.0.front()?, self.0.back()?);
        let time = last.0.duration_since(first.0);
        (time >= MIN_TIME).then(|| (last.1 - first.1) as f64 / time.as_secs_f64())
    }

    /// Estimates the seconds until `total` bytes; `None` while the transfer is stalled.
    pub fn estimate_seconds_left(&self, total: u64) -> Option<f64> {
        let rate = self.compute_rate().filter(|rate| *rate >= 1.0)?;
        let left = total.saturating_sub(self.0.back()?.1);
        Some(left as f64 / rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_that_of_the_last_seconds() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut pace = RateMeter::default();
        // Resumed: what was there before is no pace.
        pace.add(at(0), 1000);
        assert_eq!(
            (pace.compute_rate(), pace.estimate_seconds_left(9000)),
            (None, None)
        );
        pace.add(at(1), 1100);
        assert_eq!(pace.compute_rate(), Some(100.0));
        assert_eq!(pace.estimate_seconds_left(2100), Some(10.0));
        for second in 2..30 {
            pace.add(at(second), 1100 + 10 * (second - 1));
        }
        assert_eq!(pace.compute_rate(), Some(10.0));
        // It stands.
        for second in 30..50 {
            pace.add(at(second), 1380);
        }
        assert_eq!(
            (pace.compute_rate(), pace.estimate_seconds_left(9000)),
            (Some(0.0), None)
        );
        // Begun again.
        pace.add(at(50), 0);
        assert_eq!(pace.compute_rate(), None);
    }
}
