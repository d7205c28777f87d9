//! What a hypervisor offers of one machine: what can be seen of it from outside, and what can be done to it.
//!
//! A driver translates the hypervisor's own events and answers into these types and carries out single orders. It judges nothing, waits for
//! nothing and reports nothing to the user: that is for the `supervisor`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::bugcheck::Panic;
use super::seen::Seen;
use crate::guest::{Ended, Guest};
use winimg_base::error::{Error, Result};

/// One machine of a hypervisor, from the moment it is made until it is stopped.
pub trait Driver: Send + Sync {
    /// Lets the machine go, from its first instruction on.
    fn power_on(&self) -> Result<()>;

    /// What the machine is doing. `fresh`: the hypervisor is asked now, where it sends no events.
    fn glance(&self, fresh: bool) -> Result<Glance>;

    fn load(&self) -> Result<Load>;

    /// The screen as a PPM.
    fn picture(&self) -> Result<Vec<u8>>;

    /// The firmware, where it can be followed.
    fn firmware(&self) -> Option<&dyn Boot> {
        None
    }

    /// Presses the key Up: it does nothing where it is not waited for, while Enter or Esc could answer a box of Setup.
    fn press_up(&self) -> Result<()>;

    /// Presses the power button. A guest may only wake its screen for it.
    fn press_power_button(&self) -> Result<()>;

    /// The way to the guest, before anything is sent on it. Called before [`Driver::power_on`].
    fn channel(self: Arc<Self>, oversight: Arc<dyn Oversight>) -> Result<Box<dyn Channel>>;

    /// Whether there is no machine any more; waits for its end at most `patience`, where the end can be waited for.
    fn has_ended(&self, patience: Duration) -> bool;

    /// After the guest's own power-off. `true`: the hypervisor has let go of the disk; `false`: not yet. A disk that can't be relied on is an
    /// error.
    fn settle(&self) -> Result<bool>;

    /// Ends the machine now. Idempotent.
    fn stop(&self);

    /// The error of a machine that the hypervisor stopped for a reason of its own. `look` takes a last picture.
    fn halted(&self, fault: Fault, words: &str, look: &dyn Fn() -> Seen) -> Error;

    /// The error of a machine that is there no more; `how` is that of [`State::Gone`].
    fn gone(&self, how: &str) -> Error;

    /// Told the error of a machine that did not come up.
    fn doubt(&self, _error: &Error) {}
}

/// A firmware that says what it does.
pub trait Boot {
    /// What it said since the last call.
    fn log(&self) -> Result<Vec<Line>>;

    /// Begins its work anew, as the machine's reset button would.
    fn reset(&self) -> Result<()>;
}

/// A driver whose guest can be made to wait while the host's disk is full.
pub trait Hold: Send + Sync {
    fn hold(&self) -> Result<()>;

    fn go_on(&self) -> Result<()>;

    /// The hypervisor itself stopped the guest, because a write found no room.
    fn found_no_room(&self) -> bool;
}

/// What a guest's channel needs of the one that watches the machine.
pub trait Oversight: Send + Sync {
    /// An error unless the machine runs, is found well and nobody interrupted. `fresh`: the hypervisor is asked now.
    fn check(&self, fresh: bool) -> Result<(), Ended>;

    /// Told when the guest is asked (`true`), and when anything comes from it.
    fn talked(&self, asked: bool);

    /// The time that deadlines are measured by: it stands while the machine waits for room.
    fn now(&self) -> Instant;

    /// Since power-on, by the same time.
    fn elapsed(&self) -> Duration;
}

/// The way to the guest, until its first answer.
pub trait Channel {
    /// An attempt at the first answer, where one is due. `left`: until the machine is too late. Trouble of the machine is an error.
    fn try_open(&mut self, left: Duration) -> Result<bool>;

    /// What the user reads when the guest has answered.
    fn opened(&self) -> &'static str;

    /// What is said of a guest that never answered.
    fn late(&self) -> Late;

    fn into_guest(self: Box<Self>) -> Box<dyn Guest>;
}

/// A guest that did not answer in time, as its channel words it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Late {
    /// Fits before "within 2 h".
    pub fact: &'static str,
    /// What the hypervisor knows of the guest, in place of what its screen and its drives show.
    pub found: Option<String>,
    pub lines: Vec<String>,
}

/// A look at a machine that costs next to nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Glance {
    pub state: State,
    /// Restarts that the guest asked for, since power-on.
    pub restarts: u32,
    pub link: Link,
    /// All that the hypervisor says of the machine, for a log of its own.
    pub words: Option<String>,
}

/// The guest's end of its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub open: bool,
    /// When it opened or closed last, where the hypervisor says so.
    pub changed: Option<Instant>,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            open: true,
            changed: None,
        }
    }
}

/// What the machine has done since power-on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Bytes read from the install disc.
    pub disc_read: u64,
    /// Bytes written to the disk.
    pub disk_written: u64,
    /// Writes to the disk that failed on the host.
    pub disk_failures: u64,
    /// Bytes moved on all drives.
    pub moved: u64,
    /// Processor time that it used or waited for; `None` where the host does not say.
    pub demand: Option<Duration>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    #[default]
    Running,
    /// It stands until there is room on the host's disk. Said by the supervisor alone.
    Held,
    Stopped(Halt),
    Off,
    /// There is no machine any more, without a power-off; how it went.
    Gone(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// A write found no room on the host's disk: it goes on when there is some.
    NoRoom,
    /// The guest's kernel crashed and said so.
    Crash(Panic),
    /// A reason of the hypervisor's own, with its words for it.
    Own(Fault, String),
}

/// What is wrong with a machine that its hypervisor stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A drive failed on the host.
    Drive,
    /// The virtualisation itself failed.
    Internal,
    /// The host has no disk or memory left for it.
    NoResources,
    Paused,
    /// Its memory was saved and it was ended.
    Saved,
    Other,
}

/// What a firmware says about where booting has got to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// It hands over to the install disc.
    DiscStarts,
    /// The disc's loader asks for a key.
    KeyPrompt,
    /// It hands over to the disk.
    DiskStarts,
    /// An option was tried in vain, as the firmware words it.
    Failed(String),
    /// The same, because Secure Boot takes no program that none of its keys has signed.
    Refused(String),
    /// Nothing is left to try: the firmware stops or opens its own shell.
    NothingBoots,
}
