//! Shows events to people and programs: lines on a terminal, JSON lines, `events.jsonl`; and
//! tracing.
//!
//! Output only. Records such as the manifest are made elsewhere, from returned values.

pub mod ci;
mod jsonl;
mod live;
pub mod stream;
mod table;
mod terminal;
pub mod trace;
mod transfer_rate;

use std::sync::Arc;

pub use ci::CiSystem;
pub use jsonl::JsonLines;
pub use table::render_table;
pub use terminal::Terminal;

use winimg_base::event::{Event, Sink};

/// Passes on only warnings, complaints, prompts and results, for `-q`.
pub struct QuietSink(pub Arc<dyn Sink>);

impl Sink for QuietSink {
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

/// Passes on every event to several sinks.
pub struct SinkGroup(pub Vec<Arc<dyn Sink>>);

impl Sink for SinkGroup {
    fn emit(&self, event: &Event) {
        for sink in &self.0 {
            sink.emit(event);
        }
    }
}
