//! The timeline of a build: folds its events into rows, layers, findings and warnings.
//!
//! Pure, and only for display: no record is made from it.

use jiff::Timestamp;

use winimg_base::error::Kind;
use winimg_base::event::{Event, Phase, ProblemDetails};

use super::{BuildState, ReportInput, ReportStep, ReportStepEnd};
use crate::verify::ReportedFinding;

/// Maximum number of rows; older ones are dropped.
const MAX_ROWS: usize = 600;

#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// The version of winimg.
    pub winimg: Option<String>,
    /// The recipe's file, as given on the command line.
    pub recipe_path: Option<String>,
    /// The recipe's name.
    pub name: Option<String>,
    /// The command line.
    pub line: Option<String>,
    pub began: Option<Timestamp>,
    /// Time of the last event.
    pub last: Option<Timestamp>,
    pub rows: Vec<TimelineRow>,
    pub layers: LayerHistory,
    pub findings: Vec<ReportedFinding>,
    /// The counts of a verification, as people read them.
    pub checked: Vec<String>,
    pub warnings: Vec<String>,
    /// `Windows Server 2022 SERVERDATACENTERCORE, 10.0.20348.587, en-US`
    pub media: Option<String>,
    pub steps: Vec<ReportStep>,
    pub state: BuildState,
    /// The folder already had the recipe's artifacts.
    pub unchanged: bool,
    pub components: Vec<ReportInput>,
    /// Hypervisor and accelerator.
    pub host: Option<String>,
    /// The phase that runs, or that failed.
    pub phase: Option<Phase>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TimelineRow {
    /// Seconds since the first event.
    pub after: f64,
    pub what: String,
    pub kind: TimelineRowKind,
    /// Duration, if it succeeded.
    pub seconds: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimelineRowKind {
    Phase(Phase),
    /// A step by its number.
    Step(usize),
    Restart,
    /// The build is paused for a person.
    Pause,
    Sealed,
}

/// Layers that the build took from the cache and added to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayerHistory {
    pub used: Option<ResumedLayer>,
    /// Reasons why no later layer was usable.
    pub stale: Vec<String>,
    pub sealed: Vec<TimelineLayer>,
}

/// The layer that the build resumed from.
#[derive(Clone, Debug, PartialEq)]
pub struct ResumedLayer {
    pub after: String,
    pub key: String,
    /// Number of the build's parts in it, and of all parts.
    pub parts: usize,
    pub of: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TimelineLayer {
    pub after: String,
    pub key: String,
    pub bytes: u64,
}

impl Timeline {
    /// Processes an event that happened at `time`.
    pub fn handle(&mut self, time: Timestamp, event: &Event) {
        self.began.get_or_insert(time);
        self.last = Some(time);
        match event {
            Event::Started { winimg, recipe, .. } => {
                self.winimg = Some(winimg.clone());
                self.recipe_path.clone_from(recipe);
            }
            Event::BuildStarted { .. } | Event::InputProved { .. } | Event::HostProbed { .. } => {
                self.handle_build(event);
            }
            Event::PhaseStarted { phase, .. } => {
                self.phase = Some(*phase);
                self.add(time, TimelineRowKind::Phase(*phase), phase.name().into());
            }
            Event::PhaseFinished { phase, seconds } => {
                self.phase = None;
                self.end(TimelineRowKind::Phase(*phase), *seconds);
            }
            Event::Restarted { count } => {
                let what = format!("the machine restarted ({count})");
                self.add(time, TimelineRowKind::Restart, what);
            }
            Event::Paused { .. } => {
                self.add(time, TimelineRowKind::Pause, "paused for a person".into());
            }
            Event::Resumed { seconds, .. } => self.end(TimelineRowKind::Pause, *seconds),
            Event::Warning { text } => self.warnings.push(text.clone()),
            Event::Progress {
                phase: Phase::Media,
                text,
            } => self.media = Some(text.clone()),
            Event::Finished { unchanged, .. } => {
                self.state = BuildState::Built;
                self.unchanged = *unchanged;
            }
            Event::Failed { kind, problem, .. } => {
                self.state = match kind {
                    Kind::Cancelled => BuildState::Interrupted,
                    _ => BuildState::Failed(problem.clone()),
                }
            }
            Event::Finding { .. } | Event::Checked { .. } => self.handle_finding(event),
            Event::LayersStale { reasons } => self.layers.stale.clone_from(reasons),
            Event::LayerUsed { .. } | Event::LayerSealed { .. } => self.handle_layer(time, event),
            _ => self.handle_step(time, event),
        }
    }

