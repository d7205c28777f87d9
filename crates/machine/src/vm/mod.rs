//! Virtual machines that Windows is installed on.
//!
//! `qemu` and `hyperv` create and drive them; `supervisor` watches both kinds through its `driver`.
//! This module decides nothing about the guest's content.

pub mod bugcheck;
mod hardware;
pub mod hyperv;
mod image_overlay;
mod observation;
mod platform;
mod purpose;
mod qcow2;
pub mod qemu;
pub mod screen;
pub mod supervisor;
pub mod symptoms;

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::hardware::{
    GuestForward, NetworkAccess, NicModel, PrivateNetwork, StorageController,
};
pub use self::platform::{HostInspection, PlatformSpec, PlatformWording, Refusal};
pub use self::supervisor::BOOT_RESTARTS;
use crate::guest::Guest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Sink, UserControl};
use winimg_base::text::Secret;
use winimg_formats::disk::DiskImage;
pub use winimg_formats::iso::CdImage;
use winimg_recipe::{Firmware, MachineSpec};

/// Accelerator selected with `--accel`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accel {
    #[default]
    Auto,
    Kvm,
    Tcg,
    Hvf,
}

/// Supported hypervisors. Each presents different devices to Windows, so their layers cannot be
/// exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HypervisorKind {
    Qemu,
    HyperV,
}

impl HypervisorKind {
    pub const ALL: [Self; 2] = [Self::Qemu, Self::HyperV];
    /// The default of `--hypervisor`.
    pub const DEFAULT: Self = if cfg!(windows) {
        Self::HyperV
    } else {
        Self::Qemu
    };

    /// Returns everything else that distinguishes it from the others.
    pub fn spec(self) -> &'static PlatformSpec {
        match self {
            Self::Qemu => &qemu::platform::PLATFORM,
            Self::HyperV => &hyperv::platform::PLATFORM,
        }
    }

    /// Returns the absolute path, which stays valid in any working directory of the hypervisor.
    /// Refuses a path that is not Unicode, because it is sent as JSON.
    fn resolve_path(self, path: &Path) -> Result<PathBuf> {
        let whole = std::path::absolute(path).map_err(|e| Error::io("resolve", path, e))?;
        if whole.to_str().is_none() {
            let fact = format!("{self} can't use a path that is not Unicode");
            return Err(Error::new(Kind::Host, fact).at(whole.display()));
        }
        Ok(whole)
    }
}

/// Complete configuration of a machine, fixed before it starts.
#[derive(Clone, Debug)]
pub struct MachinePlan {
    /// For process titles and messages; unique to the build.
    pub name: String,
    pub firmware: Firmware,
    pub secure_boot: bool,
    pub controller: StorageController,
    /// In the hypervisor's own format. Exists, and is empty unless the machine is only booted.
    pub disk: PathBuf,
    /// Bytes that must be free in the disk's folder before the machine starts. A built-in minimum
    /// applies in any case.
    pub room: u64,
    pub cpus: u32,
    /// Bytes.
    pub memory: u64,
    pub network: NetworkAccess,
    /// Adds a virtual TPM. It is empty at the first start; a clone's TPM keeps its state over
    /// power-offs.
    pub tpm: bool,
    /// Password of the guest's built-in Administrator, for hypervisors that log on to the guest.
    pub password: Secret,
    pub start: StartMode,
    /// Private directory (0700) for sockets, firmware variables ([`VARIABLES`]) and logs. Exists;
    /// variables found in it are used, otherwise empty ones are created.
    pub run_dir: PathBuf,
    pub accel: Accel,
    /// Limit from power-on to the agent's first answer.
    pub timeout: Duration,
    /// Limit for a Windows that shows no activity at all.
    pub still_limit: Duration,
}

impl MachinePlan {
    /// Makes all paths absolute.
    fn resolve_paths(mut self, platform: HypervisorKind) -> Result<Self> {
        let mut paths = vec![&mut self.disk, &mut self.run_dir];
        match &mut self.start {
            StartMode::Install {
                install_disc,
                answer_disc,
            } => paths.extend([&mut install_disc.file, answer_disc]),
            StartMode::Boot => {}
            StartMode::Clone { disc, .. } => paths.extend(disc),
        }
        for path in paths {
            *path = platform.resolve_path(path)?;
        }
        Ok(self)
    }
}

/// Name of the firmware variables' file in a machine's `run_dir`.
pub const VARIABLES: &str = "uefi-vars.fd";

/// Reason a machine is started for, with the media it needs.
#[derive(Clone, Debug)]
pub enum StartMode {
    /// Installs Windows on the empty disk.
    Install {
        /// The install medium: an ISO, or the overlay over it that boots without a prompt.
        install_disc: CdImage,
        /// The answer CD. Its drive later takes the payload disc.
        answer_disc: PathBuf,
    },
    /// Boots a disk that contains Windows and its agent. The drives are empty; the payload disc
    /// goes into the answer disc's drive.
    Boot,
    /// Boots a sealed image for the first time. Nothing of the build is attached: no drive for the
    /// install disc and no channel to a guest agent.
    Clone {
        /// Disc that the platform passes to its machines; `None` leaves the drive empty.
        disc: Option<PathBuf>,
        /// Machine UUID reported by the firmware.
        uuid: String,
    },
}

impl StartMode {
    /// Returns the install disc and the answer disc of an installation.
    fn install_discs(&self) -> Option<(&CdImage, &Path)> {
        match self {
            Self::Install {
                install_disc,
                answer_disc,
            } => Some((install_disc, answer_disc)),
            Self::Boot | Self::Clone { .. } => None,
        }
    }
}

/// Requirements of a host besides the hypervisor itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRequirements {
    pub firmware: Firmware,
    pub secure_boot: bool,
    pub tpm: bool,
}

