//! PowerShell Direct: sessions with a Hyper-V guest, without a network or an agent.
//!
//! A session may break at any time, and Windows accepts none while it starts, so nothing in the
//! guest depends on a session. Programs run as SYSTEM in scheduled tasks and are polled. Small
//! files go through the session, larger ones onto a disc.
//! Sources: Microsoft: PowerShell Direct; New-PSSession -VMId; Task Scheduler;
//! RegistryOptions.Volatile.

mod files;
mod job;
mod scripts;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{
    ChangeDiscs, Guest, GuestCommand, GuestDelivery, GuestExit, GuestFailure, not_back,
    not_restarted,
};
use winimg_base::error::{Error, Kind, Result};

pub use scripts::{JOB, list_scripts};

/// Limit for a script or for opening a session, which takes seconds if the guest answers.
const PATIENCE: Duration = Duration::from_secs(60);
/// Minimum time for a request just before its deadline.
const MIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Limit for files, with a margin for a busy guest.
const FILE_TIMEOUT: Duration = Duration::from_secs(180);
/// Interval between two attempts to open a session.
const AGAIN: Duration = Duration::from_secs(5);
/// Limit for a running Windows to reject its password.
const CREDENTIAL: Duration = Duration::from_secs(60);
/// Limit while Windows starts, which may have to finish updates.
const CREDENTIAL_AT_START: Duration = Duration::from_secs(300);
/// Number of consecutive PowerShell processes that may fail.
const HOST_FAILURES: u32 = 3;

#[derive(Debug)]
pub enum SessionFailure {
    /// The account does not exist yet, or has another password.
    Credential(String),
    /// The session broke, or could not be opened.
    Broken(String),
    /// The script threw an exception; the session remains.
    Threw(String),
    /// The host's PowerShell failed and is replaced.
    Host(Error),
    /// The machine failed, or the build was cancelled.
    Machine(Error),
}

/// Opens a session in place of the previous one, within this time.
pub type ConnectSession = dyn FnMut(Duration) -> Result<(), SessionFailure> + Send;
/// Runs a script in the session: name, arguments, properties to select, and time limit.
pub type InvokeScript = dyn Fn(&'static str, Vec<Value>, &[&'static str], Duration) -> Result<Value, SessionFailure>
    + Send;

/// Functions that the channel needs from the machine.
pub struct SessionHost {
    pub connect: Box<ConnectSession>,
    pub invoke: Box<InvokeScript>,
    /// Fails if the machine is dead, paused or off, or the build was cancelled. With `true` the
    /// machine is queried now.
    pub check: Box<dyn Fn(bool) -> Result<(), GuestFailure> + Send>,
    /// Returns the number of restarts, queried now.
    pub restarts: Box<dyn Fn() -> u32 + Send>,
    /// Returns the last known number of restarts.
    pub known_restarts: Box<dyn Fn() -> u32 + Send>,
    pub discs: Box<ChangeDiscs>,
    /// Called when a request is sent to the guest (`true`) and when anything is received from it.
    pub on_contact: Box<dyn Fn(bool) + Send>,
}

#[derive(Debug)]
pub enum OpenAttempt {
    Yes,
    /// Reason the attempt failed.
    NotYet(String),
}

pub struct DirectGuest {
    host: SessionHost,
    connected: bool,
    /// Id of the last boot that answered. A change ends `run`, and `wait_for_return` waits for one.
    boot: String,
    restarts: u32,
    host_failures: u32,
}

/// Failure of a request with a deadline.
#[derive(Debug)]
enum RequestFailure {
    /// Timed out; contains the last failure.
    Late(String),
    Threw(String),
    Ended(GuestFailure),
}

impl<E: Into<GuestFailure>> From<E> for RequestFailure {
    fn from(ended: E) -> Self {
        Self::Ended(ended.into())
    }
}

impl DirectGuest {
    /// Creates the channel without sending anything.
    pub fn new(host: SessionHost) -> Self {
        Self {
            host,
            connected: false,
            boot: String::new(),
            restarts: 0,
            host_failures: 0,
        }
    }

