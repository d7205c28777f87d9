//! Events as JSON, one object a line, each with its time.

use std::io::Write;
use std::sync::Mutex;

use serde::Serialize;

use winimg_base::event::{Event, Sink};

/// Writes `{"time":"2026-01-02T03:04:05.678Z","event":"note",…}` lines. A line that cannot be written is dropped:
/// a full disk is reported by the work that needs the disk, not by its log.
pub struct JsonLines<W: Write + Send> {
    to: Mutex<W>,
}

impl<W: Write + Send> JsonLines<W> {
    pub fn new(to: W) -> Self {
        Self { to: Mutex::new(to) }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    #[serde(flatten)]
    event: &'a Event,
}

impl<W: Write + Send> Sink for JsonLines<W> {
    fn emit(&self, event: &Event) {
        let time = format!("{:.3}", jiff::Timestamp::now());
        let Ok(mut line) = serde_json::to_string(&Line { time, event }) else {
            return;
        };
        line.push('\n');
        if let Ok(mut to) = self.to.lock() {
            let _ = to.write_all(line.as_bytes()).and_then(|()| to.flush());
        }
    }
}
