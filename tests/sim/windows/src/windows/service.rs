//! The service control manager: what is registered lives in the registry, what runs lives in memory.
//!
//! A service runs when its program is a real file that begins with `MZ` and is not one of the stand-in's console
//! programs (those would not answer the manager: 1053). Nothing is executed, but for what OpenStackService.exe is given
//! to run: the service stops when that ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::boot::strings;
use super::error::*;
use super::image::MARKER;
use super::process::{self, Process};
use super::program;
use super::registry::Registry;
use super::volume::Cwd;
use super::{Machine, cmdline, evtx, lock, sshd};

/// The marker of OpenStackService.exe.
const RUNNER: &str = "service-runner";
/// A Python program takes longer until it does something.
const START_UP: Duration = Duration::from_secs(if cfg!(test) { 0 } else { 3 });

pub const SERVICES: &str = r"HKLM\SYSTEM\CurrentControlSet\Services";

/// Running services by upper-cased name, with their process ids, and how many programs OpenStackService.exe runs.
#[derive(Default)]
pub struct Running(BTreeMap<String, u32>, usize);

pub struct ServiceConfig {
    /// The name as registered.
    pub name: String,
    pub kind: u32,
    pub start: u32,
    pub image_path: String,
    pub depends: Vec<String>,
}

pub fn key(name: &str) -> String {
    format!(r"{SERVICES}\{name}")
}

/// The configuration of a registered service (or driver); None when there is no such one.
pub fn config(registry: &Registry, name: &str) -> Option<ServiceConfig> {
    if name.is_empty() || name.contains(['\\', '/']) {
        return None;
    }
    let path = key(name);
    let kind = registry.dword(&path, "Type")?;
    Some(ServiceConfig {
        name: registry.key(&path)?.name.clone(),
        kind,
        start: registry.dword(&path, "Start").unwrap_or(3),
        image_path: registry.text(&path, "ImagePath").unwrap_or_default(),
        depends: strings(registry, &path, "DependOnService"),
    })
}

/// The process id of a running service.
pub fn pid(machine: &Machine, name: &str) -> Option<u32> {
    lock(&machine.services).0.get(&name.to_uppercase()).copied()
}

