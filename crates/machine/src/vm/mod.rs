//! Machines that Windows is installed on.
//!
//! `qemu` and `hyperv` make them and drive them (`driver`), `supervisor` watches either. This module decides nothing about the guest's content.

pub mod bugcheck;
pub mod driver;
mod hardware;
pub mod hyperv;
mod limits;
mod over_image;
mod qcow2;
#[cfg(unix)]
pub mod qemu;
mod reading;
pub mod screen;
mod seen;
pub mod supervisor;

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::hardware::{Controller, Forward, Network, Nic, OwnNetwork};
pub use self::limits::lacks_agent;
pub use self::supervisor::BOOT_RESTARTS;
use crate::guest::Guest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Attended, Cancel, Sink};
use winimg_base::text::Secret;
use winimg_formats::disk::{DiskForm, Image};
pub use winimg_formats::iso::Disc;
use winimg_recipe::recipe::{Firmware, MachineSpec};

/// What the user asked for with `--accel`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accel {
    #[default]
    Auto,
    Kvm,
    Tcg,
    Hvf,
}

/// The hypervisors. Windows finds other devices under each, so a layer of the one is none of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    Qemu,
    HyperV,
}

impl Platform {
    /// As `--hypervisor`, layer keys and manifests name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Qemu => "qemu",
            Self::HyperV => "hyperv",
        }
    }

    pub fn disk_form(self) -> DiskForm {
        match self {
            Self::Qemu => DiskForm::Qcow2,
            Self::HyperV => DiskForm::Vhdx,
        }
    }

    /// A path as the hypervisor may keep it, whatever folder it works in. One that is no Unicode is refused: it travels as
    /// JSON.
    fn absolute(self, path: &Path) -> Result<PathBuf> {
        let whole = std::path::absolute(path).map_err(|e| Error::io("resolve", path, e))?;
        if whole.to_str().is_none() {
            let fact = format!("{self} can't use a path that is not Unicode");
            return Err(Error::new(Kind::Host, fact).at(whole.display()));
        }
        Ok(whole)
    }
}

/// A machine, decided whole before it starts.
#[derive(Clone, Debug)]
pub struct MachinePlan {
    /// For process titles and messages; unique to the build.
    pub name: String,
    pub firmware: Firmware,
    pub secure_boot: bool,
    pub controller: Controller,
    /// In the hypervisor's own form; exists, and is empty unless it is only booted.
    pub disk: PathBuf,
    /// Bytes that have to be free where the disk lies before it starts; a floor of its own holds in any case.
    pub room: u64,
    pub cpus: u32,
    /// Bytes.
    pub memory: u64,
    pub network: Network,
    /// A virtual one, which holds nothing when the machine starts; a clone's keeps what it held at the clone's last power-off.
    pub tpm: bool,
    /// Of the guest's built-in Administrator. For hypervisors that have to log on to reach the guest.
    pub password: Secret,
    pub start: Start,
    /// A private directory (0700) for sockets, firmware variables ([`VARIABLES`]) and logs. Exists; variables that lie
    /// in it are taken, otherwise empty ones are made there.
    pub run_dir: PathBuf,
    pub accel: Accel,
    /// Power-on to the agent's first answer.
    pub timeout: Duration,
    /// How long Windows may stand entirely still.
    pub still_limit: Duration,
}

impl MachinePlan {
    /// With paths that the hypervisor may keep.
    fn absolute(mut self, platform: Platform) -> Result<Self> {
        let mut paths = vec![&mut self.disk, &mut self.run_dir];
        match &mut self.start {
            Start::Install {
                install_disc,
                answer_disc,
            } => paths.extend([&mut install_disc.file, answer_disc]),
            Start::Boot => {}
            Start::Clone { disc, .. } => paths.extend(disc),
        }
        for path in paths {
            *path = platform.absolute(path)?;
        }
        Ok(self)
    }
}

/// The firmware's variables in a machine's `run_dir`.
pub const VARIABLES: &str = "uefi-vars.fd";

/// What a machine is started for.
#[derive(Clone, Debug)]
pub enum Start {
    /// Windows is installed on the empty disk.
    Install {
        /// The install medium: an ISO, or the overlay over it that boots without a prompt.
        install_disc: Disc,
        /// The answer CD. Its drive later takes the payload disc.
        answer_disc: PathBuf,
    },
    /// The disk holds Windows and its agent. The drives are empty; the answer disc's takes the payload disc.
    Boot,
    /// The disk is a sealed image's, which starts for the first time. Nothing of the build is there: no drive for the install disc, and no
    /// channel to a guest agent.
    Clone {
        /// What the platform hands over on a disc; otherwise the drive is empty.
        disc: Option<PathBuf>,
        /// The machine's own UUID, as its firmware says it.
        uuid: String,
    },
}

impl Start {
    /// The install disc and the answer disc, where Windows is installed.
    fn discs(&self) -> Option<(&Disc, &Path)> {
        match self {
            Self::Install {
                install_disc,
                answer_disc,
            } => Some((install_disc, answer_disc)),
            Self::Boot | Self::Clone { .. } => None,
        }
    }
}

/// What a host must have beside the hypervisor itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    pub firmware: Firmware,
    pub secure_boot: bool,
    pub tpm: bool,
}