    /// Tries once to open a session and get an answer; each may take about `left`. Fails if the
    /// machine has a problem.
    pub fn try_open(&mut self, left: Duration) -> Result<OpenAttempt> {
        let patience = left.clamp(MIN_TIMEOUT, PATIENCE);
        match self.try_request("look", &[], &["boot"], patience) {
            Ok(answer) => {
                self.record_boot(boot_of(&answer));
                Ok(OpenAttempt::Yes)
            }
            Err(
                SessionFailure::Credential(said)
                | SessionFailure::Broken(said)
                | SessionFailure::Threw(said),
            ) => Ok(OpenAttempt::NotYet(said)),
            Err(SessionFailure::Host(error) | SessionFailure::Machine(error)) => Err(error),
        }
    }

    fn record_boot(&mut self, boot: String) {
        self.boot = boot;
        self.restarts = (self.host.known_restarts)();
    }

    /// Opens a session if there is none, then sends one request.
    fn try_request(
        &mut self,
        script: &'static str,
        arguments: &[Value],
        select: &[&'static str],
        patience: Duration,
    ) -> Result<Value, SessionFailure> {
        (self.host.on_contact)(true);
        let result = if self.connected {
            Ok(())
        } else {
            (self.host.connect)(patience.min(PATIENCE))
        };
        let result =
            result.and_then(|()| (self.host.invoke)(script, arguments.to_vec(), select, patience));
        match result {
            Err(SessionFailure::Host(error)) => {
                self.connected = false;
                self.host_failures += 1;
                if self.host_failures >= HOST_FAILURES {
                    Err(SessionFailure::Machine(error))
                } else {
                    Err(SessionFailure::Broken(error.fact().to_string()))
                }
            }
            Err(trouble) => {
                self.connected = matches!(trouble, SessionFailure::Threw(_));
                Err(trouble)
            }
            Ok(answer) => {
                (self.host.on_contact)(false);
                self.connected = true;
                self.host_failures = 0;
                Ok(answer)
            }
        }
    }

    /// Repeats a request until the guest answers. Broken sessions are reopened while the machine
    /// runs.
    fn ask(
        &mut self,
        script: &'static str,
        arguments: &[Value],
        select: &[&'static str],
        deadline: Instant,
        wrong_for: Duration,
    ) -> Result<Value, RequestFailure> {
        let mut wrong_since = None;
        let mut was_connected = self.connected;
        loop {
            (self.host.check)(false)?;
            let left = deadline.saturating_duration_since(Instant::now());
            let patience = left.clamp(MIN_TIMEOUT, PATIENCE);
            let said = match self.try_request(script, arguments, select, patience) {
                Ok(answer) => return Ok(answer),
                Err(SessionFailure::Threw(words)) => return Err(RequestFailure::Threw(words)),
                Err(SessionFailure::Machine(error) | SessionFailure::Host(error)) => {
                    return Err(error.into());
                }
                Err(SessionFailure::Credential(said)) => {
                    let since = *wrong_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= wrong_for {
                        return Err(wrong_password(wrong_for, &said).into());
                    }
                    said
                }
                Err(SessionFailure::Broken(said)) => {
                    wrong_since = None;
                    said
                }
            };
            (self.host.check)(true)?;
            if Instant::now() >= deadline {
                return Err(RequestFailure::Late(said));
            }
            // Retry at once after a broken session, but wait after a refusal.
            if !was_connected {
                self.pause(AGAIN, deadline)?;
            }
            was_connected = false;
        }
    }

    fn pause(&self, time: Duration, deadline: Instant) -> Result<(), GuestFailure> {
        let end = (Instant::now() + time).min(deadline);
        while Instant::now() < end {
            (self.host.check)(false)?;
            let left = end.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
        Ok(())
    }

    /// Waits until another boot of Windows answers.
    fn wait_for_restart(&mut self, timeout: Duration, deadline: Instant) -> Result<()> {
        loop {
            let asked = self.ask("look", &[], &["boot"], deadline, CREDENTIAL_AT_START);
            let late = match asked {
                Ok(answer) if boot_of(&answer) != self.boot => {
                    self.record_boot(boot_of(&answer));
                    return Ok(());
                }
                Ok(_) => not_restarted(timeout),
                Err(RequestFailure::Late(said)) => return Err(not_back(timeout).found(said)),
                Err(other) => return Err(explain("the restart", other)),
            };
            if Instant::now() >= deadline {
                return Err(late);
            }
            self.pause(Duration::from_secs(1), deadline)?;
        }
    }
}

fn boot_of(answer: &Value) -> String {
    answer["boot"].as_str().unwrap_or_default().to_string()
}

impl Guest for DirectGuest {
    fn run(&mut self, command: &GuestCommand, output: &mut dyn FnMut(&[u8])) -> Result<GuestExit> {
        command.check()?;
        job::run(self, command, output)
    }

    fn put(&mut self, what: GuestDelivery<'_>) -> Result<()> {
        match what {
            GuestDelivery::Bytes { path, bytes } => files::put(self, path, bytes),
            GuestDelivery::Disc(iso) => (self.host.discs)(Some(iso)),
            GuestDelivery::NoDiscs => (self.host.discs)(None),
        }
    }

    fn get(&mut self, path: &str, limit: usize) -> Result<Option<Vec<u8>>> {
        files::get(self, path, limit)
    }

    fn reboot(&mut self, timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        (self.host.check)(false)?;
        match self.try_request("restart", &[], &["boot"], PATIENCE) {
            Ok(answer) => self.boot = boot_of(&answer),
            // It may have restarted before its answer was sent; `wait_for_restart` finds out.
            Err(SessionFailure::Broken(_) | SessionFailure::Credential(_)) => {}
            Err(SessionFailure::Threw(words)) => {
                return Err(explain("the restart", RequestFailure::Threw(words)));
            }
            Err(SessionFailure::Host(error) | SessionFailure::Machine(error)) => return Err(error),
        }
        self.wait_for_restart(timeout, deadline)
    }

    fn wait_for_return(&mut self, timeout: Duration) -> Result<()> {
        self.wait_for_restart(timeout, Instant::now() + timeout)
    }

    fn is_there(&mut self) -> Result<bool> {
        (self.host.check)(true)?;
        if (self.host.restarts)() == self.restarts {
            return Ok(true);
        }
        // The count comes from Hyper-V; the guest knows its boot reliably.
        match self.try_request("look", &[], &["boot"], PATIENCE) {
            Ok(answer) if boot_of(&answer) == self.boot => {
                self.restarts = (self.host.known_restarts)();
                Ok(true)
            }
            Err(SessionFailure::Machine(error)) => Err(error),
            _ => Ok(false),
        }
    }

    fn has_restarted(&mut self) -> bool {
        matches!(self.is_there(), Ok(false))
    }

    fn is_off(&mut self) -> Result<bool> {
        match (self.host.check)(true) {
            Ok(()) => Ok(false),
            Err(GuestFailure::PoweredOff) => Ok(true),
            Err(GuestFailure::Failed(error)) => Err(error),
        }
    }

    fn describe_channel(&self) -> &'static str {
        "PowerShell Direct"
    }

    fn shut_down(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        match self.ask("off", &[], &["boot"], deadline, CREDENTIAL) {
            // It may already be off: `VirtualMachine::wait_off` notices that.
            Ok(_)
            | Err(RequestFailure::Late(_) | RequestFailure::Ended(GuestFailure::PoweredOff)) => {
                Ok(())
            }
            Err(other) => Err(explain("the power-off", other)),
        }
    }
}

fn wrong_password(time: Duration, said: &str) -> Error {
    Error::new(
        Kind::Machine,
        format!(
            "Windows has rejected the Administrator's password for {} s",
            time.as_secs()
        ),
    )
    .expected("the password of this build, set by the answer file or an earlier build")
    .found(said)
    .cure(
        "remove steps that change, disable or rename the Administrator, which lock winimg out; \
         if a layer has another password, build with --fresh",
    )
}

/// Builds the error for a failed request. `doing` follows "during" and "refused".
fn explain(doing: &str, stop: RequestFailure) -> Error {
    match stop {
        RequestFailure::Late(said) => Error::new(
            Kind::Machine,
            format!("the guest did not answer in time during {doing}"),
        )
        .found(said),
        RequestFailure::Threw(words) => {
            Error::new(Kind::Machine, format!("the guest refused {doing}")).found(words)
        }
        RequestFailure::Ended(ended) => ended.into(),
    }
}
