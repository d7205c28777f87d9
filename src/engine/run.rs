//! Carries out a plan's steps in the guest: five ops, their exit codes, their reboots, their logs.
//!
//! Decides nothing about what a step means: the plan has decided. Refuses to go on after a failed op.

mod settle;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use tracing::{debug, debug_span};

use super::step_log::StepLog;
use super::{payload, seal};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Event, Sink};
use winimg_machine::guest::{Command, Exit, Guest, Put, quote};
use winimg_recipe::plan::{self, ExitRule, Op, Plan, PlannedStep, REBOOT_TIMEOUT, Verdict};

pub use self::settle::Unrest;

/// Time for the guest to notice a changed medium.
const DISC_TIMEOUT: Duration = Duration::from_secs(60);
/// Before a program is run again that found another installation under way.
const BUSY_WAIT: Duration = Duration::from_secs(5);
/// For starting the task that seals Windows.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// What a step did, for the manifest.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StepRecord {
    pub name: String,
    pub verb: String,
    pub place: String,
    pub skipped: Option<String>,
    pub commands: Vec<CommandRecord>,
    pub reboots: u32,
    pub seconds: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CommandRecord {
    pub line: String,
    pub exit_code: Option<i64>,
    pub seconds: f64,
}

pub struct Engine<'a> {
    pub plan: &'a Plan,
    /// The ISO that holds the plan's payload and scripts.
    pub payload: &'a Path,
    /// Each step's whole output goes to `NN-name.log` here.
    pub logs: &'a Path,
    /// Deadlines are multiplied by this.
    pub slowness: u32,
    pub sink: Arc<dyn Sink>,
    pub cancel: Cancel,
    /// A restart at a step's end is the caller's: it may seal a layer instead.
    pub leaves_restarts: bool,
}

/// Where a step's ops are carried out.
struct Site<'a> {
    number: usize,
    step: &'a PlannedStep,
    record: &'a mut StepRecord,
    log: &'a mut StepLog,
    unrest: Unrest,
}

pub struct Done {
    pub record: StepRecord,
    /// The guest has to restart before the next step, and has not yet.
    pub restart_owed: bool,
    /// What the next restart or start has to be followed by.
    pub unrest: Unrest,
}

