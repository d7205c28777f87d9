//! sysprep.exe: judges its command line, its answer file and the machine, then seals it.
//!
//! A path with blanks is "Unable to parse command-line arguments" and exit code 0, as on Windows. A failure without
//! `/quiet` is a message box: the program never ends.

use std::time::Duration;

use super::Arguments;
use super::small::timestamp;
use crate::windows::account;
use crate::windows::boot::reboot_pending;
use crate::windows::process::Process;
use crate::windows::registry::{dword_value, sz};
use crate::windows::{Power, STATE};

const DIR: &str = r"C:\Windows\System32\Sysprep";
const SETUP: &str = r"HKLM\SYSTEM\Setup";
const PASSES: [&str; 7] = [
    "windowsPE",
    "offlineServicing",
    "generalize",
    "specialize",
    "auditSystem",
    "auditUser",
    "oobeSystem",
];
/// Of the disks that Windows starts from.
const BOOT_DRIVERS: [&str; 10] = [
    "atapi", "intelide", "LSI_SAS", "storahci", "stornvme", "storvsc", "viostor", "vioscsi",
    "vmbus", "vpci",
];
/// How long a run takes here; the real one takes minutes.
const DURATION: Duration = Duration::from_millis(1500);

#[derive(Default)]
struct Command {
    generalize: bool,
    mode: Option<&'static str>,
    end: Option<&'static str>,
    quiet: bool,
    unattend: Option<String>,
}

pub fn run(p: &mut Process, args: &Arguments) -> u32 {
    let Some(command) = parse(&args.list) else {
        p.print("Unable to parse command-line arguments\n");
        return 0;
    };
    std::thread::sleep(DURATION);
    match seal(p, &command) {
        Ok(()) => 0,
        Err(why) => {
            let line = format!("{}, Error      SYSPRP {why}\n", timestamp());
            log(p, &line, true);
            p.complain(&format!(
                "A fatal error occurred while trying to sysprep the machine.\n{why}\n"
            ));
            if !command.quiet {
                // The message box: nobody clicks it away.
                loop {
                    std::thread::park();
                }
            }
            1
        }
    }
}

fn parse(list: &[String]) -> Option<Command> {
    let mut command = Command::default();
    for arg in list {
        let lower = arg
            .to_ascii_lowercase()
            .replacen('-', "/", usize::from(arg.starts_with('-')));
        match lower.as_str() {
            "/generalize" => command.generalize = true,
            "/oobe" if command.mode.is_none() => command.mode = Some("OOBE"),
            "/audit" if command.mode.is_none() => command.mode = Some("AUDIT"),
            "/quit" if command.end.is_none() => command.end = Some("quit"),
            "/shutdown" if command.end.is_none() => command.end = Some("shutdown"),
            "/reboot" if command.end.is_none() => command.end = Some("reboot"),
            "/quiet" => command.quiet = true,
            "/mode:vm" => {}
            _ if lower.starts_with("/unattend:") && arg.len() > 10 && !arg.contains(' ') => {
                command.unattend = Some(arg[10..].to_owned())
            }
            _ => return None,
        }
    }
    (command.mode.is_some() && command.end.is_some()).then_some(command)
}

fn log(p: &Process, line: &str, error: bool) {
    let files: &[&str] = if error {
        &["setupact.log", "setuperr.log"]
    } else {
        &["setupact.log"]
    };
    for file in files {
        if let Ok(found) = p.locate(&format!(r"{DIR}\Panther\{file}")) {
            let mut text = std::fs::read(&found.host).unwrap_or_default();
            text.extend(line.replace('\n', "\r\n").bytes());
            // A log that can't be written stops nothing on Windows either.
            let _ = found.host.parent().map(std::fs::create_dir_all);
            let _ = std::fs::write(&found.host, text);
        }
    }
}

fn seal(p: &Process, command: &Command) -> Result<(), String> {
    log(
        p,
        &format!(
            "{}, Info       SYSPRP ========================================================\n",
            timestamp()
        ),
        false,
    );
    if let Ok(errors) = p.locate(&format!(r"{DIR}\Panther\setuperr.log"))
        && errors.meta.is_none()
    {
        let _ = std::fs::write(errors.host, b"");
    }
    let registry = p.machine.registry();
    if reboot_pending(&registry) {
        return Err("Sysprep_Clean_Validate: There are one or more Windows updates that require a reboot. To run Sysprep, reboot the computer and restart the application. [gle=0x00000015]".into());
    }
    let state = registry.text(STATE, "ImageState").unwrap_or_default();
    drop(registry);
    if state != "IMAGE_STATE_COMPLETE" {
        return Err(format!(
            "The machine is in an invalid state or we couldn't update the recorded state, dwRet = 0x1f (ImageState {state})"
        ));
    }
    if p.machine.installer.try_lock().is_err() {
        return Err("another installation is in progress".into());
    }
    let mut content = None;
    if let Some(path) = &command.unattend {
        let read = answer_file(p, path)?;
        let target = p
            .locate(r"C:\Windows\Panther\unattend.xml")
            .and_then(|found| found.writable())
            .map_err(|e| e.text())?;
        std::fs::write(target.host, &read).map_err(|e| e.to_string())?;
        content = Some(read);
    }
    if command.generalize {
        generalize(p, content.as_deref())?;
    }
    let mode = command.mode.unwrap_or("OOBE");
    let kind = if command.generalize {
        "GENERALIZE"
    } else {
        "SPECIALIZE"
    };
    p.machine
        .set_image_state(&format!("IMAGE_STATE_{kind}_RESEAL_TO_{mode}"))?;
    let mut registry = p.machine.registry();
    registry.set(SETUP, "SetupType", dword_value(2))?;
    registry.set(SETUP, "CmdLine", sz(r"oobe\windeploy.exe"))?;
    registry.set(SETUP, "SystemSetupInProgress", dword_value(1))?;
    registry.set(
        SETUP,
        "OOBEInProgress",
        dword_value(u32::from(mode == "OOBE")),
    )?;
    registry.flush()?;
    drop(registry);
    log(
        p,
        &format!(
            "{}, Info       SYSPRP Sysprep ran successfully\n",
            timestamp()
        ),
        false,
    );
    let tag = p
        .locate(&format!(r"{DIR}\Sysprep_succeeded.tag"))
        .map_err(|e| e.text())?;
    std::fs::write(tag.host, b"").map_err(|e| e.to_string())?;
    match command.end {
        Some("shutdown") => p.machine.ask_power(Power::Shutdown, Duration::ZERO),
        Some("reboot") => p.machine.ask_power(Power::Reboot, Duration::ZERO),
        _ => {}
    }
    Ok(())
}

