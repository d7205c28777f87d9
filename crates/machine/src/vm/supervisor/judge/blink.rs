//! Distinguishes a blinking cursor from a counting number: both change a few cells of the screen.
//!
//! A cursor, caret or lamp alternates between two looks within seconds. A percentage has a new look
//! at each change, which is progress however small the changed area is.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::vm::screen::ScreenGrid;

/// Time in which a cursor shows both of its looks, whatever the sampling interval.
const BLINK: Duration = Duration::from_secs(20);

/// The two latest looks of each cell since the screen last changed as a whole.
#[derive(Debug, Default)]
pub struct BlinkDetector {
    first: Option<ScreenGrid>,
    /// Second look of the cells that have had two.
    second: BTreeMap<usize, u32>,
    last: Option<ScreenGrid>,
    /// Time at which the collection started.
    began: Duration,
}

impl BlinkDetector {
    /// Restarts the collection with this screen.
    pub fn begin(&mut self, screen: Option<&ScreenGrid>, at: Duration) {
        self.first = screen.cloned();
        self.last = screen.cloned();
        self.second.clear();
        self.began = at;
    }

    /// Returns true if a cell has a third look, or a late second one. The screen may differ from
    /// the first only in a few cells.
    pub fn detect_progress(&mut self, screen: &ScreenGrid, at: Duration) -> bool {
        let (Some(first), Some(last)) = (&self.first, &self.last) else {
            return false;
        };
        let is_late = at.saturating_sub(self.began) >= BLINK;
        let mut is_new = false;
        for (cell, look) in screen.iter_changed(first) {
            is_new |= match self.second.insert(cell, look) {
                Some(known) => known != look,
                None => is_late,
            };
        }
        if is_new {
            self.began = at;
            self.second = last.iter_changed(screen).collect();
            self.first = Some(screen.clone());
        }
        self.last = Some(screen.clone());
        is_new
    }
}