impl Engine<'_> {
    /// Puts the payload disc into its drive, whatever lies there, and waits until the guest sees it. A plan without files
    /// has all drives emptied.
    pub fn insert_payload(&self, guest: &mut dyn Guest) -> Result<()> {
        let is_put = |op: &Op| matches!(op, Op::Put(_));
        let puts = self.plan.steps.iter().any(|s| s.ops.iter().any(is_put));
        let restarts = self.plan.steps.iter().any(PlannedStep::may_restart);
        if self.plan.payload.is_empty() && !puts && !restarts {
            return guest.put(Put::NoDiscs);
        }
        guest.put(Put::Disc(self.payload))?;
        let (program, arguments) = payload::ready().command();
        let command = Command {
            program,
            arguments,
            timeout: DISC_TIMEOUT * self.slowness,
        };
        let deadline = guest.now() + DISC_TIMEOUT * self.slowness;
        loop {
            let mut said = Vec::new();
            match guest.run(&command, &mut |bytes| said.extend_from_slice(bytes))? {
                Exit::Code(0) => return Ok(()),
                // After servicing Windows may restart by itself at any moment.
                Exit::GuestGone if guest.now() <= deadline => {
                    guest.wait_back(REBOOT_TIMEOUT * self.slowness)?;
                }
                exit if guest.now() > deadline => {
                    return Err(Error::new(
                        Kind::Machine,
                        "the guest does not see the payload disc",
                    )
                    .at(self.payload.display())
                    .found(format!("{exit:?}"))
                    .lines(String::from_utf8_lossy(&said).lines()));
                }
                _ => self.cancel.sleep(Duration::from_millis(500))?,
            }
        }
    }

    /// Carries out one step, counted from 1. The error names the step's line, the command, the code and the log.
    /// `unrest`: what a restart has to be followed by because of earlier steps.
    pub fn step(
        &self,
        guest: &mut dyn Guest,
        number: usize,
        step: &PlannedStep,
        unrest: Unrest,
    ) -> Result<Done> {
        let mut record = StepRecord {
            name: step.name.clone(),
            verb: step.verb.into(),
            place: step.place.to_string(),
            skipped: step.skipped.clone(),
            ..StepRecord::default()
        };
        if let Some(when) = &step.skipped {
            let of = self.plan.steps.len();
            let name = &step.name;
            self.sink
                .note(format!("[{number}/{of}] {name}: skipped, when = {when}"));
            return Ok(Done {
                record,
                restart_owed: false,
                unrest,
            });
        }
        let _span = debug_span!("step", number, name = step.name, verb = step.verb).entered();
        self.sink.emit(&Event::StepStarted {
            step: number,
            of: self.plan.steps.len(),
            name: step.name.clone(),
            place: (&step.place).into(),
        });
        let started = Instant::now();
        let mut log = StepLog::open(self.logs, number, &step.name)?;
        let mut site = Site {
            number,
            step,
            record: &mut record,
            log: &mut log,
            unrest,
        };
        let outcome = self.ops(guest, &mut site);
        let unrest = site.unrest;
        record.seconds = started.elapsed().as_secs_f64();
        log.close()?;
        let restart_owed = outcome.map_err(|error| {
            self.with_guest_log(guest, error, step)
                .from_place(&step.place)
        })?;
        self.sink.emit(&Event::StepFinished {
            step: number,
            exit_code: record.commands.last().and_then(|c| c.exit_code),
            seconds: record.seconds,
        });
        Ok(Done {
            record,
            restart_owed,
            unrest,
        })
    }

    /// A log that the step's program wrote in the guest, kept beside the step's own.
    fn with_guest_log(&self, guest: &mut dyn Guest, error: Error, step: &PlannedStep) -> Error {
        let log = step.guest_log.as_ref();
        let Some(path) = log.filter(|_| error.kind() == Kind::Step) else {
            return error;
        };
        let Ok(Some(bytes)) = guest.get(path.as_str(), 4 << 20) else {
            return error;
        };
        let kept = self.logs.join(path.file_name());
        match std::fs::write(&kept, bytes) {
            Ok(()) => error.lines([format!("{path} in the guest, kept as {}", kept.display())]),
            Err(_) => error,
        }
    }

    /// Whether the guest has to restart before the next step, and has not yet.
    fn ops(&self, guest: &mut dyn Guest, site: &mut Site<'_>) -> Result<bool> {
        let step = site.step;
        let mut reboot_needed = false;
        for op in &step.ops {
            self.cancel.check()?;
            // What follows in the step may need what the restart finishes.
            if std::mem::take(&mut reboot_needed) {
                site.record.reboots += 1;
                self.restart(guest, step)?;
                self.settle_after(guest, site)?;
            }
            let _span = debug_span!("op", op = kind(op)).entered();
            let (number, record, log) = (site.number, &mut *site.record, &mut *site.log);
            let verdict = match op {
                Op::Put(put) => self.carry_out(guest, number, &script(put), record, log)?,
                Op::Run(run) => self.carry_out(guest, number, run, record, log)?,
                Op::Reboot => {
                    reboot_needed = true;
                    site.unrest = site.unrest.max(Unrest::Restarted);
                    continue;
                }
                Op::Settle(settle) => {
                    let command = self.wait_for_rest(guest, site, *settle, false)?;
                    site.record.commands.push(command);
                    continue;
                }
                Op::Eject => {
                    guest.put(Put::NoDiscs)?;
                    continue;
                }
                Op::Seal { timeout } => {
                    let start = start_seal();
                    self.carry_out(guest, number, &start, record, log)?;
                    let limit = *timeout * self.slowness;
                    seal::watched(guest, limit, self.slowness, &self.cancel, log)?;
                    continue;
                }
            };
            match verdict {
                Verdict::RebootNeeded => {
                    reboot_needed = true;
                    site.unrest = Unrest::Serviced;
                }
                Verdict::RebootStarted => {
                    self.sink
                        .note("      the guest restarts by itself; waiting for it");
                    guest.wait_back(step.reboot_timeout * self.slowness)?;
                    site.record.reboots += 1;
                    site.unrest = Unrest::Serviced;
                    self.settle_after(guest, site)?;
                }
                Verdict::Success if step.is_servicing => site.unrest = Unrest::Serviced,
                Verdict::Success | Verdict::Busy | Verdict::Failed => {}
            }
        }
        if reboot_needed {
            site.record.reboots += 1;
            if !self.leaves_restarts {
                self.restart(guest, step)?;
                self.settle_after(guest, site)?;
            }
        }
        Ok(reboot_needed && self.leaves_restarts)
    }

    /// Runs one program, again while another installation is busy.
    fn carry_out(
        &self,
        guest: &mut dyn Guest,
        number: usize,
        run: &plan::Run,
        record: &mut StepRecord,
        log: &mut StepLog,
    ) -> Result<Verdict> {
        let line = quote::display(&run.program, &run.arguments);
        self.sink.emit(&Event::Command {
            step: number,
            command: line.clone(),
        });
        log.heading(&line)?;
        let deadline = guest.now() + run.timeout * self.slowness;
        loop {
            let left = deadline.saturating_duration_since(guest.now());
            let started = Instant::now();
            let command = Command {
                program: run.program.clone(),
                arguments: run.arguments.clone(),
                timeout: left,
            };
            let code = match self.attempt(guest, number, &command, &line, log)? {
                Exit::Code(code) => Some(code),
                Exit::GuestGone => None,
            };
            record.commands.push(CommandRecord {
                line: line.clone(),
                exit_code: code,
                seconds: started.elapsed().as_secs_f64(),
            });
            let Some(code) = code else {
                return Err(log
                    .explain(
                        Error::new(Kind::Step, "the guest went down while the step ran"),
                        &line,
                    )
                    .cure("let the step end, and restart with a `reboot` step or exit code 3010"));
            };
            let verdict = run.exit.judge(code);
            debug!(code, ?verdict, program = run.program, "the program ended");
            match verdict {
                Verdict::Busy if guest.now() < deadline => {
                    let wait = BUSY_WAIT.as_secs();
                    self.sink.note(format!(
                        "      another installation runs; trying again in {wait} s"
                    ));
                    self.cancel.sleep(BUSY_WAIT)?;
                }
                Verdict::Busy | Verdict::Failed => {
                    return Err(log
                        .explain(Error::new(Kind::Step, "a step failed in the guest"), &line)
                        .expected(run.exit.expectation())
                        .found(format!("exit code {}", exit_code(code))));
                }
                verdict => return Ok(verdict),
            }
        }
    }

    /// Runs the program once. What it says goes to the log and to the events.
    fn attempt(
        &self,
        guest: &mut dyn Guest,
        number: usize,
        command: &Command,
        line: &str,
        log: &mut StepLog,
    ) -> Result<Exit> {
        let mut written = Ok(());
        let exit = guest.run(command, &mut |bytes| {
            if bytes.is_empty() {
                return;
            }
            let text = String::from_utf8_lossy(bytes);
            if written.is_ok() {
                written = log.output(&text);
            }
            self.sink.emit(&Event::Output {
                step: number,
                text: text.into_owned(),
            });
        });
        written?;
        exit.map_err(|e| log.explain(e, line))
    }
}

