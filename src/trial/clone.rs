//! One clone: creates a temporary overlay and the platform's metadata, boots it twice, and reads
//! the powered-off disk after each boot.
//!
//! Writes nothing to the image. A fault of the clone is a finding; a fault of this host is an
//! error.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Event, Phase};
use winimg_base::io;
use winimg_base::text::Secret;
use winimg_formats::disk::overlay::OverlayDisk;
use winimg_formats::iso;
use winimg_machine::vm::{
    GuestForward, MachinePlan, NetworkAccess, PrivateNetwork, StartMode, VirtualMachine,
};
use winimg_recipe::plan::{ImageCheck, StepChecks};
use winimg_recipe::target::MetadataForm;

use super::metadata::server::MetadataServer;
use super::metadata::{self, CloneIdentity, MetadataService};
use super::redaction::UserDataRedactor;
use super::request::PreparedTrial;
use super::result::{self, CloneBoot, CloneRun};
use super::state::{self, CloneState};
use super::{identity, judge};
use crate::verify::{self, FindingSeverity, VerifyReport};

/// Extra size of a clone's disk, so that C: can be extended.
const EXTRA_SIZE: u64 = 4 << 30;
/// Timeout from the power button to the power-off: services may take minutes to stop.
const POWER_OFF_TIMEOUT: Duration = Duration::from_secs(300);
/// Time without activity after which a known dialog box is recognized.
const DIALOG_DELAY: Duration = Duration::from_secs(30);
/// cloudbase-init's service for Azure waits 150 s for a DHCP option (docs/try.md), without
/// activity.
const QUIET_ON_AZURE: Duration = Duration::from_secs(200);
const BOOTS: usize = 2;

/// The result of a clone.
pub struct CloneOutcome {
    pub run: CloneRun,
    /// All checks; for a clone that did not come up, the cause.
    pub report: VerifyReport,
}

/// A clone under trial.
pub struct TrialClone<'a> {
    prepared: &'a PreparedTrial<'a>,
    number: usize,
    identity: CloneIdentity,
    disk: PathBuf,
    disc: Option<PathBuf>,
    /// Sockets, firmware variables and screens of this clone.
    run: PathBuf,
    server: Option<MetadataServer>,
    /// The folder with the disks, removed on drop.
    _work: TempDir,
}

impl<'a> TrialClone<'a> {
    /// Creates the clone's disk and metadata. Does not start it.
    pub fn new(prepared: &'a PreparedTrial<'a>, number: usize) -> Result<Self> {
        let request = prepared.request;
        let form = request.target.metadata.by;
        let identity = identity::create_identity(number, form, request.user_data)?;
        // Short, because it contains sockets.
        let run = (request.scratch.run()).join(format!("{}-{number}", request.target.name));
        io::create_private_folders(&run)?;
        let work = tempfile::Builder::new()
            .prefix("clone-")
            .tempdir_in(request.scratch.work_dir())
            .map_err(|e| Error::io("create a folder in", request.scratch.work_dir(), e))?;
        let disk = work.path().join("disk.qcow2");
        let bytes = request.disk.len().next_multiple_of(1 << 20) + EXTRA_SIZE;
        let hypervisor = request.hypervisor;
        hypervisor.create_disk_over_image(&disk, request.image, bytes, request.cancel)?;
        let disc = metadata::create_disc(form, &identity);
        let disc = disc.map(|tree| {
            let path = work.path().join("metadata.iso");
            iso::write(&tree, &path).map(|()| path)
        });
        let server =
            MetadataService::from_form(form, &identity).map(|s| MetadataServer::open(s, &run));
        Ok(Self {
            disc: disc.transpose()?,
            server: server.transpose()?,
            prepared,
            number,
            identity,
            disk,
            run,
            _work: work,
        })
    }

    /// Boots the clone twice: the second boot shows that it comes up again after a restart.
    pub fn run(self) -> Result<CloneOutcome> {
        let mut outcome = CloneOutcome {
            run: CloneRun {
                given: (&self.identity).into(),
                boots: Vec::new(),
                state: None,
                requests: Vec::new(),
                reports: Vec::new(),
            },
            report: VerifyReport::default(),
        };
        for number in 1..=BOOTS {
            let (boot, failure) = self.boot(number)?;
            outcome.run.boots.push(boot);
            if !self.check_disk(number == BOOTS, failure, &mut outcome)? {
                break;
            }
        }
        if let Some(server) = &self.server {
            outcome.run.requests = server.list_requests();
            outcome.run.reports = server.list_reports();
        }
        Ok(outcome)
    }

