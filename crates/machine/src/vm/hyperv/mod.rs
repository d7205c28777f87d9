//! Hyper-V on this host.
//!
//! `call` and `making` decide what is asked of Hyper-V, `host` has one PowerShell carry it out, `machine` makes a machine, `running` drives it for
//! the supervisor. Builds no PowerShell text from values, installs no role and changes no setting of the host.
//! Sources: Microsoft: Hyper-V module for Windows PowerShell; PowerShell Direct; Hyper-V WMI provider (v2).

pub mod call;
mod disks;
mod errors;
mod figures;
mod host;
mod leftovers;
mod machine;
mod making;
mod picture;
mod probe;
mod running;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use self::host::Host;
use self::probe::Found;
pub use self::probe::{Examined, Need};
use super::supervisor::{Clock, Supervised, Terms, room};
use super::{Accel, Hypervisor, Machine, MachinePlan, Needs, Platform, Probe, Start, lock};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Sink};
use winimg_base::io::{WorkFolder, folder_of};
use winimg_formats::disk::Image;
use winimg_recipe::recipe::Firmware;

/// The log of calls in a machine's run directory.
const LOG: &str = "hyperv.log";

pub struct HyperV {
    host: Arc<Host>,
    found: Mutex<Option<Found>>,
}

impl HyperV {
    /// Starts nothing.
    pub fn find() -> Result<Self> {
        Ok(Self {
            host: Arc::new(Host::new(program())?),
            found: Mutex::default(),
        })
    }

    /// All that a build needs of this host, whether it is there or not.
    pub fn examine(&self, accel: Accel, cancel: &Cancel) -> Result<Examined> {
        check_accel(accel)?;
        probe::examine(&self.host, cancel)
    }

    /// Looks at the host, once.
    fn look(&self, cancel: &Cancel) -> Result<Found> {
        let mut found = lock(&self.found);
        if let Some(found) = &*found {
            return Ok(found.clone());
        }
        Ok(found.insert(probe::ask(&self.host, cancel)?).clone())
    }
}

/// Windows PowerShell, which has the Hyper-V module. Elsewhere the first of that name in `PATH`.
fn program() -> PathBuf {
    let system = std::env::var_os("SystemRoot").filter(|_| cfg!(windows));
    match system {
        Some(root) => PathBuf::from(root).join(r"System32\WindowsPowerShell\v1.0\powershell.exe"),
        None => PathBuf::from("powershell.exe"),
    }
}

impl Hypervisor for HyperV {
    fn platform(&self) -> Platform {
        Platform::HyperV
    }

    fn probe(&self, accel: Accel, _firmware: Firmware, cancel: &Cancel) -> Result<Probe> {
        cancel.check()?;
        check_accel(accel)?;
        Ok(self.look(cancel)?.probe)
    }

    fn check_host(&self, _needs: &Needs, cancel: &Cancel) -> Result<()> {
        self.look(cancel).map(drop)
    }

    fn remove_leftovers(&self, sink: &dyn Sink, cancel: &Cancel) -> Result<()> {
        // Another user's can't be removed, and need not be.
        let _ = WorkFolder::Scripts.remove_left(&std::env::temp_dir(), sink);
        leftovers::remove(&self.host, sink, cancel)
    }

    /// The machine is made and off; `Machine::guest` starts it.
    fn start(
        &self,
        plan: MachinePlan,
        sink: Arc<dyn Sink>,
        cancel: Cancel,
    ) -> Result<Box<dyn Machine>> {
        if matches!(plan.start, Start::Clone { .. }) {
            self.platform().check_clones()?;
        }
        let plan = plan.absolute(self.platform())?;
        let found = self.look(&cancel)?;
        self.host.write_down(&plan.run_dir.join(LOG));
        self.remove_leftovers(sink.as_ref(), &cancel)?;
        room::check(folder_of(&plan.disk), plan.room)?;
        let running = machine::new(&self.host, &plan, &found, &cancel)?;
        let terms = Terms {
            platform: self.platform(),
            slowness: 1,
            clock: Arc::<Clock>::default(),
            room: None,
        };
        let machine = Supervised::new(Arc::new(running), plan, sink, cancel, terms)?;
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

    fn close_disk(&self, disk: Image<'_>, cancel: &Cancel) -> Result<Vec<String>> {
        disks::close(&self.host, disk, cancel)
    }
}

fn check_accel(accel: Accel) -> Result<()> {
    match accel {
        Accel::Auto => Ok(()),
        _ => Err(Error::new(
            Kind::Recipe,
            "Hyper-V has no accelerators to choose from: it is one",
        )
        .at("--accel")
        .expected("auto")),
    }
}
