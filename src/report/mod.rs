//! Shows people and programs what happens: lines on a terminal, JSON lines, `events.jsonl`; and what is traced.
//!
//! Only shows. Records such as the manifest are made elsewhere, from returned values.

pub mod ci;
mod jsonl;
mod live;
mod pace;
pub mod stream;
mod terminal;
pub mod trace;

use std::sync::Arc;

pub use ci::Ci;
pub use jsonl::JsonLines;
pub use terminal::Terminal;

use winimg_base::event::{Event, Sink};

/// Passes on what a user has to know although the work goes on: `-q`.
pub struct Quiet(pub Arc<dyn Sink>);

impl Sink for Quiet {
    fn emit(&self, event: &Event) {
        match event {
            Event::Warning { .. }
            | Event::Diagnostics { .. }
            | Event::Finding { .. }
            | Event::Paused { .. }
            | Event::Finished { .. }
            | Event::Failed { .. } => self.0.emit(event),
            _ => {}
        }
    }
}

pub struct Everywhere(pub Vec<Arc<dyn Sink>>);

impl Sink for Everywhere {
    fn emit(&self, event: &Event) {
        for sink in &self.0 {
            sink.emit(event);
        }
    }
}