/// Whether the program of a service is there and could run as one.
pub fn binary(machine: &Arc<Machine>, name: &str) -> Result<(), Win32> {
    let config = config(&machine.registry(), name).ok_or(Win32(1060))?;
    let p = manager(machine);
    let path = p.env.expand(&config.image_path);
    if config.kind & 0x0f != 0 {
        let path = path
            .strip_prefix(r"\SystemRoot\")
            .map_or(path.clone(), |rest| format!(r"C:\Windows\{rest}"));
        return p
            .locate(path.strip_prefix(r"\??\").unwrap_or(&path))
            .and_then(|f| f.existing())
            .map(|_| ());
    }
    let image = program_of(&p, &path).ok_or(FILE_NOT_FOUND)?;
    let bytes = std::fs::read(&image.host).map_err(|e| Win32::from_io(&e))?;
    match bytes.strip_prefix(MARKER.as_bytes()) {
        Some(name) if name.starts_with(b"service") => Ok(()),
        Some(name) if name.starts_with(program::answers::NAME.as_bytes()) => Ok(()),
        Some(name) if name.starts_with(RUNNER.as_bytes()) => Ok(()),
        Some(_) => Err(Win32(1053)),
        None if bytes.starts_with(b"MZ") => Ok(()),
        None => Err(BAD_EXE_FORMAT),
    }
}

pub fn manager(machine: &Arc<Machine>) -> Process {
    Process {
        machine: machine.clone(),
        env: machine.env.clone(),
        cwd: Cwd(r"C:\Windows\System32".into()),
        stdin: Arc::default(),
        out: process::null(),
        err: process::null(),
        code_page: 437,
    }
}

/// The file that an ImagePath runs: quoted, or up to the first blank after which a file exists.
fn program_of(p: &Process, path: &str) -> Option<super::volume::Located> {
    let found = |name: &str| p.find(name, &[r"C:\Windows\System32".into()], &["", ".exe"]);
    if let Some(quoted) = path.strip_prefix('"') {
        return found(quoted.split('"').next()?);
    }
    let blanks = path
        .match_indices(' ')
        .map(|(at, _)| at)
        .chain([path.len()]);
    blanks.into_iter().find_map(|end| found(&path[..end]))
}

/// Starts a service and, before it, those it depends on.
pub fn start(machine: &Arc<Machine>, name: &str) -> Result<u32, Win32> {
    start_after(machine, name, 0)
}

fn start_after(machine: &Arc<Machine>, name: &str, depth: usize) -> Result<u32, Win32> {
    let config = config(&machine.registry(), name).ok_or(Win32(1060))?;
    if pid(machine, name).is_some() {
        return Err(Win32(1056));
    }
    if config.start == 4 {
        return Err(Win32(1058));
    }
    if depth > 32 {
        return Err(Win32(1059));
    }
    // A name that begins with `+` is a load order group; groups are always up.
    for other in config
        .depends
        .iter()
        .filter(|other| !other.starts_with('+'))
    {
        if self::config(&machine.registry(), other).is_none() {
            return Err(Win32(1075));
        }
        match start_after(machine, other, depth + 1) {
            Ok(_) | Err(Win32(1056)) => {}
            Err(error) => {
                let error = format!("%%{}", error.0);
                let (name, other) = (shown(machine, name), shown(machine, other));
                machine.log_event(evtx::MANAGER, 7001, &[&name, &other, &error]);
                return Err(Win32(1068));
            }
        }
    }
    // Of its drivers the image has the names alone.
    let is_driver = config.kind & 0x0f != 0;
    binary(machine, name).inspect_err(|error| {
        if !is_driver {
            note_failure(machine, name, *error);
        }
    })?;
    let next = {
        let mut running = lock(&machine.services);
        let next = 1000 + 4 * (running.0.len() as u32 + 1);
        running.0.insert(name.to_uppercase(), next);
        next
    };
    if super::regf::same(&config.name, sshd::SERVICE) {
        sshd::started(machine);
    }
    if let Some(command) = wrapped(machine, &config.image_path) {
        lock(&machine.services).1 += 1;
        let (machine, name) = (machine.clone(), config.name);
        std::thread::spawn(move || run_wrapped(&machine, &name, &command));
    }
    Ok(next)
}

/// What the manager writes into the System log of a service that did not start (Microsoft: events 7000 and 7009).
fn note_failure(machine: &Machine, name: &str, error: Win32) {
    let name = shown(machine, name);
    if error == Win32(1053) {
        machine.log_event(evtx::MANAGER, 7009, &["30000", &name]);
    }
    machine.log_event(evtx::MANAGER, 7000, &[&name, &format!("%%{}", error.0)]);
}

/// The name that people see.
fn shown(machine: &Machine, name: &str) -> String {
    let display = machine.registry().text(&key(name), "DisplayName");
    display.unwrap_or_else(|| name.to_owned())
}

/// What OpenStackService.exe is told to run: `OpenStackService.exe NAME COMMAND…` (cloudbase/OpenStackService).
fn wrapped(machine: &Arc<Machine>, image_path: &str) -> Option<String> {
    let p = manager(machine);
    let path = p.env.expand(image_path);
    let image = program_of(&p, &path)?;
    let bytes = std::fs::read(&image.host).ok()?;
    bytes
        .strip_prefix(MARKER.as_bytes())
        .filter(|name| name.starts_with(RUNNER.as_bytes()))?;
    let (_, rest) = cmdline::program(&path);
    let (_, command) = cmdline::program(rest);
    Some(command.trim().to_owned())
}

fn run_wrapped(machine: &Arc<Machine>, name: &str, command: &str) {
    std::thread::sleep(START_UP);
    if pid(machine, name).is_some() {
        // How it ends is in its own log; the service only stops.
        let _ = manager(machine).create(command);
        lock(&machine.services).0.remove(&name.to_uppercase());
    }
    lock(&machine.services).1 -= 1;
}

/// How many programs run under OpenStackService.exe.
pub fn programs(machine: &Machine) -> usize {
    lock(&machine.services).1
}

/// Stops a service; refused while another that runs depends on it (1051).
pub fn stop(machine: &Machine, name: &str) -> Result<(), Win32> {
    let registry = machine.registry();
    config(&registry, name).ok_or(Win32(1060))?;
    let mut running = lock(&machine.services);
    if !running.0.contains_key(&name.to_uppercase()) {
        return Err(Win32(1062));
    }
    let needs = |other: &String| {
        strings(&registry, &key(other), "DependOnService")
            .iter()
            .any(|on| super::regf::same(on, name))
    };
    if running.0.keys().any(needs) {
        return Err(Win32(1051));
    }
    running.0.remove(&name.to_uppercase());
    Ok(())
}

/// Names of all registered services, in the registry's order.
pub fn names(registry: &Registry) -> Vec<String> {
    registry
        .key(SERVICES)
        .map(|key| key.subkeys.values().map(|key| key.name.clone()).collect())
        .unwrap_or_default()
}

/// At boot: boot, system and automatic ones whose program is there; the others stay stopped, as on Windows.
pub fn start_automatic(machine: &Arc<Machine>) {
    let names = names(&machine.registry());
    for name in names {
        let automatic = config(&machine.registry(), &name).is_some_and(|config| config.start <= 2);
        if automatic {
            let _ = start(machine, &name);
        }
    }
}
