//! Log file of the last exchanges with the agent: requests, answers and times.
//!
//! Written immediately, so that it survives a dying machine, and continued by the next machine of
//! the same build. Data and passwords are only shown by their length. Errors are ignored: a
//! transcript that cannot be written must not stop a build.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde_json::Value;

/// Number of exchanges kept. The file may temporarily have twice as many.
const MAX_EXCHANGES: usize = 200;
/// Maximum bytes of a request or answer.
const MAX_MESSAGE: usize = 2 << 10;
/// Maximum bytes of a text in it.
const MAX_TEXT: usize = 1 << 10;
/// Maximum number of list items and levels shown.
const MAX_ITEMS: usize = 32;
const MAX_DEPTH: usize = 16;
/// Members with contents or secrets.
const HIDDEN_MEMBERS: &[&str] = &["input-data", "buf-b64", "password", "out-data", "err-data"];
/// First character of an exchange in the file.
const BEGIN: char = '>';

/// File of exchanges, with two or three lines each:
///
/// ```text
/// > 2026-01-02T03:04:05.123Z {"execute":"guest-ping"}
/// < 2026-01-02T03:04:05.125Z {"return":{}}
/// = 12 times more, last at 2026-01-02T03:04:07.000Z
/// ```
pub struct AgentTranscript {
    file: File,
    /// Lengths of the exchanges in the file.
    lengths: VecDeque<u64>,
    /// Last exchange without its times, to detect repetitions: a running program is polled many
    /// times.
    last: Option<(String, String)>,
    /// Bytes of the last exchange without the line that counts repetitions.
    last_own: u64,
    repeats: u32,
}

impl AgentTranscript {
    /// Opens the file, and continues an existing one. Returns `None` if it cannot be opened.
    pub fn open(path: &Path) -> Option<Self> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).ok()?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).ok()?;
        let mut lengths = VecDeque::new();
        for line in text.split_inclusive(|b| *b == b'\n') {
            match lengths.back_mut() {
                Some(last) if line.first() != Some(&(BEGIN as u8)) => *last += line.len() as u64,
                _ => lengths.push_back(line.len() as u64),
            }
        }
        Some(Self {
            file,
            lengths,
            last: None,
            last_own: 0,
            repeats: 0,
        })
    }

    /// Records a request and its answer.
    pub fn record_exchange(&mut self, request: &str, answer: &str) {
        let time = format!("{:.3}", jiff::Timestamp::now());
        let written = match &self.last {
            Some((a, b)) if a == request && b == answer => self.repeat(&time),
            _ => self.begin(request, answer, &time),
        };
        // A full disk is reported by the operations that need it.
        let _ = written;
    }

    fn begin(&mut self, request: &str, answer: &str, time: &str) -> std::io::Result<()> {
        if self.lengths.len() >= 2 * MAX_EXCHANGES {
            self.drop_oldest()?;
        }
        let text = format!("{BEGIN} {time} {request}\n< {time} {answer}\n");
        self.file.seek(SeekFrom::End(0))?;
        self.file.write_all(text.as_bytes())?;
        self.lengths.push_back(text.len() as u64);
        self.last_own = text.len() as u64;
        self.last = Some((request.into(), answer.into()));
        self.repeats = 0;
        Ok(())
    }

    fn repeat(&mut self, time: &str) -> std::io::Result<()> {
        let Some(last) = self.lengths.back_mut() else {
            return Ok(());
        };
        self.repeats += 1;
        let text = format!("= {} times more, last at {time}\n", self.repeats);
        let end = self.file.seek(SeekFrom::End(0))?;
        let at = end.saturating_sub(*last) + self.last_own;
        self.file.set_len(at)?;
        self.file.seek(SeekFrom::Start(at))?;
        self.file.write_all(text.as_bytes())?;
        *last = self.last_own + text.len() as u64;
        Ok(())
    }

    fn drop_oldest(&mut self) -> std::io::Result<()> {
        let surplus = self.lengths.len().saturating_sub(MAX_EXCHANGES);
        let cut: u64 = self.lengths.drain(..surplus).sum();
        let mut rest = Vec::new();
        self.file.seek(SeekFrom::Start(cut))?;
        self.file.read_to_end(&mut rest)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&rest)?;
        self.file.set_len(rest.len() as u64)
    }
}

