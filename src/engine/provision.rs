//! From a layer, or from scratch, to the disk after the last step: installs Windows, runs the steps
//! and seals layers between them.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::debug;

use super::resume::ResumePoint;
use super::run::{StepOutcome, StepRunner};
use super::session::BuildSession;
use super::{BuildInputs, BuildRequest, InstallMedia, LayerPolicy, checkpoint, media, payload};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Event, PauseChoice, Phase};
use winimg_recipe::plan::{ChainLink, PlannedOp, PlannedStep};
use winimg_supply::store::StoredLayer;

pub struct Provisioning<'a> {
    pub request: &'a BuildRequest<'a>,
    /// The installation's link, then one for each step.
    pub links: &'a [ChainLink],
    pub inputs: &'a BuildInputs,
    pub media: &'a InstallMedia,
}

impl Provisioning<'_> {
    /// Resumes from the layer, or installs Windows. Powers the VM off at the end, closes its disk
    /// and returns warnings.
    pub fn run(
        &self,
        session: &mut BuildSession<'_>,
        from: Option<&ResumePoint>,
    ) -> Result<Vec<String>> {
        let request = self.request;
        // Before the VM starts: files that do not fit on the disc fail now, not after the
        // installation.
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
                self.pause_on_failure(session.boot(&resumed.layer))?;
                Ok(None)
            }),
            None => session.in_phase(Phase::Install, |session| self.install(session)),
        }?;
        session.in_phase(Phase::Provision, |session| {
            self.run_steps(session, first, &payload)
        })?;
        session.in_phase(Phase::Seal, BuildSession::power_off)?;
        Ok(odd.into_iter().collect())
    }

    fn install(&self, session: &mut BuildSession<'_>) -> Result<Option<String>> {
        let request = self.request;
        session.probe()?;
        let discs = media::write_discs(
            request,
            self.inputs,
            self.media,
            session.platform(),
            &session.work,
        )?;
        if let Some(remark) = &discs.remark {
            request.sink.warn(remark.clone());
        }
        self.pause_on_failure(session.install(&discs))?;
        if request.layers != LayerPolicy::None {
            let layer = self.seal(session, &self.links[..1])?;
            session.boot(&layer)?;
        }
        // It contains the build's password, and the VM no longer has it in a drive.
        fs::remove_file(&discs.answer).map_err(|e| Error::io("remove", &discs.answer, e))?;
        Ok(discs.remark)
    }

    /// Runs the steps from `first` (counted from 0) on. The VM is running before and after.
    fn run_steps(
        &self,
        session: &mut BuildSession<'_>,
        first: usize,
        payload: &Path,
    ) -> Result<()> {
        let request = self.request;
        let (plan, layers) = (request.plan, request.layers);
        let logs = request.output.join("logs");
        let engine = StepRunner {
            plan,
            payload,
            logs: &logs,
            slowness: session.slowness(),
            leaves_restarts: layers != LayerPolicy::None,
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
            let done = self.run_step(&engine, session, number, step)?;
            worked += started.elapsed();
            session.has_run(step);
            session.notes.steps.push(done.record);
            session.notes.unrest = done.unrest;
            // A layer key does not cover manual changes to the guest.
            let touched = !request.pauses.manual_changes().is_empty();
            let is_due = checkpoint::is_due(
                layers,
                request.recipe,
                plan,
                number,
                done.restart_owed,
                worked,
            );
            let is_deep = session.notes.depth >= checkpoint::MAX_DEPTH;
            let restart_owed = done.restart_owed;
            debug!(
                number,
                is_due,
                touched,
                is_deep,
                restart_owed,
                ?worked,
                "checked if a layer is due"
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

    /// After the step, counted from 1: restarts the VM, unless it `has_started` from a layer, and
    /// waits until Windows is idle if an earlier step requires it.
    fn come_to_rest(
        engine: &StepRunner<'_>,
        session: &mut BuildSession<'_>,
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

    /// Runs one step, with the pauses that the user requested.
    fn run_step(
        &self,
        engine: &StepRunner<'_>,
        session: &mut BuildSession<'_>,
        number: usize,
        step: &PlannedStep,
    ) -> Result<StepOutcome> {
        let pauses = self.request.pauses;
        session.at_step(number, step, false);
        if step.skipped.is_none()
            && pauses.before_step(number, &step.name, session.guest()?)? == PauseChoice::Stop
        {
            return Err(Error::cancelled());
        }
        loop {
            session.at_step(number, step, true);
            let unrest = session.notes.unrest;
            match engine.run_step(session.guest()?, number, step, unrest) {
                Ok(done) => {
                    session.at_step(number, step, false);
                    return Ok(done);
                }
                Err(error) => match pauses.after_failure(&error, Some(session.guest()?))? {
                    // The failed attempt may have ejected the disc.
                    PauseChoice::Retry if step.ops.contains(&PlannedOp::Eject) => {
                        engine.insert_payload(session.guest()?)?;
                    }
                    PauseChoice::Retry => {}
                    _ => return Err(error),
                },
            }
        }
    }

    /// Pauses after a failed start, so that the user can inspect the VM.
    fn pause_on_failure(&self, outcome: Result<()>) -> Result<()> {
        if let Err(error) = &outcome {
            self.request.pauses.after_failure(error, None)?;
        }
        outcome
    }

    fn seal(&self, session: &mut BuildSession<'_>, links: &[ChainLink]) -> Result<StoredLayer> {
        let started = Instant::now();
        session.power_off()?;
        let layer = session
            .seal(links)?
            .ok_or_else(|| Error::new(Kind::Failed, "cannot seal a layer: layers are disabled"))?;
        let record = layer.record();
        self.request.sink.emit(&Event::LayerSealed {
            key: record.key.clone(),
            after: record.last_link_name().into(),
            bytes: record.size(),
            seconds: started.elapsed().as_secs_f64(),
        });
        if let Some(remote) = &self.request.fetch.shared {
            remote.push_layer(&layer, self.request.store)?;
        }
        Ok(layer)
    }
}
