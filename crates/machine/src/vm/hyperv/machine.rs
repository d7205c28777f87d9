//! The machine as the build sees it: made, watched, powered off, removed.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::call::{Arg, Call};
use super::errors::{Trouble as HostTrouble, explain};
use super::host::Host;
use super::install::Install;
use super::making::{self, DISK, INSTALL, NAME, PAYLOAD, VM};
use super::probe::Found;
use super::running::{self, Running};
use super::{figures, room, watch};
use crate::guest::Guest;
use crate::guest::direct::{self, Direct, Trouble};
use crate::vm::watch::State;
use crate::vm::{Camera, Machine, MachinePlan, Start};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Attended, Cancel, Sink};
use winimg_base::io::folder_of;
use winimg_recipe::recipe::Firmware;

/// Between two looks at a machine that is going off.
const OFF_LOOK: Duration = Duration::from_millis(500);
/// The account of PowerShell Direct; the answer file gives it its password.
const USER: &str = "Administrator";
/// Names of kept objects.
const CREDENTIAL: &str = "credential";
const SESSION: &str = "session";

pub struct HyperVMachine {
    running: Arc<Running>,
    plan: MachinePlan,
    sink: Arc<dyn Sink>,
    /// Closed to end the watch.
    watched: Option<(Sender<()>, JoinHandle<()>)>,
}

impl HyperVMachine {
    /// Makes it, and starts nothing. What fails leaves no machine behind.
    pub fn new(
        host: &Arc<Host>,
        plan: MachinePlan,
        found: &Found,
        sink: Arc<dyn Sink>,
        cancel: Cancel,
    ) -> Result<Self> {
        room::check(folder_of(&plan.disk), plan.room)?;
        let unique = uuid::Uuid::new_v4().simple().to_string();
        let name = format!("{NAME}{}", &unique[..8]);
        match make(host, &plan, &name, found, &cancel) {
            Ok(running) => Ok(Self {
                running: Arc::new(running),
                plan,
                sink,
                watched: None,
            }),
            Err(error) => {
                remove_by_name(host, &name);
                Err(error)
            }
        }
    }

    fn direct(&self) -> Direct {
        let share = || Arc::clone(&self.running);
        let (check, look, discs, talked, restarts) = (share(), share(), share(), share(), share());
        let (connect, invoke) = (share(), share());
        let password = self.plan.password.clone();
        // Which process keeps the credential.
        let mut known_to = None;
        Direct::new(direct::Host {
            connect: Box::new(move |patience| {
                let generation = connect.host.generation(&connect.cancel);
                let generation = generation.map_err(|trouble| told(&trouble))?;
                if known_to != Some(generation) {
                    let credential = Call::new("script:credential")
                        .text("User", USER)
                        .with("Password", Arg::Secret(password.expose().to_string()))
                        .keep(CREDENTIAL);
                    talk(&connect, &credential)?;
                    known_to = Some(generation);
                }
                let session = Call::new(r"Microsoft.PowerShell.Core\New-PSSession")
                    .text("VMId", &connect.id)
                    .kept("Credential", CREDENTIAL)
                    .keep(SESSION)
                    .within(patience);
                talk(&connect, &session).map(|_| ())
            }),
            invoke: Box::new(move |script, arguments, select, patience| {
                let call = Call::new(r"Microsoft.PowerShell.Core\Invoke-Command")
                    .kept("Session", SESSION)
                    .with("ScriptBlock", Arg::Block(script));
                let call = match arguments.is_empty() {
                    true => call,
                    false => call.with("ArgumentList", Arg::List(arguments)),
                };
                let done = talk(&invoke, &call.select(select).within(patience))?;
                Ok(done.into_iter().next().unwrap_or(Value::Null))
            }),
            check: Box::new(move |fresh| check.check(fresh)),
            restarts: Box::new(move || look.look().restarts),
            known_restarts: Box::new(move || restarts.figures().restarts),
            discs: Box::new(move |iso| discs.discs(iso)),
            talked: Box::new(move |asked| talked.talked(asked)),
        })
    }
}

