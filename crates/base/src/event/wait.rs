//! State that every wait watches: the cancel signal, and a user's control of the machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

    /// Fails if the signal was given.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() {
            return Err(Error::cancelled());
        }
        Ok(())
    }

    /// Resets the signal and returns true if it was given. For waits that Ctrl-C ends as intended,
    /// such as `watch`.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }

    /// Returns the flag itself, for a signal handler.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Sleeps for `time`, or fails early when cancelled.
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

/// Switch that is on while a user controls the machine. Meanwhile supervision is suspended. Clones
/// share one state.
#[derive(Clone, Debug, Default)]
pub struct UserControl(Arc<AtomicBool>);

impl UserControl {
    pub fn begin(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub fn end(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    pub fn is_on(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
