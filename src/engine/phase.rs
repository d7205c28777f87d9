//! The phases of a build, as events and as spans of the trace.

use std::sync::Arc;
use std::time::Instant;

use tracing::debug_span;
use tracing::span::EnteredSpan;

use winimg_base::event::{Event, Sink};

/// A phase's two events: at its start, and at its good end.
pub struct Phase<'a> {
    name: &'static str,
    started: Instant,
    sink: &'a Arc<dyn Sink>,
    _span: EnteredSpan,
}

impl<'a> Phase<'a> {
    pub fn start(name: &'static str, sink: &'a Arc<dyn Sink>) -> Self {
        sink.emit(&Event::PhaseStarted { phase: name });
        Self {
            name,
            started: Instant::now(),
            sink,
            _span: debug_span!("phase", phase = name).entered(),
        }
    }

    pub fn done(self) {
        self.sink.emit(&Event::PhaseFinished {
            phase: self.name,
            seconds: self.started.elapsed().as_secs_f64(),
        });
    }
}
