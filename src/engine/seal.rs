//! Waits for the seal: the task that generalizes Windows and powers it off.

use std::time::Duration;

use tracing::trace;

use super::image_state::image_state;
use super::step_log::{LAST_LINES, StepLog};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_machine::guest::Guest;
use winimg_recipe::plan::{SEAL_FAILED, SEAL_LOG, SEAL_SCRIPT, SEALED};

/// Interval between two checks of the task.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum size read of a log.
const LOG_LIMIT: usize = 1 << 20;

/// Waits until the task has powered the VM off.
///
/// A guest that does not respond meanwhile, or rejects its password, is no failure: generalize
/// removes the account's password, and Windows shuts down. The disk is verified later.
pub(super) fn wait_until_sealed(
    guest: &mut dyn Guest,
    timeout: Duration,
    slowness: u32,
    cancel: &Cancel,
    log: &mut StepLog,
) -> Result<()> {
    let deadline = guest.now() + timeout;
    loop {
        if guest.is_off()? {
            return Ok(());
        }
        let silent = match guest.get(SEAL_FAILED, LOG_LIMIT) {
            Ok(Some(output)) => return Err(report_failure(guest, &output, slowness, log)),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        trace!(silent = silent.is_some(), "waiting for the seal");
        if silent.is_some() && guest.has_restarted() {
            let fact = "the guest restarted while it was being sealed";
            return Err(Error::new(Kind::Step, fact)
                .expected("a power-off by the task that seals it")
                .cure(
                    "find what restarts Windows; if it is a service, stop it before `generalize`",
                ));
        }
        if guest.now() > deadline {
            return Err(report_timeout(guest, timeout, silent, log));
        }
        cancel.sleep(POLL_INTERVAL)?;
    }
}

/// Returns the error for a task that failed. `output`: its log.
fn report_failure(guest: &mut dyn Guest, output: &[u8], slowness: u32, log: &mut StepLog) -> Error {
    let output = String::from_utf8_lossy(output);
    if let Err(error) = log.write_output(&output) {
        return error;
    }
    let stage = find_stage(&output);
    if stage == "sysprep" {
        report_sysprep(guest, slowness).unwrap_or_else(|error| error)
    } else {
        let error = Error::new(Kind::Step, "sealing Windows failed")
            .found(format!("it stopped at `{stage}`"));
        log.explain(error, SEAL_SCRIPT)
    }
}

/// Returns the last stage in the task's log.
fn find_stage(log: &str) -> &str {
    let mut stages = log.lines().filter_map(|line| line.strip_prefix("stage: "));
    stages.next_back().unwrap_or("start").trim_end()
}

/// Returns the error for a failed sysprep. Its exit code is unreliable, so the error shows its tag
/// and ImageState (Microsoft: Sysprep process overview; Windows Setup states).
fn report_sysprep(guest: &mut dyn Guest, slowness: u32) -> Result<Error> {
    const LOG: &str = r"C:\Windows\System32\Sysprep\Panther\setuperr.log";
    let state = image_state(guest, slowness)?;
    let tag = guest.get(r"C:\Windows\System32\Sysprep\Sysprep_succeeded.tag", 4096)?;
    let log = guest.get(LOG, LOG_LIMIT)?.unwrap_or_default();
    let log = String::from_utf8_lossy(&log).into_owned();
    let lines: Vec<&str> = log.lines().collect();
    let tag = if tag.is_some() { "a" } else { "no" };
    Ok(
        Error::new(Kind::Step, "sysprep did not generalize the image")
            .expected(format!("Sysprep_succeeded.tag and {SEALED}"))
            .found(format!("{tag} tag and {state}"))
            .lines(lines.iter().rev().take(LAST_LINES).rev().copied())
            .cure("the lines above are from Sysprep\\Panther\\setuperr.log in the guest"),
    )
}

/// Returns the error for a timeout. `silent`: the reason why the guest cannot be queried.
fn report_timeout(
    guest: &mut dyn Guest,
    timeout: Duration,
    silent: Option<Error>,
    log: &mut StepLog,
) -> Error {
    let minutes = timeout.as_secs() / 60;
    let error = Error::new(
        Kind::Step,
        format!("Windows was not sealed within {minutes} min"),
    )
    .expected("a power-off by the task that seals it")
    .cure("see the saved screenshots and sysprep's logs, or give `generalize` a longer `timeout`");
    let output = match silent {
        Some(silent) => Err(silent),
        None => guest.get(SEAL_LOG, LOG_LIMIT),
    };
    match output {
        Ok(output) => {
            let output = output.unwrap_or_default();
            let output = String::from_utf8_lossy(&output);
            if let Err(error) = log.write_output(&output) {
                return error;
            }
            let error = error.found(format!("it is still in stage `{}`", find_stage(&output)));
            log.explain(error, SEAL_SCRIPT)
        }
        Err(silent) => error.found(format!(
            "{} does not respond: {}",
            guest.describe_channel(),
            silent.fact()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use winimg_machine::guest::{GuestCommand, GuestDelivery, GuestExit};

    /// A guest that is being sealed: each look takes a minute.
    struct Sealing {
        began: Instant,
        looks: u32,
        /// The look at which it is off.
        off: u32,
        is_silent: bool,
        has_restarted: bool,
    }

    impl Guest for Sealing {
        fn get(&mut self, path: &str, _: usize) -> Result<Option<Vec<u8>>> {
            self.looks += 1;
            match (self.is_silent, path) {
                (true, _) => Err(Error::new(
                    Kind::Machine,
                    "Windows has refused the password",
                )),
                (false, SEAL_LOG) => Ok(Some(b"stage: undo\r\nstage: sysprep\r\n".to_vec())),
                (false, _) => Ok(None),
            }
        }

        fn is_off(&mut self) -> Result<bool> {
            Ok(self.looks >= self.off)
        }

        fn has_restarted(&mut self) -> bool {
            self.has_restarted
        }

        fn now(&self) -> Instant {
            self.began + self.looks * Duration::from_secs(60)
        }

        fn run(&mut self, _: &GuestCommand, _: &mut dyn FnMut(&[u8])) -> Result<GuestExit> {
            unreachable!("nothing runs")
        }

        fn put(&mut self, _: GuestDelivery<'_>) -> Result<()> {
            unreachable!("nothing is put")
        }

        fn reboot(&mut self, _: Duration) -> Result<()> {
            unreachable!("nobody restarts it")
        }

        fn wait_for_return(&mut self, _: Duration) -> Result<()> {
            unreachable!("nobody waits for it")
        }

        fn is_there(&mut self) -> Result<bool> {
            unreachable!("nobody asks")
        }

        fn shut_down(&mut self) -> Result<()> {
            unreachable!("it does that itself")
        }
    }

    fn watch(off: u32, is_silent: bool, has_restarted: bool, minutes: u64) -> Result<()> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut log = StepLog::open(folder.path(), 1, "seal").expect("a log");
        let mut guest = Sealing {
            began: Instant::now(),
            looks: 0,
            off,
            is_silent,
            has_restarted,
        };
        let limit = Duration::from_secs(60 * minutes);
        wait_until_sealed(&mut guest, limit, 1, &Cancel::default(), &mut log)
    }

    #[test]
    fn a_guest_that_refuses_the_password_is_waited_for_until_it_is_off() {
        watch(1, true, false, 5).expect("it is sealed");
    }

    #[test]
    fn a_guest_that_is_not_off_in_time_is_reported_with_its_stage_or_its_silence() {
        let fact = |is_silent, has_restarted| {
            let error = watch(9, is_silent, has_restarted, 0).expect_err("too late");
            let text = error.to_string();
            let lines: Vec<&str> = text.lines().collect();
            let found = lines.iter().find(|l| l.contains("found:"));
            let found = found.map_or("", |line| line.trim());
            format!("{}; {found}", lines[0])
        };
        assert_eq!(
            fact(false, false),
            "Windows was not sealed within 0 min; found: it is still in stage `sysprep`"
        );
        assert_eq!(
            fact(true, false),
            "Windows was not sealed within 0 min; \
             found: the guest agent does not respond: Windows has refused the password"
        );
        assert_eq!(
            fact(true, true),
            "the guest restarted while it was being sealed; "
        );
    }
}
