//! Waits until Windows is idle: after a restart or a start that follows servicing, and before the
//! seal.
//!
//! Windows responds while it still configures a feature or an update, and may then restart on its
//! own. That is no failure here: the wait starts over, a limited number of times. The error names
//! the activity that keeps Windows busy. The query, and the time for which Windows has to stay up,
//! come from the plan (`Settle`).

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tracing::debug;

use super::super::step_log::StepLog;
use super::{CommandRecord, StepContext, StepRecord, StepRunner, exit_code};
use winimg_base::error::{Error, Kind, Result};
use winimg_machine::guest::{Guest, GuestCommand, GuestExit, quote};
use winimg_machine::vm::BOOT_RESTARTS;
use winimg_recipe::plan::{ExitVerdict, PlannedStep, SettleWait};

/// Interval between two queries while Windows is busy.
const AGAIN: Duration = Duration::from_secs(5);
/// Timeout of one query.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum number of times that winimg itself restarts a Windows with a pending restart. More do
/// not help.
const OWN_RESTARTS: u32 = 2;

/// The wait that a restart or a start needs, because of what ran before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettleReason {
    #[default]
    None,
    /// After a `reboot` step: wait until Windows is idle.
    Restarted,
    /// After servicing, or a restart that a program requested: Windows also has to stay up for a
    /// while first.
    Serviced,
}

/// State of Windows, as the wait observed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WindowsActivity {
    /// It restarted on its own, or its channel closed.
    Down,
    AtRest,
    WaitsForRestart,
    AtWork,
}

/// Result of a wait.
struct SettleRecord {
    /// Restarts during the wait, by Windows and by winimg.
    restarts: u32,
    /// The query, with its last result.
    command: CommandRecord,
}

/// Parameters of a wait.
struct SettleRequest<'a> {
    /// The step before it, counted from 1.
    number: usize,
    settle: SettleWait,
    /// Windows has to stay up for `settle.steady` before the first query.
    steady_first: bool,
    /// Timeout of a restart during the wait, before scaling.
    reboot_timeout: Duration,
    log: &'a mut StepLog,
}

