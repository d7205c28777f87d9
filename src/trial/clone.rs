//! The life of one clone: a throw-away overlay, the platform's metadata, the first boot and one more; powered off and read after each.
//!
//! Writes nothing to the image. What the clone does wrong is a finding; what this host does wrong is an error.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Event, Phase};
use winimg_base::io;
use winimg_base::text::Secret;
use winimg_formats::disk::overlay::Overlay;
use winimg_formats::iso;
use winimg_machine::vm::{Forward, Machine, MachinePlan, Network, OwnNetwork, Start};
use winimg_recipe::plan::{Check, Expected};
use winimg_recipe::recipe::target::Form;

use super::hidden::Hidden;
use super::metadata::server::Server;
use super::metadata::{self, Identity, Service};
use super::request::Prepared;
use super::result::{self, Boot, CloneRun};
use super::state::{self, CloneState};
use super::{identity, judge};
use crate::verify::{self, Report, Severity};

/// What a clone's disk has more than the image, so that C: has room to grow into.
const GROWTH: u64 = 4 << 30;
/// From the power button to the power-off: services may take minutes to stop.
const OFF: Duration = Duration::from_secs(300);
/// A box that is known needs no longer than this to be named.
const STILL: Duration = Duration::from_secs(30);
/// cloudbase-init's service for Azure waits 150 s for an option of DHCP (docs/try.md), in which nothing moves.
const QUIET_ON_AZURE: Duration = Duration::from_secs(200);
const BOOTS: usize = 2;

/// What came of a clone.
pub struct Lived {
    pub run: CloneRun,
    /// All that was checked; of a clone that did not come up, what stopped it.
    pub report: Report,
}

/// A clone that is being tried.
pub struct Clone<'a> {
    prepared: &'a Prepared<'a>,
    number: usize,
    identity: Identity,
    disk: PathBuf,
    disc: Option<PathBuf>,
    /// Sockets, firmware variables and screens of this clone.
    run: PathBuf,
    server: Option<Server>,
    /// What holds the disks; they go with the clone.
    _work: TempDir,
}

