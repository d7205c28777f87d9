//! The installed system: from its disk through specialize and oobeSystem to a running Windows with its agent.
//!
//! Whether Setup runs at a boot follows from `SetupType` and `CmdLine`, and which part of it from `ImageState`, as it does under
//! Windows. An installation that was interrupted stays broken.

mod answer_file;
mod extend;
mod oobe;
mod running;
mod specialize;
mod volume;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::dialog::{self, Dialog};
use crate::machine::drives::CdDrives;
use crate::machine::{devices, drivers, firmware, network, screen::Screen, sys};
use crate::setup::log::Log;
use crate::windows::{Config, Data, Power, RealPrograms, Windows};

pub const SETUP: &str = r"HKLM\SYSTEM\Setup";
pub const STATUS: &str = r"HKLM\SYSTEM\Setup\Status";
/// Setup's program of a first start.
const WINDEPLOY: &str = r"oobe\windeploy.exe";

/// One boot of the installed system.
pub struct System {
    pub screen: Screen,
    pub windows: Arc<Windows>,
    /// Mounted C:.
    pub root: PathBuf,
    /// The disk that C: is on, and the number of its partition.
    disk: devices::Device,
    partition: u32,
    pub cds: Arc<Mutex<CdDrives>>,
    /// An agent serves its port already.
    pub agent: Arc<Mutex<bool>>,
}

/// How a phase of Setup ended well.
pub enum Next {
    Restart,
    /// A command had the computer restart or shut down by itself. Setup knows nothing of it, and stops at the next boot.
    Interrupted(Power),
    GoOn,
}

/// Runs the system until it is shut down or stops with a screen.
pub fn run() -> ! {
    let mut screen = Screen::open();
    screen.progress(&["Getting ready"]);
    match open(screen) {
        Ok(mut system) => {
            let dialog = match phases(&mut system) {
                Ok(()) => running::run(&mut system),
                Err(dialog) => dialog,
            };
            stop(system, &dialog)
        }
        Err((mut screen, dialog)) => {
            screen.dialog(&dialog);
            sys::stay()
        }
    }
}

fn open(screen: Screen) -> Result<System, (Screen, Dialog)> {
    let stop_code = |fault: String| dialog::stop_code("INACCESSIBLE_BOOT_DEVICE", fault);
    let opened = drivers::load_inbox()
        .map_err(|e| stop_code(e.to_string()))
        .and_then(|()| {
            devices::settle(false);
            let volume = volume::find().map_err(stop_code)?;
            let cds = CdDrives::open();
            let programs = RealPrograms::of_the_medium().map_err(stop_code)?;
            let config = Config {
                c_root: volume.root.clone(),
                drives: letters(&cds),
                computer_name: String::new(),
                lease: network::connect(&volume.root),
                labels: cds.labels(),
                programs,
            };
            let windows = Windows::open(config)
                .map_err(|fault| dialog::stop_code("BAD_SYSTEM_CONFIG_INFO", fault))?;
            windows.set_devices(drivers::devices());
            windows
                .find_hardware(firmware::secure_boot(), devices::has_tpm())
                .map_err(|fault| dialog::stop_code("BAD_SYSTEM_CONFIG_INFO", fault))?;
            volume::check_driver(&volume, &windows).map_err(stop_code)?;
            Ok((volume, cds, windows))
        });
    match opened {
        Ok((volume, cds, windows)) => {
            let system = System {
                screen,
                windows: Arc::new(windows),
                root: volume.root,
                disk: volume.disk,
                partition: volume.partition,
                cds: Arc::new(Mutex::new(cds)),
                agent: Arc::default(),
            };
            running::watch_drives(&system);
            running::watch_power_button(&system);
            Ok(system)
        }
        Err(dialog) => Err((screen, dialog)),
    }
}

pub fn letters(cds: &CdDrives) -> Vec<(char, PathBuf)> {
    cds.list()
        .into_iter()
        .map(|drive| (drive.letter, drive.root))
        .collect()
}

