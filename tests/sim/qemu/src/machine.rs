//! What monitor, agent and the guest's life share: power, drives, screen, and the faults that are still to come.
//!
//! Nothing of a guest happens while the machine is stopped or stands still.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use crate::args::{Chardev, Config};
use crate::disk::{self, Image, Windows};
use crate::screen::Screen;
use crate::script::{Deed, Fault, Moment, Script, matches};

/// The disk's drive and the agent's port, as winimg names them; of a machine without them nothing is installed.
pub const DISK: &str = "disk0";
const PORT: &str = "org.qemu.guest_agent.0";

pub struct Machine {
    pub config: Config,
    pub script: Script,
    /// Where the monitor's socket is: a place to work in.
    pub dir: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
    /// The monitor's client, once it has negotiated.
    client: Mutex<Option<UnixStream>>,
    transcript: Mutex<Option<File>>,
}

pub struct State {
    /// `query-status`
    pub status: &'static str,
    /// Everything stands, although QEMU runs.
    pub frozen: bool,
    pub order: Order,
    pub port_open: bool,
    /// Changes whenever the guest goes down: what an agent knew is gone.
    pub session: u64,
    /// The session in which the agent answers nothing more.
    pub silent_session: Option<u64>,
    pub qmp_silent: bool,
    pub pieces: Option<usize>,
    pub windows: Option<Windows>,
    /// Setup made it on this machine.
    pub fresh: bool,
    /// Restarts until the agent comes.
    pub restarts_left: u32,
    /// How long each turn of it takes.
    pub reset_loop: Option<u64>,
    pub stays_away: bool,
    pub keys: u32,
    /// What lies in the drives, by the drive's id.
    pub images: BTreeMap<String, (PathBuf, Image)>,
    /// Bytes read and written, by the drive's id.
    pub moved: BTreeMap<String, (u64, u64)>,
    pub screen: Screen,
    /// How often each `[[run]]` was taken, and each `[[fault]]` met.
    pub used: Vec<u32>,
    met: Vec<u32>,
    number: u32,
}

/// What the guest's life has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Nothing,
    Reset,
    Off,
}

/// The guest was asked to restart or to power off.
pub struct Interrupted;

impl Machine {
    pub fn new(config: Config, script: Script, dir: PathBuf, number: u32) -> std::io::Result<Self> {
        let open = |path: &PathBuf| OpenOptions::new().create(true).append(true).open(path);
        let transcript = script.transcript.as_ref().map(open).transpose()?;
        let state = State {
            status: "prelaunch",
            frozen: false,
            order: Order::Nothing,
            port_open: false,
            session: 0,
            silent_session: None,
            qmp_silent: false,
            pieces: None,
            windows: None,
            fresh: false,
            restarts_left: 0,
            reset_loop: None,
            stays_away: false,
            keys: 0,
            images: BTreeMap::new(),
            moved: config
                .drives
                .iter()
                .map(|d| (d.id.clone(), (0, 0)))
                .collect(),
            screen: Screen::default(),
            used: vec![0; script.run.len()],
            met: vec![0; script.fault.len()],
            number,
        };
        Ok(Self {
            config,
            script,
            dir,
            state: Mutex::new(state),
            changed: Condvar::new(),
            client: Mutex::default(),
            transcript: Mutex::new(transcript),
        })
    }

