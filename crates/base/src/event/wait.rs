//! What every wait watches: the cancel signal, and whether a person has the machine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// The cancel signal that every wait watches. Clones share one flag.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    pub fn cancel(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// An error when the signal was given.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() {
            return Err(Error::cancelled());
        }
        Ok(())
    }

    /// Takes the signal back; whether it was given. For a wait whose regular end is an interrupt.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }

    /// The flag itself, for a signal handler.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Sleeps at most `time`, and less when cancelled.
    pub fn sleep(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
        self.check()
    }
}

/// Whether a person has the machine. Its watch then judges nothing, and limits of time grow by [`Attended::total`]. Clones
/// share one state.
#[derive(Clone, Debug, Default)]
pub struct Attended(Arc<Mutex<Attention>>);

#[derive(Debug, Default)]
struct Attention {
    since: Option<Instant>,
    before: Duration,
}

impl Attended {
    fn lock(&self) -> MutexGuard<'_, Attention> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn begin(&self) {
        self.lock().since.get_or_insert_with(Instant::now);
    }

    pub fn end(&self) {
        let mut state = self.lock();
        if let Some(since) = state.since.take() {
            state.before += since.elapsed();
        }
    }

    pub fn is_on(&self) -> bool {
        self.lock().since.is_some()
    }

    /// How long persons have had it so far.
    pub fn total(&self) -> Duration {
        let state = self.lock();
        state.before + state.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}