fn talk(running: &Running, call: &Call) -> Result<Vec<Value>, Trouble> {
    let done = running.host.call(call, &running.cancel);
    done.map_err(|trouble| told(&trouble))
}

/// What breaks a session is told apart from what a script threw.
fn told(trouble: &HostTrouble) -> Trouble {
    let failed = || explain("speak to the guest", trouble);
    match trouble {
        // What a script throws in the guest comes as this type (Microsoft: RemoteException).
        HostTrouble::Refused(refusal)
            if refusal.exception == "System.Management.Automation.RemoteException" =>
        {
            Trouble::Threw(refusal.message.trim().to_string())
        }
        HostTrouble::Refused(refusal) if refusal.message.contains("The credential is invalid") => {
            Trouble::Credential(trouble.fact())
        }
        HostTrouble::Refused(_) => Trouble::Broken(trouble.fact()),
        HostTrouble::Interrupted | HostTrouble::NoPowerShell(_) => Trouble::Machine(failed()),
        // Another process takes its place, and the guest goes on meanwhile.
        HostTrouble::Late { .. } | HostTrouble::Died { .. } | HostTrouble::Garbled { .. } => {
            Trouble::Host(failed())
        }
    }
}

fn make(
    host: &Arc<Host>,
    plan: &MachinePlan,
    name: &str,
    found: &Found,
    cancel: &Cancel,
) -> Result<Running> {
    let order = |doing: &str, call: &Call| {
        host.call(call, cancel)
            .map_err(|trouble| explain(doing, &trouble))
    };
    let made = order("make the machine", &making::create(plan, name))?;
    let id = made.first().and_then(|vm| vm["Id"].as_str());
    let Some(id) = id.map(String::from) else {
        return Err(Error::new(Kind::Machine, "Hyper-V made a machine without an id").at(name));
    };
    host.own(Some(&id));
    order(
        "take the machine as ours",
        &Call::new("script:own").text("VmId", &id),
    )?;
    for call in making::hardware(plan, name, found.checkpoints) {
        order("set the machine up", &call)?;
    }
    let disk = Call::new(r"Hyper-V\Get-VMHardDiskDrive").kept("VM", VM);
    order("find the machine's disk", &disk.keep(DISK))?;
    let drives = add_drives(plan, &order)?;
    for call in making::boot_order(plan) {
        order("set the machine's boot order", &call)?;
    }
    Running::new(
        Arc::clone(host),
        plan,
        (id, name.to_string()),
        drives,
        found.processors,
        cancel.clone(),
    )
}

type Order<'a> = dyn Fn(&str, &Call) -> Result<Vec<Value>> + 'a;

/// The install disc's drive, where there is one, and the answer disc's, which later takes the payload.
fn add_drives(plan: &MachinePlan, order: &Order<'_>) -> Result<Vec<(&'static str, Value)>> {
    let (install, answer) = match &plan.start {
        Start::Install {
            install_disc,
            answer_disc,
        } => (
            Some(install_disc.file.as_path()),
            Some(answer_disc.as_path()),
        ),
        Start::Boot => (None, None),
    };
    let mut wanted = vec![(PAYLOAD, answer)];
    if let Some(install) = install {
        wanted.insert(0, (INSTALL, Some(install)));
    }
    let mut ready = Vec::new();
    if plan.firmware == Firmware::Bios {
        // Generation 1 comes with an empty drive, from which its firmware would boot first.
        let (name, disc) = wanted[0];
        let find = Call::new(r"Hyper-V\Get-VMDvdDrive")
            .kept("VM", VM)
            .select(&making::DRIVE);
        let there = order("find the machine's drives", &find)?;
        if let [place] = &there[..] {
            let find = find.keep(name);
            order("find the machine's drives", &find)?;
            if disc.is_some() {
                order(
                    "put a disc into the machine",
                    &making::change_disc(name, disc),
                )?;
            }
            ready.push((name, place.clone()));
            wanted.remove(0);
        }
    }
    for (name, disc) in wanted {
        let made = order("add a drive to the machine", &making::add_drive(disc, name))?;
        ready.push((name, made.into_iter().next().unwrap_or_default()));
    }
    Ok(ready)
}