    /// Boots the clone, waits until it has settled and powers it off. A fault of the clone is
    /// returned with the boot.
    fn boot(&self, number: usize) -> Result<(CloneBoot, Option<Error>)> {
        let request = self.prepared.request;
        self.report_progress(match number {
            1 => "first boot",
            _ => "second boot",
        });
        let (sink, cancel) = (Arc::clone(request.sink), request.cancel.clone());
        let started = Instant::now();
        let mut machine = request.hypervisor.start(self.build_plan()?, sink, cancel)?;
        let timeout = request.timeout * self.prepared.request.probe.slowness;
        let settled = machine.wait_settled(self.quiet_time(), timeout);
        let seconds = started.elapsed().as_secs_f64();
        let screen = self.save_screen(machine.as_mut(), number);
        let result = (settled.after).and_then(|_| self.turn_off(machine.as_mut()));
        drop(machine);
        let result = result.map_err(|error| self.save_evidence(error, number));
        let boot = CloneBoot {
            restarts: settled.restarts,
            seconds,
            screen,
        };
        match result {
            Ok(()) => Ok((boot, None)),
            // Other errors are the host's and do not concern the image.
            Err(error) if error.kind() == Kind::Trial => Ok((boot, Some(error))),
            Err(error) => Err(error),
        }
    }

    /// Saves the screens and QEMU's log next to the results, because an error may refer to them and
    /// the clone's folder is removed.
    fn save_evidence(&self, error: Error, boot: usize) -> Error {
        let request = self.prepared.request;
        let name = format!("{}/clone-{}-boot-{boot}", request.target.name, self.number);
        let kept = request.folder.join(name);
        let screens = self.run.join("screens");
        match self.copy_evidence(&screens, &kept) {
            Ok(()) => error
                .with_moved_paths(&screens, &kept)
                .with_moved_paths(&self.run, &kept),
            // The error is valid without these files.
            Err(_) => error,
        }
    }

    fn copy_evidence(&self, screens: &Path, to: &Path) -> Result<()> {
        io::create_folders(to)?;
        let pictures = fs::read_dir(screens).into_iter().flatten().flatten();
        let log = self.run.join("qemu.log");
        for file in pictures.map(|entry| entry.path()).chain([log]) {
            if let (true, Some(name)) = (file.is_file(), file.file_name()) {
                io::copy(&file, &to.join(name))?;
            }
        }
        Ok(())
    }

    fn turn_off(&self, machine: &mut dyn VirtualMachine) -> Result<()> {
        self.report_progress("pressing the power button");
        machine.press_power_button()?;
        machine.wait_off(POWER_OFF_TIMEOUT * self.prepared.request.probe.slowness)
    }

    /// Reads and judges the powered-off disk. Returns true if the clone is to boot again.
    fn check_disk(
        &self,
        is_last: bool,
        failure: Option<Error>,
        outcome: &mut CloneOutcome,
    ) -> Result<bool> {
        let request = self.prepared.request;
        let disk = OverlayDisk::open(&self.disk, Arc::clone(request.disk), request.cancel)?;
        let mut read = state::read(&disk, request.cancel);
        if let (Ok(state), Some(data)) = (&mut read, request.user_data) {
            UserDataRedactor::from_user_data(data).hide_in(state);
        }
        let state = match (read, failure) {
            (Ok(state), None) => state,
            (read, Some(failure)) => {
                Self::report_stopped(failure, read.ok(), outcome);
                return Ok(false);
            }
            (Err(error), None) if error.kind() == Kind::Verify => {
                outcome.report.add(Err(error.into()), None);
                return Ok(false);
            }
            (Err(error), None) => return Err(error),
        };
        let checks_of_manifest = self.list_expected();
        let expected =
            judge::ExpectedClone::from_target(request.target, &self.identity, &checks_of_manifest);
        let unfinished = judge::find_unfinished(&state, &expected);
        if let Some(finding) = unfinished.filter(|f| f.severity == FindingSeverity::Error) {
            outcome.report.add(Err(Box::new(finding)), None);
            outcome.run.state = Some(state);
            return Ok(false);
        }
        if let (false, Some(report)) = (is_last, judge::find_permanent_faults(&state, &expected)) {
            outcome.report = report;
            outcome.run.state = Some(state);
            return Ok(false);
        }
        if is_last {
            outcome.report = judge::judge_clone(&state, &expected);
            let disk = verify::check_clone(&disk, &checks_of_manifest, request.cancel)?;
            outcome.report.join(disk);
            outcome.run.state = Some(state);
        }
        Ok(!is_last)
    }

