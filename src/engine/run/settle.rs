//! The wait until Windows is at rest: after a restart or a start that follows servicing, and before the seal.
//!
//! Windows answers while it still configures a feature or an update, and may then restart by itself. That is no failure
//! here: the guest is waited for again, a limited number of times. What keeps Windows from rest is named in the error.
//! What is asked, and for how long Windows has to stay up, is the plan's (`Settle`).

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tracing::debug;

use super::super::step_log::StepLog;
use super::{CommandRecord, Engine, Site, StepRecord, exit_code};
use winimg_base::error::{Error, Kind, Result};
use winimg_machine::guest::{Command, Exit, Guest, quote};
use winimg_machine::vm::BOOT_RESTARTS;
use winimg_recipe::plan::{PlannedStep, Settle, Verdict};

/// Between two questions to a Windows that is at work.
const AGAIN: Duration = Duration::from_secs(5);
/// For one question.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(120);
/// How often winimg itself restarts a Windows that waits for a restart. One that still waits then is not helped by more.
const OWN_RESTARTS: u32 = 2;

/// What a restart or a start has to be followed by, because of what ran before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unrest {
    #[default]
    None,
    /// A `reboot` step was the reason: Windows is asked whether it is at rest.
    Restarted,
    /// Servicing ran, or a program asked for the restart: Windows also has to stay up for a while first.
    Serviced,
}

/// What the wait saw of Windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// It restarted by itself, or its channel closed.
    Down,
    AtRest,
    WaitsForRestart,
    AtWork,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Done,
    /// Wait until the guest is back; the wait begins again.
    WaitBack,
    /// Restart it; the wait begins again.
    Restart,
    AskAgain,
    /// It goes down again and again.
    Unsteady,
}

/// Decides what follows from what was seen.
#[derive(Debug, Default)]
struct Course {
    downs: u32,
    own_restarts: u32,
}

impl Course {
    fn next(&mut self, seen: Seen) -> Next {
        match seen {
            Seen::AtRest => Next::Done,
            Seen::AtWork => Next::AskAgain,
            Seen::WaitsForRestart if self.own_restarts < OWN_RESTARTS => {
                self.own_restarts += 1;
                Next::Restart
            }
            Seen::WaitsForRestart => Next::AskAgain,
            Seen::Down if self.downs < BOOT_RESTARTS => {
                self.downs += 1;
                Next::WaitBack
            }
            Seen::Down => Next::Unsteady,
        }
    }
}

/// How a wait went.
struct Settled {
    /// Restarts during the wait, by Windows and by winimg.
    restarts: u32,
    /// The question, with its last answer.
    command: CommandRecord,
}

/// Where a wait belongs.
struct Wait<'a> {
    /// The step that it follows, counted from 1.
    number: usize,
    settle: Settle,
    /// Whether Windows has to stay up for `settle.steady` before it is asked for the first time.
    steady_first: bool,
    /// For a restart during the wait, before scaling.
    reboot_timeout: Duration,
    log: &'a mut StepLog,
}

