//! Tells a cursor from a number that counts: both change a few cells of the screen.
//!
//! A cursor, a caret or a lamp has two looks and alternates between them. A percentage has a new look each time it changes, and
//! is progress however little of the screen it changes.

use std::collections::BTreeMap;

use crate::vm::screen::Screen;

/// The two latest looks of each cell since the screen last changed as a whole.
#[derive(Debug, Default)]
pub struct Blinks {
    first: Option<Screen>,
    /// The other look of cells that have had two.
    second: BTreeMap<usize, u32>,
    last: Option<Screen>,
}

impl Blinks {
    /// Begins again with this screen.
    pub fn begin(&mut self, screen: Option<&Screen>) {
        self.first = screen.cloned();
        self.last = screen.cloned();
        self.second.clear();
    }

    /// Whether a cell has a third look. The screen differs from the first in a few cells only.
    pub fn counts(&mut self, screen: &Screen) -> bool {
        let (Some(first), Some(last)) = (&self.first, &self.last) else {
            return false;
        };
        let mut has_third = false;
        for (cell, look) in screen.differing(first) {
            has_third |= *self.second.entry(cell).or_insert(look) != look;
        }
        if has_third {
            self.second = last.differing(screen).collect();
            self.first = Some(screen.clone());
        }
        self.last = Some(screen.clone());
        has_third
    }
}
