//! The guest as winimg speaks to it, whatever the channel.
//!
//! Four verbs and no shell. Quoting is the channel's business (`quote`), the meaning of exit codes the plan's.

#[cfg(unix)]
pub mod agent;
pub mod direct;
mod output;
#[cfg(unix)]
pub mod request;

use std::path::Path;
use std::time::{Duration, Instant};

/// The quoting rules stand on the lowest floor, because the plan applies them too.
pub use winimg_base::argv as quote;
use winimg_base::error::{Error, Kind, Result};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Full path, `C:\Windows\System32\reg.exe`.
    pub program: String,
    /// Raw arguments; an empty one, or one with a blank and a trailing backslash, is refused before sending.
    pub arguments: Vec<String>,
    /// Measured from the start; already scaled for the accelerator.
    pub timeout: Duration,
}

impl Command {
    /// Refuses what would not reach the program as it is written.
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
pub enum Exit {
    /// The full 32-bit code, sign-extended as the agent reports it.
    Code(i64),
    /// The guest went down or rebooted before the program's end was seen.
    GuestGone,
}

/// Why a guest can be asked no more.
#[derive(Debug)]
pub enum Ended {
    PoweredOff,
    /// The machine failed, or the user interrupted.
    Failed(Error),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Ended> for Error {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::PoweredOff => Self::new(Kind::Machine, "the guest powered off"),
            Ended::Failed(error) => error,
        }
    }
}

/// Between two looks at a guest that has to stay up.
const LOOK: Duration = Duration::from_secs(1);

/// The most that [`Put::Bytes`] takes: a channel carries text, and a disc is many times faster.
const LARGEST: usize = 256 << 10;

fn check_size(path: &str, bytes: &[u8], channel: &str) -> Result<()> {
    if bytes.len() <= LARGEST {
        return Ok(());
    }
    let fact = format!("this file is too large for {channel}");
    Err(Error::new(Kind::Failed, fact)
        .at(path)
        .expected(format!("at most {LARGEST} bytes"))
        .found(format!("{} bytes", bytes.len()))
        .cure("deliver it on the payload disc"))
}

fn larger_than(limit: usize, path: &str) -> Error {
    Error::new(Kind::Machine, "the guest's file is larger than it may be")
        .at(path)
        .expected(format!("at most {limit} bytes"))
}

fn not_started(command: &Command, words: &str) -> Error {
    Error::new(Kind::Step, "the guest can't start the program")
        .at(&command.program)
        .found(words)
}

/// `then`: what became of it.
fn not_ended(command: &Command, then: &str) -> Error {
    let seconds = command.timeout.as_secs();
    let fact = format!("the program did not end within {seconds} s");
    Error::new(Kind::Step, fact)
        .at(&command.program)
        .lines([then])
        .cure("give the step a longer timeout, or find out what it waits for")
}

fn not_restarted(timeout: Duration) -> Error {
    let fact = format!("the guest did not restart within {} s", timeout.as_secs());
    Error::new(Kind::Machine, fact)
}

fn not_back(timeout: Duration) -> Error {
    let fact = format!("the guest did not come back within {} s", timeout.as_secs());
    Error::new(Kind::Machine, fact).cure(
        "look at the machine's screen: an update may still be working, or Windows shows an error",
    )
}

/// A code of 32 bits with its sign.
fn sign_extended(code: i64) -> i64 {
    match u32::try_from(code) {
        Ok(code) => i64::from(code.cast_signed()),
        Err(_) => code,
    }
}

pub enum Put<'a> {
    /// A few KB, written through the channel itself.
    Bytes { path: &'a str, bytes: &'a [u8] },
    /// An ISO put into the guest's payload drive, in place of what is there.
    Disc(&'a Path),
    /// All drives emptied: nothing must lie in them when sysprep runs.
    NoDiscs,
}

/// Puts an ISO into the payload drive; `None` empties every drive.
pub type ChangeDiscs = dyn Fn(Option<&Path>) -> Result<()> + Send;

pub trait Guest: Send {
    /// Runs to the end. `output` gets stdout and stderr as they come (or at the end, where the channel cannot stream).
    fn run(&mut self, command: &Command, output: &mut dyn FnMut(&[u8])) -> Result<Exit>;

    fn put(&mut self, what: Put<'_>) -> Result<()>;

    /// A small file's bytes (at most `limit`); `None` when it does not exist.
    fn get(&mut self, path: &str, limit: usize) -> Result<Option<Vec<u8>>>;

    /// Reboots and comes back when the guest answers again; within `timeout`.
    fn reboot(&mut self, timeout: Duration) -> Result<()>;

    /// After a reboot that the guest itself started: waits until it answers again.
    fn wait_back(&mut self, timeout: Duration) -> Result<()>;

    /// Whether the guest that answered last still runs: `false` once it restarted, until `wait_back`. Asks the machine,
    /// not the guest; a machine that is dead or off, or an interrupt, is an error.
    fn is_there(&mut self) -> Result<bool>;

    /// Waits for `time`. `false` as soon as the guest restarts or its channel closes: `wait_back` then waits for it. A
    /// machine that is dead or off, or an interrupt, is an error.
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
            std::thread::sleep(left.min(LOOK));
        }
    }

    /// Whether Windows has started anew since it answered last. Asks the machine; where it is off or dead, `is_off` says so.
    fn has_restarted(&mut self) -> bool;

    /// Whether the machine has powered off. Asks the machine, not the guest; one that is dead, or an interrupt, is an error.
    fn is_off(&mut self) -> Result<bool>;

    /// What answers, as people know it.
    fn channel(&self) -> &'static str {
        "the guest agent"
    }

    /// The time that limits in this guest are measured by: it stands while the machine does.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// Asks the guest to power off; `Machine::wait_off` waits for that.
    fn shut_down(&mut self) -> Result<()>;
}
