//! The installed stand-in's Windows behaviour: what programs, the registry, services and the guest agent do.
//!
//! It runs inside the stand-in's guest on Linux (C: is an NTFS volume, CDs are mounted directories) and, in tests, on
//! a plain directory. Effects land in the real file tree and in real registry hives. It is strict: what Windows would
//! refuse is refused, and a program, option or sub-command that it does not know fails with a message that names it.
//! It has no PowerShell but for what it knows word for word, no users' sessions, and runs no real executables; of the network only
//! cloudbase-init knows.

mod account;
pub mod agent;
mod attribute;
mod boot;
mod clone;
mod cloudbase;
mod cmd;
pub mod cmdline;
mod codepage;
mod direct;
mod error;
mod evtx;
mod image;
pub mod network;
mod process;
mod profile;
mod program;
mod regf;
mod registry;
mod service;
mod sshd;
#[cfg(test)]
mod tests;
mod volume;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, mpsc};
use std::time::{Duration, Instant};

pub use agent::serve_agent;
pub use direct::serve_direct;
pub use image::{ImageFacts, create_files, create_hives};
pub use program::real::RealPrograms;

use process::{Env, Process, Stream};
use registry::Registry;
use volume::{Cwd, Volumes};

/// Where the stand-in's drives are.
#[derive(Default)]
pub struct Config {
    /// The root of C: on the host.
    pub c_root: PathBuf,
    /// The other drives: CDs, never written.
    pub drives: Vec<(char, PathBuf)>,
    /// Empty: the name that the registry holds.
    pub computer_name: String,
    /// What DHCP gave the machine's network card.
    pub lease: Option<network::Lease>,
    /// Labels of the CDs.
    pub labels: Vec<(char, String)>,
    /// Real programs, by their digests.
    pub programs: RealPrograms,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    Reboot,
    Shutdown,
}

/// A registry value to set or found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    Text(String),
    Expand(String),
    Multi(Vec<String>),
    Dword(u32),
    Qword(u64),
    Binary(Vec<u8>),
}

pub struct Windows {
    machine: Arc<Machine>,
}

/// What all programs of one boot share.
pub(crate) struct Machine {
    c_root: PathBuf,
    volumes: RwLock<Volumes>,
    registry: Mutex<Registry>,
    services: Mutex<service::Running>,
    power: Mutex<Option<(Power, Instant)>>,
    /// The environment of services, as it was at boot.
    env: Env,
    serial: Mutex<Option<Stream>>,
    /// Held while an installer package is applied: a second one gets 1618.
    installer: Mutex<()>,
    /// Hardware ids of the devices that drivers can be installed on.
    devices: Mutex<Vec<String>>,
    lease: Option<network::Lease>,
    labels: Mutex<Vec<(char, String)>>,
    programs: RealPrograms,
    /// C: takes the free space behind it when this boot ends.
    extends: AtomicBool,
    /// What somebody asked for that the stand-in would have to pretend.
    halted: Mutex<Option<String>>,
}

/// Long enough for the agent to tell how the command that asked for it ended.
const COMING_DOWN: Duration = Duration::from_millis(1500);
const STATE: &str = r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Setup\State";
const NT: &str = r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion";
const COMPUTER_NAME: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\ComputerName\ComputerName";
const ACTIVE_NAME: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\ComputerName\ActiveComputerName";
const TCPIP: &str = r"HKLM\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters";

impl Windows {
    /// Starts the stand-in from its hives: carries out what waited for a boot, then starts the automatic services.
    pub fn open(config: Config) -> Result<Windows, String> {
        let mut registry = Registry::open(&config.c_root.join("Windows/System32/config"))?;
        if !config.computer_name.is_empty()
            && !regf::same(&config.computer_name, &computer_name(&registry))
        {
            registry.set(
                COMPUTER_NAME,
                "ComputerName",
                registry::sz(&config.computer_name),
            )?;
        }
        let volumes = Volumes::new(&config.c_root, &config.drives);
        boot::pending(&mut registry, &volumes)?;
        let env = boot::environment(&registry);
        let machine = Arc::new(Machine {
            c_root: config.c_root,
            volumes: RwLock::new(volumes),
            registry: Mutex::new(registry),
            services: Mutex::default(),
            power: Mutex::new(None),
            env,
            serial: Mutex::new(None),
            installer: Mutex::new(()),
            devices: Mutex::default(),
            lease: config.lease,
            labels: Mutex::new(config.labels),
            programs: config.programs,
            extends: AtomicBool::new(false),
            halted: Mutex::default(),
        });
        // What tells one start from the next.
        machine.log_event("EventLog", 6005, &[]);
        service::start_automatic(&machine);
        Ok(Windows { machine })
    }

