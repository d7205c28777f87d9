//! The running system: CD drives followed, the agent's port served, requests to restart or shut down carried out.

use std::fs::{self, File};
use std::io::Read;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::{System, letters, power};
use crate::dialog::Dialog;
use crate::machine::{debug, on_hyper_v, sys};
use crate::windows::{Windows, agent_installed, serve_agent, serve_direct};

const PORT: &str = "org.qemu.guest_agent.0";
/// Stands for the socket of Hyper-V that PowerShell Direct uses.
const SESSIONS: &str = "standin.vmicvmsession";
const POLL: Duration = Duration::from_millis(200);
/// How long the agent's port is looked for all the time, and from then on now and then (qemu-ga: `--retry-path`, every 5 s).
const SEARCH: Duration = Duration::from_secs(20);
const RETRY: Duration = Duration::from_secs(5);
/// From a start to the restart with which servicing completes a feature: a tenth of Windows' 60 to 90 s, as the stand-in
/// starts in about a tenth of Windows' time.
const SECOND_START: Duration = Duration::from_secs(6);
/// Windows writes changed hives back after some seconds.
const FLUSH: Duration = Duration::from_secs(3);

/// Runs until somebody shuts the system down. The type says that it does not come back with a dialog of Setup.
pub fn run(system: &mut System) -> Dialog {
    system.screen.progress(&["Press Ctrl+Alt+Del to unlock."]);
    watch_agent(system);
    serve_sessions(system);
    system.windows.begin_startup_tasks();
    system.windows.begin_second_start(SECOND_START);
    let mut flushed = Instant::now();
    loop {
        if let Some(request) = system.windows.power_request() {
            power(system, request);
        }
        if let Some(why) = system.windows.halted() {
            return crate::dialog::program_not_modelled(why);
        }
        if flushed.elapsed() > FLUSH {
            flushed = Instant::now();
            if let Err(fault) = system.windows.flush() {
                return crate::dialog::stop_code("REGISTRY_ERROR", fault);
            }
        }
        std::thread::sleep(POLL);
    }
}

/// Mounts what is put into a CD drive and takes away what is taken out.
pub fn watch_drives(system: &System) {
    let (cds, windows) = (system.cds.clone(), system.windows.clone());
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(POLL);
            let mut cds = cds.lock().unwrap_or_else(PoisonError::into_inner);
            if cds.refresh() {
                windows.set_labels(cds.labels());
                let drives = letters(&cds);
                debug(&format!("drives: {drives:?}"));
                windows.set_drives(drives);
            }
        }
    });
}

/// The power button shuts Windows down.
pub fn watch_power_button(system: &System) {
    const KEY_POWER: u16 = 116;
    for entry in fs::read_dir("/dev/input").into_iter().flatten().flatten() {
        let Ok(mut events) = File::open(entry.path()) else {
            continue;
        };
        let windows = system.windows.clone();
        std::thread::spawn(move || {
            // struct input_event: a timeval of 16 bytes, type, code, value.
            let mut event = [0u8; 24];
            while events.read_exact(&mut event).is_ok() {
                let key = event[16..18] == [1, 0] && event[18..20] == KEY_POWER.to_le_bytes();
                if key && event[20] == 1 {
                    windows.run(
                        r"C:\Windows\System32\shutdown.exe /s /t 0",
                        &mut std::io::sink(),
                    );
                }
            }
        });
    }
}

/// Serves the agent's port from when its service runs and the port's driver is there. Does nothing the second time.
pub fn watch_agent(system: &System) {
    let mut watched = system.agent.lock().unwrap_or_else(PoisonError::into_inner);
    if std::mem::replace(&mut *watched, true) {
        return;
    }
    let windows = system.windows.clone();
    std::thread::spawn(move || {
        let began = Instant::now();
        loop {
            if agent_runs(&windows)
                && let Some(port) = open_port(PORT)
            {
                debug("agent: port open");
                serve_agent(port, windows.clone());
                debug("agent: port closed");
            }
            // A machine that has no port does not get one later, and is to stand still.
            std::thread::sleep(if began.elapsed() < SEARCH {
                POLL
            } else {
                RETRY
            });
        }
    });
}

fn agent_runs(windows: &Arc<Windows>) -> bool {
    let mut output = Vec::new();
    agent_installed(windows)
        && windows.run(r"C:\Windows\System32\sc.exe query QEMU-GA", &mut output) == 0
        && String::from_utf8_lossy(&output).contains("RUNNING")
}

/// PowerShell Direct: in-box, so all it asks for is Hyper-V, and a Setup that has finished.
fn serve_sessions(system: &System) {
    if !on_hyper_v() {
        return;
    }
    let windows = system.windows.clone();
    std::thread::spawn(move || {
        // The port shows some time after its driver.
        loop {
            if let Some(port) = open_port(SESSIONS) {
                debug("sessions: port open");
                serve_direct(port, windows.clone(), true);
            }
            std::thread::sleep(POLL);
        }
    });
}

fn open_port(wanted: &str) -> Option<File> {
    // Once: a machine without such a port is asked for it for ever, and is to stand still all the same.
    static DRIVER: OnceLock<bool> = OnceLock::new();
    let loads = || {
        sys::load_modules("vioser")
            .inspect_err(|fault| debug(&format!("vioser: {fault}")))
            .is_ok()
    };
    if !DRIVER.get_or_init(loads) {
        return None;
    }
    let ports = fs::read_dir("/sys/class/virtio-ports").ok()?.flatten();
    let named = |held: &fs::DirEntry| {
        fs::read_to_string(held.path().join("name")).is_ok_and(|name| name.trim() == wanted)
    };
    let port = ports.into_iter().find(named)?.file_name();
    File::options()
        .read(true)
        .write(true)
        .open(format!("/dev/{}", port.to_string_lossy()))
        .ok()
}
