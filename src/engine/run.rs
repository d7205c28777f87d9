//! Runs a plan's steps in the guest: five ops, with their exit codes, reboots and logs.
//!
//! The plan has decided what a step means. Stops after a failed op.

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
use winimg_machine::guest::{Guest, GuestCommand, GuestDelivery, GuestExit, quote};
use winimg_recipe::plan::{
    self, BuildPlan, ExitRule, ExitVerdict, PlannedOp, PlannedStep, REBOOT_TIMEOUT,
};

pub use self::settle::SettleReason;

/// Time for the guest to detect a changed disc.
const DISC_TIMEOUT: Duration = Duration::from_secs(60);
/// Delay before a program is retried that found another installation in progress.
const BUSY_WAIT: Duration = Duration::from_secs(5);
/// Timeout for starting the task that seals Windows.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Record of a step, for the manifest.
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

pub struct StepRunner<'a> {
    pub plan: &'a BuildPlan,
    /// The ISO with the plan's payload and scripts.
    pub payload: &'a Path,
    /// Directory of the full step logs, `NN-name.log`.
    pub logs: &'a Path,
    /// Factor applied to all deadlines.
    pub slowness: u32,
    pub sink: Arc<dyn Sink>,
    pub cancel: Cancel,
    /// Leave a restart at the end of a step to the caller, which may seal a layer instead.
    pub leaves_restarts: bool,
}

/// Context of a running step.
struct StepContext<'a> {
    number: usize,
    step: &'a PlannedStep,
    record: &'a mut StepRecord,
    log: &'a mut StepLog,
    unrest: SettleReason,
}

pub struct StepOutcome {
    pub record: StepRecord,
    /// The guest still has to restart before the next step.
    pub restart_owed: bool,
    /// The wait that the next restart or start needs.
    pub unrest: SettleReason,
}