    /// Returns the manifest's expectations for clones. With user data, without the files that must
    /// be missing, because the user data may write them.
    fn list_expected(&self) -> Vec<StepChecks> {
        let request = self.prepared.request;
        let manifest = request.manifest;
        let all = manifest.map(|m| m.list_expected_of_clone(&request.target.name));
        let mut checks_of_manifest = all.unwrap_or_default();
        if request.user_data.is_some() {
            for expected in &mut checks_of_manifest {
                expected
                    .checks
                    .retain(|check| !matches!(check, ImageCheck::Missing { .. }));
            }
            checks_of_manifest.retain(|expected| !expected.checks.is_empty());
        }
        checks_of_manifest
    }

    /// Reports a clone that did not come up, with the likely cause from its disk.
    fn report_stopped(failure: Error, state: Option<CloneState>, outcome: &mut CloneOutcome) {
        let finding = failure.into();
        let finding = match &state {
            Some(state) => judge::explain_stopped(finding, state),
            None => finding,
        };
        outcome.report.add(Err(finding), None);
        outcome.run.state = state;
    }

    fn build_plan(&self) -> Result<MachinePlan> {
        let (request, hardware) = (self.prepared.request, &self.prepared.hardware);
        Ok(MachinePlan {
            name: format!("{} {}", request.target.name, self.number),
            firmware: hardware.firmware,
            secure_boot: hardware.secure_boot,
            controller: hardware.machine_controller(),
            disk: self.disk.clone(),
            room: 0,
            cpus: request.cpus,
            memory: request.memory,
            network: self.plan_network()?,
            tpm: hardware.tpm,
            password: Secret::new(""),
            start: StartMode::Clone {
                disc: self.disc.clone(),
                uuid: self.identity.instance.clone(),
            },
            run_dir: self.run.clone(),
            accel: request.accel,
            timeout: request.timeout,
            still_limit: request.quiet.min(DIALOG_DELAY),
        })
    }

    /// Returns a network with the metadata's addresses, and nothing else unless requested.
    fn plan_network(&self) -> Result<NetworkAccess> {
        let program = std::env::current_exe().map_err(|e| {
            Error::new(Kind::Host, "cannot find winimg's own executable").because(e)
        })?;
        let sockets = self.server.iter().flat_map(MetadataServer::sockets);
        let forwards = sockets.map(|(endpoint, socket)| GuestForward {
            to: endpoint.address(),
            command: [program.as_path(), Path::new("relay"), socket]
                .map(|word| word.to_string_lossy().into_owned())
                .to_vec(),
        });
        Ok(NetworkAccess::Own(PrivateNetwork {
            nic: self.prepared.hardware.machine_nic(),
            mac: format!("52:54:00:00:00:{:02x}", self.number),
            subnet: metadata::NETWORK.into(),
            forwards: forwards.collect(),
            has_way_out: self.prepared.request.network == result::TrialNetwork::Nat,
        }))
    }

    fn quiet_time(&self) -> Duration {
        match self.prepared.request.target.metadata.by {
            MetadataForm::Azure => self.prepared.request.quiet.max(QUIET_ON_AZURE),
            _ => self.prepared.request.quiet,
        }
    }

    /// Saves the last screen below the trial's folder. Returns `None` if the VM is gone.
    fn save_screen(&self, machine: &mut dyn VirtualMachine, boot: usize) -> Option<String> {
        let target = &self.prepared.request.target.name;
        let name = format!("{target}/clone-{}-boot-{boot}.png", self.number);
        let file = self.prepared.request.folder.join(&name);
        fs::create_dir_all(io::folder_of(&file)).ok()?;
        machine.take_screenshot(&file).ok()?;
        let shown = file.display().to_string();
        self.prepared
            .request
            .sink
            .emit(&Event::Screen { file: shown });
        Some(name)
    }

    fn report_progress(&self, text: &str) {
        self.prepared.request.sink.emit(&Event::Progress {
            phase: Phase::Try,
            text: format!(
                "{}, clone {}: {text}",
                self.prepared.request.target.name, self.number
            ),
        });
    }
}
