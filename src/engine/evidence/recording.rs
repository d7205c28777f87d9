//! Keeps the last lines of the trace in memory, as JSON, for the diagnostics of a failed build.
//!
//! Limited in bytes; the oldest lines are dropped first. Known secrets are redacted. A successful
//! build writes nothing; the caller decides when to write.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use serde_json::json;

use super::redact::Redactor;
use winimg_base::text::Secret;

/// Maximum size of all lines in bytes.
const KEPT: usize = 8 << 20;

/// The trace of one process. Clones share their lines.
#[derive(Clone, Default)]
pub struct TraceRecording(Arc<TraceShared>);

#[derive(Default)]
struct TraceShared {
    redactor: RwLock<Redactor>,
    lines: Mutex<TraceLines>,
}

#[derive(Default)]
struct TraceLines {
    kept: VecDeque<String>,
    /// Size of all kept lines in bytes.
    bytes: usize,
    dropped: u64,
}

impl TraceLines {
    fn add(&mut self, line: String, most: usize) {
        self.bytes += line.len();
        self.kept.push_back(line);
        while self.bytes > most
            && let Some(oldest) = self.kept.pop_front()
        {
            self.bytes -= oldest.len();
            self.dropped += 1;
        }
    }
}

impl TraceRecording {
    /// Adds secrets to redact in all lines when they are written.
    pub fn hide(&self, more: impl IntoIterator<Item = Secret>) {
        let redactor = self.0.redactor.write();
        let more: Vec<Secret> = more.into_iter().collect();
        redactor.unwrap_or_else(PoisonError::into_inner).add(&more);
    }

    /// Redacts secrets, queries of URLs and product keys in a text.
    pub fn redact(&self, text: &str) -> String {
        self.read_redactor().redact_guest_text(text)
    }

    fn read_redactor(&self) -> RwLockReadGuard<'_, Redactor> {
        let redactor = self.0.redactor.read();
        redactor.unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_lines(&self) -> MutexGuard<'_, TraceLines> {
        self.0.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line, without its newline.
    pub fn add(&self, line: String) {
        self.lock_lines().add(line, KEPT);
    }

    /// Writes the lines, after one with the number of dropped lines.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let (redactor, lines) = (self.read_redactor(), self.lock_lines());
        let mut to = BufWriter::new(File::create(path)?);
        if lines.dropped > 0 {
            let first = json!({
                "level": "INFO",
                "target": "winimg",
                "message": "earlier lines were dropped",
                "fields": {"lines": lines.dropped},
            });
            writeln!(to, "{first}")?;
        }
        for line in &lines.kept {
            writeln!(to, "{}", redactor.redact_text(line))?;
        }
        to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(recording: &TraceRecording) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("debug.jsonl");
        recording.write(&path).expect("written");
        std::fs::read_to_string(&path).expect("the lines")
    }

    #[test]
    fn the_last_lines_are_kept_and_the_others_counted() {
        let mut lines = TraceLines::default();
        for line in ["one", "two", "three", "four"] {
            lines.add(line.into(), 10);
        }
        assert_eq!(Vec::from(lines.kept), ["three", "four"]);
        assert_eq!((lines.bytes, lines.dropped), (9, 2));
    }

    #[test]
    fn what_is_written_stays_within_its_bound() {
        let recording = TraceRecording::default();
        let long = format!("{{\"message\":\"{}\"}}", "x".repeat(100_000));
        for _ in 0..200 {
            recording.add(long.clone());
        }
        let text = written(&recording);
        assert!(text.len() < KEPT + 1000, "{}", text.len());
        let first: serde_json::Value =
            serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
        assert_eq!(first["fields"]["lines"], 200 - (text.lines().count() - 1));
    }

    #[test]
    fn a_secret_that_becomes_known_later_is_in_no_written_line() {
        let recording = TraceRecording::default();
        recording.add(json!({"message": "said Open\"Sesame\\1"}).to_string());
        recording.hide([Secret::new("Open\"Sesame\\1")]);
        assert_eq!(written(&recording), "{\"message\":\"said •••\"}\n");
        assert_eq!(
            recording.redact("Open\"Sesame\\1 https://a.example/b?sig=c"),
            "••• https://a.example/b?*****"
        );
    }
}