    /// Whether it has what a guest of winimg has; a canary has not.
    pub fn is_whole(config: &Config) -> bool {
        let agent = |d: &crate::args::Device| d.get("name") == Some(PORT);
        config.devices.iter().any(agent) && config.drives.iter().any(|d| d.id == DISK)
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and wakes those who wait for a change.
    pub fn change<T>(&self, how: impl FnOnce(&mut State) -> T) -> T {
        let value = how(&mut self.lock());
        self.changed.notify_all();
        value
    }

    pub fn note(&self, line: &str) {
        let mut file = self
            .transcript
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = file.as_mut() {
            let _ = writeln!(file, "{}", line.replace('\r', "\\r").replace('\n', "\\n"));
        }
    }

    pub fn disk(&self) -> Option<&Path> {
        let drive = self.config.drives.iter().find(|d| d.id == DISK);
        drive.and_then(|d| d.file.as_deref())
    }

    /// The guest works for `ms` of its own time.
    pub fn pass(&self, ms: u64) -> Result<(), Interrupted> {
        let mut left = Duration::from_millis(ms);
        let mut state = self.lock();
        loop {
            if state.order != Order::Nothing {
                return Err(Interrupted);
            }
            if state.status != "running" || state.frozen {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            if left.is_zero() {
                return Ok(());
            }
            let began = Instant::now();
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            left = left.saturating_sub(began.elapsed());
        }
    }

    /// The guest has nothing to do until somebody restarts it.
    pub fn stand(&self) -> Interrupted {
        while self.pass(3_600_000).is_ok() {}
        Interrupted
    }

    pub fn runs(&self) -> bool {
        let state = self.lock();
        state.status == "running" && !state.frozen
    }

    // Monitor

    pub fn set_client(&self, stream: Option<UnixStream>) {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = stream;
    }

    pub fn event(&self, name: &str, data: Value) {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let mut event = json!({
            "timestamp": {"seconds": now.as_secs(), "microseconds": now.subsec_micros()}, "event": name,
        });
        if !data.is_null() {
            event["data"] = data;
        }
        self.say(&event.to_string());
    }

    /// A line to the monitor's client, if there is one.
    pub fn say(&self, line: &str) {
        if self.lock().qmp_silent {
            return;
        }
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = client.as_mut() {
            let _ = stream.write_all(format!("{line}\r\n").as_bytes());
        }
    }

    // Power

    /// QEMU stops the machine by itself.
    pub fn stop_with(&self, status: &'static str) {
        self.change(|s| s.status = status);
        self.event("STOP", Value::Null);
    }

    /// The guest restarts.
    pub fn reset(&self) {
        self.close_port();
        self.event("RESET", json!({"guest": true, "reason": "guest-reset"}));
        self.change(|s| s.order = Order::Reset);
    }

    pub fn close_port(&self) {
        let was_open = self.change(|s| {
            s.session += 1;
            std::mem::take(&mut s.port_open)
        });
        if was_open {
            self.event("VSERPORT_CHANGE", json!({"open": false, "id": "agent0"}));
        }
    }

    pub fn open_port(&self) {
        self.change(|s| s.port_open = true);
        self.event("VSERPORT_CHANGE", json!({"open": true, "id": "agent0"}));
    }

    /// The guest's own power-off: its state goes to the disk, and QEMU ends. A write that finds no room is tried again when
    /// the machine goes on.
    pub fn power_off(&self) {
        self.note("off");
        self.close_port();
        self.change(|s| s.images.remove(DISK));
        let (windows, fresh) = {
            let state = self.lock();
            (state.windows.clone(), state.fresh)
        };
        while let (Some(disk), Some(windows)) = (self.disk(), &windows) {
            match disk::save(disk, windows, &self.dir, fresh) {
                Ok(()) => break,
                Err(why) => self.write_failed(&why),
            }
            if self.pass(0).is_err() {
                return;
            }
        }
        self.event(
            "SHUTDOWN",
            json!({"guest": true, "reason": "guest-shutdown"}),
        );
        std::process::exit(0);
    }

    /// A write to the disk failed: the machine stops. NVMe hands the error to Windows, and nobody outside hears of it.
    pub fn write_failed(&self, why: &str) {
        self.note(&format!("write failed: {why}"));
        if self.config.device("nvme").is_some() {
            return;
        }
        let nospace = why.contains("No space left on device");
        let reason = if nospace {
            "No space left on device"
        } else {
            "Input/output error"
        };
        self.event(
            "BLOCK_IO_ERROR",
            json!({
                "device": DISK, "node-name": "#block123", "reason": reason, "operation": "write", "action": "stop", "nospace": nospace,
            }),
        );
        self.stop_with("io-error");
    }

    // Faults

    /// The faults of this moment. `about` is what their patterns judge.
    pub fn moment(&self, moment: Moment, about: &str) -> Vec<Fault> {
        let mut state = self.lock();
        let number = state.number;
        let mut due = Vec::new();
        for (n, fault) in self.script.fault.iter().enumerate() {
            let here = fault.at == moment && fault.machine.is_none_or(|m| m == number);
            if here && matches(&fault.is, about) {
                state.met[n] += 1;
                if state.met[n] == fault.nth {
                    due.push(fault.clone());
                }
            }
        }
        due
    }

    /// Lets happen what a fault does to the whole machine. `false`: it is for the caller to do.
    pub fn suffer(&self, fault: &Fault) -> bool {
        self.note(&format!("fault {:?}", fault.deed));
        if let Some(picture) = &fault.picture {
            let shown = Screen::read(picture);
            self.change(|s| s.screen = shown);
        }
        match fault.deed {
            Deed::Exit => {
                complain(&fault.words);
                std::process::exit(i32::try_from(fault.number).unwrap_or(1));
            }
            Deed::Signal => {
                complain(&fault.words);
                let number = i32::try_from(fault.number).unwrap_or(9);
                // SAFETY: a signal to ourselves; the runtime's own handler for some of them would let us go on.
                unsafe {
                    libc::signal(number, libc::SIG_DFL);
                    libc::kill(libc::getpid(), number);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            Deed::Waits => std::thread::sleep(Duration::from_millis(fault.ms)),
            Deed::QmpSilent => self.change(|s| s.qmp_silent = true),
            Deed::QmpCloses => {
                let client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(stream) = client.as_ref() {
                    let _ = stream.shutdown(std::net::Shutdown::Both);
                }
            }
            Deed::QmpGarbage => self.say("{\"event\": \"RES\u{0}ET"),
            Deed::AgentSilent => self.change(|s| s.silent_session = Some(s.session)),
            Deed::Resets => self.reset(),
            Deed::ResetLoop => {
                self.change(|s| s.reset_loop = Some(fault.ms.max(20)));
                self.reset();
            }
            Deed::StaysAway => {
                self.change(|s| s.stays_away = true);
                self.reset();
            }
            Deed::PowersOff => {
                // The agent is gone before anything more is answered.
                self.close_port();
                self.change(|s| s.order = Order::Off);
            }
            Deed::NoSpace => self.write_failed("No space left on device"),
            Deed::IoError => self.write_failed("Input/output error"),
            Deed::InternalError => {
                complain("KVM internal error. Suberror: 1\nemulation failure");
                self.stop_with("internal-error");
            }
            Deed::Panic => self.panic(fault.number),
            Deed::StandsStill => self.change(|s| s.frozen = true),
            Deed::Spins => {
                std::thread::spawn(|| {
                    loop {
                        std::hint::spin_loop();
                    }
                });
                self.change(|s| s.frozen = true);
            }
            _ => return false,
        }
        true
    }

    /// Windows reports its bug check where it finds a device for it, and restarts where it finds none.
    fn panic(&self, code: u64) {
        let recorder = self
            .config
            .cpu
            .split(',')
            .any(|word| word == "hv-crash" || word == "hv-crash=on");
        let data = if recorder {
            json!({
                "action": "pause", "info": {"type": "hyper-v", "arg1": code, "arg2": 0, "arg3": 0, "arg4": 0, "arg5": 0},
            })
        } else if self
            .config
            .device("pvpanic")
            .or(self.config.device("pvpanic-pci"))
            .is_some()
        {
            json!({"action": "pause"})
        } else {
            return self.reset();
        };
        self.event("GUEST_PANICKED", data);
        self.stop_with("guest-panicked");
    }

    /// A file that the machine writes a device's bytes to.
    pub fn log(&self, model: &str, text: &str) {
        let device = self.config.device(model);
        let chardev = device
            .and_then(|d| d.get("chardev"))
            .and_then(|name| self.config.chardevs.get(name));
        if let Some(Chardev::File { path, .. }) = chardev
            && let Ok(mut file) = OpenOptions::new().append(true).open(path)
        {
            let _ = file.write_all(text.as_bytes());
        }
    }
}

fn complain(words: &str) {
    for line in words.lines() {
        eprintln!("{line}");
    }
}
