//! PowerShell Direct: sessions into a guest of Hyper-V, without a network and without an agent.
//!
//! A session may break at any time, and Windows takes none while it starts; so nothing in the guest depends on one. Programs run as SYSTEM in tasks
//! of their own, as services do, and are asked how they fare. Small files go through the session; everything larger goes onto a disc.
//! Sources: Microsoft: PowerShell Direct; New-PSSession -VMId; Task Scheduler; RegistryOptions.Volatile.

mod files;
mod job;
mod scripts;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{ChangeDiscs, Command, Ended, Exit, Guest, Put, not_back, not_restarted};
use winimg_base::error::{Error, Kind, Result};

pub use scripts::{JOB, scripts};

/// One script's work, which is little, or a session's opening: where the guest answers it takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// For what is asked just before its deadline.
const LEAST_PATIENCE: Duration = Duration::from_secs(10);
/// For files, with what a busy guest adds.
const FILE_PATIENCE: Duration = Duration::from_secs(180);
/// Between two attempts at a session.
const AGAIN: Duration = Duration::from_secs(5);
/// How long a Windows that was ready may call its own password wrong.
const CREDENTIAL: Duration = Duration::from_secs(60);
/// The same while Windows starts, which may have updates to finish.
const CREDENTIAL_AT_START: Duration = Duration::from_secs(300);
/// PowerShells in a row that may fail.
const HOST_FAILURES: u32 = 3;

#[derive(Debug)]
pub enum Trouble {
    /// No such account yet, or another password.
    Credential(String),
    /// There is no session any more, or none yet.
    Broken(String),
    /// The script itself says no; the session stays.
    Threw(String),
    /// What carries the sessions failed and is replaced.
    Host(Error),
    /// The end: of the machine, or of the build.
    Machine(Error),
}

/// Opens a session in place of the one before, within this time.
pub type Connect = dyn FnMut(Duration) -> Result<(), Trouble> + Send;
/// Runs a script in the session: its name, its arguments, what is wanted of its object, and how long it may take.
pub type Invoke =
    dyn Fn(&'static str, Vec<Value>, &[&'static str], Duration) -> Result<Value, Trouble> + Send;

/// What the channel needs of the machine around it.
pub struct Host {
    pub connect: Box<Connect>,
    pub invoke: Box<Invoke>,
    /// An error as soon as the machine is dead, paused or off, or the user interrupted. `true`: the machine is asked now.
    pub check: Box<dyn Fn(bool) -> Result<(), Ended> + Send>,
    /// How often the machine restarted, asked now.
    pub restarts: Box<dyn Fn() -> u32 + Send>,
    /// The same as it was seen last.
    pub known_restarts: Box<dyn Fn() -> u32 + Send>,
    pub discs: Box<ChangeDiscs>,
    /// Told when the guest is asked (`true`), and when anything comes from it.
    pub talked: Box<dyn Fn(bool) + Send>,
}

#[derive(Debug)]
pub enum Opened {
    Yes,
    /// Why the attempt failed.
    NotYet(String),
}

pub struct Direct {
    host: Host,
    connected: bool,
    /// Which start of Windows was spoken to last; a change ends `run`, and `wait_back` waits for one.
    boot: String,
    restarts: u32,
    host_failures: u32,
}

/// How a question ends that has a deadline.
#[derive(Debug)]
enum Stop {
    /// What was heard last.
    Late(String),
    Threw(String),
    Ended(Ended),
}

impl<E: Into<Ended>> From<E> for Stop {
    fn from(ended: E) -> Self {
        Self::Ended(ended.into())
    }
}

impl Direct {
    /// Nothing is sent yet.
    pub fn new(host: Host) -> Self {
        Self {
            host,
            connected: false,
            boot: String::new(),
            restarts: 0,
            host_failures: 0,
        }
    }

    /// One attempt at a session and a first answer, each of which may take as long as `left`, within reason. Trouble of the machine is an error.
    pub fn try_open(&mut self, left: Duration) -> Result<Opened> {
        let patience = left.clamp(LEAST_PATIENCE, PATIENCE);
        match self.attempt("look", &[], &["boot"], patience) {
            Ok(answer) => {
                self.arrived(boot_of(&answer));
                Ok(Opened::Yes)
            }
            Err(Trouble::Credential(said) | Trouble::Broken(said) | Trouble::Threw(said)) => {
                Ok(Opened::NotYet(said))
            }
            Err(Trouble::Host(error) | Trouble::Machine(error)) => Err(error),
        }
    }

    fn arrived(&mut self, boot: String) {
        self.boot = boot;
        self.restarts = (self.host.known_restarts)();
    }

