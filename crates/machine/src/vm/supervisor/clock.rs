//! Time as deadlines mean it: it stands while the machine waits for room on the host's disk.
//!
//! Knows nothing of why it is stopped.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::vm::lock;

#[derive(Debug, Default)]
pub struct Clock(Mutex<Stops>);

#[derive(Debug, Default)]
struct Stops {
    lost: Duration,
    since: Option<Instant>,
}

impl Clock {
    pub fn now(&self) -> Instant {
        self.at(Instant::now())
    }

    fn at(&self, now: Instant) -> Instant {
        let stops = lock(&self.0);
        let now = stops.since.unwrap_or(now);
        now.checked_sub(stops.lost).unwrap_or(now)
    }

    pub fn stop(&self) {
        self.stop_at(Instant::now());
    }

    pub fn go_on(&self) {
        self.go_on_at(Instant::now());
    }

    pub fn stands(&self) -> bool {
        lock(&self.0).since.is_some()
    }

    fn stop_at(&self, now: Instant) {
        lock(&self.0).since.get_or_insert(now);
    }

    fn go_on_at(&self, now: Instant) {
        let mut stops = lock(&self.0);
        if let Some(since) = stops.since.take() {
            stops.lost += now.saturating_duration_since(since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_room_is_not_counted() {
        let clock = Clock::default();
        let start = Instant::now() + Duration::from_secs(1000);
        let at = |s| start + Duration::from_secs(s);
        let shown = |s| clock.at(at(s)).duration_since(start).as_secs();
        assert_eq!(shown(5), 5);
        clock.stop_at(at(10));
        clock.stop_at(at(12));
        assert_eq!((shown(10), shown(400)), (10, 10));
        clock.go_on_at(at(410));
        clock.go_on_at(at(420));
        assert_eq!((shown(410), shown(430)), (10, 30));
    }
}
