//! Setup, the windowsPE and offlineServicing passes: from the medium and the answer file to a disk that starts.
//!
//! It stops with a screen that stays where Windows Setup would stop, and writes Panther's logs where Windows does.

mod apply;
mod boot_files;
pub mod log;

use std::path::PathBuf;

pub use apply::mount_windows;

use crate::answer::{Answer, Pass, plan, search};
use crate::dialog::{self, Dialog};
use crate::machine::drives::{CdDrives, Drive};
use crate::machine::{Firmware, devices, drivers, drives, screen::Screen, sys};
use crate::medium::{self, Medium};
use log::Log;

/// What Setup carries from step to step.
pub struct Setup<'a> {
    pub screen: &'a mut Screen,
    pub log: &'a mut Log,
    pub drives: Vec<Drive>,
    pub firmware: Firmware,
    /// Root of the install medium.
    pub root: PathBuf,
    pub medium: Medium,
    /// Packages found below DriverPaths, to be staged into the installed system.
    pub packages: Vec<drivers::Package>,
}

/// Runs Setup to its reboot, or to a screen that stays.
pub fn run() -> ! {
    let mut screen = Screen::open();
    screen.progress(&["Setup is starting"]);
    screen.heed_keys();
    let mut log = Log::in_memory();
    match start(&mut screen, &mut log).and_then(|mut setup| install(&mut setup)) {
        Ok(()) => {
            screen.progress(&["Windows needs to restart to continue"]);
            sys::end(true)
        }
        Err(dialog) => {
            log.error(&format!("{} [{}]", dialog.text, dialog.why));
            screen.dialog(&dialog);
            sys::stay()
        }
    }
}

fn start<'a>(screen: &'a mut Screen, log: &'a mut Log) -> Result<Setup<'a>, Dialog> {
    drivers::load_inbox().map_err(|fault| dialog::media_driver(fault.to_string()))?;
    devices::settle(true);
    let cds = CdDrives::open();
    let mut all = cds.list();
    all.extend(drives::removable(cds.next_letter()));
    let holder = all
        .iter()
        .find(|drive| drive.root.join("sources/install.wim").exists());
    let root = holder.map(|drive| drive.root.clone());
    let root = root.ok_or_else(|| dialog::media_driver("no drive holds sources/install.wim"))?;
    let medium = medium::read(&root).map_err(dialog::cannot_install)?;
    let firmware = Firmware::running();
    Ok(Setup {
        screen,
        log,
        drives: all,
        firmware,
        root,
        medium,
        packages: Vec::new(),
    })
}

/// The places where Windows PE looks, in its order.
fn candidates(setup: &Setup) -> Vec<search::Candidate> {
    let mut found = Vec::new();
    let roots = setup
        .drives
        .iter()
        .filter(|drive| drive.writable)
        .chain(setup.drives.iter().filter(|drive| !drive.writable));
    for drive in roots {
        for name in search::names(Pass::WindowsPe) {
            if let Some(bytes) =
                drives::entry(&drive.root, name).and_then(|path| std::fs::read(path).ok())
            {
                found.push(search::Candidate {
                    path: format!(r"{}:\Autounattend.xml", drive.letter),
                    bytes,
                });
            }
        }
    }
    let letter = setup
        .drives
        .iter()
        .find(|drive| drive.root == setup.root)
        .map_or('D', |drive| drive.letter);
    let sources = drives::entry(&setup.root, "sources")
        .and_then(|path| drives::entry(&path, "autounattend.xml"));
    if let Some(bytes) = sources.and_then(|path| std::fs::read(path).ok()) {
        found.push(search::Candidate {
            path: format!(r"{letter}:\sources\Autounattend.xml"),
            bytes,
        });
    }
    found
}

fn install(setup: &mut Setup) -> Result<(), Dialog> {
    let answer = search::choose(candidates(setup), Pass::WindowsPe)
        .map_err(|(path, why)| dialog::invalid_file(&path, Pass::WindowsPe.name(), why))?;
    if let Some(answer) = &answer {
        setup.log.info(&format!(
            "UnattendSearchExplicitPath: Found usable unattend file for pass [windowsPE] at [{}].",
            answer.path
        ));
    }
    let answer = plan::start(answer.as_ref(), &setup.medium)?;
    load_drivers(setup, answer);
    let disks = devices::disks();
    let facts: Vec<_> = disks.iter().map(devices::facts).collect();
    for (number, (disk, facts)) in disks.iter().zip(&facts).enumerate() {
        setup.log.info(&format!(
            "disk {number}: {} MiB at {}",
            facts.bytes >> 20,
            disk.bus
        ));
    }
    let chosen = plan::install(answer, &setup.medium, setup.firmware, &facts)?;
    setup
        .screen
        .progress(&["Installing Windows", "", "Preparing the disk"]);
    let target = apply::partition(setup, &chosen, &disks)?;
    setup
        .screen
        .progress(&["Installing Windows", "", "Copying Windows files"]);
    apply::image(setup, &chosen, &target)?;
    setup.screen.progress(&[
        "Installing Windows",
        "",
        "Getting files ready for installation",
    ]);
    apply::finish(setup, answer, &chosen, &target)
}

/// Takes the packages that DriverPaths lead to, and loads those that a device of this computer asks for.
fn load_drivers(setup: &mut Setup, answer: &Answer) {
    for path in plan::driver_paths(answer, Pass::WindowsPe) {
        let Some(directory) = drives::resolve(&setup.drives, path) else {
            setup
                .log
                .info(&format!("PnPIBS: driver path [{path}] is not there"));
            continue;
        };
        for inf in drivers::find(&directory) {
            take_package(setup, &inf);
        }
    }
    if !setup.packages.is_empty() {
        devices::settle(false);
    }
}

fn take_package(setup: &mut Setup, inf: &std::path::Path) {
    match drivers::package(inf, setup.medium.build) {
        Ok(package) => {
            if let Some(list) = package
                .modules()
                .filter(|_| drivers::device_present(&package))
            {
                match sys::load_modules(list) {
                    Ok(()) => setup
                        .log
                        .info(&format!("PnPIBS: Installed driver [{}]", inf.display())),
                    Err(fault) => setup
                        .log
                        .error(&format!("PnPIBS: driver [{}]: {fault}", inf.display())),
                }
            }
            if !setup.packages.iter().any(|held| held.inf == package.inf) {
                setup.packages.push(package);
            }
        }
        Err(fault) => setup
            .log
            .error(&format!("PnPIBS: driver package refused: {fault}")),
    }
}