impl<'a> Clone<'a> {
    /// Makes what it starts from; nothing runs yet.
    pub fn new(prepared: &'a Prepared<'a>, number: usize) -> Result<Self> {
        let request = prepared.request;
        let form = request.target.metadata.by;
        let identity = identity::of(number, form, request.user_data)?;
        // Short: sockets lie in it.
        let run = (request.scratch.run()).join(format!("{}-{number}", request.target.name));
        io::create_private_folders(&run)?;
        let work = tempfile::Builder::new()
            .prefix("clone-")
            .tempdir_in(request.scratch.work())
            .map_err(|e| Error::io("create a folder in", request.scratch.work(), e))?;
        let disk = work.path().join("disk.qcow2");
        let bytes = request.disk.len().next_multiple_of(1 << 20) + GROWTH;
        let hypervisor = request.hypervisor;
        hypervisor.create_disk_over_image(&disk, request.image, bytes, request.cancel)?;
        let disc = metadata::disc(form, &identity);
        let disc = disc.map(|tree| {
            let path = work.path().join("metadata.iso");
            iso::write(&tree, &path).map(|()| path)
        });
        let server = Service::of(form, &identity).map(|s| Server::open(s, &run));
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

    /// Two boots: the second one shows that a clone that is restarted comes up again.
    pub fn live(self) -> Result<Lived> {
        let mut lived = Lived {
            run: CloneRun {
                given: (&self.identity).into(),
                boots: Vec::new(),
                state: None,
                requests: Vec::new(),
                reports: Vec::new(),
            },
            report: Report::default(),
        };
        for number in 1..=BOOTS {
            let (boot, trouble) = self.boot(number)?;
            lived.run.boots.push(boot);
            if !self.look(number == BOOTS, trouble, &mut lived)? {
                break;
            }
        }
        if let Some(server) = &self.server {
            lived.run.requests = server.asked();
            lived.run.reports = server.reports();
        }
        Ok(lived)
    }

    /// Starts the clone, waits until it has settled and turns it off. What it did wrong comes with it.
    fn boot(&self, number: usize) -> Result<(Boot, Option<Error>)> {
        let request = self.prepared.request;
        self.say(match number {
            1 => "first boot",
            _ => "one more boot",
        });
        let (sink, cancel) = (Arc::clone(request.sink), request.cancel.clone());
        let began = Instant::now();
        let mut machine = request.hypervisor.start(self.plan()?, sink, cancel)?;
        let timeout = request.timeout * self.prepared.request.probe.slowness;
        let settled = machine.settle(self.quiet(), timeout);
        let seconds = began.elapsed().as_secs_f64();
        let screen = self.picture(machine.as_mut(), number);
        let outcome = (settled.after).and_then(|_| self.turn_off(machine.as_mut()));
        drop(machine);
        let outcome = outcome.map_err(|error| self.keep_what_it_names(error, number));
        let boot = Boot {
            restarts: settled.restarts,
            seconds,
            screen,
        };
        match outcome {
            Ok(()) => Ok((boot, None)),
            // All else is this host's: nothing is known of the image then.
            Err(error) if error.kind() == Kind::Trial => Ok((boot, Some(error))),
            Err(error) => Err(error),
        }
    }

    /// Screens and QEMU's own words, which an error names, go with the clone: they are kept beside the results.
    fn keep_what_it_names(&self, error: Error, boot: usize) -> Error {
        let request = self.prepared.request;
        let name = format!("{}/clone-{}-boot-{boot}", request.target.name, self.number);
        let kept = request.folder.join(name);
        let screens = self.run.join("screens");
        let pictures = fs::read_dir(&screens).into_iter().flatten().flatten();
        let own = [self.run.join("qemu.log")];
        let keep = || -> Result<()> {
            io::create_folders(&kept)?;
            for file in pictures.map(|entry| entry.path()).chain(own) {
                if let (true, Some(name)) = (file.is_file(), file.file_name()) {
                    io::copy(&file, &kept.join(name))?;
                }
            }
            Ok(())
        };
        match keep() {
            Ok(()) => error.moved(&screens, &kept).moved(&self.run, &kept),
            // What is said of the clone does not depend on it.
            Err(_) => error,
        }
    }

    fn turn_off(&self, machine: &mut dyn Machine) -> Result<()> {
        self.say("the power button is pressed");
        machine.press_power_button()?;
        machine.wait_off(OFF * self.prepared.request.probe.slowness)
    }

    /// Reads the powered-off disk and judges it; whether the clone goes on.
    fn look(&self, is_last: bool, trouble: Option<Error>, lived: &mut Lived) -> Result<bool> {
        let request = self.prepared.request;
        let disk = Overlay::open(&self.disk, Arc::clone(request.disk), request.cancel)?;
        let mut read = state::read(&disk, request.cancel);
        if let (Ok(state), Some(data)) = (&mut read, request.user_data) {
            Hidden::of(data).hide_in(state);
        }
        let state = match (read, trouble) {
            (Ok(state), None) => state,
            (read, Some(trouble)) => {
                Self::stopped(trouble, read.ok(), lived);
                return Ok(false);
            }
            (Err(error), None) if error.kind() == Kind::Verify => {
                lived.report.add(Err(error.into()), None);
                return Ok(false);
            }
            (Err(error), None) => return Err(error),
        };
        let promised = self.promised();
        let expected = judge::Expected::of(request.target, &self.identity, &promised);
        let unfinished = judge::unfinished(&state, &expected);
        if let Some(finding) = unfinished.filter(|f| f.severity == Severity::Error) {
            lived.report.add(Err(Box::new(finding)), None);
            lived.run.state = Some(state);
            return Ok(false);
        }
        if let (false, Some(report)) = (is_last, judge::settled_fault(&state, &expected)) {
            lived.report = report;
            lived.run.state = Some(state);
            return Ok(false);
        }
        if is_last {
            lived.report = judge::clone(&state, &expected);
            let disk = verify::check_clone(&disk, &promised, request.cancel)?;
            lived.report.join(disk);
            lived.run.state = Some(state);
        }
        Ok(!is_last)
    }

    /// What the manifest says of clones. User data may write a file that is missing without them.
    fn promised(&self) -> Vec<Expected> {
        let request = self.prepared.request;
        let manifest = request.manifest;
        let all = manifest.map(|m| m.expected_of_clone(&request.target.name));
        let mut promised = all.unwrap_or_default();
        if request.user_data.is_some() {
            for expected in &mut promised {
                let lasts = |check: &Check| !matches!(check, Check::Missing { .. });
                expected.checks.retain(lasts);
            }
            promised.retain(|expected| !expected.checks.is_empty());
        }
        promised
    }

    /// A clone that did not come up: what was seen of it, and what its disk says of the cause.
    fn stopped(trouble: Error, state: Option<CloneState>, lived: &mut Lived) {
        let seen = trouble.into();
        let finding = match &state {
            Some(state) => judge::stopped(seen, state),
            None => seen,
        };
        lived.report.add(Err(finding), None);
        lived.run.state = state;
    }

    fn plan(&self) -> Result<MachinePlan> {
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
            network: self.network()?,
            tpm: hardware.tpm,
            password: Secret::new(""),
            start: Start::Clone {
                disc: self.disc.clone(),
                uuid: self.identity.instance.clone(),
            },
            run_dir: self.run.clone(),
            accel: request.accel,
            timeout: request.timeout,
            still_limit: request.quiet.min(STILL),
        })
    }

    /// A network with the metadata's addresses, and nothing else unless it was asked for.
    fn network(&self) -> Result<Network> {
        let program = std::env::current_exe().map_err(|e| {
            Error::new(Kind::Host, "winimg's own program can't be found").because(e)
        })?;
        let sockets = self.server.iter().flat_map(Server::sockets);
        let forwards = sockets.map(|(endpoint, socket)| Forward {
            to: endpoint.address(),
            command: [program.as_path(), Path::new("relay"), socket]
                .map(|word| word.to_string_lossy().into_owned())
                .to_vec(),
        });
        Ok(Network::Own(OwnNetwork {
            nic: self.prepared.hardware.machine_nic(),
            mac: format!("52:54:00:00:00:{:02x}", self.number),
            subnet: metadata::NETWORK.into(),
            forwards: forwards.collect(),
            has_way_out: self.prepared.request.network == result::Network::Nat,
        }))
    }

    fn quiet(&self) -> Duration {
        match self.prepared.request.target.metadata.by {
            Form::Azure => self.prepared.request.quiet.max(QUIET_ON_AZURE),
            _ => self.prepared.request.quiet,
        }
    }

    /// The last screen, below the trial's folder; a machine that is gone has none.
    fn picture(&self, machine: &mut dyn Machine, boot: usize) -> Option<String> {
        let target = &self.prepared.request.target.name;
        let name = format!("{target}/clone-{}-boot-{boot}.png", self.number);
        let file = self.prepared.request.folder.join(&name);
        fs::create_dir_all(io::folder_of(&file)).ok()?;
        machine.screenshot(&file).ok()?;
        let shown = file.display().to_string();
        self.prepared
            .request
            .sink
            .emit(&Event::Screen { file: shown });
        Some(name)
    }

    fn say(&self, text: &str) {
        self.prepared.request.sink.emit(&Event::Progress {
            phase: Phase::Try,
            text: format!(
                "{}, clone {}: {text}",
                self.prepared.request.target.name, self.number
            ),
        });
    }
}
