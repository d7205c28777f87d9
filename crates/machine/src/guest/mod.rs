//! Interface to a guest, independent of the channel.
//!
//! Runs programs without a shell. The channel does the quoting (`quote`); the plan interprets exit
//! codes.

#[cfg(unix)]
pub mod agent;
pub mod direct;
mod output;
#[cfg(unix)]
pub mod request;

use std::path::Path;
use std::time::{Duration, Instant};

/// The quoting rules are in the base crate, because the plan applies them too.
pub use winimg_base::argv as quote;
use winimg_base::error::{Error, Kind, Result};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestCommand {
    /// Full path, such as `C:\Windows\System32\reg.exe`.
    pub program: String,
    /// Raw arguments. An empty one, or one with a space and a trailing backslash, is refused before
    /// sending.
    pub arguments: Vec<String>,
    /// Measured from the start; already scaled for the accelerator's speed.
    pub timeout: Duration,
}

impl GuestCommand {
    /// Refuses arguments that would not reach the program unchanged.
    fn check(&self) -> Result<()> {
        quote::check(&self.program, &self.arguments).map_err(|why| {
            let fact = "a command line cannot reach the guest unchanged";
            Error::new(Kind::Step, fact)
                .found(why)
                .cure("put it into a batch file")
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuestExit {
    /// Full 32-bit code, sign-extended like the agent's.
    Code(i64),
    /// The guest powered off or rebooted before the program ended.
    GuestGone,
}

/// Reason a guest is no longer available.
#[derive(Debug)]
pub enum GuestFailure {
    PoweredOff,
    /// The machine failed, or the build was cancelled.
    Failed(Error),
}

impl From<Error> for GuestFailure {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<GuestFailure> for Error {
    fn from(ended: GuestFailure) -> Self {
        match ended {
            GuestFailure::PoweredOff => Self::new(Kind::Machine, "the guest powered off"),
            GuestFailure::Failed(error) => error,
        }
    }
}

/// Interval between two checks of a guest that has to stay up.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum bytes of [`GuestDelivery::Bytes`]: channels transfer text, and a disc is many times
/// faster.
const MAX_BYTES: usize = 256 << 10;

fn check_size(path: &str, bytes: &[u8], channel: &str) -> Result<()> {
    if bytes.len() <= MAX_BYTES {
        return Ok(());
    }
    let fact = format!("this file is too large for {channel}");
    Err(Error::new(Kind::Failed, fact)
        .at(path)
        .expected(format!("at most {MAX_BYTES} bytes"))
        .found(format!("{} bytes", bytes.len()))
        .cure("deliver it on the payload disc"))
}

fn larger_than(limit: usize, path: &str) -> Error {
    Error::new(Kind::Machine, "the guest's file is too large")
        .at(path)
        .expected(format!("at most {limit} bytes"))
}

fn not_started(command: &GuestCommand, words: &str) -> Error {
    Error::new(Kind::Step, "the guest cannot start the program")
        .at(&command.program)
        .found(words)
}

/// Builds the error for a program that reached its timeout. `then` describes its fate.
fn not_ended(command: &GuestCommand, then: &str) -> Error {
    let seconds = command.timeout.as_secs();
    let fact = format!("the program did not end within {seconds} s");
    Error::new(Kind::Step, fact)
        .at(&command.program)
        .lines([then])
        .cure("give the step a longer timeout, or find out what it is waiting for")
}

fn not_restarted(timeout: Duration) -> Error {
    let fact = format!("the guest did not restart within {} s", timeout.as_secs());
    Error::new(Kind::Machine, fact)
}

fn not_back(timeout: Duration) -> Error {
    let fact = format!("the guest did not come back within {} s", timeout.as_secs());
    Error::new(Kind::Machine, fact).cure(
        "look at the machine's screen: an update may still be running, or Windows shows an error",
    )
}

/// Converts an unsigned 32-bit code to a signed one.
fn sign_extended(code: i64) -> i64 {
    match u32::try_from(code) {
        Ok(code) => i64::from(code.cast_signed()),
        Err(_) => code,
    }
}

pub enum GuestDelivery<'a> {
    /// A few KB, written through the channel.
    Bytes { path: &'a str, bytes: &'a [u8] },
    /// An ISO for the guest's payload drive, in place of the current disc.
    Disc(&'a Path),
    /// Empties all drives, which sysprep needs.
    NoDiscs,
}

/// Inserts an ISO into the payload drive; `None` empties all drives.
pub type ChangeDiscs = dyn Fn(Option<&Path>) -> Result<()> + Send;

pub trait Guest: Send {
    /// Runs a program to its end. `output` gets stdout and stderr as they arrive, or at the end if
    /// the channel cannot stream.
    fn run(&mut self, command: &GuestCommand, output: &mut dyn FnMut(&[u8])) -> Result<GuestExit>;

    fn put(&mut self, what: GuestDelivery<'_>) -> Result<()>;

    /// Reads a small file of at most `limit` bytes; `None` if it does not exist.
    fn get(&mut self, path: &str, limit: usize) -> Result<Option<Vec<u8>>>;

    /// Reboots, and returns when the guest answers again within `timeout`.
    fn reboot(&mut self, timeout: Duration) -> Result<()>;

    /// Waits until the guest answers again after a reboot that it started itself.
    fn wait_for_return(&mut self, timeout: Duration) -> Result<()>;

    /// Returns true if the guest that answered last is still running; `false` after a restart,
    /// until `wait_for_return`. Queries the machine, not the guest. Fails if the machine is dead or
    /// off, or the build was cancelled.
    fn is_there(&mut self) -> Result<bool>;

    /// Waits for `time`. Returns false as soon as the guest restarts or its channel closes; then
    /// use `wait_for_return`. Fails if the machine is dead or off, or the build was cancelled.
    fn stay_up(&mut self, time: Duration) -> Result<bool> {
        let end = self.now() + time;
        loop {
            if !self.is_there()? {
                return Ok(false);
            }
            let left = end.saturating_duration_since(self.now());
            if left.is_zero() {
                return Ok(true);
            }
            std::thread::sleep(left.min(POLL_INTERVAL));
        }
    }

    /// Returns true if Windows has restarted since it answered last. Queries the machine; `is_off`
    /// reports one that is off or dead.
    fn has_restarted(&mut self) -> bool;

    /// Returns true if the machine has powered off. Queries the machine, not the guest. Fails if
    /// the machine is dead or the build was cancelled.
    fn is_off(&mut self) -> Result<bool>;

    /// Name of the channel for messages.
    fn describe_channel(&self) -> &'static str {
        "the guest agent"
    }

    /// Returns the time for limits in this guest; it is paused while the machine is.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// Requests a power-off; `VirtualMachine::wait_off` waits for it.
    fn shut_down(&mut self) -> Result<()>;
}