/// A script of the payload disc as a program.
fn script(put: &plan::Put) -> plan::Run {
    let (program, arguments) = put.command();
    plan::Run {
        program,
        arguments,
        exit: put.exit.clone(),
        timeout: put.timeout,
    }
}

fn start_seal() -> plan::Run {
    let (program, arguments) = plan::start_seal();
    plan::Run {
        program,
        arguments,
        exit: ExitRule::Zero,
        timeout: START_TIMEOUT,
    }
}

fn kind(op: &Op) -> &'static str {
    match op {
        Op::Put(_) => "put",
        Op::Run(_) => "run",
        Op::Reboot => "reboot",
        Op::Settle(_) => "settle",
        Op::Eject => "eject",
        Op::Seal { .. } => "seal",
    }
}

/// Codes of the HRESULT kind are easier to look up in hexadecimal.
pub fn exit_code(code: i64) -> String {
    match u32::try_from(code).or_else(|_| i32::try_from(code).map(|c| c as u32)) {
        Ok(bits) if bits >= 0x8000_0000 => format!("{code} (0x{bits:08x})"),
        _ => code.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::standing::Standing;
    use winimg_base::diag::Diagnostics;
    use winimg_base::event::Silent;

    #[test]
    fn a_program_is_tried_again_however_long_the_machine_stood() {
        let folder = tempfile::tempdir().expect("a folder");
        let plan = Plan {
            steps: Vec::new(),
            payload: Vec::new(),
            clone_checks: Vec::new(),
            warnings: Diagnostics::default(),
        };
        let engine = Engine {
            plan: &plan,
            payload: Path::new("payload.iso"),
            logs: folder.path(),
            slowness: 1,
            sink: Arc::new(Silent),
            cancel: Cancel::default(),
            leaves_restarts: false,
        };
        let run = plan::Run {
            program: r"C:\Windows\System32\msiexec.exe".into(),
            arguments: Vec::new(),
            exit: ExitRule::Msi,
            timeout: BUSY_WAIT / 10,
        };
        let mut record = StepRecord::default();
        let mut log = StepLog::open(folder.path(), 1, "msi").expect("a log");
        let mut guest = Standing::new();
        let verdict = engine.carry_out(&mut guest, 1, &run, &mut record, &mut log);
        assert_eq!(verdict.expect("it ends well"), Verdict::Success);
        let codes: Vec<Option<i64>> = record.commands.iter().map(|c| c.exit_code).collect();
        assert_eq!(codes, [Some(1618), Some(0)]);
    }

    #[test]
    fn exit_codes_of_the_hresult_kind_are_shown_in_both_forms() {
        assert_eq!(exit_code(1603), "1603");
        assert_eq!(exit_code(-2_146_498_529), "-2146498529 (0x800f081f)");
        assert_eq!(exit_code(0x800f_081f), "2148468767 (0x800f081f)");
    }
}