    /// Runs a command line as CreateProcess would and gives the exit code; output and errors go to `out` as they come.
    /// A program that can't be started gives Windows' error as the code (2, 193).
    pub fn run(&self, command_line: &str, out: &mut dyn Write) -> u32 {
        let (sender, chunks) = mpsc::channel();
        let stream: Stream = Arc::new(Mutex::new(Channel(sender)));
        let mut process = self.process();
        (process.out, process.err) = (stream.clone(), stream);
        let line = command_line.to_owned();
        let worker = std::thread::spawn(move || {
            process.create(&line).unwrap_or_else(|error| {
                process.complain(&format!("{line}: {}\n", error.text()));
                error.0
            })
        });
        for chunk in chunks {
            // A console that went away does not stop the program.
            let _ = out.write_all(&chunk);
        }
        worker.join().unwrap_or(0xC000_0005)
    }

    /// A process of LocalSystem in System32, as the service manager starts one.
    pub(crate) fn process(&self) -> Process {
        Process {
            machine: self.machine.clone(),
            env: self.machine.env.clone(),
            cwd: Cwd(r"C:\Windows\System32".into()),
            stdin: Arc::default(),
            out: process::null(),
            err: process::null(),
            code_page: 437,
        }
    }

    pub fn set_labels(&self, labels: Vec<(char, String)>) {
        *lock(&self.machine.labels) = labels;
    }

    /// Why a program had to stop that the stand-in does not model; asked once.
    pub fn halted(&self) -> Option<String> {
        lock(&self.machine.halted).take()
    }

    /// Whether a program had C: grow into the free space behind it.
    pub fn extends(&self) -> bool {
        self.machine.extends.load(Ordering::Relaxed)
    }

    pub fn set_drives(&self, drives: Vec<(char, PathBuf)>) {
        let volumes = Volumes::new(&self.machine.c_root, &drives);
        *self
            .machine
            .volumes
            .write()
            .unwrap_or_else(PoisonError::into_inner) = volumes;
    }

    /// Where what is written to COM1 and COM2 goes; nowhere at first.
    pub fn set_serial(&self, port: impl Write + Send + 'static) {
        *lock(&self.machine.serial) = Some(Arc::new(Mutex::new(port)));
    }

    /// What the Task Scheduler begins when Windows has started; nobody waits for it.
    pub fn begin_startup_tasks(&self) {
        let tasks = program::schtasks::at_startup(&self.machine.registry());
        for task in tasks {
            let line = format!("C:\\Windows\\System32\\schtasks.exe /run /tn \"{task}\"");
            self.run(&line, &mut std::io::sink());
        }
    }

    /// Restarts Windows by itself after the time where servicing needs a second start. Nothing announces it: the agent
    /// answers, nothing is pending and no program of servicing runs.
    pub fn begin_second_start(&self, after: Duration) {
        if program::dism::takes_second_start(&mut self.machine.registry()) {
            self.machine.ask_power(Power::Reboot, after);
        }
    }

    /// Hardware ids of the devices of this machine (`PCI\\VEN_1AF4&DEV_1003`), for `pnputil /install`; none at first.
    pub fn set_devices(&self, ids: Vec<String>) {
        *lock(&self.machine.devices) = ids;
    }

    /// The reboot or shutdown that was asked for, once it is due.
    pub fn power_request(&self) -> Option<Power> {
        let request = *lock(&self.machine.power);
        request
            .filter(|(_, due)| Instant::now() >= *due)
            .map(|(power, _)| power)
    }

    /// The reboot or shutdown that was asked for and is due within a few seconds.
    pub fn power_asked(&self) -> Option<Power> {
        let soon = Instant::now() + 2 * COMING_DOWN;
        let request = *lock(&self.machine.power);
        request
            .filter(|(_, due)| *due <= soon)
            .map(|(power, _)| power)
    }

    /// Before Windows goes down: access lists brought up to date, hives written.
    pub fn close(&self) -> Result<(), String> {
        let settled = program::icacls::settle(&self.process());
        self.flush().and(settled)
    }

    /// Writes the changed hives to disk.
    pub fn flush(&self) -> Result<(), String> {
        self.machine.registry().flush()
    }

    pub fn image_state(&self) -> Option<String> {
        self.machine.registry().text(STATE, "ImageState")
    }

    /// Sets the image state in the registry and in `Setup\State\State.ini`, as Setup does.
    pub fn set_image_state(&self, state: &str) -> Result<(), String> {
        self.machine.set_image_state(state)
    }

    pub fn value(&self, key: &str, name: &str) -> Option<Data> {
        let registry = self.machine.registry();
        let value = registry.get(key, name)?;
        Some(match value.kind {
            regf::REG_SZ => Data::Text(registry::text(&value.data)),
            regf::REG_EXPAND_SZ => Data::Expand(registry::text(&value.data)),
            regf::REG_MULTI_SZ => Data::Multi(registry::texts(&value.data)),
            regf::REG_DWORD => Data::Dword(registry::dword(&value.data)?),
            regf::REG_QWORD => {
                Data::Qword(u64::from_le_bytes(value.data.as_slice().try_into().ok()?))
            }
            _ => Data::Binary(value.data.clone()),
        })
    }