/// The parts of Setup that this boot still has to do. Without `SetupType` and windeploy.exe as its `CmdLine` Windows starts as it
/// is, whatever `ImageState` says: that of a template which was sealed and not armed (seen on real machines by cofoundry).
fn phases(system: &mut System) -> Result<(), Dialog> {
    let value = |name: &str| system.windows.value(SETUP, name);
    let is_armed = match (value("SetupType"), value("CmdLine")) {
        (Some(Data::Dword(0)) | None, _) => false,
        (_, Some(Data::Text(line))) => line.eq_ignore_ascii_case(WINDEPLOY),
        _ => false,
    };
    if !is_armed {
        return Ok(());
    }
    let state = system.windows.image_state().unwrap_or_default();
    system.screen.progress(&["Getting ready", "", &state]);
    match state.as_str() {
        "IMAGE_STATE_COMPLETE" => Ok(()),
        "IMAGE_STATE_SPECIALIZE_RESEAL_TO_OOBE" => oobe::run(system),
        "IMAGE_STATE_GENERALIZE_RESEAL_TO_OOBE" | "" => specialize_and_restart(system),
        "IMAGE_STATE_UNDEPLOYABLE" if system.windows.delete_value(STATUS, "RestartPlanned") => {
            specialize_and_restart(system)
        }
        "IMAGE_STATE_UNDEPLOYABLE" => Err(dialog::restarted_unexpectedly(
            "the last boot ended in the middle of a pass of Setup",
        )),
        other => Err(dialog::could_not_configure(format!(
            "image state {other} is not modelled"
        ))),
    }
}

fn specialize_and_restart(system: &mut System) -> Result<(), Dialog> {
    match specialize::run(system)? {
        Next::Restart => power(system, Power::Reboot),
        Next::Interrupted(request) => power(system, request),
        Next::GoOn => Ok(()),
    }
}

impl System {
    pub fn log(&self, below_panther: &str) -> Log {
        Log::at(
            &self.root.join("Windows/Panther").join(below_panther),
            "WINDEPLOY",
        )
    }

    pub fn set(&self, key: &str, name: &str, data: Data) -> Result<(), Dialog> {
        self.windows
            .set_value(key, name, data)
            .map_err(dialog::could_not_configure)
    }

    pub fn set_state(&self, state: &str) -> Result<(), Dialog> {
        let set = self
            .windows
            .set_image_state(state)
            .and_then(|()| self.windows.flush());
        set.map_err(dialog::could_not_configure)
    }

    /// Runs a command line and gives its exit code and output.
    pub fn command(&self, line: &str) -> (u32, String) {
        let mut output = Vec::new();
        let code = self.windows.run(line, &mut output);
        (code, String::from_utf8_lossy(&output).into_owned())
    }
}

/// Ends this boot: access lists and hives written, C: unmounted clean.
pub fn power(system: &mut System, power: Power) -> ! {
    let word = if power == Power::Reboot {
        "Restarting"
    } else {
        "Shutting down"
    };
    system.screen.progress(&[word]);
    let extends = system.windows.extends();
    let _ = system.windows.close();
    for _ in 0..20 {
        if sys::unmount(&system.root).is_ok() {
            if extends && let Err(fault) = extend::volume(&system.disk, system.partition) {
                crate::machine::debug(&format!("C: could not be extended: {fault}"));
            }
            sys::end(power == Power::Reboot);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    // Somebody holds a file open: as with Windows, its last bytes may be lost, not the file system.
    let _ = sys::detach(&system.root);
    std::thread::sleep(Duration::from_millis(500));
    sys::end(power == Power::Reboot)
}

/// Shows what stopped Setup, after `ErrorHandler.cmd` had its turn. Stays.
fn stop(mut system: System, dialog: &Dialog) -> ! {
    let log = system.log("");
    log.error(&format!("{} [{}]", dialog.text, dialog.why));
    let handler = system.root.join("Windows/Setup/Scripts/ErrorHandler.cmd");
    if handler.exists() {
        log.info("WinDeploy: running ErrorHandler.cmd");
        let (code, _) = system
            .command(r"C:\Windows\System32\cmd.exe /c C:\Windows\Setup\Scripts\ErrorHandler.cmd");
        log.info(&format!("WinDeploy: ErrorHandler.cmd ended with {code}"));
        for _ in 0..50 {
            if let Some(request) = system.windows.power_request() {
                power(&mut system, request);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    let _ = system.windows.flush();
    system.screen.dialog(dialog);
    sys::stay()
}
