//! What is behind a virtual machine: a scripted guest, or a QEMU.
//!
//! An engine outlives the `powershell.exe` that started it, as a virtual machine does on a Windows host: all it knows lies in its folder, where the
//! next process finds it. It judges no cmdlet; what Hyper-V refuses was refused before it is asked.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::{Config, Fault, Guest};

/// The machine as its cmdlets have made it, at `Start-VM`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The virtual machine's GUID, lower case, without braces.
    pub id: String,
    /// 1 (BIOS) or 2 (UEFI).
    pub generation: u32,
    /// Bytes.
    pub memory: u64,
    pub cpus: u32,
    /// The leaf of the disk's chain: a dynamic or differencing VHDX.
    pub disk: PathBuf,
    /// The DVD drives in the order of their controller locations, with what lies in each.
    pub dvds: Vec<Option<PathBuf>>,
    pub boot: Vec<Boot>,
    pub secure_boot: bool,
    /// What `Set-VMComPort` gave the first port, for example `\\.\pipe\winimg-x`.
    pub com1: Option<String>,
}

/// An entry of the firmware's boot order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Boot {
    Disk,
    /// Which of [`Spec::dvds`].
    Dvd(usize),
}

/// What the machine does by itself, apart from what cmdlets make of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Power {
    Running,
    Off,
    Saved,
    Paused,
    /// The host ran out of disk: Hyper-V stops the processors.
    PausedCritical,
}

/// `(Get-VM).Heartbeat`, by Microsoft's names: VMHeartbeatStatus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heartbeat {
    NoContact,
    OkApplicationsUnknown,
}

/// Why PowerShell Direct does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// No session service yet, or no such account or password: "The credential is invalid."
    Credential,
    /// The guest went away: "A remote session might have ended".
    Ended,
    /// Nothing answers for ever: the cmdlet stands.
    Hangs,
    /// The guest's script threw this; the session stays.
    Threw(String),
}

/// Three bytes a pixel: red, green, blue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    pub width: u32,
    pub height: u32,
    pub rgb: Vec<u8>,
}

/// One virtual machine's inside.
pub trait Engine {
    /// Powers it on; the error is the text after "failed to start".
    fn start(&mut self, spec: &Spec) -> Result<(), String>;

    fn state(&mut self) -> Power;

    /// As pulling the plug. Idempotent; the disk is closed when it returns.
    fn turn_off(&mut self);

    /// Changes what lies in drive `slot` of [`Spec::dvds`] while it runs; the error is Hyper-V's text.
    fn set_dvd(&mut self, slot: usize, disc: Option<&Path>) -> Result<(), String>;

    /// The screen; none where no picture can be had.
    fn screen(&mut self) -> Option<Picture>;

    /// A key's press and release, as a Windows virtual-key code.
    fn key(&mut self, code: u32) -> Result<(), String>;

    /// Whether PowerShell Direct takes this account now.
    fn open_session(&mut self, user: &str, password: &str) -> Result<(), SessionError>;

    /// A script of `crates/machine/src/guest/direct/scripts` by its name, with its arguments. Its one output object.
    fn guest(&mut self, call: &str, arguments: &[Value]) -> Result<Value, SessionError>;

    fn heartbeat(&mut self) -> Heartbeat;

    /// Bytes that the guest keeps in memory, seconds since it was started, and per cent of the host's processors: `Get-VM`'s figures.
    fn figures(&mut self) -> Figures;

    /// A fault of the guest's inside; `about` is the call that met it.
    fn suffer(&mut self, fault: &Fault, _about: &str) -> Result<(), String> {
        Err(format!("this guest knows no {:?}", fault.deed))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub uptime: u64,
    pub cpu: u32,
}

/// The engine of one machine. `folder` is its own, exists, and outlives this process.
pub fn open(config: &Config, folder: &Path) -> Result<Box<dyn Engine>, String> {
    match config.guest {
        Guest::Script => Ok(Box::new(crate::script::Scripted::open(config, folder)?)),
        #[cfg(windows)]
        Guest::Qemu => Err("this stand-in starts QEMU on Linux alone".into()),
        #[cfg(unix)]
        Guest::Qemu => Ok(Box::new(crate::qemu::Machine::open(folder))),
    }
}