/// Renders a message with at most [`MAX_MESSAGE`] bytes: contents only by their length, long texts
/// truncated.
pub fn render_message(message: &Value) -> String {
    let text = hide_contents(message, MAX_DEPTH).to_string();
    if text.len() <= MAX_MESSAGE {
        text
    } else {
        // Without its length, which would be that of shortened texts.
        format!("{}…", &text[..text.floor_char_boundary(MAX_MESSAGE)])
    }
}

/// Truncates a long text and appends its length.
pub fn truncate_text(text: &str) -> String {
    let text = text.trim_end();
    if text.len() <= MAX_TEXT {
        text.to_owned()
    } else {
        let head = &text[..text.floor_char_boundary(MAX_TEXT)];
        format!("{head}… ({} bytes)", text.len())
    }
}

fn hide_contents(value: &Value, levels: usize) -> Value {
    let Some(below) = levels.checked_sub(1) else {
        return "…".into();
    };
    match value {
        Value::Object(object) => object
            .iter()
            .map(|(name, value)| {
                let shown = match value.as_str() {
                    Some(text) if HIDDEN_MEMBERS.contains(&name.as_str()) => {
                        format!("({} characters)", text.len()).into()
                    }
                    _ => hide_contents(value, below),
                };
                (name.clone(), shown)
            })
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(items) => {
            let shown = items.iter().take(MAX_ITEMS);
            shown.map(|item| hide_contents(item, below)).collect()
        }
        Value::String(text) => truncate_text(text).into(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).expect("the transcript");
        // Without the times.
        let line = |l: &str| {
            let words = l.split(' ').filter(|w| !w.ends_with('Z'));
            words.collect::<Vec<_>>().join(" ")
        };
        text.lines().map(line).collect()
    }

    #[test]
    fn exchanges_go_on_over_machines_and_repeats_are_counted() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("agent.log");
        let mut first = AgentTranscript::open(&path).expect("a file");
        first.record_exchange("ask", "one");
        first.record_exchange("ask", "two");
        for _ in 0..12 {
            first.record_exchange("ask", "two");
        }
        first.record_exchange("last", "three");
        drop(first);
        let mut second = AgentTranscript::open(&path).expect("a file");
        second.record_exchange("last", "three");
        second.record_exchange("last", "three");
        assert_eq!(
            read(&path),
            [
                "> ask",
                "< one",
                "> ask",
                "< two",
                "= 12 times more, last at",
                "> last",
                "< three",
                "> last",
                "< three",
                "= 1 times more, last at",
            ]
        );
    }

    #[test]
    fn the_oldest_exchanges_are_dropped_whole() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("agent.log");
        for part in 0..3 {
            let mut transcript = AgentTranscript::open(&path).expect("a file");
            for n in 0..MAX_EXCHANGES - 10 {
                transcript.record_exchange(&format!("{part}.{n}"), "yes");
                transcript.record_exchange(&format!("{part}.{n}"), "yes");
            }
        }
        let lines = read(&path);
        assert!(lines.len() <= 2 * MAX_EXCHANGES * 3 && lines.len() >= MAX_EXCHANGES * 3);
        assert!(lines[0].starts_with("> "), "{}", lines[0]);
        assert_eq!(lines.len() % 3, 0);
        assert_eq!(
            lines[lines.len() - 3],
            format!("> 2.{}", MAX_EXCHANGES - 11)
        );
    }

    #[test]
    fn contents_and_passwords_are_shown_by_their_length() {
        let message = json!({"execute": "guest-set-user-password", "arguments": {
            "username": "Administrator", "password": "UGxhbnRlZA==", "crypted": false,
            "deep": [{"buf-b64": "AAAA", "count": 3}]}});
        assert_eq!(
            render_message(&message),
            "{\"execute\":\"guest-set-user-password\",\"arguments\":{\"username\":\"Administrator\",\
             \"password\":\"(12 characters)\",\"crypted\":false,\"deep\":[{\"buf-b64\":\"(4 characters)\",\"count\":3}]}}"
        );
        let long = render_message(&json!({"return": "ä".repeat(4000)}));
        assert!(long.len() < MAX_MESSAGE + 64, "{}", long.len());
        assert!(long.contains("… (8000 bytes)"));
    }
}
