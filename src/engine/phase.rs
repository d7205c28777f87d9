//! The phases of a build, as events and as spans of the trace.

use std::sync::Arc;
use std::time::Instant;

use tracing::debug_span;

use winimg_base::error::Result;
use winimg_base::event::{Event, Phase, Sink};

/// Does the work between the phase's two events: one at its start, with the seconds that it took the last time, one at its good
/// end.
pub fn carry_out<T>(
    phase: Phase,
    last_seconds: Option<f64>,
    sink: &Arc<dyn Sink>,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    sink.emit(&Event::PhaseStarted {
        phase,
        last_seconds,
    });
    let _span = debug_span!("phase", phase = phase.name()).entered();
    let started = Instant::now();
    let done = work()?;
    sink.emit(&Event::PhaseFinished {
        phase,
        seconds: started.elapsed().as_secs_f64(),
    });
    Ok(done)
}