impl StepRunner<'_> {
    /// Restarts the guest and waits until it is back.
    pub(super) fn restart(&self, guest: &mut dyn Guest, step: &PlannedStep) -> Result<()> {
        self.sink.note("      restarting the guest");
        debug!(timeout = ?step.reboot_timeout * self.slowness, "restarting the guest");
        guest.reboot(step.reboot_timeout * self.slowness)
    }

    /// After a restart, waits if an earlier op requires it. Does not record the wait as a command
    /// of the step.
    pub(super) fn settle_after(
        &self,
        guest: &mut dyn Guest,
        site: &mut StepContext<'_>,
    ) -> Result<()> {
        match site.unrest {
            SettleReason::None => Ok(()),
            unrest => {
                let steady_first = unrest == SettleReason::Serviced;
                let settle = site.step.settle;
                self.wait_for_rest(guest, site, settle, steady_first)
                    .map(|_| ())
            }
        }
    }

    pub(super) fn wait_for_rest(
        &self,
        guest: &mut dyn Guest,
        site: &mut StepContext<'_>,
        settle: SettleWait,
        steady_first: bool,
    ) -> Result<CommandRecord> {
        let wait = SettleRequest {
            number: site.number,
            settle,
            steady_first,
            reboot_timeout: site.step.reboot_timeout,
            log: &mut *site.log,
        };
        let settled = self.wait_until_idle(guest, wait)?;
        site.record.reboots += settled.restarts;
        site.unrest = SettleReason::None;
        Ok(settled.command)
    }

    /// Between two steps: restarts the guest if the step before, counted from 1, needs it, and
    /// waits until Windows is idle if an earlier step requires it. `has_started`: the guest was
    /// started from a layer instead.
    pub fn come_to_rest(
        &self,
        guest: &mut dyn Guest,
        number: usize,
        unrest: SettleReason,
        has_started: bool,
        record: &mut StepRecord,
    ) -> Result<()> {
        let Some(step) = number.checked_sub(1).and_then(|n| self.plan.steps.get(n)) else {
            return Ok(());
        };
        if has_started && unrest == SettleReason::None {
            return Ok(());
        }
        let mut log = StepLog::open(self.logs, number, &step.name)?;
        let mut site = StepContext {
            number,
            step,
            record,
            log: &mut log,
            unrest,
        };
        if !has_started {
            self.restart(guest, step)?;
        }
        let settled = self.settle_after(guest, &mut site);
        log.close()?;
        settled.map_err(|error| error.or_place(&step.place))
    }

    /// Waits until Windows is idle.
    fn wait_until_idle(
        &self,
        guest: &mut dyn Guest,
        wait: SettleRequest<'_>,
    ) -> Result<SettleRecord> {
        let (program, arguments) = SettleWait::question().command();
        let line = quote::render_command_line(&program, &arguments);
        wait.log.write_heading(&line)?;
        let started = Instant::now();
        let limit = wait.settle.timeout * self.slowness;
        let deadline = guest.now() + limit;
        let reboot_timeout = wait.reboot_timeout * self.slowness;
        debug!(
            number = wait.number,
            ?limit,
            steady = ?wait.settle.steady,
            "waiting until Windows is idle"
        );
        let (mut downs, mut restarts) = (0, 0);
        let mut code = None;
        let mut noted = String::new();
        let mut quiet = if wait.steady_first {
            wait.settle.steady
        } else {
            Duration::ZERO
        };
        loop {
            self.cancel.check()?;
            // The last query may still run after the deadline.
            let left = deadline.saturating_duration_since(guest.now());
            let seen = if guest.stay_up(quiet)? {
                wait.log.begin_attempt();
                let command = GuestCommand {
                    program: program.clone(),
                    arguments: arguments.clone(),
                    timeout: left.max(QUESTION_TIMEOUT * self.slowness),
                };
                let exit = self.run_once(guest, wait.number, &command, &line, wait.log)?;
                match exit {
                    GuestExit::GuestGone => WindowsActivity::Down,
                    GuestExit::Code(answer) => {
                        code = Some(answer);
                        self.judge_exit(answer, &line, wait.log)?
                    }
                }
            } else {
                WindowsActivity::Down
            };
            debug!(?seen, "queried whether Windows is idle");
            let is_late = guest.now() >= deadline;
            match seen {
                WindowsActivity::AtRest => break,
                WindowsActivity::Down if downs == BOOT_RESTARTS => {
                    return Err(wait.log.explain(report_unsteady(wait.settle.steady), &line));
                }
                WindowsActivity::Down => {
                    downs += 1;
                    self.sink
                        .note("      Windows is restarting on its own; waiting for it");
                    guest.wait_for_return(reboot_timeout)?;
                }
                WindowsActivity::WaitsForRestart if restarts < OWN_RESTARTS => {
                    restarts += 1;
                    self.sink
                        .note("      Windows needs another restart; restarting the guest");
                    guest.reboot(reboot_timeout)?;
                }
                WindowsActivity::WaitsForRestart | WindowsActivity::AtWork if is_late => {
                    return Err(wait.log.explain(report_busy(limit, wait.log), &line));
                }
                WindowsActivity::WaitsForRestart | WindowsActivity::AtWork => {
                    let last = wait.log.join_last_lines();
                    if noted != last {
                        self.sink.note(format!(
                            "      Windows is still busy; checking every {} s",
                            AGAIN.as_secs()
                        ));
                        noted = last;
                    }
                    quiet = AGAIN;
                    continue;
                }
            }
            quiet = wait.settle.steady;
        }
        Ok(SettleRecord {
            restarts: downs + restarts,
            command: CommandRecord {
                line,
                exit_code: code,
                seconds: started.elapsed().as_secs_f64(),
            },
        })
    }

    fn judge_exit(&self, code: i64, line: &str, log: &mut StepLog) -> Result<WindowsActivity> {
        let question = SettleWait::question();
        match question.exit.judge(code) {
            ExitVerdict::Success => Ok(WindowsActivity::AtRest),
            ExitVerdict::RebootNeeded => Ok(WindowsActivity::WaitsForRestart),
            ExitVerdict::Busy => Ok(WindowsActivity::AtWork),
            ExitVerdict::RebootStarted | ExitVerdict::Failed => {
                let fact = "cannot query whether Windows is idle";
                Err(log
                    .explain(Error::new(Kind::Step, fact), line)
                    .expected(question.exit.describe())
                    .found(format!("exit code {}", exit_code(code))))
            }
        }
    }
}

/// The log's last attempt names the activity.
fn report_busy(timeout: Duration, log: &StepLog) -> Error {
    let minutes = timeout.as_secs() / 60;
    Error::new(
        Kind::Step,
        format!("Windows was still busy after {minutes} min"),
    )
    .expected("no pending restart and no servicing in progress")
    .found(log.join_last_lines())
    .cure(
        "give the step a longer `timeout`, or see C:\\Windows\\Logs\\CBS\\CBS.log for what \
         servicing is waiting for",
    )
}

fn report_unsteady(steady: Duration) -> Error {
    let fact = "Windows does not stay up after servicing";
    Error::new(Kind::Step, fact)
        .expected(format!("a guest that stays up for {} s", steady.as_secs()))
        .found(format!("it went down more than {BOOT_RESTARTS} times"))
        .cure(
            "find what restarts it: see the saved screenshots and the System log (events 1074 and \
             41)",
        )
}

#[cfg(test)]
mod tests;
