//! Progress and cancellation of long operations on bytes.

use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Event, Sink};

/// Minimum interval between progress events.
const APART: Duration = Duration::from_millis(100);

/// Progress of one file, with the cancel signal.
#[derive(Clone)]
pub struct ProgressWatch {
    /// Name in events and errors, such as `kubelet` or `media.iso`.
    pub what: String,
    pub sink: Arc<dyn Sink>,
    pub cancel: Cancel,
    last: Arc<Mutex<Option<Instant>>>,
}

impl ProgressWatch {
    pub fn new(what: impl Into<String>, sink: Arc<dyn Sink>, cancel: Cancel) -> Self {
        Self {
            what: what.into(),
            sink,
            cancel,
            last: Arc::default(),
        }
    }

    /// Returns a copy with another name and its own interval.
    pub fn with_name(&self, what: impl Into<String>) -> Self {
        Self::new(what, Arc::clone(&self.sink), self.cancel.clone())
    }

    pub fn warn(&self, text: impl Into<String>) {
        self.sink.warn(text);
    }

    pub fn note(&self, text: impl Into<String>) {
        self.sink.note(text);
    }

    /// Builds an error with the name, such as `kubelet: the server does not resume this file`.
    pub fn error(&self, kind: Kind, fact: impl Display) -> Error {
        Error::new(kind, format!("{}: {fact}", self.what))
    }

    /// Reports progress, unless it was just reported. Fails when cancelled.
    pub fn report_bytes(&self, done: u64, total: Option<u64>) -> Result<()> {
        self.cancel.check()?;
        let finished = total == Some(done);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.is_none_or(|t| t.elapsed() >= APART);
        if due || finished {
            *last = Some(Instant::now());
            drop(last);
            self.sink.emit(&Event::Bytes {
                what: self.what.clone(),
                done,
                total,
            });
        }
        Ok(())
    }
}
