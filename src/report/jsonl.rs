//! Writes events as JSON lines, each with its time.

use std::io::Write;
use std::sync::Mutex;

use super::stream::EventLine;
use winimg_base::display_text;
use winimg_base::event::{Event, Sink};

/// Writes `{"time":"2026-01-02T03:04:05.678Z","event":"note",…}` lines. Lines that cannot be
/// written are dropped: a full disk is reported by the work that needs the disk, not by its log.
pub struct JsonLines<W: Write + Send>(Mutex<JsonStream<W>>);

struct JsonStream<W> {
    to: W,
    /// The first line, until it is written: a command without events writes nothing.
    first: Option<EventLine>,
}

impl<W: Write + Send> JsonLines<W> {
    /// Starts a stream; `started` is its first event, which happens now.
    pub fn new(to: W, started: Event) -> Self {
        let first = Some(EventLine::now(started));
        Self(Mutex::new(JsonStream { to, first }))
    }
}

impl<W: Write + Send> Sink for JsonLines<W> {
    fn emit(&self, event: &Event) {
        let Ok(mut stream) = self.0.lock() else {
            return;
        };
        let next = EventLine::now(event.clone());
        for line in stream.first.take().into_iter().chain([next]) {
            let Ok(mut text) = serde_json::to_string(&line) else {
                continue;
            };
            // GitHub reads it as a command anywhere in a line. Only strings can contain it.
            text = text.replace("##[", "#\\u0023[");
            text.push('\n');
            let to = &mut stream.to;
            let _ = to
                .write_all(display_text::escape_json(&text).as_bytes())
                .and_then(|()| to.flush());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_hides_nothing_and_reads_as_it_was_said() {
        let text = "kubelet\u{202e}exe.\u{1b}[2J\u{9b}\nof ##[error]".to_owned();
        let note = Event::Note { text };
        let mut written = Vec::new();
        JsonLines::new(&mut written, note.clone()).emit(&note);
        let text = String::from_utf8(written).expect("text");
        assert!(
            !text.contains(|c| display_text::is_unprintable(c) && c != '\n'),
            "{text}"
        );
        assert!(!text.contains("##["), "{text}");
        for line in text.lines() {
            let read: EventLine = serde_json::from_str(line).expect("a line");
            assert_eq!(read.event, note);
        }
        assert_eq!(text.lines().count(), 2);
    }
}
