//! How fast bytes come, and when they will all be there. Pure: it is given the time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The pace is that of the last seconds: a server that slows down shows soon, one that stutters does not flicker.
const WINDOW: Duration = Duration::from_secs(10);
/// Before that nothing can be said.
const LEAST: Duration = Duration::from_secs(1);

/// One transfer or export.
#[derive(Clone, Debug, Default)]
pub struct Pace(VecDeque<(Instant, u64)>);

impl Pace {
    pub fn add(&mut self, now: Instant, done: u64) {
        // It began again.
        if self.0.back().is_some_and(|(_, before)| *before > done) {
            self.0.clear();
        }
        self.0.push_back((now, done));
        while self.0.len() > 2 && now.duration_since(self.0[1].0) >= WINDOW {
            self.0.pop_front();
        }
    }

    /// Bytes a second.
    pub fn rate(&self) -> Option<f64> {
        let (first, last) = (self.0.front()?, self.0.back()?);
        let time = last.0.duration_since(first.0);
        (time >= LEAST).then(|| (last.1 - first.1) as f64 / time.as_secs_f64())
    }

    /// Seconds until `total` bytes are there; not known while nothing comes.
    pub fn seconds_left(&self, total: u64) -> Option<f64> {
        let rate = self.rate().filter(|rate| *rate >= 1.0)?;
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
        let mut pace = Pace::default();
        // Resumed: what was there before is no pace.
        pace.add(at(0), 1000);
        assert_eq!((pace.rate(), pace.seconds_left(9000)), (None, None));
        pace.add(at(1), 1100);
        assert_eq!(pace.rate(), Some(100.0));
        assert_eq!(pace.seconds_left(2100), Some(10.0));
        for second in 2..30 {
            pace.add(at(second), 1100 + 10 * (second - 1));
        }
        assert_eq!(pace.rate(), Some(10.0));
        // It stands.
        for second in 30..50 {
            pace.add(at(second), 1380);
        }
        assert_eq!((pace.rate(), pace.seconds_left(9000)), (Some(0.0), None));
        // Begun again.
        pace.add(at(50), 0);
        assert_eq!(pace.rate(), None);
    }
}
