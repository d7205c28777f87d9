//! Clock for deadlines, paused while the machine waits for disk space on the host.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::vm::lock;

#[derive(Debug, Default)]
pub struct PausableClock(Mutex<Stops>);

#[derive(Debug, Default)]
struct Stops {
    total: Duration,
    since: Option<Instant>,
}

impl PausableClock {
    pub fn now(&self) -> Instant {
        self.read_at(Instant::now())
    }

    fn read_at(&self, now: Instant) -> Instant {
        let state = lock(&self.0);
        let now = state.since.unwrap_or(now);
        now.checked_sub(state.total).unwrap_or(now)
    }

    pub fn stop(&self) {
        self.stop_at(Instant::now());
    }

    pub fn go_on(&self) {
        self.go_on_at(Instant::now());
    }

    pub fn is_stopped(&self) -> bool {
        lock(&self.0).since.is_some()
    }

    fn stop_at(&self, now: Instant) {
        lock(&self.0).since.get_or_insert(now);
    }

    fn go_on_at(&self, now: Instant) {
        let mut state = lock(&self.0);
        if let Some(since) = state.since.take() {
            state.total += now.saturating_duration_since(since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_room_is_not_counted() {
        let clock = PausableClock::default();
        let start = Instant::now() + Duration::from_secs(1000);
        let at = |s| start + Duration::from_secs(s);
        let shown = |s| clock.read_at(at(s)).duration_since(start).as_secs();
        assert_eq!(shown(5), 5);
        clock.stop_at(at(10));
        clock.stop_at(at(12));
        assert_eq!((shown(10), shown(400)), (10, 10));
        clock.go_on_at(at(410));
        clock.go_on_at(at(420));
        assert_eq!((shown(410), shown(430)), (10, 30));
    }
}
