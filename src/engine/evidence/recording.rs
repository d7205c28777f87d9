//! What winimg did in detail, for a build that fails: the last lines, as JSON, in memory.
//!
//! Bounded in bytes; the oldest lines go first. No line holds a secret that is known here, and a build that ends well writes
//! nothing. Refuses to decide when it is written.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use serde_json::json;

use super::redact::Redactor;
use winimg_base::text::Secret;

/// Bytes of all lines that are kept.
const KEPT: usize = 8 << 20;

/// The lines of one process. Clones share them.
#[derive(Clone, Default)]
pub struct Recording(Arc<Shared>);

#[derive(Default)]
struct Shared {
    redactor: RwLock<Redactor>,
    lines: Mutex<Lines>,
}

#[derive(Default)]
struct Lines {
    kept: VecDeque<String>,
    /// Of all that are kept.
    bytes: usize,
    dropped: u64,
}

impl Lines {
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

impl Recording {
    /// Keeps these out of every line from here on, and out of earlier ones when they are written.
    pub fn hide(&self, more: impl IntoIterator<Item = Secret>) {
        let redactor = self.0.redactor.write();
        let more: Vec<Secret> = more.into_iter().collect();
        redactor.unwrap_or_else(PoisonError::into_inner).add(&more);
    }

    /// A text without secrets, queries of URLs and product keys.
    pub fn redacted(&self, text: &str) -> String {
        self.redactor().foreign(text)
    }

    fn redactor(&self) -> RwLockReadGuard<'_, Redactor> {
        let redactor = self.0.redactor.read();
        redactor.unwrap_or_else(PoisonError::into_inner)
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line, given without its end.
    pub fn add(&self, line: String) {
        self.lines().add(line, KEPT);
    }

    /// Writes the lines; a first one counts those that were dropped.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let (redactor, lines) = (self.redactor(), self.lines());
        let mut to = BufWriter::new(File::create(path)?);
        if lines.dropped > 0 {
            let first = json!({"level": "INFO", "target": "winimg", "message": "earlier lines were dropped",
                "fields": {"lines": lines.dropped}});
            writeln!(to, "{first}")?;
        }
        for line in &lines.kept {
            writeln!(to, "{}", redactor.text(line))?;
        }
        to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(recording: &Recording) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("debug.jsonl");
        recording.write(&path).expect("written");
        std::fs::read_to_string(&path).expect("the lines")
    }

    #[test]
    fn the_last_lines_are_kept_and_the_others_counted() {
        let mut lines = Lines::default();
        for line in ["one", "two", "three", "four"] {
            lines.add(line.into(), 10);
        }
        assert_eq!(Vec::from(lines.kept), ["three", "four"]);
        assert_eq!((lines.bytes, lines.dropped), (9, 2));
    }

    #[test]
    fn what_is_written_stays_within_its_bound() {
        let recording = Recording::default();
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
        let recording = Recording::default();
        recording.add(json!({"message": "said Open\"Sesame\\1"}).to_string());
        recording.hide([Secret::new("Open\"Sesame\\1")]);
        assert_eq!(written(&recording), "{\"message\":\"said •••\"}\n");
        assert_eq!(
            recording.redacted("Open\"Sesame\\1 https://a.example/b?sig=c"),
            "••• https://a.example/b?*****"
        );
    }
}
