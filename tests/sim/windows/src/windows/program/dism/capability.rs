//! Features on demand: what a fresh Windows Server has, and what comes from a folder of cabinets.
//!
//! The stand-in has no network, so a capability that is not there yet needs `/source`, and without it the source files
//! "could not be found" (0x800f081f).

use super::{Options, failed};
use crate::windows::image::{MARKER, SSHD, SSHD_SINCE};
use crate::windows::process::Process;
use crate::windows::registry::{Registry, dword_value, expand_sz, sz};
use crate::windows::service;
use crate::windows::volume::list;

const STATES: &str = r"HKLM\SOFTWARE\winimg-standin\Capabilities";
const NT: &str = r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion";

/// A capability's name, the first part of its cabinet's, and the build that has it from the start (0: every one).
const CAPABILITIES: [(&str, &str, u32); 6] = [
    ("OpenSSH.Client~~~~0.0.1.0", "OpenSSH-Client-Package", 0),
    (
        "OpenSSH.Server~~~~0.0.1.0",
        "OpenSSH-Server-Package",
        SSHD_SINCE,
    ),
    (
        "ServerCore.AppCompatibility~~~~0.0.1.0",
        "Microsoft-Windows-ServerCore-AppCompatibility-FOD-Package",
        u32::MAX,
    ),
    (
        "Microsoft.Windows.PowerShell.ISE~~~~0.0.1.0",
        "Microsoft-Windows-PowerShell-ISE-FOD-Package",
        0,
    ),
    (
        "Tools.DeveloperMode.Core~~~~0.0.1.0",
        "Microsoft-OneCore-DeveloperMode-Desktop-Package",
        u32::MAX,
    ),
    (
        "Browser.InternetExplorer~~~~0.0.11.0",
        "Microsoft-Windows-InternetExplorer-Optional-Package",
        u32::MAX,
    ),
];

fn present(registry: &Registry, name: &str, since: u32) -> bool {
    let build = registry
        .text(NT, "CurrentBuildNumber")
        .and_then(|build| build.parse::<u32>().ok())
        .unwrap_or(0);
    registry
        .dword(STATES, name)
        .map_or(build >= since, |state| state == 1)
}

pub fn show(p: &mut Process, options: &Options, all: bool) -> u32 {
    let registry = p.machine.registry();
    let mut text = String::new();
    for (name, _, since) in CAPABILITIES {
        let wanted = options.capability.as_deref();
        if all || wanted.is_some_and(|wanted| wanted.eq_ignore_ascii_case(name)) {
            let state = if present(&registry, name, since) {
                "Installed"
            } else {
                "Not Present"
            };
            text += &format!("Capability Identity : {name}\nState : {state}\n\n");
        }
    }
    drop(registry);
    if text.is_empty() {
        return failed(p, 87, "The capability name was not recognized.");
    }
    p.print(&(text + "The operation completed successfully.\n"));
    0
}

pub fn change(p: &mut Process, options: &Options, add: bool) -> u32 {
    let wanted = options.capability.as_deref().unwrap_or("");
    let Some((name, cabinet, since)) = CAPABILITIES
        .iter()
        .find(|(known, ..)| known.eq_ignore_ascii_case(wanted))
    else {
        return failed(p, 87, "The capability name was not recognized.");
    };
    if present(&p.machine.registry(), name, *since) != add {
        if add && !has_cabinet(p, options, cabinet) {
            return failed(p, 0x800f_081f, "The source files could not be found.");
        }
        let done = effects(p, name, add).and_then(|()| {
            let state = dword_value(u32::from(add));
            p.machine.registry().set(STATES, name, state)
        });
        if let Err(e) = done {
            return failed(p, 0x8000_4005, &e);
        }
    }
    p.print("The operation completed successfully.\n");
    0
}

/// Whether one of the folders of `/source` holds the capability's cabinet.
fn has_cabinet(p: &Process, options: &Options, cabinet: &str) -> bool {
    let cabinet = cabinet.to_ascii_lowercase();
    let folders = options
        .sources
        .iter()
        .filter_map(|folder| p.locate(folder).ok());
    folders.filter(|folder| folder.is_dir()).any(|folder| {
        list(&folder.host).iter().any(|(name, _)| {
            let lower = name.to_ascii_lowercase();
            lower.starts_with(&cabinet)
                && lower.ends_with(".cab")
                && std::fs::read(folder.host.join(name))
                    .is_ok_and(|bytes| bytes.starts_with(b"MSCF"))
        })
    })
}

/// OpenSSH's server comes with a service that waits for its first start, and nothing else here has a visible effect.
fn effects(p: &Process, name: &str, add: bool) -> Result<(), String> {
    if !name.starts_with("OpenSSH.Server") {
        return Ok(());
    }
    let folder = p
        .locate(r"C:\Windows\System32\OpenSSH")
        .map_err(|error| error.text())?
        .host;
    let (name, kind, start, path, display) = SSHD;
    let key = service::key(name);
    let mut registry = p.machine.registry();
    if !add {
        registry.remove(&key);
        return std::fs::remove_file(folder.join("sshd.exe")).map_err(|e| e.to_string());
    }
    std::fs::create_dir_all(&folder)
        .and_then(|()| {
            let marker = format!("{MARKER}service\r\n");
            std::fs::write(folder.join("sshd.exe"), marker)
        })
        .map_err(|e| e.to_string())?;
    registry.set(&key, "Type", dword_value(kind))?;
    registry.set(&key, "Start", dword_value(start))?;
    registry.set(&key, "ErrorControl", dword_value(1))?;
    registry.set(&key, "ImagePath", expand_sz(path))?;
    registry.set(&key, "DisplayName", sz(display))?;
    registry.set(&key, "ObjectName", sz("LocalSystem"))
}
