//! Tells a cursor from a number that counts: both change a few cells of the screen.
//!
//! A cursor, a caret or a lamp has two looks and alternates between them within seconds. A percentage has a new look each time it
//! changes, and is progress however little of the screen it changes.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::vm::screen::Screen;

/// A cursor has shown both of its looks by then, however its blinking and the samples fall together.
const BLINK: Duration = Duration::from_secs(20);

/// The two latest looks of each cell since the screen last changed as a whole.
#[derive(Debug, Default)]
pub struct Blinks {
    first: Option<Screen>,
    /// The other look of cells that have had two.
    second: BTreeMap<usize, u32>,
    last: Option<Screen>,
    /// Since when the looks are collected.
    began: Duration,
}

impl Blinks {
    /// Begins again with this screen.
    pub fn begin(&mut self, screen: Option<&Screen>, at: Duration) {
        self.first = screen.cloned();
        self.last = screen.cloned();
        self.second.clear();
        self.began = at;
    }

    /// Whether a cell has a third look, or a second one that comes late. The screen differs from the first in a few cells only.
    pub fn counts(&mut self, screen: &Screen, at: Duration) -> bool {
        let (Some(first), Some(last)) = (&self.first, &self.last) else {
            return false;
        };
        let is_late = at.saturating_sub(self.began) >= BLINK;
        let mut is_new = false;
        for (cell, look) in screen.differing(first) {
            is_new |= match self.second.insert(cell, look) {
                Some(known) => known != look,
                None => is_late,
            };
        }
        if is_new {
            self.began = at;
            self.second = last.differing(screen).collect();
            self.first = Some(screen.clone());
        }
        self.last = Some(screen.clone());
        is_new
    }
}