/// A machine that was made although nobody told us its id.
fn remove_by_name(host: &Host, name: &str) {
    let list = Call::new(r"Hyper-V\Get-VM").select(&["Id", "Name"]);
    let all = host.call(&list, &Cancel::default()).unwrap_or_default();
    for vm in all.iter().filter(|vm| vm["Name"] == json!(name)) {
        if let Some(id) = vm["Id"].as_str() {
            running::remove(host, id);
        }
    }
}

impl Machine for HyperVMachine {
    fn guest(&mut self) -> Result<Box<dyn Guest>> {
        let mut direct = self.direct();
        let running = Arc::clone(&self.running);
        let install = Install::new(running, &self.plan, Arc::clone(&self.sink));
        let (lookout, limits) = install.wait(&mut direct)?;
        let (sender, end) = channel();
        self.watched = Some((sender, watch::keep(lookout, limits, end)?));
        Ok(Box::new(direct))
    }

    fn wait_off(&mut self, timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        loop {
            self.running.cancel.check()?;
            match self.running.look().state {
                State::Off => break,
                State::Paused(why) => return Err(figures::paused(&why)),
                State::Gone(_) => return Err(figures::vanished(&self.running.name)),
                State::Running | State::Held => {
                    self.running.check(false)?;
                }
            }
            if Instant::now() >= deadline {
                let fact = format!("the guest did not power off within {} s", timeout.as_secs());
                return Err(Error::new(Kind::Machine, fact));
            }
            self.running.cancel.sleep(OFF_LOOK)?;
        }
        self.end_watch();
        self.no_checkpoint()?;
        self.running.remove_drives()?;
        self.running.stop();
        Ok(())
    }

    fn stop(&mut self) {
        self.running.stop();
        self.end_watch();
    }

    fn screenshot(&mut self, file: &Path) -> Result<()> {
        self.running.dump_screen(file)
    }

    fn camera(&self) -> Camera {
        // Whoever keeps the camera must not keep the machine's PowerShell.
        let running = Arc::downgrade(&self.running);
        Box::new(move |file| match running.upgrade() {
            Some(running) => running.dump_screen(file),
            None => Err(Error::new(Kind::Machine, "the machine has ended")),
        })
    }

    fn attended(&self) -> Attended {
        self.running.attended.clone()
    }
}

impl HyperVMachine {
    fn end_watch(&mut self) {
        if let Some((end, thread)) = self.watched.take() {
            drop(end);
            let _ = thread.join();
        }
    }

    /// With a checkpoint the machine's last writes would lie in another file than the one that is sealed.
    fn no_checkpoint(&self) -> Result<()> {
        let find = Call::new(r"Hyper-V\Get-VMHardDiskDrive")
            .kept("VM", VM)
            .select(&["Path"]);
        let found = self.running.order("look at the machine's disk", &find)?;
        let path = found.first().and_then(|disk| disk["Path"].as_str());
        let path = path.unwrap_or_default();
        let extension = path.rsplit('.').next().unwrap_or_default();
        if extension.eq_ignore_ascii_case("avhdx") {
            return Err(
                Error::new(Kind::Machine, "somebody made a checkpoint of the machine")
                    .at(path)
                    .expected(self.running.disk.display())
                    .cure("leave machines whose names begin with winimg- to winimg; backup programs make checkpoints, too"),
            );
        }
        Ok(())
    }
}

impl Drop for HyperVMachine {
    fn drop(&mut self) {
        self.stop();
    }
}
