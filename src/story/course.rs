//! How a build went: its events in order, folded into rows, layers, findings and warnings.
//!
//! Pure. Nothing is decided by it, and no record is made from it.

use jiff::Timestamp;

use winimg_base::error::Kind;
use winimg_base::event::{Details, Event, Phase, Severity};

use super::{Component, State, Step, StepEnd};

/// Rows that are kept; of more, the last.
const MOST: usize = 600;

#[derive(Clone, Debug, Default)]
pub struct Course {
    /// The version of winimg.
    pub winimg: Option<String>,
    /// The recipe's file, as it was named.
    pub recipe_path: Option<String>,
    /// The recipe's name.
    pub name: Option<String>,
    /// What was typed.
    pub line: Option<String>,
    pub began: Option<Timestamp>,
    /// Of the last event.
    pub last: Option<Timestamp>,
    pub rows: Vec<Row>,
    pub layers: Layers,
    pub findings: Vec<Found>,
    /// The counts of a verification, as people read them.
    pub checked: Vec<String>,
    pub warnings: Vec<String>,
    /// `Windows Server 2022 SERVERDATACENTERCORE, 10.0.20348.587, en-US`
    pub media: Option<String>,
    pub steps: Vec<Step>,
    pub state: State,
    /// The folder held already what the recipe makes.
    pub unchanged: bool,
    pub components: Vec<Component>,
    /// Hypervisor and accelerator.
    pub host: Option<String>,
    /// The phase that runs, or that failed.
    pub phase: Option<Phase>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Seconds since the first event.
    pub after: f64,
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
    Restart,
    /// A person has the machine.
    Pause,
    Sealed,
}

/// What the cache had for the build, and what the build gave it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layers {
    pub used: Option<Used>,
    /// Why no later layer served.
    pub stale: Vec<String>,
    pub sealed: Vec<Sealed>,
}

/// The layer that the build resumed from.
#[derive(Clone, Debug, PartialEq)]
pub struct Used {
    pub after: String,
    pub key: String,
    /// So many parts of the build it holds, of how many.
    pub parts: usize,
    pub of: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Sealed {
    pub after: String,
    pub key: String,
    pub bytes: u64,
}

/// A check that does not hold, or that only a running Windows could decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub severity: Severity,
    pub details: Details,
    pub step: Option<String>,
}

impl Course {
    /// Takes an event that happened at `time`.
    pub fn take(&mut self, time: Timestamp, event: &Event) {
        self.began.get_or_insert(time);
        self.last = Some(time);
        match event {
            Event::Started { winimg, recipe, .. } => {
                self.winimg = Some(winimg.clone());
                self.recipe_path.clone_from(recipe);
            }
            Event::BuildStarted { .. } | Event::InputProved { .. } | Event::HostProbed { .. } => {
                self.about(event);
            }
            Event::PhaseStarted { phase, .. } => {
                self.phase = Some(*phase);
                self.add(time, RowKind::Phase(*phase), phase.name().into());
            }
            Event::PhaseFinished { phase, seconds } => {
                self.phase = None;
                self.end(RowKind::Phase(*phase), *seconds);
            }
            Event::Restarted { count } => {
                let what = format!("the machine restarted ({count})");
                self.add(time, RowKind::Restart, what);
            }
            Event::Paused { .. } => {
                self.add(time, RowKind::Pause, "the build waits for a person".into());
            }
            Event::Resumed { seconds, .. } => self.end(RowKind::Pause, *seconds),
            Event::Warning { text } => self.warnings.push(text.clone()),
            Event::Progress {
                phase: Phase::Media,
                text,
            } => self.media = Some(text.clone()),
            Event::Finished { unchanged, .. } => {
                self.state = State::Built;
                self.unchanged = *unchanged;
            }
            Event::Failed { kind, problem, .. } => {
                self.state = match kind {
                    Kind::Cancelled => State::Interrupted,
                    _ => State::Failed(problem.clone()),
                }
            }
            Event::Finding { .. } | Event::Checked { .. } => self.judged(event),
            Event::LayersStale { reasons } => self.layers.stale.clone_from(reasons),
            Event::LayerUsed { .. } | Event::LayerSealed { .. } => self.layer(time, event),
            _ => self.step(time, event),
        }
    }