    /// Processes an event about the recipe, its inputs and the host.
    fn handle_build(&mut self, event: &Event) {
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
            } => self.components.push(ReportInput {
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

    fn handle_step(&mut self, time: Timestamp, event: &Event) {
        match event {
            Event::StepStarted {
                step,
                of,
                name,
                place,
            } => {
                self.add(
                    time,
                    TimelineRowKind::Step(*step),
                    format!("[{step}/{of}] {name}"),
                );
                // A retried step starts over.
                self.steps.retain(|known| known.number != *step);
                self.steps.push(ReportStep {
                    number: *step,
                    name: name.clone(),
                    place: place.to_string(),
                    ..ReportStep::default()
                });
            }
            Event::Command { step, command } => {
                if let Some(step) = self.find_step(*step) {
                    step.commands.push(command.clone());
                }
            }
            Event::StepFinished {
                step,
                exit_code,
                seconds,
            } => {
                self.end(TimelineRowKind::Step(*step), *seconds);
                if let Some(known) = self.find_step(*step) {
                    known.seconds = Some(*seconds);
                    known.exit_codes = vec![*exit_code];
                    known.end = ReportStepEnd::Done;
                }
            }
            _ => {}
        }
    }

    fn find_step(&mut self, number: usize) -> Option<&mut ReportStep> {
        self.steps.iter_mut().find(|step| step.number == number)
    }

    fn handle_layer(&mut self, time: Timestamp, event: &Event) {
        match event {
            Event::LayerUsed {
                key,
                after,
                parts,
                of,
                ..
            } => {
                self.layers.used = Some(ResumedLayer {
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
                self.layers.sealed.push(TimelineLayer {
                    after: after.clone(),
                    key: key.to_string(),
                    bytes: *bytes,
                });
                self.add(
                    time,
                    TimelineRowKind::Sealed,
                    format!("sealed a layer after {after}"),
                );
                // The event comes after the layer was sealed.
                if let Some(row) = self.rows.last_mut() {
                    row.after = (row.after - seconds).max(0.0);
                    row.seconds = Some(*seconds);
                }
            }
            _ => {}
        }
    }

    fn handle_finding(&mut self, event: &Event) {
        match event {
            // A trial has a page of its own.
            _ if self.phase == Some(Phase::Try) => {}
            Event::Finding {
                severity,
                problem,
                step,
                ..
            } => self.findings.push(ReportedFinding {
                severity: *severity,
                details: ProblemDetails::clone(problem),
                step: step.clone(),
            }),
            Event::Checked { text, .. } => self.checked.push(text.clone()),
            _ => {}
        }
    }

    fn add(&mut self, time: Timestamp, kind: TimelineRowKind, what: String) {
        // Endless restarts must not fill the memory.
        if self.rows.len() == MAX_ROWS {
            self.rows.remove(0);
        }
        self.rows.push(TimelineRow {
            after: self.compute_offset(time),
            what,
            kind,
            seconds: None,
        });
    }

    fn end(&mut self, kind: TimelineRowKind, seconds: f64) {
        if let Some(row) = self.rows.iter_mut().rev().find(|row| row.kind == kind) {
            row.seconds = Some(seconds);
        }
    }

    fn compute_offset(&self, time: Timestamp) -> f64 {
        let began = self.began.unwrap_or(time);
        time.duration_since(began).as_secs_f64().max(0.0)
    }

    /// Returns the seconds from the first event to the last one.
    pub fn compute_duration(&self) -> f64 {
        self.last.map_or(0.0, |last| self.compute_offset(last))
    }
}