    /// Opens a session where there is none, then asks once.
    fn attempt(
        &mut self,
        script: &'static str,
        arguments: &[Value],
        select: &[&'static str],
        patience: Duration,
    ) -> Result<Value, Trouble> {
        (self.host.talked)(true);
        let result = match self.connected {
            true => Ok(()),
            false => (self.host.connect)(patience.min(PATIENCE)),
        };
        let result =
            result.and_then(|()| (self.host.invoke)(script, arguments.to_vec(), select, patience));
        match result {
            Err(Trouble::Host(error)) => {
                self.connected = false;
                self.host_failures += 1;
                match self.host_failures >= HOST_FAILURES {
                    true => Err(Trouble::Machine(error)),
                    false => Err(Trouble::Broken(error.fact().to_string())),
                }
            }
            Err(trouble) => {
                self.connected = matches!(trouble, Trouble::Threw(_));
                Err(trouble)
            }
            Ok(answer) => {
                (self.host.talked)(false);
                self.connected = true;
                self.host_failures = 0;
                Ok(answer)
            }
        }
    }

    /// Asks until the guest answers. Sessions that break are opened again while the machine lives.
    fn ask(
        &mut self,
        script: &'static str,
        arguments: &[Value],
        select: &[&'static str],
        deadline: Instant,
        wrong_for: Duration,
    ) -> Result<Value, Stop> {
        let mut wrong_since = None;
        let mut was_connected = self.connected;
        loop {
            (self.host.check)(false)?;
            let left = deadline.saturating_duration_since(Instant::now());
            let patience = left.clamp(LEAST_PATIENCE, PATIENCE);
            let said = match self.attempt(script, arguments, select, patience) {
                Ok(answer) => return Ok(answer),
                Err(Trouble::Threw(words)) => return Err(Stop::Threw(words)),
                Err(Trouble::Machine(error) | Trouble::Host(error)) => return Err(error.into()),
                Err(Trouble::Credential(said)) => {
                    let since = *wrong_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= wrong_for {
                        return Err(wrong_password(wrong_for, &said).into());
                    }
                    said
                }
                Err(Trouble::Broken(said)) => {
                    wrong_since = None;
                    said
                }
            };
            (self.host.check)(true)?;
            if Instant::now() >= deadline {
                return Err(Stop::Late(said));
            }
            // A session that just broke is tried again at once, a guest that refused is given time.
            if !was_connected {
                self.pause(AGAIN, deadline)?;
            }
            was_connected = false;
        }
    }

    fn pause(&self, time: Duration, deadline: Instant) -> Result<(), Ended> {
        let end = (Instant::now() + time).min(deadline);
        while Instant::now() < end {
            (self.host.check)(false)?;
            let left = end.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
        Ok(())
    }

    /// Waits for another start of Windows than the last one.
    fn come_back(&mut self, timeout: Duration, deadline: Instant) -> Result<()> {
        loop {
            let asked = self.ask("look", &[], &["boot"], deadline, CREDENTIAL_AT_START);
            let late = match asked {
                Ok(answer) if boot_of(&answer) != self.boot => {
                    self.arrived(boot_of(&answer));
                    return Ok(());
                }
                Ok(_) => not_restarted(timeout),
                Err(Stop::Late(said)) => return Err(not_back(timeout).found(said)),
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

impl Guest for Direct {
    fn run(&mut self, command: &Command, output: &mut dyn FnMut(&[u8])) -> Result<Exit> {
        command.check()?;
        job::run(self, command, output)
    }

    fn put(&mut self, what: Put<'_>) -> Result<()> {
        match what {
            Put::Bytes { path, bytes } => files::put(self, path, bytes),
            Put::Disc(iso) => (self.host.discs)(Some(iso)),
            Put::NoDiscs => (self.host.discs)(None),
        }
    }

    fn get(&mut self, path: &str, limit: usize) -> Result<Option<Vec<u8>>> {
        files::get(self, path, limit)
    }

    fn reboot(&mut self, timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        (self.host.check)(false)?;
        match self.attempt("restart", &[], &["boot"], PATIENCE) {
            Ok(answer) => self.boot = boot_of(&answer),
            // It may have gone before its answer did; `come_back` finds out.
            Err(Trouble::Broken(_) | Trouble::Credential(_)) => {}
            Err(Trouble::Threw(words)) => return Err(explain("the restart", Stop::Threw(words))),
            Err(Trouble::Host(error) | Trouble::Machine(error)) => return Err(error),
        }
        self.come_back(timeout, deadline)
    }

    fn wait_back(&mut self, timeout: Duration) -> Result<()> {
        self.come_back(timeout, Instant::now() + timeout)
    }

    fn is_there(&mut self) -> Result<bool> {
        (self.host.check)(true)?;
        if (self.host.restarts)() == self.restarts {
            return Ok(true);
        }
        // The count is Hyper-V's; the guest itself knows better whether it restarted.
        match self.attempt("look", &[], &["boot"], PATIENCE) {
            Ok(answer) if boot_of(&answer) == self.boot => {
                self.restarts = (self.host.known_restarts)();
                Ok(true)
            }
            Err(Trouble::Machine(error)) => Err(error),
            _ => Ok(false),
        }
    }

    fn has_restarted(&mut self) -> bool {
        matches!(self.is_there(), Ok(false))
    }

    fn is_off(&mut self) -> Result<bool> {
        match (self.host.check)(true) {
            Ok(()) => Ok(false),
            Err(Ended::PoweredOff) => Ok(true),
            Err(Ended::Failed(error)) => Err(error),
        }
    }

    fn channel(&self) -> &'static str {
        "PowerShell Direct"
    }

    fn shut_down(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        match self.ask("off", &[], &["boot"], deadline, CREDENTIAL) {
            // It may be off already: `Machine::wait_off` sees that.
            Ok(_) | Err(Stop::Late(_) | Stop::Ended(Ended::PoweredOff)) => Ok(()),
            Err(other) => Err(explain("the power-off", other)),
        }
    }
}

fn wrong_password(time: Duration, said: &str) -> Error {
    Error::new(
        Kind::Machine,
        format!(
            "Windows has refused the Administrator's password for {} s",
            time.as_secs()
        ),
    )
    .expected("the password of this build, which the answer file or an earlier build gave it")
    .found(said)
    .cure("a step that changes, disables or renames the Administrator shuts winimg out; a layer made with another password needs --fresh")
}

/// `doing` fits after "during" and after "refused".
fn explain(doing: &str, stop: Stop) -> Error {
    match stop {
        Stop::Late(said) => Error::new(
            Kind::Machine,
            format!("the guest did not answer in time during {doing}"),
        )
        .found(said),
        Stop::Threw(words) => {
            Error::new(Kind::Machine, format!("the guest refused {doing}")).found(words)
        }
        Stop::Ended(ended) => ended.into(),
    }
}