impl From<&MachineSpec> for HostRequirements {
    fn from(spec: &MachineSpec) -> Self {
        Self {
            firmware: spec.firmware,
            secure_boot: spec.secure_boot,
            tpm: spec.tpm,
        }
    }
}

/// Capabilities of the host, as shown by `doctor` and the manifest.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HypervisorProbe {
    /// `QEMU 7.2.22`
    pub version: String,
    /// `kvm`, `tcg` …
    pub accel: String,
    /// Reasons a better accelerator was not used; always shown.
    pub remarks: Vec<String>,
    /// Factor for deadlines: 1 with hardware acceleration.
    pub slowness: u32,
}

/// Backend that starts machines.
pub trait Hypervisor {
    fn platform(&self) -> HypervisorKind;

    /// Probes the host. Cheap enough to call once per build (a boot canary of about a second).
    fn probe(&self, accel: Accel, firmware: Firmware, cancel: &Cancel) -> Result<HypervisorProbe>;

    /// Refuses a host without this hypervisor or without something its machines need. Called before
    /// anything is fetched.
    fn check_host(&self, _needs: &HostRequirements, _cancel: &Cancel) -> Result<()> {
        Ok(())
    }

    /// Stops, removes and reports the machines of killed builds, where machines outlive builds.
    fn remove_leftovers(&self, _sink: &dyn Sink, _cancel: &Cancel) -> Result<()> {
        Ok(())
    }

    /// Starts the machine. It ends when the returned value is dropped, or with this process.
    fn start(
        &self,
        plan: MachinePlan,
        sink: Arc<dyn Sink>,
        cancel: Cancel,
    ) -> Result<Box<dyn VirtualMachine>>;

    /// Creates an empty disk. `bytes` is a whole number of MiB.
    fn create_disk(&self, disk: &Path, bytes: u64, cancel: &Cancel) -> Result<()> {
        qcow2::create(disk, bytes, cancel)
    }

    /// Creates an overlay over the layer's disk at `parent`, a path relative to the new disk's
    /// folder.
    fn create_disk_over(&self, disk: &Path, parent: &Path, cancel: &Cancel) -> Result<()> {
        qcow2::create_over(disk, parent, cancel)
    }

    /// Creates an overlay of `bytes` over `image`, a finished image of any supported format. The
    /// image is neither copied nor written. Refuses an image that refers to other files or is
    /// larger.
    fn create_disk_over_image(
        &self,
        disk: &Path,
        image: &Path,
        bytes: u64,
        cancel: &Cancel,
    ) -> Result<()> {
        image_overlay::create(disk, image, bytes, cancel)
    }

    /// Changes the recorded path of a moved disk's parent layer. The content does not change.
    fn move_parent(&self, disk: &Path, parent: &Path, cancel: &Cancel) -> Result<()> {
        qcow2::rename_backing(disk, parent, cancel)
    }

    /// Checks the disk after power-off and zeroes its free space. Returns remarks about what could
    /// not be zeroed.
    fn close_disk(&self, disk: DiskImage<'_>, cancel: &Cancel) -> Result<Vec<String>> {
        qcow2::close(disk, cancel)
    }
}

/// A running machine. Dropping it stops it at once.
pub trait VirtualMachine: Send {
    /// Waits until Windows is installed or booted and its guest agent answers. A Setup stuck at a
    /// screen, a restart loop, a crash or a power-off is reported as such, not as a timeout.
    fn wait_for_guest(&mut self) -> Result<Box<dyn Guest>>;

    /// Waits until a clone is idle: no change on its screen, drives and processor for `quiet`,
    /// apart from a clock that changes once a minute. `timeout` counts from the call. Fails like
    /// [`VirtualMachine::wait_for_guest`], and for a screen that has waited for input for the
    /// plan's `still_limit`.
    fn wait_settled(&mut self, quiet: Duration, timeout: Duration) -> SettleOutcome;

    /// Presses the power button without waiting for the effect. A Windows whose screen is off may
    /// only wake it, and react to the next press.
    fn press_power_button(&mut self) -> Result<()>;

    /// Waits until the guest has powered off and the process has exited; the disk is closed then.
    fn wait_off(&mut self, timeout: Duration) -> Result<()>;

    /// Ends it now. Idempotent.
    fn stop(&mut self);

    /// Writes a PNG of the screen.
    fn take_screenshot(&mut self, file: &Path) -> Result<()>;

    /// Returns a handle that takes screenshots from any thread. It fails once the machine has
    /// ended.
    fn camera(&self) -> ScreenCamera;

    /// Switch that is on while a person controls the machine.
    fn attended(&self) -> UserControl {
        UserControl::default()
    }
}

/// Result of waiting for a clone to become idle.
#[derive(Debug)]
pub struct SettleOutcome {
    /// Restarts requested by the guest since power-on.
    pub restarts: u32,
    /// Time from power-on until the machine became idle.
    pub after: Result<Duration>,
}

/// Writes the screen into a file: a PPM if the extension is `ppm`, otherwise a PNG.
pub type ScreenCamera = Box<dyn Fn(&Path) -> Result<()> + Send + Sync>;

/// Locks the mutex even if it is poisoned: the state of a panicked thread is used unchanged.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the last `count` non-empty lines of a log from byte `start`. An unreadable log has none.
fn last_lines(path: &Path, start: u64, count: usize) -> Vec<String> {
    let bytes = read_tail(path, start).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    let first = lines.len().saturating_sub(count);
    lines[first..].iter().map(ToString::to_string).collect()
}

/// Reads at most the last 8 KiB of a file, and nothing before byte `start`.
fn read_tail(path: &Path, start: u64) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(8192).max(start)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
