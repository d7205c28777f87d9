//! [`MachineDriver`] for an existing Hyper-V machine.
//!
//! Translates the driver's operations to calls. Decides nothing.

mod channel;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::channel::SessionChannel;
use super::call::CmdletCall;
use super::errors::{CallFailure, explain};
use super::host::PowerShellHost;
use super::picture;
use super::setup_calls::{self, PAYLOAD, VM};
use super::vm_status::{self, STATUS_PROPERTIES, VmStatus};
use crate::vm::observation::MachineObservation;
use crate::vm::supervisor::Supervisor;
use crate::vm::supervisor::driver::{
    ChannelLink, GuestChannel, HypervisorFault, MachineDriver, MachineLoad, MachineState,
    MachineStatus,
};
use crate::vm::{HypervisorKind, MachinePlan, lock};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::text::Secret;

/// Number of consecutive status queries that may fail before that is an error.
const MAX_FAILED_QUERIES: u32 = 3;
/// Limit for a status query on a busy host.
const QUERY_TIMEOUT: Duration = Duration::from_secs(60);
/// Key code of Up (Microsoft: Virtual-Key Codes, VK_UP).
const UP: u64 = 0x26;
/// Limit for turning the machine off and removing it.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(120);

pub struct HyperVMachine {
    pub host: Arc<PowerShellHost>,
    pub id: String,
    pub cancel: Cancel,
    /// Password of the guest's Administrator.
    pub password: Secret,
    name: String,
    disk: PathBuf,
    processors: u64,
    /// Positions of the DVD drives, by the names of their objects in the PowerShell process.
    drives: Vec<(&'static str, Value)>,
    /// Generation of the PowerShell process that holds the drive objects.
    drives_generation: AtomicU32,
    status: Mutex<(VmStatus, Option<Instant>)>,
    failed_queries: Mutex<(u32, Option<CallFailure>)>,
    removed: AtomicBool,
}

impl HyperVMachine {
    pub fn new(
        host: Arc<PowerShellHost>,
        plan: &MachinePlan,
        id: String,
        name: String,
        drives: Vec<(&'static str, Value)>,
        processors: u64,
        cancel: Cancel,
    ) -> Result<Self> {
        let generation = host.generation(&cancel);
        let generation = generation.map_err(|error| explain("create the machine", &error))?;
        Ok(Self {
            drives_generation: AtomicU32::new(generation),
            host,
            id,
            name,
            cancel,
            password: plan.password.clone(),
            disk: plan.disk.clone(),
            processors,
            drives,
            status: Mutex::default(),
            failed_queries: Mutex::default(),
            removed: AtomicBool::new(false),
        })
    }

    /// Executes a call whose failure ends the build.
    fn order(&self, doing: &str, call: &CmdletCall) -> Result<Vec<Value>> {
        self.host.order(doing, call, &self.cancel)
    }

    /// Queries Hyper-V. A single failure is ignored: the previous status remains.
    pub fn refresh(&self) -> VmStatus {
        let call = CmdletCall::new(r"Hyper-V\Get-VM")
            .with_text("Id", &self.id)
            .select(&STATUS_PROPERTIES)
            .with_patience(QUERY_TIMEOUT);
        let answer = self.host.call(&call, &self.cancel);
        let mut guard = lock(&self.status);
        let (status, at) = &mut *guard;
        match answer {
            Ok(answer) => {
                let now = Instant::now();
                let since = at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
                *at = Some(now);
                let answer = answer.into_iter().next().unwrap_or_default();
                status.take(&answer, since, self.processors);
                *lock(&self.failed_queries) = (0, None);
            }
            Err(CallFailure::Interrupted) => {}
            Err(error) => {
                if matches!(error, CallFailure::Refused(_)) && self.is_gone() {
                    status.state = MachineState::Gone("the machine disappeared".into());
                }
                let mut failed = lock(&self.failed_queries);
                *failed = (failed.0 + 1, Some(error));
            }
        }
        status.clone()
    }

    fn is_gone(&self) -> bool {
        is_gone(&self.host, &self.id, &self.cancel)
    }

    pub fn figures(&self) -> VmStatus {
        lock(&self.status).0.clone()
    }

    fn is_removed(&self) -> bool {
        self.removed.load(Ordering::SeqCst)
    }

    /// Inserts an ISO into the payload drive, or empties all drives.
    pub fn change_discs(&self, iso: Option<&Path>) -> Result<()> {
        self.keep_drives()?;
        if let Some(iso) = iso {
            let iso = HypervisorKind::HyperV.resolve_path(iso)?;
            let change = setup_calls::change_disc(PAYLOAD, Some(&iso));
            return self
                .order("insert a disc into the machine", &change)
                .map(|_| ());
        }
        for (drive, _) in self.drives.iter().rev() {
            let change = setup_calls::change_disc(drive, None);
            self.order("eject a disc of the machine", &change)?;
        }
        Ok(())
    }

    /// Removes the drives of a machine that is off.
    fn remove_drives(&self) -> Result<()> {
        self.keep_drives()?;
        for (drive, _) in &self.drives {
            let remove =
                CmdletCall::new(r"Hyper-V\Remove-VMDvdDrive").with_kept("VMDvdDrive", drive);
            self.order("remove a drive of the machine", &remove)?;
        }
        Ok(())
    }

    /// A new process has no kept objects: finds the drives again by their positions.
    fn keep_drives(&self) -> Result<()> {
        let generation = self.host.generation(&self.cancel);
        let generation =
            generation.map_err(|error| explain("find the machine's drives", &error))?;
        if self.drives_generation.load(Ordering::SeqCst) == generation {
            return Ok(());
        }
        for (drive, place) in &self.drives {
            let mut find = CmdletCall::new(r"Hyper-V\Get-VMDvdDrive").with_kept("VM", VM);
            for name in setup_calls::DRIVE {
                find = find.with_number(name, place[name].as_u64().unwrap_or(0));
            }
            self.order("find the machine's drives", &find.keep(drive))?;
        }
        self.drives_generation.store(generation, Ordering::SeqCst);
        Ok(())
    }

    /// Fails if a checkpoint exists: the last writes would be in its .avhdx file, not in the disk
    /// that is sealed.
    fn no_checkpoint(&self) -> Result<()> {
        let find = CmdletCall::new(r"Hyper-V\Get-VMHardDiskDrive")
            .with_kept("VM", VM)
            .select(&["Path"]);
        let found = self.order("read the machine's disk", &find)?;
        let path = found.first().and_then(|disk| disk["Path"].as_str());
        let path = path.unwrap_or_default();
        let extension = path.rsplit('.').next().unwrap_or_default();
        if extension.eq_ignore_ascii_case("avhdx") {
            return Err(Error::new(
                Kind::Machine,
                "another program created a checkpoint of the machine",
            )
            .at(path)
            .expected(self.disk.display())
            .cure(
                "do not change machines whose names begin with winimg-, \
                 and exclude them from backups, which create checkpoints",
            ));
        }
        Ok(())
    }
}

impl MachineDriver for HyperVMachine {
    fn power_on(&self) -> Result<()> {
        let call = CmdletCall::new(r"Hyper-V\Start-VM").with_kept("VM", VM);
        self.order("start the machine", &call).map(|_| ())
    }

