//! A program that does not outlive the test that started it.

use std::process::Child;

/// Killed when it is dropped.
pub struct KilledChild(pub Child);

impl Drop for KilledChild {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
