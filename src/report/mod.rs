//! Tells people and programs what happens: lines on a terminal, JSON lines, `events.jsonl`.
//!
//! Only tells. Records such as the manifest are made elsewhere, from returned values.

mod jsonl;
mod terminal;

use std::sync::Arc;

pub use jsonl::JsonLines;
pub use terminal::Terminal;

use winimg_base::event::{Event, Sink};

/// Several sinks as one.
pub struct Everywhere(pub Vec<Arc<dyn Sink>>);

impl Sink for Everywhere {
    fn emit(&self, event: &Event) {
        for sink in &self.0 {
            sink.emit(event);
        }
    }
}
