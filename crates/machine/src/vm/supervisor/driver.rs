//! Interface of a hypervisor to one machine: its observable state and the operations on it.
//!
//! A driver translates the hypervisor's events and answers into these types and executes single
//! commands. Decisions, waiting and reports to the user are left to the `supervisor`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Supervisor;
use crate::guest::Guest;
use crate::vm::bugcheck::KernelCrash;
use crate::vm::observation::MachineObservation;
use winimg_base::error::{Error, Result};

/// One machine of a hypervisor, from its creation until it is stopped.
pub trait MachineDriver: Send + Sync {
    /// Starts execution at the first instruction.
    fn power_on(&self) -> Result<()>;

    /// Reads the machine's state. With `fresh`, a hypervisor that sends no events is queried now.
    fn read_status(&self, fresh: bool) -> Result<MachineStatus>;

    fn load(&self) -> Result<MachineLoad>;

    /// Returns the screen as a PPM.
    fn take_picture(&self) -> Result<Vec<u8>>;

    /// Returns true if the firmware logs its progress.
    fn has_firmware_log(&self) -> bool {
        false
    }

    /// Returns the firmware's events since the last call.
    fn read_firmware_log(&self) -> Result<Vec<FirmwareEvent>> {
        Ok(Vec::new())
    }

    /// Resets the machine, like its reset button. Only called if the firmware has a log.
    fn reset(&self) -> Result<()> {
        Ok(())
    }

    /// Pauses the guest while the host's disk is full. Not called if the hypervisor does that
    /// itself (`SupervisorSettings::room`).
    fn pause(&self) -> Result<()> {
        Ok(())
    }

    /// Resumes a paused guest.
    fn go_on(&self) -> Result<()> {
        Ok(())
    }

    /// Returns true if the hypervisor itself paused the guest because a write found no free space.
    fn found_no_room(&self) -> bool {
        false
    }

    /// Presses the Up key, which is harmless where no key is expected; Enter or Esc could answer a
    /// dialog of Setup.
    fn press_up(&self) -> Result<()>;

    /// Presses the power button. A guest may ignore it and only wake its screen.
    fn press_power_button(&self) -> Result<()>;

    /// Opens the channel to the guest without sending anything. Called before
    /// [`MachineDriver::power_on`].
    fn open_channel(self: Arc<Self>, oversight: Arc<Supervisor>) -> Result<Box<dyn GuestChannel>>;

    /// Returns true if the machine no longer exists. Waits at most `patience` for its end, where
    /// the hypervisor supports waiting.
    fn has_ended(&self, patience: Duration) -> bool;

    /// Returns true if the hypervisor has released the disk after the guest's power-off. Fails if
    /// the disk cannot be relied on.
    fn check_disk_released(&self) -> Result<bool>;

    /// Ends the machine now. Idempotent.
    fn stop(&self);

    /// Builds the error for a machine that the hypervisor stopped. `look` takes a last picture.
    fn describe_halt(
        &self,
        fault: HypervisorFault,
        words: &str,
        look: &dyn Fn() -> MachineObservation,
    ) -> Error;

    /// Builds the error for a machine that no longer exists; `how` comes from
    /// [`MachineState::Gone`].
    fn describe_exit(&self, how: &str) -> Error;

    /// Called with the error of a machine that failed to start.
    fn note_failed_start(&self, _error: &Error) {}
}

/// Channel to the guest until its first answer.
pub trait GuestChannel {
    /// Tries to get the first answer, if an attempt is due. `left` is the time until the timeout.
    /// Problems of the machine are errors.
    fn try_open(&mut self, left: Duration) -> Result<bool>;

    /// Returns the message for a guest that has answered.
    fn describe_success(&self) -> &'static str;

    /// Returns the message for a guest that never answered.
    fn describe_timeout(&self) -> GuestTimeout;

    fn into_guest(self: Box<Self>) -> Box<dyn Guest>;
}

/// Message of a channel for a guest that did not answer in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestTimeout {
    /// Beginning of a sentence that continues with "within 2 h".
    pub fact: &'static str,
    /// State of the guest reported by the hypervisor; replaces the one derived from screen and
    /// drives.
    pub found: Option<String>,
    pub lines: Vec<String>,
}

/// State of a machine that is cheap to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineStatus {
    pub state: MachineState,
    /// Restarts requested by the guest since power-on.
    pub restarts: u32,
    pub link: ChannelLink,
    /// Everything that the hypervisor reports about the machine, for `machine.log`.
    pub log_text: Option<String>,
}

/// The guest's end of its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelLink {
    pub open: bool,
    /// Time of the last change, if the hypervisor reports it.
    pub changed: Option<Instant>,
}

impl Default for ChannelLink {
    fn default() -> Self {
        Self {
            open: true,
            changed: None,
        }
    }
}

/// Activity of the machine since power-on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineLoad {
    /// Bytes read from the install disc.
    pub disc_read: u64,
    /// Bytes written to the disk.
    pub disk_written: u64,
    /// Writes to the disk that failed on the host.
    pub disk_failures: u64,
    /// Bytes read and written on all drives.
    pub transferred: u64,
    /// Processor time that it used or waited for; `None` if the host does not report it.
    pub demand: Option<Duration>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MachineState {
    #[default]
    Running,
    /// Paused until the host's disk has free space. Only set by the supervisor.
    PausedForSpace,
    Stopped(HaltReason),
    Off,
    /// The machine disappeared without a power-off; the text says how.
    Gone(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HaltReason {
    /// A write found no free space on the host's disk. The guest resumes when there is some.
    DiskFull,
    /// The guest's kernel reported a crash.
    Crash(KernelCrash),
    /// A reason specific to the hypervisor, with its own text.
    Hypervisor(HypervisorFault, String),
}

/// Reason the hypervisor stopped a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HypervisorFault {
    /// A drive failed on the host.
    Drive,
    /// The virtualisation itself failed.
    Internal,
    /// The host ran out of disk space or memory.
    NoResources,
    Paused,
    /// The machine was saved (its memory is on disk) and stopped.
    Saved,
    Other,
}

/// Progress of booting, reported by the firmware.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirmwareEvent {
    /// The firmware starts the install disc.
    DiscStarts,
    /// The disc's loader prompts for a key press.
    KeyPrompt,
    /// The firmware starts the disk.
    DiskStarts,
    /// A boot option failed; the text is the firmware's.
    Failed(String),
    /// A boot option failed because Secure Boot rejected its signature.
    Refused(String),
    /// No boot option remains: the firmware stops or opens its shell.
    NothingBoots,
}
