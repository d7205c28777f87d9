//! The seal, as it is waited for: the task that generalizes Windows and powers it off.

use std::time::Duration;

use tracing::trace;

use super::image_state::image_state;
use super::step_log::{LAST_LINES, StepLog};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_machine::guest::Guest;
use winimg_recipe::plan::{SEAL_FAILED, SEAL_LOG, SEAL_SCRIPT, SEALED};

/// Between two looks at the task.
const LOOK: Duration = Duration::from_secs(2);
/// The most that is read of a log.
const LOG_LIMIT: usize = 1 << 20;

/// Waits until the task has powered the machine off. A guest that is silent meanwhile, or refuses its password, is no failure:
/// generalize takes the account's password, and Windows goes down. Whether the image is sealed is seen on its disk.
pub(super) fn watched(
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
            Ok(Some(said)) => return Err(stopped(guest, &said, slowness, log)),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        trace!(silent = silent.is_some(), "the seal is waited for");
        if silent.is_some() && guest.has_restarted() {
            let fact = "the guest restarted while it was being sealed";
            return Err(Error::new(Kind::Step, fact)
                .expected("the task that seals it, and then a power-off")
                .cure("find what restarts Windows; a service that does so is to be stopped before `generalize`"));
        }
        if guest.now() > deadline {
            return Err(late(guest, timeout, silent, log));
        }
        cancel.sleep(LOOK)?;
    }
}

/// `said`: the log of the task that gave up.
fn stopped(guest: &mut dyn Guest, said: &[u8], slowness: u32, log: &mut StepLog) -> Error {
    let said = String::from_utf8_lossy(said);
    if let Err(error) = log.output(&said) {
        return error;
    }
    let stage = stage(&said);
    match stage == "sysprep" {
        true => ungeneralized(guest, slowness).unwrap_or_else(|error| error),
        false => {
            let error = Error::new(Kind::Step, "the seal did not end well");
            let error = error.found(format!("it stopped at `{stage}`"));
            log.explain(error, SEAL_SCRIPT)
        }
    }
}

/// What the task did last.
fn stage(log: &str) -> &str {
    let mut stages = log.lines().filter_map(|line| line.strip_prefix("stage: "));
    stages.next_back().unwrap_or("start").trim_end()
}

/// Sysprep's exit code is weak evidence: its tag and ImageState are asked (Microsoft: Sysprep process overview; Windows Setup states).
fn ungeneralized(guest: &mut dyn Guest, slowness: u32) -> Result<Error> {
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

/// `silent`: why the guest can't be asked where the task stands.
fn late(
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
    .expected("that it powers off by itself")
    .cure("see the machine's screen and sysprep's logs in the evidence, or give `generalize` a longer `timeout`");
    let said = match silent {
        Some(silent) => Err(silent),
        None => guest.get(SEAL_LOG, LOG_LIMIT),
    };
    match said {
        Ok(said) => {
            let said = said.unwrap_or_default();
            let said = String::from_utf8_lossy(&said);
            if let Err(error) = log.output(&said) {
                return error;
            }
            let error = error.found(format!("it is still at `{}`", stage(&said)));
            log.explain(error, SEAL_SCRIPT)
        }
        Err(silent) => error.found(format!("{} is silent: {}", guest.channel(), silent.fact())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use winimg_machine::guest::{Command, Exit, Put};

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

        fn run(&mut self, _: &Command, _: &mut dyn FnMut(&[u8])) -> Result<Exit> {
            unreachable!("nothing runs")
        }

        fn put(&mut self, _: Put<'_>) -> Result<()> {
            unreachable!("nothing is put")
        }

        fn reboot(&mut self, _: Duration) -> Result<()> {
            unreachable!("nobody restarts it")
        }

        fn wait_back(&mut self, _: Duration) -> Result<()> {
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
        watched(&mut guest, limit, 1, &Cancel::default(), &mut log)
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
            "Windows was not sealed within 0 min; found: it is still at `sysprep`"
        );
        assert_eq!(
            fact(true, false),
            "Windows was not sealed within 0 min; \
             found: the guest agent is silent: Windows has refused the password"
        );
        assert_eq!(
            fact(true, true),
            "the guest restarted while it was being sealed; "
        );
    }
}