    fn read_status(&self, fresh: bool) -> Result<MachineStatus> {
        if self.is_removed() {
            return Ok(MachineStatus {
                state: MachineState::Gone("the machine was removed".into()),
                ..MachineStatus::default()
            });
        }
        let status = if fresh {
            self.refresh()
        } else {
            self.figures()
        };
        if let (MachineState::Running, (MAX_FAILED_QUERIES.., Some(error))) =
            (&status.state, &*lock(&self.failed_queries))
        {
            return Err(explain("report the machine's state", error));
        }
        Ok(MachineStatus {
            log_text: Some(status.describe()),
            state: status.state,
            restarts: status.restarts,
            link: ChannelLink::default(),
        })
    }

    /// The disk's file grows as the guest writes; Hyper-V does not report reads.
    fn load(&self) -> Result<MachineLoad> {
        let written = std::fs::metadata(&self.disk).map_or(0, |found| found.len());
        Ok(MachineLoad {
            disk_written: written,
            transferred: written,
            demand: Some(self.figures().demand),
            ..MachineLoad::default()
        })
    }

    fn take_picture(&self) -> Result<Vec<u8>> {
        if self.is_removed() {
            return Err(no_picture());
        }
        let call = CmdletCall::new("script:screen")
            .with_text("VmId", &self.id)
            .with_number("Width", picture::WIDTH)
            .with_number("Height", picture::HEIGHT)
            .select(&["*"])
            .with_patience(QUERY_TIMEOUT);
        let answer = self
            .host
            .call(&call, &self.cancel)
            .map_err(|_| no_picture())?;
        answer
            .first()
            .and_then(picture::to_ppm)
            .ok_or_else(no_picture)
    }