/// Whether the answer file keeps the devices as they are.
fn persists_devices(content: &[u8]) -> bool {
    let text = String::from_utf8_lossy(content);
    let Ok(document) = roxmltree::Document::parse(text.trim_start_matches('\u{feff}')) else {
        return false;
    };
    let persists = |node: roxmltree::Node<'_, '_>| {
        node.tag_name().name() == "PersistAllDeviceInstalls"
            && node
                .text()
                .is_some_and(|text| text.trim().eq_ignore_ascii_case("true"))
    };
    document.descendants().any(persists)
}

/// The machine's SID and MachineGuid stay until the clone's specialize pass. SSH host keys and other software's secrets
/// stay for good: Windows knows nothing of them.
fn generalize(p: &Process, content: Option<&[u8]>) -> Result<(), String> {
    let mut registry = p.machine.registry();
    registry.set(
        &format!(r"{SETUP}\Status\SysprepStatus"),
        "GeneralizationState",
        dword_value(3),
    )?;
    registry.set(
        &format!(r"{SETUP}\Status\SysprepStatus"),
        "CleanupState",
        dword_value(2),
    )?;
    registry.remove(r"HKLM\SYSTEM\MountedDevices");
    account::blank_administrator(&mut registry);
    if !content.is_some_and(persists_devices) {
        // In-box boot drivers are armed again, for another controller.
        for service in BOOT_DRIVERS {
            let key = format!(r"HKLM\SYSTEM\CurrentControlSet\Services\{service}\StartOverride");
            registry.remove(&key);
        }
    }
    drop(registry);
    let logs = p
        .locate(r"C:\Windows\System32\winevt\Logs")
        .map_err(|e| e.text())?;
    for (name, meta) in crate::windows::volume::list(&logs.host) {
        if meta.is_file() {
            std::fs::remove_file(logs.host.join(name)).map_err(|e| e.to_string())?;
        }
    }
    Ok(())
}

/// Reads and judges the answer file: well formed, the right root, passes and components as Setup knows them.
fn answer_file(p: &Process, path: &str) -> Result<Vec<u8>, String> {
    let found = p
        .locate(path)
        .and_then(|found| found.existing())
        .map_err(|e| format!("Unattend file {path}: {}", e.text()))?;
    let bytes = std::fs::read(&found.host).map_err(|e| e.to_string())?;
    let fault = |why: String| {
        format!("Windows could not parse or process the unattend answer file [{path}]: {why}")
    };
    let text = std::str::from_utf8(&bytes).map_err(|e| fault(e.to_string()))?;
    let document = roxmltree::Document::parse(text.trim_start_matches('\u{feff}'))
        .map_err(|e| fault(e.to_string()))?;
    let root = document.root_element();
    let space = Some("urn:schemas-microsoft-com:unattend");
    if root.tag_name().name() != "unattend" || root.tag_name().namespace() != space {
        return Err(fault(
            "the root is not unattend of urn:schemas-microsoft-com:unattend".into(),
        ));
    }
    for settings in root
        .children()
        .filter(|node| node.is_element() && node.tag_name().namespace() == space)
    {
        if settings.tag_name().name() != "settings" {
            return Err(fault(format!("element {}", settings.tag_name().name())));
        }
        let pass = settings.attribute("pass").unwrap_or("");
        if !PASSES.contains(&pass) {
            return Err(fault(format!("pass [{pass}]")));
        }
        for component in settings.children().filter(roxmltree::Node::is_element) {
            let get = |name: &str| component.attribute(name).unwrap_or("");
            let whole = get("name").starts_with("Microsoft-Windows-")
                && get("processorArchitecture") == "amd64"
                && get("publicKeyToken") == "31bf3856ad364e35"
                && get("language") == "neutral"
                && get("versionScope") == "nonSxS";
            if component.tag_name().name() != "component" || !whole {
                return Err(fault(format!(
                    "component {} in pass [{pass}] has not the identity of a Windows component",
                    get("name")
                )));
            }
        }
    }
    Ok(bytes)
}