    /// What is built, of what, and on what.
    fn about(&mut self, event: &Event) {
        match event {
            Event::BuildStarted { name, line } => {
                self.name = Some(name.clone());
                self.line = Some(line.clone());
            }
            Event::InputProved {
                input,
                version,
                url,
                bytes,
                digest,
                proof,
                signers,
            } => self.components.push(Component {
                name: input.clone(),
                version: version.clone(),
                license: None,
                url: url.clone(),
                bytes: *bytes,
                digest: digest.to_string(),
                proof: proof.clone(),
                signers: signers.clone(),
            }),
            Event::HostProbed {
                hypervisor,
                accelerator,
            } => self.host = Some(format!("{hypervisor}, {accelerator}")),
            _ => {}
        }
    }

    fn step(&mut self, time: Timestamp, event: &Event) {
        match event {
            Event::StepStarted {
                step,
                of,
                name,
                place,
            } => {
                self.add(time, RowKind::Step(*step), format!("[{step}/{of}] {name}"));
                // A step that is tried again begins anew.
                self.steps.retain(|known| known.number != *step);
                self.steps.push(Step {
                    number: *step,
                    name: name.clone(),
                    place: place.to_string(),
                    ..Step::default()
                });
            }
            Event::Command { step, command } => {
                if let Some(step) = self.known(*step) {
                    step.commands.push(command.clone());
                }
            }
            Event::StepFinished {
                step,
                exit_code,
                seconds,
            } => {
                self.end(RowKind::Step(*step), *seconds);
                if let Some(known) = self.known(*step) {
                    known.seconds = Some(*seconds);
                    known.exit_codes = vec![*exit_code];
                    known.end = StepEnd::Done;
                }
            }
            _ => {}
        }
    }

    fn known(&mut self, number: usize) -> Option<&mut Step> {
        self.steps.iter_mut().find(|step| step.number == number)
    }

    fn layer(&mut self, time: Timestamp, event: &Event) {
        match event {
            Event::LayerUsed {
                key,
                after,
                parts,
                of,
                ..
            } => {
                self.layers.used = Some(Used {
                    after: after.clone(),
                    key: key.to_string(),
                    parts: *parts,
                    of: *of,
                });
            }
            Event::LayerSealed {
                key,
                after,
                bytes,
                seconds,
            } => {
                self.layers.sealed.push(Sealed {
                    after: after.clone(),
                    key: key.to_string(),
                    bytes: *bytes,
                });
                self.add(
                    time,
                    RowKind::Sealed,
                    format!("a layer was sealed after {after}"),
                );
                // The event comes at the layer's end.
                if let Some(row) = self.rows.last_mut() {
                    row.after = (row.after - seconds).max(0.0);
                    row.seconds = Some(*seconds);
                }
            }
            _ => {}
        }
    }

    fn judged(&mut self, event: &Event) {
        match event {
            // Of a trial its own page says more.
            _ if self.phase == Some(Phase::Try) => {}
            Event::Finding {
                severity,
                problem,
                step,
                ..
            } => self.findings.push(Found {
                severity: *severity,
                details: Details::clone(problem),
                step: step.clone(),
            }),
            Event::Checked { text, .. } => self.checked.push(text.clone()),
            _ => {}
        }
    }

    fn add(&mut self, time: Timestamp, kind: RowKind, what: String) {
        // Restarts without end must not fill the memory.
        if self.rows.len() == MOST {
            self.rows.remove(0);
        }
        self.rows.push(Row {
            after: self.after(time),
            what,
            kind,
            seconds: None,
        });
    }

    fn end(&mut self, kind: RowKind, seconds: f64) {
        if let Some(row) = self.rows.iter_mut().rev().find(|row| row.kind == kind) {
            row.seconds = Some(seconds);
        }
    }

    fn after(&self, time: Timestamp) -> f64 {
        let began = self.began.unwrap_or(time);
        time.duration_since(began).as_secs_f64().max(0.0)
    }

    /// From the first event to the last one, in seconds.
    pub fn seconds(&self) -> f64 {
        self.last.map_or(0.0, |last| self.after(last))
    }
}