    pub fn set_value(&self, key: &str, name: &str, data: Data) -> Result<(), String> {
        let data = match data {
            Data::Text(text) => registry::sz(&text),
            Data::Expand(text) => registry::expand_sz(&text),
            Data::Multi(texts) => registry::multi_sz(&texts),
            Data::Dword(number) => registry::dword_value(number),
            Data::Qword(number) => (regf::REG_QWORD, number.to_le_bytes().to_vec()),
            Data::Binary(bytes) => (regf::REG_BINARY, bytes),
        };
        self.machine.registry().set(key, name, data)
    }

    /// Removes a value; whether it was there.
    pub fn delete_value(&self, key: &str, name: &str) -> bool {
        self.machine
            .registry()
            .key_mut(key)
            .is_some_and(|key| key.unset(name))
    }

    /// Names of the values of a key, in the order they were set; empty when there is no such key.
    pub fn value_names(&self, key: &str) -> Vec<String> {
        let registry = self.machine.registry();
        registry
            .key(key)
            .map(|key| key.values.iter().map(|value| value.name.clone()).collect())
            .unwrap_or_default()
    }

    pub fn computer_name(&self) -> String {
        computer_name(&self.machine.registry())
    }

    /// Sets a local user's password as Setup does with `AdministratorPassword`; whether there is such a user.
    pub fn set_password(&self, user: &str, password: &str) -> bool {
        account::set_password(&mut self.machine.registry(), user, password)
    }

    /// The host path of a Windows path, when something is there.
    pub fn host_path(&self, path: &str) -> Option<PathBuf> {
        let found = self
            .machine
            .volumes()
            .file(&Cwd(r"C:\".into()), path)
            .ok()?;
        found.meta.is_some().then_some(found.host)
    }
}

impl Machine {
    pub fn registry(&self) -> MutexGuard<'_, Registry> {
        lock(&self.registry)
    }

    pub fn volumes(&self) -> Volumes {
        self.volumes
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub fn serial(&self) -> Stream {
        lock(&self.serial).clone().unwrap_or_else(process::null)
    }

    pub fn devices(&self) -> Vec<String> {
        lock(&self.devices).clone()
    }

    pub fn lease(&self) -> Option<&network::Lease> {
        self.lease.as_ref()
    }

    pub fn labels(&self) -> Vec<(char, String)> {
        lock(&self.labels).clone()
    }

    pub fn ask_extend(&self) {
        self.extends.store(true, Ordering::Relaxed);
    }

    /// Stops the machine with a screen of the stand-in's own.
    pub fn halt(&self, why: &str) {
        *lock(&self.halted) = Some(why.to_owned());
    }

    /// `10.0.20348.587`
    pub fn version(&self) -> String {
        let registry = self.registry();
        let build = registry.text(NT, "CurrentBuildNumber").unwrap_or_default();
        format!("10.0.{build}.{}", registry.dword(NT, "UBR").unwrap_or(0))
    }

    /// Asks for a reboot or shutdown; it is due after `after` and the time that Windows takes to come down at least.
    pub fn ask_power(&self, power: Power, after: Duration) {
        *lock(&self.power) = Some((power, Instant::now() + after + COMING_DOWN));
    }

    /// Takes back a power request that is not due yet; whether there was one.
    pub fn cancel_power(&self) -> bool {
        lock(&self.power).take().is_some()
    }

    pub fn set_image_state(&self, state: &str) -> Result<(), String> {
        self.registry()
            .set(STATE, "ImageState", registry::sz(state))?;
        let dir = self.c_root.join("Windows/Setup/State");
        std::fs::create_dir_all(&dir).map_err(|e| format!("can't make {}: {e}", dir.display()))?;
        regf::replace(
            &dir.join("State.ini"),
            format!("[State]\r\nImageState={state}\r\n").as_bytes(),
        )
    }
}

/// Whether the guest agent would come up: its service is registered and not disabled, its program is there, and the
/// driver of its port is in the driver store.
pub fn agent_installed(windows: &Windows) -> bool {
    let machine = &windows.machine;
    let usable =
        service::config(&machine.registry(), "QEMU-GA").is_some_and(|config| config.start < 4);
    let store = machine
        .c_root
        .join("Windows/System32/DriverStore/FileRepository");
    let port = |name: &str| name.to_ascii_lowercase().starts_with("vioser.inf_amd64_");
    usable
        && service::binary(machine, "QEMU-GA").is_ok()
        && volume::list(&store).iter().any(|(name, _)| port(name))
}

pub(crate) fn computer_name(registry: &Registry) -> String {
    registry
        .text(ACTIVE_NAME, "ComputerName")
        .or_else(|| registry.text(COMPUTER_NAME, "ComputerName"))
        .unwrap_or_else(|| "WIN-STANDIN".into())
}

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Channel(mpsc::Sender<Vec<u8>>);

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let gone = |_| std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        self.0
            .send(bytes.to_vec())
            .map_err(gone)
            .map(|()| bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Lays out a Windows tree with its hives below `c_root`: an applied image.
pub fn create_image(c_root: &Path, facts: &ImageFacts) -> Result<(), String> {
    create_files(c_root, facts)?;
    create_hives(c_root, facts)
}