impl StepRunner<'_> {
    /// Inserts the payload disc in place of the disc in its drive, and waits until the guest sees
    /// it. For a plan without files, ejects all discs.
    pub fn insert_payload(&self, guest: &mut dyn Guest) -> Result<()> {
        let steps = &self.plan.steps;
        let needs_scripts = steps
            .iter()
            .any(|step| step.ops.iter().any(|op| matches!(op, PlannedOp::Put(_))));
        let may_restart = steps.iter().any(PlannedStep::may_restart);
        if self.plan.payload.is_empty() && !needs_scripts && !may_restart {
            return guest.put(GuestDelivery::NoDiscs);
        }
        guest.put(GuestDelivery::Disc(self.payload))?;
        let (program, arguments) = payload::make_ready_script().command();
        let command = GuestCommand {
            program,
            arguments,
            timeout: DISC_TIMEOUT * self.slowness,
        };
        let deadline = guest.now() + DISC_TIMEOUT * self.slowness;
        loop {
            let mut output = Vec::new();
            match guest.run(&command, &mut |bytes| output.extend_from_slice(bytes))? {
                GuestExit::Code(0) => return Ok(()),
                // After servicing, Windows may restart on its own at any time.
                GuestExit::GuestGone if guest.now() <= deadline => {
                    guest.wait_for_return(REBOOT_TIMEOUT * self.slowness)?;
                }
                exit if guest.now() > deadline => {
                    return Err(Error::new(
                        Kind::Machine,
                        "the guest does not see the payload disc",
                    )
                    .at(self.payload.display())
                    .found(format!("{exit:?}"))
                    .lines(String::from_utf8_lossy(&output).lines()));
                }
                _ => self.cancel.sleep(Duration::from_millis(500))?,
            }
        }
    }

    /// Runs one step, counted from 1. The error names the step's line, the command, the exit code
    /// and the log. `unrest`: the wait that a restart needs because of earlier steps.
    pub fn run_step(
        &self,
        guest: &mut dyn Guest,
        number: usize,
        step: &PlannedStep,
        unrest: SettleReason,
    ) -> Result<StepOutcome> {
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
            return Ok(StepOutcome {
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
        let mut site = StepContext {
            number,
            step,
            record: &mut record,
            log: &mut log,
            unrest,
        };
        let outcome = self.run_ops(guest, &mut site);
        let unrest = site.unrest;
        record.seconds = started.elapsed().as_secs_f64();
        log.close()?;
        let restart_owed = outcome.map_err(|error| {
            self.with_guest_log(guest, error, step)
                .or_place(&step.place)
        })?;
        self.sink.emit(&Event::StepFinished {
            step: number,
            exit_code: record.commands.last().and_then(|c| c.exit_code),
            seconds: record.seconds,
        });
        Ok(StepOutcome {
            record,
            restart_owed,
            unrest,
        })
    }

    /// Saves the log that the step's program wrote in the guest, and adds its path to the error.
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

    /// Runs the step's ops. Returns true if the guest still has to restart before the next step.
    fn run_ops(&self, guest: &mut dyn Guest, site: &mut StepContext<'_>) -> Result<bool> {
        let step = site.step;
        let mut reboot_needed = false;
        for op in &step.ops {
            self.cancel.check()?;
            // Later ops may depend on what the restart completes.
            if std::mem::take(&mut reboot_needed) {
                site.record.reboots += 1;
                self.restart(guest, step)?;
                self.settle_after(guest, site)?;
            }
            let _span = debug_span!("op", op = describe_op(op)).entered();
            let (number, record, log) = (site.number, &mut *site.record, &mut *site.log);
            let verdict = match op {
                PlannedOp::Put(put) => {
                    self.carry_out(guest, number, &convert_script(put), record, log)?
                }
                PlannedOp::Run(run) => self.carry_out(guest, number, run, record, log)?,
                PlannedOp::Reboot => {
                    reboot_needed = true;
                    site.unrest = site.unrest.max(SettleReason::Restarted);
                    continue;
                }
                PlannedOp::Settle(settle) => {
                    let command = self.wait_for_rest(guest, site, *settle, false)?;
                    site.record.commands.push(command);
                    continue;
                }
                PlannedOp::Eject => {
                    guest.put(GuestDelivery::NoDiscs)?;
                    continue;
                }
                PlannedOp::Seal { timeout } => {
                    let start = start_seal();
                    self.carry_out(guest, number, &start, record, log)?;
                    let limit = *timeout * self.slowness;
                    seal::wait_until_sealed(guest, limit, self.slowness, &self.cancel, log)?;
                    continue;
                }
            };
            match verdict {
                ExitVerdict::RebootNeeded => {
                    reboot_needed = true;
                    site.unrest = SettleReason::Serviced;
                }
                ExitVerdict::RebootStarted => {
                    self.sink
                        .note("      the guest is restarting on its own; waiting for it");
                    guest.wait_for_return(step.reboot_timeout * self.slowness)?;
                    site.record.reboots += 1;
                    site.unrest = SettleReason::Serviced;
                    self.settle_after(guest, site)?;
                }
                ExitVerdict::Success if step.is_servicing => site.unrest = SettleReason::Serviced,
                ExitVerdict::Success | ExitVerdict::Busy | ExitVerdict::Failed => {}
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

    /// Runs one program, and retries it while another installation is in progress.
    fn carry_out(
        &self,
        guest: &mut dyn Guest,
        number: usize,
        run: &plan::ProgramRun,
        record: &mut StepRecord,
        log: &mut StepLog,
    ) -> Result<ExitVerdict> {
        let line = quote::render_command_line(&run.program, &run.arguments);
        self.sink.emit(&Event::Command {
            step: number,
            command: line.clone(),
        });
        log.write_heading(&line)?;
        let deadline = guest.now() + run.timeout * self.slowness;
        loop {
            let left = deadline.saturating_duration_since(guest.now());
            let started = Instant::now();
            let command = GuestCommand {
                program: run.program.clone(),
                arguments: run.arguments.clone(),
                timeout: left,
            };
            let code = match self.run_once(guest, number, &command, &line, log)? {
                GuestExit::Code(code) => Some(code),
                GuestExit::GuestGone => None,
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
                    .cure(
                        "let the step finish, then restart with a `reboot` step or exit code 3010",
                    ));
            };
            let verdict = run.exit.judge(code);
            debug!(code, ?verdict, program = run.program, "the program ended");
            match verdict {
                ExitVerdict::Busy if guest.now() < deadline => {
                    let wait = BUSY_WAIT.as_secs();
                    self.sink.note(format!(
                        "      another installation is in progress; retrying in {wait} s"
                    ));
                    self.cancel.sleep(BUSY_WAIT)?;
                }
                ExitVerdict::Busy | ExitVerdict::Failed => {
                    return Err(log
                        .explain(Error::new(Kind::Step, "a step failed in the guest"), &line)
                        .expected(run.exit.describe())
                        .found(format!("exit code {}", exit_code(code))));
                }
                verdict => return Ok(verdict),
            }
        }
    }

    /// Runs the program once. Its output goes to the log and to the events.
    fn run_once(
        &self,
        guest: &mut dyn Guest,
        number: usize,
        command: &GuestCommand,
        line: &str,
        log: &mut StepLog,
    ) -> Result<GuestExit> {
        let mut written = Ok(());
        let exit = guest.run(command, &mut |bytes| {
            if bytes.is_empty() {
                return;
            }
            let text = String::from_utf8_lossy(bytes);
            if written.is_ok() {
                written = log.write_output(&text);
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

/// Returns the program that runs a script of the payload disc.
fn convert_script(put: &plan::PayloadScript) -> plan::ProgramRun {
    let (program, arguments) = put.command();
    plan::ProgramRun {
        program,
        arguments,
        exit: put.exit.clone(),
        timeout: put.timeout,
    }
}

fn start_seal() -> plan::ProgramRun {
    let (program, arguments) = plan::start_seal();
    plan::ProgramRun {
        program,
        arguments,
        exit: ExitRule::Zero,
        timeout: START_TIMEOUT,
    }
}

fn describe_op(op: &PlannedOp) -> &'static str {
    match op {
        PlannedOp::Put(_) => "put",
        PlannedOp::Run(_) => "run",
        PlannedOp::Reboot => "reboot",
        PlannedOp::Settle(_) => "settle",
        PlannedOp::Eject => "eject",
        PlannedOp::Seal { .. } => "seal",
    }
}

/// Formats an exit code, with HRESULTs in hexadecimal too because they are documented that way.
pub fn exit_code(code: i64) -> String {
    match u32::try_from(code).or_else(|_| i32::try_from(code).map(|c| c as u32)) {
        Ok(bits) if bits >= 0x8000_0000 => format!("{code} (0x{bits:08x})"),
        _ => code.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::frozen_guest::FrozenGuest;
    use winimg_base::diag::Diagnostics;
    use winimg_base::event::SilentSink;

    #[test]
    fn a_program_is_tried_again_however_long_the_machine_stood() {
        let folder = tempfile::tempdir().expect("a folder");
        let plan = BuildPlan {
            steps: Vec::new(),
            payload: Vec::new(),
            clone_checks: Vec::new(),
            warnings: Diagnostics::default(),
        };
        let engine = StepRunner {
            plan: &plan,
            payload: Path::new("payload.iso"),
            logs: folder.path(),
            slowness: 1,
            sink: Arc::new(SilentSink),
            cancel: Cancel::default(),
            leaves_restarts: false,
        };
        let run = plan::ProgramRun {
            program: r"C:\Windows\System32\msiexec.exe".into(),
            arguments: Vec::new(),
            exit: ExitRule::Msi,
            timeout: BUSY_WAIT / 10,
        };
        let mut record = StepRecord::default();
        let mut log = StepLog::open(folder.path(), 1, "msi").expect("a log");
        let mut guest = FrozenGuest::new();
        let verdict = engine.carry_out(&mut guest, 1, &run, &mut record, &mut log);
        assert_eq!(verdict.expect("it ends well"), ExitVerdict::Success);
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
