//! Client of the QEMU guest agent, over the socket of its port.
//!
//! Files of a few KB go through the agent's own calls, larger ones onto a disc, which is many times
//! faster. Programs run without a shell: arguments are sent raw and the agent quotes them. Never
//! sends `env`, which would replace the guest's whole environment. The agent cannot stream: output
//! arrives when the program has ended, so a program that runs for long or leaves a child behind
//! should write to a file in the guest.

mod exec;
mod files;
mod transcript;
mod wire;

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use qapi::qga::{GuestShutdownMode, guest_shutdown};

use self::transcript::AgentTranscript;
use self::wire::{AgentFailure, AgentWire};
use super::{
    ChangeDiscs, Guest, GuestCommand, GuestDelivery, GuestExit, GuestFailure, not_back,
    not_restarted,
};
use winimg_base::error::{Error, Kind, Result};

/// State of the guest's end of the channel, observed by the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentPort {
    pub open: bool,
    /// Number of times it was closed or the guest restarted. A change means that pending requests
    /// are lost.
    pub disconnects: u32,
    /// Number of restarts of the guest.
    pub restarts: u32,
    pub off: bool,
}

impl AgentPort {
    pub fn set_open(&mut self, open: bool) {
        self.disconnects += u32::from(!open);
        self.open = open;
    }
}

/// Functions that the agent needs from the machine. Each returns at once.
pub struct AgentHost {
    /// Fails if the machine is dead or paused, or the build was cancelled.
    pub check: Box<dyn Fn() -> Result<()> + Send>,
    pub port: Box<dyn Fn() -> AgentPort + Send>,
    pub discs: Box<ChangeDiscs>,
    /// Called when a request is sent to the guest (`true`) and when anything is received from it.
    pub on_contact: Box<dyn Fn(bool) + Send>,
    /// Returns the time for deadlines; it may be paused while the machine is.
    pub now: Box<dyn Fn() -> Instant + Send>,
}

/// Guest that is controlled through a QEMU guest agent.
pub struct AgentGuest {
    wire: AgentWire,
    /// Limit for simple calls; commands have their own.
    call_timeout: Duration,
}

impl AgentGuest {
    /// Creates the client without sending anything. `stream` is connected to the port's socket.
    pub fn new(stream: UnixStream, host: AgentHost, call_timeout: Duration) -> Result<Self> {
        let wire = AgentWire::new(stream, host)?;
        Ok(Self { wire, call_timeout })
    }

    /// Records the last exchanges in `file`. Of contents and passwords only the length is recorded.
    #[must_use]
    pub fn with_transcript(mut self, file: &Path) -> Self {
        self.wire.set_transcript(AgentTranscript::open(file));
        self
    }

    /// Waits at most `time` for the agent's first answer. Returns false if there is none yet; fails
    /// if the machine has a problem.
    pub fn try_open(&mut self, time: Duration) -> Result<bool> {
        match self.wire.open(self.wire.now() + time) {
            Ok(()) => Ok(true),
            Err(AgentFailure::Late | AgentFailure::Gone) => Ok(false),
            Err(failure) => Err(to_error("opening the channel", failure)),
        }
    }

    fn wait_for_channel(&mut self, timeout: Duration, deadline: Instant) -> Result<()> {
        self.wire.open(deadline).map_err(|failure| match failure {
            AgentFailure::Gone => {
                Error::new(Kind::Machine, "the guest powered off instead of restarting")
            }
            AgentFailure::Late => not_back(timeout),
            other => to_error("the restart", other),
        })
    }
}

impl Guest for AgentGuest {
    fn run(&mut self, command: &GuestCommand, output: &mut dyn FnMut(&[u8])) -> Result<GuestExit> {
        command.check()?;
        exec::run(&mut self.wire, command, output)
    }

    fn put(&mut self, what: GuestDelivery<'_>) -> Result<()> {
        match what {
            GuestDelivery::Bytes { path, bytes } => {
                files::put(&mut self.wire, path, bytes, self.call_timeout)
            }
            GuestDelivery::Disc(iso) => (self.wire.host.discs)(Some(iso)),
            GuestDelivery::NoDiscs => (self.wire.host.discs)(None),
        }
    }

    fn get(&mut self, path: &str, limit: usize) -> Result<Option<Vec<u8>>> {
        files::get(&mut self.wire, path, limit, self.call_timeout)
    }

    fn reboot(&mut self, timeout: Duration) -> Result<()> {
        let deadline = self.wire.now() + timeout;
        let mode = Some(GuestShutdownMode::Reboot);
        let answer = self.wire.ask(&guest_shutdown { mode }, deadline);
        let closed = match answer {
            // The agent normally answers only if it refuses.
            Ok(_) => self.wire.wait_gone(deadline),
            Err(AgentFailure::Gone) => Ok(()),
            Err(other) => Err(other),
        };
        match closed {
            Ok(()) => self.wait_for_channel(timeout, deadline),
            Err(AgentFailure::Late) => Err(not_restarted(timeout)),
            Err(other) => Err(to_error("the restart", other)),
        }
    }

    fn wait_for_return(&mut self, timeout: Duration) -> Result<()> {
        let deadline = self.wire.now() + timeout;
        match self.wire.wait_gone(deadline) {
            Ok(()) => self.wait_for_channel(timeout, deadline),
            Err(AgentFailure::Late) => Err(not_restarted(timeout)),
            Err(other) => Err(to_error("the restart", other)),
        }
    }

    fn is_there(&mut self) -> Result<bool> {
        if (self.wire.host.port)().off {
            return Err(GuestFailure::PoweredOff.into());
        }
        match self.wire.watch() {
            Ok(()) => Ok(true),
            Err(AgentFailure::Gone) => Ok(false),
            Err(other) => Err(to_error("a status check", other)),
        }
    }

    fn has_restarted(&mut self) -> bool {
        self.wire.has_restarted()
    }

    fn is_off(&mut self) -> Result<bool> {
        match self.wire.watch() {
            Err(AgentFailure::Broken(error)) => Err(error),
            _ => Ok((self.wire.host.port)().off),
        }
    }

    fn now(&self) -> Instant {
        self.wire.now()
    }

    fn shut_down(&mut self) -> Result<()> {
        // A refusal is sent at once; no answer means that it was accepted.
        let deadline = self.wire.now() + self.call_timeout.min(Duration::from_secs(3));
        let mode = Some(GuestShutdownMode::Powerdown);
        match self.wire.ask(&guest_shutdown { mode }, deadline) {
            Ok(_) | Err(AgentFailure::Gone | AgentFailure::Late) => Ok(()),
            Err(other) => Err(to_error("the power-off", other)),
        }
    }
}

/// Builds the error for a failed request. `doing` follows "during" and "refused".
fn to_error(doing: &str, failure: AgentFailure) -> Error {
    match failure {
        AgentFailure::Gone => Error::new(
            Kind::Machine,
            format!("the guest restarted or closed its channel during {doing}"),
        ),
        AgentFailure::Late => Error::new(
            Kind::Machine,
            format!("the guest agent did not answer in time during {doing}"),
        ),
        AgentFailure::Refused(words) => {
            Error::new(Kind::Machine, format!("the guest agent refused {doing}")).found(words)
        }
        AgentFailure::Broken(error) => error,
    }
}