impl From<&MachineSpec> for Needs {
    fn from(spec: &MachineSpec) -> Self {
        Self {
            firmware: spec.firmware,
            secure_boot: spec.secure_boot,
            tpm: spec.tpm,
        }
    }
}

/// What the host can do, as `doctor` and the manifest show it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Probe {
    /// `QEMU 7.2.22`
    pub version: String,
    /// `kvm`, `tcg` …
    pub accel: String,
    /// Why a better accelerator was not taken; shown loudly.
    pub remarks: Vec<String>,
    /// Multiply deadlines by this: 1 with hardware acceleration.
    pub slowness: u32,
}

/// Something that starts machines.
pub trait Hypervisor {
    fn platform(&self) -> Platform;

    /// Looks at the host. Cheap enough to call once a build (a boot canary of a second or so).
    fn probe(&self, accel: Accel, firmware: Firmware, cancel: &Cancel) -> Result<Probe>;

    /// Refuses a host that has no such hypervisor, or can't give its machines what they need. Asked before anything is fetched.
    fn check_host(&self, _needs: &Needs, _cancel: &Cancel) -> Result<()> {
        Ok(())
    }

    /// Ends and removes the machines of builds that were killed, where these outlive them, and says so.
    fn remove_leftovers(&self, _sink: &dyn Sink, _cancel: &Cancel) -> Result<()> {
        Ok(())
    }

    /// Starts the machine; from here on it ends with the value it returns, or with this process.
    fn start(
        &self,
        plan: MachinePlan,
        sink: Arc<dyn Sink>,
        cancel: Cancel,
    ) -> Result<Box<dyn Machine>>;

    /// Makes an empty disk. `bytes` is a whole number of MiB.
    fn create_disk(&self, disk: &Path, bytes: u64, cancel: &Cancel) -> Result<()> {
        qcow2::create(disk, bytes, cancel)
    }

    /// Makes a disk that holds what the layer holds at `parent`, as the disk's folder sees it.
    fn create_disk_over(&self, disk: &Path, parent: &Path, cancel: &Cancel) -> Result<()> {
        qcow2::create_over(disk, parent, cancel)
    }

    /// Makes a disk that begins as `image`, a finished one of any format that is read here, and grows to `bytes`. Not a byte of the image is copied
    /// or written. Refused: an image that names other files, or is larger.
    fn create_disk_over_image(
        &self,
        disk: &Path,
        image: &Path,
        bytes: u64,
        cancel: &Cancel,
    ) -> Result<()> {
        over_image::create(disk, image, bytes, cancel)
    }

    /// Says where the layer below a moved disk is; not a byte of content changes.
    fn move_parent(&self, disk: &Path, parent: &Path, cancel: &Cancel) -> Result<()> {
        qcow2::rename_backing(disk, parent, cancel)
    }

    /// After the power-off: looks whether the disk is whole, and zeroes what no file has. Gives what could not be zeroed, in
    /// words.
    fn close_disk(&self, disk: Image<'_>, cancel: &Cancel) -> Result<Vec<String>> {
        qcow2::close(disk, cancel)
    }
}

/// A running machine. Dropping it stops it at once.
pub trait Machine: Send {
    /// Waits until Windows is installed, or booted, as far as its guest agent answering. A Setup that stopped at a screen, a loop
    /// of restarts, a crash or a machine that powered off is an error that names it, never a timeout where it was seen.
    fn guest(&mut self) -> Result<Box<dyn Guest>>;

    /// Waits until a clone has come to rest: its screen, its drives and its processor have been quiet for `quiet`, but for a clock that goes on
    /// by a minute. `timeout`: from the call on. An error that names it: what [`Machine::guest`] names, and a screen that waits for a person, which
    /// is named as soon as it has stood for the plan's `still_limit`.
    fn settle(&mut self, quiet: Duration, timeout: Duration) -> Settled;

    /// Presses the power button, without waiting for what comes of it. Windows whose screen is off may only wake it, and takes the next one.
    fn press_power_button(&mut self) -> Result<()>;

    /// Waits for the guest's own power-off, and for the process to be gone: the disk is then closed.
    fn wait_off(&mut self, timeout: Duration) -> Result<()>;

    /// Ends it now. Idempotent.
    fn stop(&mut self);

    /// Writes a PNG of the screen.
    fn screenshot(&mut self, file: &Path) -> Result<()>;

    /// Takes pictures from any thread while the machine is busy; once the machine has ended, each is an error.
    fn camera(&self) -> Camera;

    /// Told when a person takes the machine over and gives it back.
    fn attended(&self) -> Attended {
        Attended::default()
    }
}

/// How a clone came to rest, or did not.
#[derive(Debug)]
pub struct Settled {
    /// Restarts that the guest asked for, since power-on.
    pub restarts: u32,
    /// From power-on until nothing moved any more.
    pub after: Result<Duration>,
}

/// Writes the screen into a file: a PPM when its name ends so, a PNG otherwise.
pub type Camera = Box<dyn Fn(&Path) -> Result<()> + Send + Sync>;

/// What a thread that panicked leaves behind is used as it is.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last `count` lines of a log from `start` on, without an error: a log that can't be read has none.
fn last_lines(path: &Path, start: u64, count: usize) -> Vec<String> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(8192).max(start)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    let first = lines.len().saturating_sub(count);
    lines[first..].iter().map(ToString::to_string).collect()
}
