//! The specialize pass: the computer's name and settings, then `RunSynchronous` in order, as SYSTEM.
//!
//! A command that fails stops Setup with a dialog that stays.
//!
//! Sources: Microsoft, Unattended Windows Setup Reference (Shell-Setup, Deployment/RunSynchronous/WillReboot).

use std::io::Read;
use std::time::Duration;

use super::{Next, STATUS, System, answer_file};
use crate::answer::{Answer, Element, Pass, product_key};
use crate::dialog::{self, Dialog};
use crate::setup::log::Log;
use crate::windows::Data;

const PASS: Pass = Pass::Specialize;
/// How long services have for their work while the real pass is at its own.
const SERVICES_WORK: Duration = Duration::from_secs(120);
const CONTROL: &str = r"HKLM\SYSTEM\CurrentControlSet\Control";
const NT: &str = r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion";

/// Runs the pass. Ends with a restart, into oobeSystem or into the rest of the commands.
pub fn run(system: &mut System) -> Result<Next, Dialog> {
    system.screen.progress(&["Getting devices ready"]);
    let log = system.log("");
    let resumed = system.windows.value(STATUS, "NextCommand").is_some();
    system.set_state("IMAGE_STATE_UNDEPLOYABLE")?;
    let answer = answer_file::find(system, PASS, &log)?;
    let empty = Element::default();
    let part = |name: &str| {
        answer
            .as_ref()
            .and_then(|answer| answer.component(PASS, name))
            .unwrap_or(&empty)
    };
    if !resumed {
        // Sysprep's providers come first: from here on it is another machine, and cloudbase-init waits no longer. That its
        // first pass does not wait for ever in this pass shows when the state is reached.
        let another = system.windows.become_another();
        another.map_err(dialog::could_not_configure)?;
        let key = format!(r"{STATUS}\SysprepStatus");
        system.set(&key, "GeneralizationState", Data::Dword(7))?;
        settings(system, answer.as_ref(), part("Shell-Setup"))?;
        other_settings(system, &part)?;
        if let Some(power) = system.windows.let_services_work(SERVICES_WORK) {
            return Ok(Next::Interrupted(power));
        }
        if let Some(why) = system.windows.halted() {
            return Err(dialog::program_not_modelled(why));
        }
    }
    if let Some(answer) = &answer {
        match commands(system, answer, part("Deployment"), &log)? {
            Next::Restart => {
                system.set(STATUS, "RestartPlanned", Data::Dword(1))?;
                return Ok(Next::Restart);
            }
            Next::Interrupted(power) => return Ok(Next::Interrupted(power)),
            Next::GoOn => {}
        }
    }
    system.windows.delete_value(STATUS, "NextCommand");
    if let Some(answer) = &answer {
        answer_file::close(system, answer, PASS)?;
    }
    log.info("Specialize pass is finished");
    system.set_state("IMAGE_STATE_SPECIALIZE_RESEAL_TO_OOBE")?;
    Ok(Next::Restart)
}

/// 15 characters of the NetBIOS set, not only digits.
pub fn name_fits(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
    (1..=15).contains(&name.chars().count())
        && name.chars().all(allowed)
        && !name.chars().all(|c| c.is_ascii_digit())
}

fn random_name() -> String {
    let mut bytes = [0u8; 11];
    let _ = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    bytes.iter().fold("WIN-".to_owned(), |name, byte| {
        name + &char::from(letters[usize::from(*byte) % letters.len()]).to_string()
    })
}

fn settings(system: &System, answer: Option<&Answer>, shell: &Element) -> Result<(), Dialog> {
    let path = answer.map_or("", |answer| answer.path.as_str());
    let name = match shell.text("ComputerName") {
        None | Some("*") => random_name(),
        Some(name) if name_fits(name) => name.to_owned(),
        Some(name) => {
            let why =
                format!("ComputerName {name:?}: 1 to 15 of A-Z, 0-9 and '-', not digits alone");
            return Err(dialog::not_applicable(
                path,
                PASS.name(),
                "Shell-Setup",
                why,
            ));
        }
    };
    for key in ["ComputerName", "ActiveComputerName"] {
        system.set(
            &format!(r"{CONTROL}\ComputerName\{key}"),
            "ComputerName",
            Data::Text(name.to_uppercase()),
        )?;
    }
    for value in ["Hostname", "NV Hostname"] {
        system.set(
            r"HKLM\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters",
            value,
            Data::Text(name.clone()),
        )?;
    }
    if let Some(key) = shell.text("ProductKey") {
        let text = |name: &str| match system.windows.value(NT, name) {
            Some(Data::Text(text)) => text,
            _ => String::new(),
        };
        let build = text("CurrentBuildNumber").parse().unwrap_or(0);
        if !product_key::fits(key, build, &text("EditionID")) {
            return Err(dialog::invalid_product_key(format!(
                "not a key of {} build {build}",
                text("EditionID")
            )));
        }
    }
    if let Some(zone) = shell.text("TimeZone") {
        system.set(
            &format!(r"{CONTROL}\TimeZoneInformation"),
            "TimeZoneKeyName",
            Data::Text(zone.to_owned()),
        )?;
    }
    for name in ["RegisteredOwner", "RegisteredOrganization"] {
        if let Some(text) = shell.text(name) {
            system.set(NT, name, Data::Text(text.to_owned()))?;
        }
    }
    Ok(())
}

