//! The QEMU guest agent, over whatever socket its port ends in.
//!
//! Files of a few KB go through the agent's own calls; everything larger goes onto a disc, which is many times faster. Programs are run without a
//! shell: arguments are sent raw and the agent quotes them. Never sends `env`, which would replace the guest's whole environment. The agent
//! can't stream: output comes when the program has ended, so a program that runs for long, or that leaves a child behind, should write to a file
//! in the guest instead.

mod exec;
mod files;
mod transcript;
mod wire;

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use qapi::qga::{GuestShutdownMode, guest_shutdown};

use self::transcript::Transcript;
use self::wire::{Trouble, Wire};
use super::{ChangeDiscs, Command, Ended, Exit, Guest, Put, not_back, not_restarted};
use winimg_base::error::{Error, Kind, Result};

/// The guest's end of the channel, as the machine sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Port {
    pub open: bool,
    /// How often it was closed or the guest restarted. A change means that what was asked before is lost.
    pub downs: u32,
    /// How often the guest restarted.
    pub restarts: u32,
    pub off: bool,
}

impl Port {
    pub fn change(&mut self, open: bool) {
        self.downs += u32::from(!open);
        self.open = open;
    }
}

/// What the agent needs of the machine around it. Each function returns at once.
pub struct Host {
    /// An error as soon as the machine is dead or paused, or the user interrupted.
    pub check: Box<dyn Fn() -> Result<()> + Send>,
    pub port: Box<dyn Fn() -> Port + Send>,
    pub discs: Box<ChangeDiscs>,
    /// Told when the guest is asked (`true`), and when anything comes from it.
    pub talked: Box<dyn Fn(bool) + Send>,
    /// The time that deadlines are measured by; it may stand while the machine does.
    pub now: Box<dyn Fn() -> Instant + Send>,
}

/// A guest behind a QEMU guest agent.
pub struct Agent {
    wire: Wire,
    /// For calls that do little; commands bring their own limit.
    patience: Duration,
}

impl Agent {
    /// `stream` is connected to the port's socket. Nothing is sent yet.
    pub fn new(stream: UnixStream, host: Host, patience: Duration) -> Result<Self> {
        let wire = Wire::new(stream, host)?;
        Ok(Self { wire, patience })
    }

    /// Writes the last exchanges into `file`, contents and passwords by their length alone.
    #[must_use]
    pub fn written_down(mut self, file: &Path) -> Self {
        self.wire.write_down(Transcript::open(file));
        self
    }

    /// Waits at most `time` for the agent's first answer. `false`: none yet; trouble of the machine is an error.
    pub fn try_open(&mut self, time: Duration) -> Result<bool> {
        match self.wire.open(self.wire.now() + time) {
            Ok(()) => Ok(true),
            Err(Trouble::Late | Trouble::Gone) => Ok(false),
            Err(trouble) => Err(explain("opening the channel", trouble)),
        }
    }

    fn come_back(&mut self, timeout: Duration, deadline: Instant) -> Result<()> {
        self.wire.open(deadline).map_err(|trouble| match trouble {
            Trouble::Gone => {
                Error::new(Kind::Machine, "the guest powered off instead of restarting")
            }
            Trouble::Late => not_back(timeout),
            other => explain("the restart", other),
        })
    }
}

impl Guest for Agent {
    fn run(&mut self, command: &Command, output: &mut dyn FnMut(&[u8])) -> Result<Exit> {
        command.check()?;
        exec::run(&mut self.wire, command, output)
    }

    fn put(&mut self, what: Put<'_>) -> Result<()> {
        match what {
            Put::Bytes { path, bytes } => files::put(&mut self.wire, path, bytes, self.patience),
            Put::Disc(iso) => (self.wire.host.discs)(Some(iso)),
            Put::NoDiscs => (self.wire.host.discs)(None),
        }
    }

    fn get(&mut self, path: &str, limit: usize) -> Result<Option<Vec<u8>>> {
        files::get(&mut self.wire, path, limit, self.patience)
    }

    fn reboot(&mut self, timeout: Duration) -> Result<()> {
        let deadline = self.wire.now() + timeout;
        let mode = Some(GuestShutdownMode::Reboot);
        let asked = self.wire.ask(&guest_shutdown { mode }, deadline);
        let gone = match asked {
            // The agent answers only when it refuses; one that answers nevertheless is believed.
            Ok(_) => self.wire.wait_gone(deadline),
            Err(Trouble::Gone) => Ok(()),
            Err(other) => Err(other),
        };
        match gone {
            Ok(()) => self.come_back(timeout, deadline),
            Err(Trouble::Late) => Err(not_restarted(timeout)),
            Err(other) => Err(explain("the restart", other)),
        }
    }

    fn wait_back(&mut self, timeout: Duration) -> Result<()> {
        let deadline = self.wire.now() + timeout;
        match self.wire.wait_gone(deadline) {
            Ok(()) => self.come_back(timeout, deadline),
            Err(Trouble::Late) => Err(not_restarted(timeout)),
            Err(other) => Err(explain("the restart", other)),
        }
    }

    fn is_there(&mut self) -> Result<bool> {
        if (self.wire.host.port)().off {
            return Err(Ended::PoweredOff.into());
        }
        match self.wire.watch() {
            Ok(()) => Ok(true),
            Err(Trouble::Gone) => Ok(false),
            Err(other) => Err(explain("a look at it", other)),
        }
    }

    fn has_restarted(&mut self) -> bool {
        self.wire.has_restarted()
    }

    fn is_off(&mut self) -> Result<bool> {
        match self.wire.watch() {
            Err(Trouble::Broken(error)) => Err(error),
            _ => Ok((self.wire.host.port)().off),
        }
    }

    fn now(&self) -> Instant {
        self.wire.now()
    }

    fn shut_down(&mut self) -> Result<()> {
        // A refusal comes at once; silence means that it was taken.
        let deadline = self.wire.now() + self.patience.min(Duration::from_secs(3));
        let mode = Some(GuestShutdownMode::Powerdown);
        match self.wire.ask(&guest_shutdown { mode }, deadline) {
            Ok(_) | Err(Trouble::Gone | Trouble::Late) => Ok(()),
            Err(other) => Err(explain("the power-off", other)),
        }
    }
}

/// `doing` fits after "while" and after "refused".
fn explain(doing: &str, trouble: Trouble) -> Error {
    match trouble {
        Trouble::Gone => Error::new(Kind::Machine, format!("the guest went away during {doing}")),
        Trouble::Late => Error::new(
            Kind::Machine,
            format!("the guest agent did not answer in time during {doing}"),
        ),
        Trouble::Refused(words) => {
            Error::new(Kind::Machine, format!("the guest agent refused {doing}")).found(words)
        }
        Trouble::Broken(error) => error,
    }
}
