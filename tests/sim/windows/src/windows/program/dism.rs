//! dism.exe, online only: optional features, capabilities and packages. A feature that wants a reboot waits for one
//! (`RebootPending`), and is enabled or disabled by the next boot.
//!
//! States are kept under `HKLM\SOFTWARE\winimg-standin\Features` (REG_DWORD by name, Windows' own InstallState
//! numbers): Windows keeps them in its component store, which the stand-in has not.

mod capability;
mod package;

pub use package::wusa;

use super::Arguments;
use super::small::unknown;
use crate::windows::NT;
use crate::windows::boot::{CBS, reboot_pending};
use crate::windows::process::Process;
use crate::windows::registry::{Registry, dword_value, sz};

/// Exists from the start that completes a feature of [`SECOND_START`] until Windows has restarted by itself.
const COMPLETING: &str = r"HKLM\SOFTWARE\winimg-standin\SecondStart";
/// Features that servicing completes with a second restart (hashicorp/packer#6799; the authors of cofoundry saw it 60 to
/// 90 s after the first start; Hyper-V takes two starts by Microsoft's own words).
const SECOND_START: [&str; 2] = ["Containers", "Microsoft-Hyper-V"];

const STATES: &str = r"HKLM\SOFTWARE\winimg-standin\Features";
const DISABLED: u32 = 0;
const ENABLED: u32 = 1;
const DISABLE_PENDING: u32 = 2;
const ENABLE_PENDING: u32 = 3;

/// Feature, whether it is on in a fresh image, whether a change wants a reboot, the feature it needs.
type Feature = (&'static str, bool, bool, &'static str);
const FEATURES: [Feature; 23] = [
    ("Containers", false, true, ""),
    ("Containers-DisposableClientVM", false, true, "Containers"),
    ("Microsoft-Hyper-V", false, true, ""),
    (
        "Microsoft-Hyper-V-Offline",
        false,
        true,
        "Microsoft-Hyper-V",
    ),
    (
        "Microsoft-Hyper-V-Online",
        false,
        true,
        "Microsoft-Hyper-V-Offline",
    ),
    ("Microsoft-Hyper-V-Management-PowerShell", false, false, ""),
    ("RSAT-Hyper-V-Tools-Feature", false, false, ""),
    ("HypervisorPlatform", false, true, ""),
    ("VirtualMachinePlatform", false, true, ""),
    ("HostGuardian", false, true, ""),
    ("Windows-Defender", true, true, ""),
    ("SMB1Protocol", false, true, ""),
    ("TelnetClient", false, false, ""),
    ("TFTP", false, false, ""),
    ("MSRDC-Infrastructure", false, false, ""),
    ("IIS-WebServerRole", false, false, ""),
    ("IIS-WebServer", false, false, "IIS-WebServerRole"),
    ("NetFx4", true, false, ""),
    ("NetFx3ServerFeatures", false, false, ""),
    ("ServicesForNFS-ClientOnly", false, false, ""),
    ("FailoverCluster-PowerShell", false, false, ""),
    ("MicrosoftWindowsPowerShellV2", true, false, ""),
    ("Server-Core", true, false, ""),
];

/// Those that Server Core has not (Microsoft: Roles, Role Services, and Features not in Windows Server - Server Core).
const NOT_IN_CORE: [&str; 1] = ["TFTP"];

/// What this installation can enable.
fn features(registry: &Registry) -> impl Iterator<Item = &'static Feature> {
    let kind = registry.text(NT, "InstallationType");
    let is_core = kind.as_deref() == Some("Server Core");
    FEATURES
        .iter()
        .filter(move |(name, ..)| !is_core || !NOT_IN_CORE.contains(name))
}

fn feature(registry: &Registry, name: &str) -> Option<&'static Feature> {
    features(registry).find(|(known, ..)| known.eq_ignore_ascii_case(name))
}

fn state(registry: &Registry, name: &str, fresh: bool) -> u32 {
    registry
        .dword(STATES, name)
        .unwrap_or(if fresh { ENABLED } else { DISABLED })
}

/// At boot, what was pending is done.
pub fn finish_pending(registry: &mut Registry) -> Result<(), String> {
    for (name, ..) in FEATURES {
        match registry.dword(STATES, name) {
            Some(ENABLE_PENDING) => {
                registry.set(STATES, name, dword_value(ENABLED))?;
                if SECOND_START.contains(&name) {
                    registry
                        .make(COMPLETING)
                        .map_err(|fault| format!("{fault:?}"))?;
                }
            }
            Some(DISABLE_PENDING) => registry.set(STATES, name, dword_value(DISABLED))?,
            _ => {}
        }
    }
    package::finish_pending(registry)
}

