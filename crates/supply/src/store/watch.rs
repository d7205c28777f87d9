//! What a long operation on bytes reports to, and when it stops.

use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Event, Sink};

/// Bytes events come at least this far apart.
const APART: Duration = Duration::from_millis(100);

/// Names one file for events, and watches the cancel signal for it.
#[derive(Clone)]
pub struct Watch {
    /// The name that events and errors show, such as `kubelet` or `media.iso`.
    pub what: String,
    pub sink: Arc<dyn Sink>,
    pub cancel: Cancel,
    last: Arc<Mutex<Option<Instant>>>,
}

impl Watch {
    pub fn new(what: impl Into<String>, sink: Arc<dyn Sink>, cancel: Cancel) -> Self {
        Self {
            what: what.into(),
            sink,
            cancel,
            last: Arc::default(),
        }
    }

    /// The same under another name, with its own pace.
    pub fn named(&self, what: impl Into<String>) -> Self {
        Self::new(what, Arc::clone(&self.sink), self.cancel.clone())
    }

    pub fn warn(&self, text: impl Into<String>) {
        self.sink.warn(text);
    }

    pub fn note(&self, text: impl Into<String>) {
        self.sink.note(text);
    }

    /// An error about what is watched: `kubelet: the server does not resume this file`.
    pub fn error(&self, kind: Kind, fact: impl Display) -> Error {
        Error::new(kind, format!("{}: {fact}", self.what))
    }

    /// Reports progress, unless it was just reported. An error when cancelled.
    pub fn bytes(&self, done: u64, total: Option<u64>) -> Result<()> {
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
