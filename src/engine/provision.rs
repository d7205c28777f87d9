//! From a layer, or from nothing, to a disk that holds every step: the installation, the steps one after another, and the
//! layers sealed between them.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::debug;

use super::resume::Resumed;
use super::run::{Done, Engine};
use super::session::Session;
use super::{Inputs, Layers, Media, Request, checkpoint, media, payload};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Choice, Event, Phase};
use winimg_recipe::plan::{Link, Op, PlannedStep};
use winimg_supply::store::Layer;

pub struct Course<'a> {
    pub request: &'a Request<'a>,
    /// The installation's link, then one for each step.
    pub links: &'a [Link],
    pub inputs: &'a Inputs,
    pub media: &'a Media,
}

impl Course<'_> {
    /// Goes on from the layer, or installs Windows. The machine is off in the end, its disk closed; gives what was odd.
    pub fn run(&self, session: &mut Session<'_>, from: Option<&Resumed>) -> Result<Vec<String>> {
        let request = self.request;
        // Before a machine starts: what does not fit onto the disc fails now, not after an installation.
        let first = from.map_or(0, |resumed| resumed.links - 1);
        let payload = payload::write(
            request.plan,
            first,
            self.inputs,
            &session.work,
            request.epoch,
            request.cancel,
        )?;
        let odd = match from {
            Some(resumed) => session.in_phase(Phase::Boot, |session| {
                session.notes = resumed.notes_for(request.plan);
                self.watched(session.boot(&resumed.layer))?;
                Ok(None)
            }),
            None => session.in_phase(Phase::Install, |session| self.install(session)),
        }?;
        session.in_phase(Phase::Provision, |session| {
            self.steps(session, first, &payload)
        })?;
        session.in_phase(Phase::Seal, Session::power_off)?;
        Ok(odd.into_iter().collect())
    }

    fn install(&self, session: &mut Session<'_>) -> Result<Option<String>> {
        let request = self.request;
        session.probe()?;
        let discs = media::discs(
            request,
            self.inputs,
            self.media,
            session.platform(),
            &session.work,
        )?;
        if let Some(remark) = &discs.remark {
            request.sink.warn(remark.clone());
        }
        self.watched(session.install(&discs))?;
        if request.layers != Layers::None {
            let layer = self.seal(session, &self.links[..1])?;
            session.boot(&layer)?;
        }
        // It holds the build's password, and is in no drive any more.
        fs::remove_file(&discs.answer).map_err(|e| Error::io("remove", &discs.answer, e))?;
        Ok(discs.remark)
    }

    /// Carries out the steps from `first` (counted from 0) on. The machine runs before and after.
    fn steps(&self, session: &mut Session<'_>, first: usize, payload: &Path) -> Result<()> {
        let request = self.request;
        let (plan, layers) = (request.plan, request.layers);
        let logs = request.output.join("logs");
        let engine = Engine {
            plan,
            payload,
            logs: &logs,
            slowness: session.slowness(),
            leaves_restarts: layers != Layers::None,
            sink: Arc::clone(request.sink),
            cancel: request.cancel.clone(),
        };
        engine.insert_payload(session.guest()?)?;
        Self::come_to_rest(&engine, session, first, true)?;
        let mut worked = Duration::ZERO;
        for (index, step) in plan.steps.iter().enumerate().skip(first) {
            request.cancel.check()?;
            let number = index + 1;
            let started = Instant::now();
            let done = self.step(&engine, session, number, step)?;
            worked += started.elapsed();
            session.has_run(step);
            session.notes.steps.push(done.record);
            session.notes.unrest = done.unrest;
            // What a person did to the guest is in no key.
            let touched = !request.pauses.by_hand().is_empty();
            let is_due = checkpoint::is_due(
                layers,
                request.recipe,
                plan,
                number,
                done.restart_owed,
                worked,
            );
            let is_deep = session.notes.depth >= checkpoint::DEEPEST;
            let restart_owed = done.restart_owed;
            debug!(
                number,
                is_due,
                touched,
                is_deep,
                restart_owed,
                ?worked,
                "whether a layer is sealed here"
            );
            if is_due && !touched && !is_deep {
                let layer = self.seal(session, &self.links[..=number])?;
                session.boot(&layer)?;
                engine.insert_payload(session.guest()?)?;
                Self::come_to_rest(&engine, session, number, true)?;
                worked = Duration::ZERO;
            } else if done.restart_owed {
                Self::come_to_rest(&engine, session, number, false)?;
            }
        }
        Ok(())
    }

    /// After the step, counted from 1: a restart, unless the machine `has_started` from a layer, and the wait that what
    /// ran before asks for.
    fn come_to_rest(
        engine: &Engine<'_>,
        session: &mut Session<'_>,
        number: usize,
        has_started: bool,
    ) -> Result<()> {
        let unrest = std::mem::take(&mut session.notes.unrest);
        let mut record = session.notes.steps.pop();
        let done = match &mut record {
            Some(record) => {
                let guest = session.guest()?;
                engine.come_to_rest(guest, number, unrest, has_started, record)
            }
            None => Ok(()),
        };
        session.notes.steps.extend(record);
        done
    }

    /// One step, with a person beside it where the user asked for it.
    fn step(
        &self,
        engine: &Engine<'_>,
        session: &mut Session<'_>,
        number: usize,
        step: &PlannedStep,
    ) -> Result<Done> {
        let pauses = self.request.pauses;
        session.at_step(number, step, false);
        if step.skipped.is_none()
            && pauses.before_step(number, &step.name, session.guest()?)? == Choice::Stop
        {
            return Err(Error::cancelled());
        }
        loop {
            session.at_step(number, step, true);
            let unrest = session.notes.unrest;
            match engine.step(session.guest()?, number, step, unrest) {
                Ok(done) => {
                    session.at_step(number, step, false);
                    return Ok(done);
                }
                Err(error) => match pauses.after_failure(&error, Some(session.guest()?))? {
                    // What failed may have emptied the drives before.
                    Choice::Retry if step.ops.contains(&Op::Eject) => {
                        engine.insert_payload(session.guest()?)?;
                    }
                    Choice::Retry => {}
                    _ => return Err(error),
                },
            }
        }
    }

    /// A person may look at a machine that does not come up.
    fn watched(&self, outcome: Result<()>) -> Result<()> {
        if let Err(error) = &outcome {
            self.request.pauses.after_failure(error, None)?;
        }
        outcome
    }

    fn seal(&self, session: &mut Session<'_>, links: &[Link]) -> Result<Layer> {
        let started = Instant::now();
        session.power_off()?;
        let layer = session.seal(links)?.ok_or_else(|| {
            Error::new(Kind::Failed, "a layer was to be sealed where none are made")
        })?;
        let record = layer.record();
        self.request.sink.emit(&Event::LayerSealed {
            key: record.key.clone(),
            after: record.after().into(),
            bytes: record.size(),
            seconds: started.elapsed().as_secs_f64(),
        });
        if let Some(remote) = &self.request.fetch.shared {
            remote.push_layer(&layer, self.request.store)?;
        }
        Ok(layer)
    }
}