/// Whether servicing restarts Windows once more after this start. `true` once.
pub fn takes_second_start(registry: &mut Registry) -> bool {
    registry.remove(COMPLETING)
}

#[derive(Default)]
struct Options {
    command: Option<String>,
    online: bool,
    all: bool,
    no_restart: bool,
    clean: bool,
    reset_base: bool,
    features: Vec<String>,
    packages: Vec<String>,
    capability: Option<String>,
    sources: Vec<String>,
    log: Option<String>,
}

pub fn run(p: &mut Process, args: &Arguments) -> u32 {
    let options = match parse(&args.list) {
        Ok(options) => options,
        Err(odd) => {
            p.complain(&format!("\nError: 87\n\nThe {odd} option is unknown.\n"));
            return 87;
        }
    };
    let Some(command) = options.command.clone().filter(|_| options.online) else {
        return unknown(
            p,
            "dism",
            if options.online {
                "no command"
            } else {
                "an image that is not /online"
            },
            87,
        );
    };
    if let Some(log) = &options.log
        && let Err(error) = p.locate(log).and_then(|found| found.writable())
    {
        p.complain(&format!("\nError: {}\n\n{}\n", error.0, error.text()));
        return error.0;
    }
    match command.as_str() {
        "/enable-feature" => change(p, &options, true),
        "/disable-feature" => change(p, &options, false),
        "/get-features" => list(p),
        "/get-featureinfo" => info(p, &options),
        "/add-package" => package::add(p, &options),
        "/add-capability" => capability::change(p, &options, true),
        "/remove-capability" => capability::change(p, &options, false),
        "/get-capabilityinfo" => capability::show(p, &options, false),
        "/get-capabilities" => capability::show(p, &options, true),
        "/cleanup-image" => clean(p, &options),
        other => unknown(p, "dism", other, 87),
    }
}

fn parse(list: &[String]) -> Result<Options, String> {
    let mut options = Options::default();
    for arg in list {
        let (name, value) = arg
            .split_once(':')
            .map_or((arg.as_str(), ""), |(name, value)| (name, value));
        match name
            .to_ascii_lowercase()
            .replacen('-', "/", usize::from(name.starts_with('-')))
            .as_str()
        {
            "/online" => options.online = true,
            "/all" => options.all = true,
            "/norestart" => options.no_restart = true,
            "/quiet" | "/english" | "/limitaccess" => {}
            "/startcomponentcleanup" => options.clean = true,
            "/resetbase" => options.reset_base = true,
            "/featurename" if !value.is_empty() => options.features.push(value.into()),
            "/packagepath" if !value.is_empty() => options.packages.push(value.into()),
            "/logpath" if !value.is_empty() => options.log = Some(value.into()),
            "/capabilityname" if !value.is_empty() && options.capability.is_none() => {
                options.capability = Some(value.into())
            }
            "/source" if !value.is_empty() => options.sources.push(value.into()),
            "/loglevel" | "/format" | "/scratchdir" if !value.is_empty() => {}
            command @ ("/enable-feature"
            | "/disable-feature"
            | "/get-features"
            | "/get-featureinfo"
            | "/add-package"
            | "/cleanup-image"
            | "/add-capability"
            | "/remove-capability"
            | "/get-capabilityinfo"
            | "/get-capabilities")
                if options.command.is_none() =>
            {
                options.command = Some(command.into())
            }
            _ => return Err(arg.clone()),
        }
    }
    Ok(options)
}

fn failed(p: &Process, code: u32, text: &str) -> u32 {
    p.complain(&format!("\nError: 0x{code:08x}\n\n{text}\n\nThe DISM log file can be found at C:\\Windows\\Logs\\DISM\\dism.log\n"));
    code
}

