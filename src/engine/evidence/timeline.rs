//! The build's phases, steps and restarts in order, read back from `events.jsonl`.
//!
//! For people only: no record is made from it. A line that can't be read is passed over.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use jiff::Timestamp;
use serde_json::Value;

/// Most rows that are told; of more, the last.
const MOST: usize = 300;
/// Bytes of a line and of the file that are looked at.
const LONGEST_LINE: u64 = 256 << 10;
const LONGEST: u64 = 1 << 30;
/// The events that are told; the rest is output.
const TOLD: &[&str] = &["phase_", "step_", "restarted", "warning"];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    pub rows: Vec<Row>,
    /// The phase that did not end.
    pub phase: Option<String>,
    /// The step that did not end.
    pub step: Option<(usize, String)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// As it was stamped.
    pub time: Option<Timestamp>,
    pub what: String,
    pub kind: RowKind,
    /// Of what ended well.
    pub seconds: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    Phase,
    Step,
    Remark,
}

pub fn read(path: &Path) -> Timeline {
    let Ok(file) = File::open(path) else {
        return Timeline::default();
    };
    from(&mut BufReader::new(file.take(LONGEST)))
}

fn from(lines: &mut dyn BufRead) -> Timeline {
    let mut timeline = Timeline::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        match lines.take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        // Output is most of the file: it is told by its head alone.
        let head = String::from_utf8_lossy(&line[..line.len().min(90)]);
        let told = |name: &&&str| head.contains(&format!("\"event\":\"{name}"));
        if TOLD.iter().any(|name| told(&name))
            && let Ok(event) = serde_json::from_slice(&line)
        {
            timeline.take(&event);
        }
    }
    let surplus = timeline.rows.len().saturating_sub(MOST);
    timeline.rows.drain(..surplus);
    timeline
}

impl Timeline {
    fn take(&mut self, event: &Value) {
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        match event["event"].as_str().unwrap_or_default() {
            "phase_started" => {
                self.phase = Some(text("phase"));
                self.row(event, RowKind::Phase, text("phase"));
            }
            "phase_finished" => {
                self.phase = None;
                self.end(RowKind::Phase, &text("phase"), event["seconds"].as_f64());
            }
            "step_started" => {
                let number = event["step"].as_u64().unwrap_or_default() as usize;
                self.step = Some((number, text("name")));
                let what = format!("[{number}/{}] {}", event["of"], text("name"));
                self.row(event, RowKind::Step, what);
            }
            "step_finished" => {
                self.step = None;
                let number = event["step"].as_u64().unwrap_or_default();
                self.end(
                    RowKind::Step,
                    &format!("[{number}/"),
                    event["seconds"].as_f64(),
                );
            }
            "restarted" => {
                let what = format!("the machine restarted ({})", event["count"]);
                self.row(event, RowKind::Remark, what);
            }
            "warning" => self.row(event, RowKind::Remark, format!("warning: {}", text("text"))),
            _ => {}
        }
    }

    fn row(&mut self, event: &Value, kind: RowKind, what: String) {
        self.rows.push(Row {
            time: event["time"].as_str().and_then(|t| t.parse().ok()),
            what,
            kind,
            seconds: None,
        });
        // Restarts without end must not fill the memory.
        if self.rows.len() > 4 * MOST {
            self.rows.drain(..MOST);
        }
    }

    fn end(&mut self, kind: RowKind, begin: &str, seconds: Option<f64>) {
        let mut rows = self.rows.iter_mut().rev();
        let own = |row: &&mut Row| row.kind == kind && row.what.starts_with(begin);
        if let Some(row) = rows.find(own) {
            row.seconds = Some(seconds.unwrap_or_default());
        }
    }

    /// When the build began.
    pub fn began(&self) -> Option<Timestamp> {
        self.rows.iter().find_map(|row| row.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_has_its_time_and_what_did_not_is_named() {
        let lines = concat!(
            r#"{"time":"2026-01-02T03:04:05.000Z","event":"phase_started","phase":"fetch"}"#,
            "\n",
            r#"{"time":"2026-01-02T03:04:06.500Z","event":"phase_finished","phase":"fetch","seconds":1.5}"#,
            "\nrubbish\n",
            r#"{"time":"2026-01-02T03:04:07.000Z","event":"phase_started","phase":"provision"}"#,
            "\n",
            r#"{"time":"2026-01-02T03:04:07.000Z","event":"step_started","step":1,"of":2,"name":"one","place":"r:1:1"}"#,
            "\n",
            r#"{"time":"2026-01-02T03:04:07.000Z","event":"output","step":1,"text":"\"event\":\"phase_started\""}"#,
            "\n",
            r#"{"time":"2026-01-02T03:04:08.000Z","event":"step_finished","step":1,"exit_code":0,"seconds":1}"#,
            "\n",
            r#"{"time":"2026-01-02T03:04:08.000Z","event":"step_started","step":2,"of":2,"name":"two","place":"r:2:1"}"#,
            "\n",
            r#"{"time":"2026-01-02T03:04:09.000Z","event":"restarted","count":3}"#,
        );
        let timeline = from(&mut lines.as_bytes());
        let told: Vec<_> = timeline
            .rows
            .iter()
            .map(|row| (row.what.as_str(), row.seconds))
            .collect();
        assert_eq!(
            told,
            [
                ("fetch", Some(1.5)),
                ("provision", None),
                ("[1/2] one", Some(1.0)),
                ("[2/2] two", None),
                ("the machine restarted (3)", None),
            ]
        );
        assert_eq!(timeline.phase.as_deref(), Some("provision"));
        assert_eq!(timeline.step, Some((2, "two".into())));
    }
}
