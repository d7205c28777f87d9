//! The phases of a build, as events and as spans of the trace.

use std::sync::Arc;
use std::time::Instant;

use tracing::debug_span;

use winimg_base::error::Result;
use winimg_base::event::{Event, Sink};

/// A part of a build. It begins with an installation or with a boot, never with both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Fetch,
    Media,
    Install,
    Boot,
    Provision,
    Seal,
    Verify,
    Export,
}

impl Phase {
    /// As the events have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Media => "media",
            Self::Install => "install",
            Self::Boot => "boot",
            Self::Provision => "provision",
            Self::Seal => "seal",
            Self::Verify => "verify",
            Self::Export => "export",
        }
    }

    /// Does the work between the phase's two events: one at its start, one at its good end.
    pub fn carry_out<T>(self, sink: &Arc<dyn Sink>, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let phase = self.name();
        sink.emit(&Event::PhaseStarted { phase });
        let _span = debug_span!("phase", phase).entered();
        let started = Instant::now();
        let done = work()?;
        sink.emit(&Event::PhaseFinished {
            phase,
            seconds: started.elapsed().as_secs_f64(),
        });
        Ok(done)
    }
}
