//! The phases of a build, as events and as spans of the trace.

use std::sync::Arc;
use std::time::Instant;

use tracing::debug_span;

use winimg_base::error::Result;
use winimg_base::event::{Event, Phase, Sink};

/// Runs `work` between the phase's two events: one at the start, with the seconds it took last
/// time, and one after success.
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
