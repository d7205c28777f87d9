//! The build's phases, steps, restarts and warnings in order, for the page of a build that fails.
//!
//! For people only: nothing is decided by it, and no record is made from it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use winimg_base::event::{Event, Phase, Sink};

/// Rows that are kept; of more, the last.
const MOST: usize = 300;

/// Keeps a row of each event that the page shows.
#[derive(Debug, Default)]
pub struct Timeline(Mutex<Vec<Row>>);

#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub time: Timestamp,
    pub what: String,
    pub kind: RowKind,
    /// Of what ended well.
    pub seconds: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    Phase(Phase),
    /// By its number.
    Step(usize),
    Remark,
}

impl Sink for Timeline {
    fn emit(&self, event: &Event) {
        self.add(Timestamp::now(), event);
    }
}

impl Timeline {
    /// Takes an event that happened at `time`.
    pub fn add(&self, time: Timestamp, event: &Event) {
        let (kind, what) = match event {
            Event::PhaseStarted { phase, .. } => (RowKind::Phase(*phase), phase.to_string()),
            Event::PhaseFinished { phase, seconds } => {
                return self.end(RowKind::Phase(*phase), *seconds);
            }
            Event::StepStarted { step, of, name, .. } => {
                (RowKind::Step(*step), format!("[{step}/{of}] {name}"))
            }
            Event::StepFinished { step, seconds, .. } => {
                return self.end(RowKind::Step(*step), *seconds);
            }
            Event::Restarted { count } => {
                let what = format!("the machine restarted ({count})");
                (RowKind::Remark, what)
            }
            Event::Warning { text } => (RowKind::Remark, format!("warning: {text}")),
            _ => return,
        };
        let mut rows = self.lock();
        // Restarts without end must not fill the memory.
        if rows.len() == MOST {
            rows.remove(0);
        }
        rows.push(Row {
            time,
            what,
            kind,
            seconds: None,
        });
    }

    fn end(&self, kind: RowKind, seconds: f64) {
        let mut rows = self.lock();
        if let Some(row) = rows.iter_mut().rev().find(|row| row.kind == kind) {
            row.seconds = Some(seconds);
        }
    }

    pub fn rows(&self) -> Vec<Row> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Row>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_has_its_time_and_what_did_not_has_none() {
        let started = |step, name: &str| Event::StepStarted {
            step,
            of: 2,
            name: name.into(),
            place: "r:1:1".parse().expect("a place"),
        };
        let begun = |phase| Event::PhaseStarted {
            phase,
            last_seconds: None,
        };
        let timeline = Timeline::default();
        for event in [
            begun(Phase::Fetch),
            Event::PhaseFinished {
                phase: Phase::Fetch,
                seconds: 1.5,
            },
            begun(Phase::Provision),
            started(1, "one"),
            Event::Output {
                step: 1,
                text: "said".into(),
            },
            Event::StepFinished {
                step: 1,
                exit_code: Some(0),
                seconds: 1.0,
            },
            started(2, "two"),
            Event::Restarted { count: 3 },
        ] {
            timeline.emit(&event);
        }
        let rows = timeline.rows();
        let rows: Vec<_> = rows.iter().map(|r| (r.what.as_str(), r.seconds)).collect();
        assert_eq!(
            rows,
            [
                ("fetch", Some(1.5)),
                ("provision", None),
                ("[1/2] one", Some(1.0)),
                ("[2/2] two", None),
                ("the machine restarted (3)", None),
            ]
        );
    }
}