impl Engine<'_> {
    /// Restarts the guest and waits until it is back.
    pub(super) fn restart(&self, guest: &mut dyn Guest, step: &PlannedStep) -> Result<()> {
        self.sink.note("      restarting the guest");
        debug!(timeout = ?step.reboot_timeout * self.slowness, "the guest is to restart");
        guest.reboot(step.reboot_timeout * self.slowness)
    }

    /// After a restart: waits as far as what ran before it asks for that. The wait is no command of the step.
    pub(super) fn settle_after(&self, guest: &mut dyn Guest, site: &mut Site<'_>) -> Result<()> {
        match site.unrest {
            Unrest::None => Ok(()),
            unrest => {
                let steady_first = unrest == Unrest::Serviced;
                let settle = site.step.settle;
                self.wait_for_rest(guest, site, settle, steady_first)
                    .map(|_| ())
            }
        }
    }

    pub(super) fn wait_for_rest(
        &self,
        guest: &mut dyn Guest,
        site: &mut Site<'_>,
        settle: Settle,
        steady_first: bool,
    ) -> Result<CommandRecord> {
        let wait = Wait {
            number: site.number,
            settle,
            steady_first,
            reboot_timeout: site.step.reboot_timeout,
            log: &mut *site.log,
        };
        let settled = self.settle(guest, wait)?;
        site.record.reboots += settled.restarts;
        site.unrest = Unrest::None;
        Ok(settled.command)
    }

    /// Between two steps: restarts the guest where the step before, counted from 1, asks for it, and waits until Windows
    /// is at rest as far as what ran before asks for that. `has_started`: the guest was started from a layer instead.
    pub fn come_to_rest(
        &self,
        guest: &mut dyn Guest,
        number: usize,
        unrest: Unrest,
        has_started: bool,
        record: &mut StepRecord,
    ) -> Result<()> {
        let Some(step) = number.checked_sub(1).and_then(|n| self.plan.steps.get(n)) else {
            return Ok(());
        };
        if has_started && unrest == Unrest::None {
            return Ok(());
        }
        let mut log = StepLog::open(self.logs, number, &step.name)?;
        let mut site = Site {
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
        settled.map_err(|error| error.from_place(&step.place))
    }

    /// Waits until Windows is at rest.
    fn settle(&self, guest: &mut dyn Guest, wait: Wait<'_>) -> Result<Settled> {
        let (program, arguments) = Settle::question().command();
        let line = quote::display(&program, &arguments);
        wait.log.heading(&line)?;
        let started = Instant::now();
        let limit = wait.settle.timeout * self.slowness;
        let deadline = guest.now() + limit;
        let reboot_timeout = wait.reboot_timeout * self.slowness;
        debug!(number = wait.number, ?limit, steady = ?wait.settle.steady, "Windows is to come to rest");
        let mut course = Course::default();
        let mut code = None;
        let mut noted = String::new();
        let mut quiet = if wait.steady_first {
            wait.settle.steady
        } else {
            Duration::ZERO
        };
        loop {
            self.cancel.check()?;
            // The last answer counts, however late it is asked for.
            let left = deadline.saturating_duration_since(guest.now());
            let seen = if guest.stay_up(quiet)? {
                wait.log.attempt();
                let command = Command {
                    program: program.clone(),
                    arguments: arguments.clone(),
                    timeout: left.max(QUESTION_TIMEOUT * self.slowness),
                };
                let exit = self.attempt(guest, wait.number, &command, &line, wait.log)?;
                match exit {
                    Exit::GuestGone => Seen::Down,
                    Exit::Code(answer) => {
                        code = Some(answer);
                        self.judged(answer, &line, wait.log)?
                    }
                }
            } else {
                Seen::Down
            };
            debug!(?seen, "whether Windows is at rest");
            let is_late = guest.now() >= deadline;
            match course.next(seen) {
                Next::Done => break,
                Next::Unsteady => {
                    return Err(wait.log.explain(unsteady(wait.settle.steady), &line));
                }
                Next::AskAgain if is_late => {
                    return Err(wait.log.explain(restless(limit, wait.log), &line));
                }
                Next::AskAgain => {
                    let said = wait.log.said();
                    if noted != said {
                        self.sink.note(format!(
                            "      Windows is still at work; asking again every {} s",
                            AGAIN.as_secs()
                        ));
                        noted = said;
                    }
                    quiet = AGAIN;
                    continue;
                }
                Next::WaitBack => {
                    self.sink
                        .note("      Windows restarts by itself; waiting for it");
                    guest.wait_back(reboot_timeout)?;
                }
                Next::Restart => {
                    self.sink
                        .note("      Windows waits for another restart; restarting the guest");
                    guest.reboot(reboot_timeout)?;
                }
            }
            quiet = wait.settle.steady;
        }
        Ok(Settled {
            restarts: course.downs + course.own_restarts,
            command: CommandRecord {
                line,
                exit_code: code,
                seconds: started.elapsed().as_secs_f64(),
            },
        })
    }

    fn judged(&self, code: i64, line: &str, log: &mut StepLog) -> Result<Seen> {
        let question = Settle::question();
        match question.exit.judge(code) {
            Verdict::Success => Ok(Seen::AtRest),
            Verdict::RebootNeeded => Ok(Seen::WaitsForRestart),
            Verdict::Busy => Ok(Seen::AtWork),
            Verdict::RebootStarted | Verdict::Failed => {
                let fact = "Windows could not be asked whether it is at rest";
                Err(log
                    .explain(Error::new(Kind::Step, fact), line)
                    .expected(question.exit.expectation())
                    .found(format!("exit code {}", exit_code(code))))
            }
        }
    }
}

/// The log's last attempt names what is at work.
fn restless(timeout: Duration, log: &StepLog) -> Error {
    let minutes = timeout.as_secs() / 60;
    Error::new(
        Kind::Step,
        format!("Windows was still at work after {minutes} min"),
    )
    .expected("no pending restart and no servicing at work")
    .found(log.said())
    .cure("give the step a longer `timeout`, or find in C:\\Windows\\Logs\\CBS\\CBS.log what servicing waits for")
}

fn unsteady(steady: Duration) -> Error {
    let fact = "Windows does not stay up after servicing";
    Error::new(Kind::Step, fact)
        .expected(format!("a guest that stays up for {} s", steady.as_secs()))
        .found(format!("it went down more than {BOOT_RESTARTS} times"))
        .cure("see the machine's screen in the evidence and the System log (events 1074 and 41) for what restarts it")
}

#[cfg(test)]
mod tests;