    fn press_up(&self) -> Result<()> {
        let call = CmdletCall::new("script:key")
            .with_text("VmId", &self.id)
            .with_number("Key", UP)
            .select(&["*"]);
        self.order("press a key", &call).map(|_| ())
    }

    /// Only clones are shut down with the power button, and Hyper-V starts no clones.
    fn press_power_button(&self) -> Result<()> {
        Err(no_power_button())
    }

    fn open_channel(self: Arc<Self>, oversight: Arc<Supervisor>) -> Result<Box<dyn GuestChannel>> {
        Ok(Box::new(SessionChannel::new(self, &oversight)))
    }

    /// Hyper-V sends no event when a machine ends; the status queries notice it.
    fn has_ended(&self, _patience: Duration) -> bool {
        self.is_removed()
    }

    /// Removes the machine, which releases its disk.
    fn check_disk_released(&self) -> Result<bool> {
        self.no_checkpoint()?;
        self.remove_drives()?;
        self.stop();
        Ok(true)
    }

    /// Turns the machine off and removes it, but keeps its disk. Cannot be interrupted.
    fn stop(&self) {
        if !self.removed.swap(true, Ordering::SeqCst) {
            remove(&self.host, &self.id);
        }
    }

    fn describe_halt(
        &self,
        fault: HypervisorFault,
        words: &str,
        look: &dyn Fn() -> MachineObservation,
    ) -> Error {
        look().attach_screen(vm_status::describe_halt(fault, words))
    }

    fn describe_exit(&self, _how: &str) -> Error {
        if self.is_removed() {
            Error::new(Kind::Machine, "the machine was stopped")
        } else {
            vm_status::describe_vanished(&self.name)
        }
    }
}

fn no_power_button() -> Error {
    Error::new(Kind::Machine, "Hyper-V's machines have no power button")
        .cure("shut Windows down through its guest session")
}

fn no_picture() -> Error {
    Error::new(Kind::Machine, "Hyper-V returned no screenshot")
}

/// Returns true if Hyper-V answers and does not list the machine. Error messages are localized and
/// cannot be compared.
fn is_gone(host: &PowerShellHost, id: &str, cancel: &Cancel) -> bool {
    let list = CmdletCall::new(r"Hyper-V\Get-VM")
        .select(&["Id"])
        .with_patience(QUERY_TIMEOUT);
    host.call(&list, cancel).is_ok_and(|all| {
        let ids = all.iter().filter_map(|vm| vm["Id"].as_str());
        !ids.into_iter().any(|found| found.eq_ignore_ascii_case(id))
    })
}

/// Turns a machine off and removes it, in at most three attempts: Hyper-V may be busy with it.
pub fn remove(host: &PowerShellHost, id: &str) -> bool {
    let never = Cancel::default();
    let call = |call: CmdletCall| host.call(&call.with_patience(REMOVE_TIMEOUT), &never);
    for attempt in 0..3 {
        if attempt > 0 {
            let _ = never.sleep(Duration::from_secs(1));
        }
        let found = call(
            CmdletCall::new(r"Hyper-V\Get-VM")
                .with_text("Id", id)
                .select(&["State"])
                .keep("leaving"),
        );
        let Ok(found) = found else {
            if is_gone(host, id, &never) {
                return true;
            }
            continue;
        };
        let state = found.first().map(|vm| vm["State"].clone());
        if state != Some(json!("Off")) {
            let off = CmdletCall::new(r"Hyper-V\Stop-VM").with_kept("VM", "leaving");
            let _ = call(off.with_switch("TurnOff").with_switch("Force"));
        }
        let gone = CmdletCall::new(r"Hyper-V\Remove-VM").with_kept("VM", "leaving");
        if call(gone.with_switch("Force")).is_ok() {
            host.set_owned(None);
            let _ = call(CmdletCall::new("script:own").with_text("VmId", ""));
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_power_button_says_so() {
        let host = PowerShellHost::new("no-powershell".into()).expect("not started");
        let machine = HyperVMachine {
            host: Arc::new(host),
            id: String::new(),
            cancel: Cancel::default(),
            password: Secret::new(""),
            name: "winimg-test".into(),
            disk: PathBuf::new(),
            processors: 1,
            drives: Vec::new(),
            drives_generation: AtomicU32::new(0),
            status: Mutex::default(),
            failed_queries: Mutex::default(),
            removed: AtomicBool::new(true),
        };
        let error = machine.press_power_button().expect_err("there is none");
        assert_eq!(error.fact(), "Hyper-V's machines have no power button");
    }
}