/// Settings of other components that are one registry value each.
fn other_settings<'a>(system: &System, part: &impl Fn(&str) -> &'a Element) -> Result<(), Dialog> {
    let number = |element: &Element, name: &str| {
        let text = element.text(name)?.to_ascii_lowercase();
        text.parse()
            .ok()
            .or_else(|| Some(u32::from(text == "true")))
    };
    let terminal = format!(r"{CONTROL}\Terminal Server");
    let listener = format!(r"{terminal}\WinStations\RDP-Tcp");
    let firewall = r"HKLM\SYSTEM\CurrentControlSet\Services\SharedAccess\Parameters\FirewallPolicy";
    let values = [
        (
            "TerminalServices-LocalSessionManager",
            "fDenyTSConnections",
            terminal.clone(),
            "fDenyTSConnections",
        ),
        (
            "TerminalServices-RDP-WinStationExtensions",
            "UserAuthentication",
            listener.clone(),
            "UserAuthentication",
        ),
        (
            "TerminalServices-RDP-WinStationExtensions",
            "SecurityLayer",
            listener,
            "SecurityLayer",
        ),
        (
            "ServerManager-SvrMgrNc",
            "DoNotOpenServerManagerAtLogon",
            r"HKLM\SOFTWARE\Microsoft\ServerManager".into(),
            "DoNotOpenServerManagerAtLogon",
        ),
        (
            "Security-SPP-UX",
            "SkipAutoActivation",
            format!(r"{NT}\SoftwareProtectionPlatform\Activation"),
            "Manual",
        ),
        (
            "OutOfBoxExperience",
            "DoNotOpenInitialConfigurationTasksAtLogon",
            r"HKLM\SOFTWARE\Microsoft\ServerManager\Oobe".into(),
            "DoNotOpenInitialConfigurationTasksAtLogon",
        ),
        (
            "ErrorReportingCore",
            "DisableWER",
            r"HKLM\SOFTWARE\Microsoft\Windows\Windows Error Reporting".into(),
            "Disabled",
        ),
        (
            "SQMApi",
            "CEIPEnabled",
            r"HKLM\SOFTWARE\Microsoft\SQMClient\Windows".into(),
            "CEIPEnable",
        ),
        (
            "SecureStartup-FilterDriver",
            "PreventDeviceEncryption",
            format!(r"{CONTROL}\BitLocker"),
            "PreventDeviceEncryption",
        ),
        (
            "Networking-MPSSVC-Svc",
            "DomainProfile_EnableFirewall",
            format!(r"{firewall}\DomainProfile"),
            "EnableFirewall",
        ),
        (
            "Networking-MPSSVC-Svc",
            "PrivateProfile_EnableFirewall",
            format!(r"{firewall}\StandardProfile"),
            "EnableFirewall",
        ),
        (
            "Networking-MPSSVC-Svc",
            "PublicProfile_EnableFirewall",
            format!(r"{firewall}\PublicProfile"),
            "EnableFirewall",
        ),
    ];
    for (component, setting, key, value) in values {
        if let Some(number) = number(part(component), setting) {
            system.set(&key, value, Data::Dword(number))?;
        }
    }
    Ok(())
}

/// `RunSynchronous`, from where a planned restart left off.
fn commands(
    system: &System,
    answer: &Answer,
    deployment: &Element,
    log: &Log,
) -> Result<Next, Dialog> {
    let mut list: Vec<&Element> = deployment
        .all("RunSynchronous", "RunSynchronousCommand")
        .collect();
    list.sort_by_key(|command| command.number("Order"));
    let first = match system.windows.value(STATUS, "NextCommand") {
        Some(Data::Dword(next)) => next as usize,
        _ => 0,
    };
    for (index, command) in list.iter().enumerate().skip(first) {
        let order = command.number("Order").unwrap_or(0);
        let Some(line) = command.text("Path") else {
            let why = format!("RunSynchronousCommand {order} has no Path");
            return Err(dialog::not_applicable(
                &answer.path,
                PASS.name(),
                "Deployment",
                why,
            ));
        };
        log.info(&format!("[RunSynchronous] command {order}: {line}"));
        let (code, output) = system.command(line);
        for line in output.lines() {
            crate::machine::debug(line);
        }
        if let Some(why) = system.windows.halted() {
            return Err(dialog::program_not_modelled(why));
        }
        log.info(&format!(
            "[RunSynchronous] command {order} ended with {code}"
        ));
        if let Some(power) = system.windows.power_asked() {
            return Ok(Next::Interrupted(power));
        }
        let (next, restart) = match (command.text("WillReboot").unwrap_or("Never"), code) {
            ("OnRequest", 1) => (index + 1, true),
            ("OnRequest", 2) => (index, true),
            ("Always", 0) => (index + 1, true),
            (_, 0) => (index + 1, false),
            _ => {
                let why = format!("specialize command {order} ended with exit code {code}: {line}");
                return Err(dialog::could_not_configure(why));
            }
        };
        if restart {
            system.set(STATUS, "NextCommand", Data::Dword(next as u32))?;
            return Ok(Next::Restart);
        }
    }
    Ok(Next::GoOn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computer_names() {
        for (name, fits) in [
            ("NODE-1", true),
            ("", false),
            ("1234", false),
            ("ABCDEFGHIJKLMNOP", false),
            ("a_b", false),
            ("WIN-0123456789A", true),
        ] {
            assert_eq!(name_fits(name), fits, "{name}");
        }
        let random = random_name();
        assert!(name_fits(&random) && random.len() == 15, "{random}");
    }
}
