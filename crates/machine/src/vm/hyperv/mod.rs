//! Hyper-V backend.
//!
//! `call` and `setup_calls` build the calls, `host` executes them in one PowerShell process,
//! `platform` has its row in the table of hypervisors, `doctor` its checks of a host,
//! `create` creates a machine, and `running` implements the driver. Never builds PowerShell text
//! from values, installs no role and changes no setting of the host.
//! Sources: Microsoft: Hyper-V module for Windows PowerShell; PowerShell Direct; Hyper-V WMI
//! provider (v2).

pub mod call;
mod create;
mod disks;
pub mod doctor;
mod errors;
mod host;
mod leftovers;
mod picture;
pub mod platform;
mod probe;
mod running;
mod setup_calls;
mod vm_status;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use self::host::PowerShellHost;
use self::probe::HyperVHost;
pub use self::probe::{HostNeed, HostReport};
use super::supervisor::{PausableClock, SupervisedMachine, SupervisorSettings, disk_space};
use super::{
    Accel, HostRequirements, Hypervisor, HypervisorKind, HypervisorProbe, MachinePlan, StartMode,
    VirtualMachine, lock,
};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Sink};
use winimg_base::io::{WorkFolder, folder_of};
use winimg_formats::disk::DiskImage;
use winimg_recipe::Firmware;

/// Name of the call log in a machine's run directory.
const LOG: &str = "hyperv.log";

pub struct HyperVHypervisor {
    host: Arc<PowerShellHost>,
    found: Mutex<Option<HyperVHost>>,
}

impl HyperVHypervisor {
    /// Does not start PowerShell.
    pub fn find() -> Result<Self> {
        Ok(Self {
            host: Arc::new(PowerShellHost::new(find_program())?),
            found: Mutex::default(),
        })
    }

    /// Checks all requirements of a build on this host.
    fn inspect_host(&self, accel: Accel, cancel: &Cancel) -> Result<HostReport> {
        check_accel(accel)?;
        probe::inspect_host(&self.host, cancel)
    }

    /// Probes the host on the first call.
    fn probe_once(&self, cancel: &Cancel) -> Result<HyperVHost> {
        let mut found = lock(&self.found);
        if let Some(found) = &*found {
            return Ok(found.clone());
        }
        Ok(found.insert(probe::ask(&self.host, cancel)?).clone())
    }
}

/// Returns the path of Windows PowerShell, which has the Hyper-V module; on other systems the name
/// alone, to be found in `PATH`.
fn find_program() -> PathBuf {
    let system = std::env::var_os("SystemRoot").filter(|_| cfg!(windows));
    match system {
        Some(root) => PathBuf::from(root).join(r"System32\WindowsPowerShell\v1.0\powershell.exe"),
        None => PathBuf::from("powershell.exe"),
    }
}

impl Hypervisor for HyperVHypervisor {
    fn platform(&self) -> HypervisorKind {
        HypervisorKind::HyperV
    }

    fn probe(&self, accel: Accel, _firmware: Firmware, cancel: &Cancel) -> Result<HypervisorProbe> {
        cancel.check()?;
        check_accel(accel)?;
        Ok(self.probe_once(cancel)?.probe)
    }

    fn check_host(&self, _needs: &HostRequirements, cancel: &Cancel) -> Result<()> {
        self.probe_once(cancel).map(drop)
    }

    fn remove_leftovers(&self, sink: &dyn Sink, cancel: &Cancel) -> Result<()> {
        // Those of other users cannot be removed.
        let _ = WorkFolder::Scripts.remove_leftovers(&std::env::temp_dir(), sink);
        leftovers::remove(&self.host, sink, cancel)
    }

    /// Creates the machine, which is off; `VirtualMachine::wait_for_guest` starts it.
    fn start(
        &self,
        plan: MachinePlan,
        sink: Arc<dyn Sink>,
        cancel: Cancel,
    ) -> Result<Box<dyn VirtualMachine>> {
        if matches!(plan.start, StartMode::Clone { .. }) {
            self.platform().check_clones()?;
        }
        let plan = plan.resolve_paths(self.platform())?;
        let found = self.probe_once(&cancel)?;
        self.host.write_down(&plan.run_dir.join(LOG));
        self.remove_leftovers(sink.as_ref(), &cancel)?;
        disk_space::check(folder_of(&plan.disk), plan.room)?;
        let running = create::new(&self.host, &plan, &found, &cancel)?;
        let terms = SupervisorSettings {
            platform: self.platform(),
            slowness: 1,
            clock: Arc::<PausableClock>::default(),
            room: None,
        };
        let machine = SupervisedMachine::new(Arc::new(running), plan, sink, cancel, terms)?;
        Ok(Box::new(machine))
    }

    fn create_disk(&self, disk: &Path, bytes: u64, cancel: &Cancel) -> Result<()> {
        disks::create(&self.host, disk, bytes, cancel)
    }

    fn create_disk_over(&self, disk: &Path, parent: &Path, cancel: &Cancel) -> Result<()> {
        disks::create_over(&self.host, disk, parent, cancel)
    }

    fn create_disk_over_image(
        &self,
        _disk: &Path,
        _image: &Path,
        _bytes: u64,
        _cancel: &Cancel,
    ) -> Result<()> {
        self.platform().check_clones()
    }

    fn move_parent(&self, disk: &Path, parent: &Path, cancel: &Cancel) -> Result<()> {
        disks::move_parent(&self.host, disk, parent, cancel)
    }

    fn close_disk(&self, disk: DiskImage<'_>, cancel: &Cancel) -> Result<Vec<String>> {
        disks::close(&self.host, disk, cancel)
    }
}

fn check_accel(accel: Accel) -> Result<()> {
    match accel {
        Accel::Auto => Ok(()),
        _ => Err(
            Error::new(Kind::Recipe, "Hyper-V has no choice of accelerators")
                .at("--accel")
                .expected("auto"),
        ),
    }
}