fn change(p: &mut Process, options: &Options, on: bool) -> u32 {
    if options.features.is_empty() {
        return failed(p, 87, "The feature-name option is missing");
    }
    let machine = p.machine.clone();
    let mut registry = machine.registry();
    let mut reboot = false;
    let mut wanted: Vec<&Feature> = Vec::new();
    for name in &options.features {
        let Some(mut known) = feature(&registry, name) else {
            return failed(p, 0x800f_080c, &format!("Feature name {name} is unknown."));
        };
        wanted.push(known);
        while let Some(parent) = feature(&registry, known.3).filter(|_| on) {
            let up = matches!(
                state(&registry, parent.0, parent.1),
                ENABLED | ENABLE_PENDING
            );
            if !up && !options.all {
                return failed(
                    p,
                    0x800f_0922,
                    "One or several parent features are disabled so current feature can not be enabled.",
                );
            }
            wanted.push(parent);
            known = parent;
        }
    }
    for (name, fresh, wants_reboot, _) in wanted {
        let now = state(&registry, name, *fresh);
        if matches!(now, ENABLED | ENABLE_PENDING) == on {
            reboot |= matches!(now, ENABLE_PENDING | DISABLE_PENDING);
            continue;
        }
        reboot |= wants_reboot;
        let next = match (on, wants_reboot) {
            (true, true) => ENABLE_PENDING,
            (true, false) => ENABLED,
            (false, true) => DISABLE_PENDING,
            (false, false) => DISABLED,
        };
        if let Err(e) = registry.set(STATES, name, dword_value(next)) {
            return failed(p, 0x8000_4005, &e);
        }
    }
    drop(registry);
    p.print("The operation completed successfully.\n");
    finish(p, options, reboot)
}

fn record_reboot(p: &Process) -> Result<(), String> {
    let mut registry = p.machine.registry();
    let made = registry.make(&format!(r"{CBS}\RebootPending"));
    made.map(|_| ()).map_err(|fault| format!("{fault:?}"))
}

/// Exit code 3010 with `/norestart`; without it dism restarts Windows (with `/quiet`) or asks.
fn finish(p: &Process, options: &Options, reboot: bool) -> u32 {
    if !reboot {
        return 0;
    }
    if record_reboot(p).is_err() {
        return 0x8000_4005;
    }
    if !options.no_restart {
        p.machine.ask_power(
            crate::windows::Power::Reboot,
            std::time::Duration::from_secs(1),
        );
        return 3010;
    }
    p.print("Restart Windows to complete this operation.\n");
    3010
}

fn list(p: &mut Process) -> u32 {
    let mut text =
        String::from("Features listing for package : Microsoft-Windows-Foundation-Package\n\n");
    let registry = p.machine.registry();
    for (name, fresh, ..) in features(&registry) {
        text += &format!(
            "Feature Name : {name}\nState : {}\n\n",
            label(state(&registry, name, *fresh))
        );
    }
    drop(registry);
    p.print(&(text + "The operation completed successfully.\n"));
    0
}

fn label(state: u32) -> &'static str {
    match state {
        ENABLED => "Enabled",
        ENABLE_PENDING => "Enable Pending",
        DISABLE_PENDING => "Disable Pending",
        _ => "Disabled",
    }
}

fn info(p: &mut Process, options: &Options) -> u32 {
    let Some(name) = options.features.first() else {
        return failed(p, 87, "The feature-name option is missing");
    };
    let registry = p.machine.registry();
    let Some((name, fresh, reboot, _)) = feature(&registry, name) else {
        drop(registry);
        return failed(p, 0x800f_080c, &format!("Feature name {name} is unknown."));
    };
    let state = label(state(&registry, name, *fresh));
    drop(registry);
    let reboot = if *reboot { "Required" } else { "Possible" };
    p.print(&format!("Feature Information:\n\nFeature Name : {name}\nRestart Required : {reboot}\nState : {state}\n\nThe operation completed successfully.\n"));
    0
}

/// `/Cleanup-Image /StartComponentCleanup`: empties the store's backup, not while servicing waits for a reboot.
fn clean(p: &mut Process, options: &Options) -> u32 {
    if !options.clean {
        return unknown(
            p,
            "dism",
            "/cleanup-image without /startcomponentcleanup",
            87,
        );
    }
    if reboot_pending(&p.machine.registry()) {
        return failed(
            p,
            0x800f_0806,
            "The operation could not be completed due to pending operations.",
        );
    }
    for path in [r"C:\Windows\WinSxS\Backup", r"C:\Windows\WinSxS\Temp"] {
        let Ok(found) = p.locate(path) else { continue };
        if found.is_dir() && std::fs::remove_dir_all(&found.host).is_err() {
            return failed(p, 5, "Access is denied.");
        }
    }
    let done = p
        .machine
        .registry()
        .set(CBS, "LastResetBase_UTC", sz(&super::small::timestamp()));
    if options.reset_base && done.is_err() {
        return 0x8000_4005;
    }
    p.print("The operation completed successfully.\n");
    0
}
