//! Leftovers that an image must not contain: secrets, keys and state of the build machine.
//!
//! Sources: Microsoft, "Configure Windows to automate logon"; OpenSSH: sshd(8), host keys;
//! Microsoft, "Installation and configuration for Windows Remote Management"; cloudbase-init: the
//! registry key of its plugins' states.

use winimg_formats::hive::{HiveKey, HiveValueData};
use winimg_recipe::{GUEST_DIR, RegistryKey};

use super::finding::{Verdict, VerifyFinding};
use super::image::{CheckResult, InspectedImage};

const WINLOGON: RegistryKey =
    RegistryKey::from_static(r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion\Winlogon");
const SSH: &str = r"C:\ProgramData\ssh";
const WSMAN: RegistryKey =
    RegistryKey::from_static(r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\WSMAN");
/// Folder of Setup's scripts, where the bootstrap puts its files.
const SCRIPTS: &str = r"C:\Windows\Setup\Scripts";
const SCRIPT_LIMIT: u64 = 1 << 20;

pub const CHECKS: &[fn(&InspectedImage<'_>) -> Verdict] = &[
    |image| own_script(image, "SetupComplete.cmd"),
    |image| own_script(image, "ErrorHandler.cmd"),
    automatic_logon,
    logon_password,
    ssh_host_keys,
    // Windows Server always has a listener; only its settings matter.
    |image| {
        let fact = "the WinRM service accepts unencrypted requests";
        let cure = "run winrm set winrm/config/service @{AllowUnencrypted=\"false\"} before the \
                    image is sealed";
        check_winrm_setting(
            image,
            "allow_unencrypted",
            VerifyFinding::error(fact).cure(cure),
        )
    },
    // Only a warning: with encryption it is as secure as the passwords.
    |image| {
        let fact = "the WinRM service accepts plain passwords (Basic)";
        let cure = "run winrm set winrm/config/service/auth @{Basic=\"false\"} before the image is \
                    sealed";
        check_winrm_setting(image, "auth_basic", VerifyFinding::warning(fact).cure(cure))
    },
    winrm_certificate,
    cloudbase_state,
];

/// Checks that also apply to clones.
pub const CLONE_CHECKS: &[fn(&InspectedImage<'_>) -> Verdict] = &[
    own_folder,
    |image| own_script(image, "SetupComplete.cmd"),
    |image| own_script(image, "ErrorHandler.cmd"),
    automatic_logon,
    logon_password,
];

pub fn own_folder(image: &InspectedImage<'_>) -> Verdict {
    if image.volume.exists(GUEST_DIR)? {
        Err(VerifyFinding::error(format!(
            "{GUEST_DIR} still exists: it contains the build's own files"
        ))
        .cure("check whether a program had a file there open when the image was sealed"))
    } else {
        Ok(())
    }
}

fn own_script(image: &InspectedImage<'_>, name: &str) -> Verdict {
    let path = format!(r"{SCRIPTS}\{name}");
    let Some(bytes) = image.volume.read(&path, SCRIPT_LIMIT)? else {
        return Ok(());
    };
    let text = String::from_utf8_lossy(&bytes).to_lowercase();
    if text.contains(&GUEST_DIR.to_lowercase()) {
        Err(
            VerifyFinding::error(format!("{path} is still the build's own"))
                .found(format!("a line with {GUEST_DIR}"))
                .cure("build the image again: every clone would run this script"),
        )
    } else {
        Ok(())
    }
}

fn automatic_logon(image: &InspectedImage<'_>) -> Verdict {
    let is_on = match image.read_value(&WINLOGON, "AutoAdminLogon")? {
        Some(HiveValueData::Sz(text) | HiveValueData::ExpandSz(text)) => text == "1",
        Some(HiveValueData::Dword(n)) => n == 1,
        _ => false,
    };
    if is_on {
        Err(VerifyFinding::error("automatic logon is enabled")
            .found(format!("{WINLOGON}, AutoAdminLogon = 1"))
            .cure("remove the value in a step before the image is sealed"))
    } else {
        Ok(())
    }
}

/// Refuses a stored password, which is never shown.
fn logon_password(image: &InspectedImage<'_>) -> Verdict {
    match image.read_text(&WINLOGON, "DefaultPassword")? {
        None => Ok(()),
        Some(text) if text.is_empty() => Ok(()),
        Some(_) => Err(VerifyFinding::error("the registry contains a password")
            .found(format!("{WINLOGON}, DefaultPassword"))
            .cure(
                "remove the value in a step before the image is sealed, and change the password \
                 everywhere else",
            )),
    }
}

fn ssh_host_keys(image: &InspectedImage<'_>) -> Verdict {
    let mut keys = image.list_names(SSH)?;
    keys.retain(|name| name.to_lowercase().starts_with("ssh_host_"));
    keys.sort();
    if keys.is_empty() {
        Ok(())
    } else {
        Err(VerifyFinding::error("every clone would have the same SSH host keys")
            .found(format!(r"{SSH}\{}", keys.join(", ")))
            .cure(
                "stop sshd and remove them before the image is sealed; sshd creates new ones when \
                 it starts",
            ))
    }
}

/// Checks that a setting of the WinRM service is off.
fn check_winrm_setting(
    image: &InspectedImage<'_>,
    value: &str,
    finding: Box<VerifyFinding>,
) -> Verdict {
    let key = WSMAN.join("Service");
    match image.read_number(&key, value)? {
        None | Some(0) => Ok(()),
        Some(n) => Err(finding.found(format!("{key}, {value} = {n}"))),
    }
}

fn winrm_certificate(image: &InspectedImage<'_>) -> Verdict {
    let listeners = match image.open_key(&WSMAN.join("Listener"))? {
        Some(key) => key.read_keys()?,
        None => Vec::new(),
    };
    let encrypted = listeners
        .iter()
        .find(|key| key.name().to_uppercase().ends_with("+HTTPS"));
    match encrypted {
        None => Ok(()),
        Some(key) => Err(VerifyFinding::warning(
            "a WinRM listener has a certificate, which every clone would share",
        )
        .found(format!(r"{WSMAN}\Listener\{}", key.name()))
        .cure("remove it before the image is sealed, and create one on each clone")),
    }
}

/// Refuses the state of plugins that have run in the build: clones would skip them.
fn cloudbase_state(image: &InspectedImage<'_>) -> Verdict {
    for root in [
        r"HKLM\SOFTWARE\Cloudbase Solutions",
        r"HKLM\SOFTWARE\WOW6432Node\Cloudbase Solutions",
    ] {
        if let Some(key) = image.open_key(&RegistryKey::from_static(root))?
            && let Some(found) = find_plugins(&key, root, 4)?
        {
            return Err(VerifyFinding::error("cloudbase-init has run in the build")
                .found(found)
                .cure(
                    "set its service to manual start, and remove this key before the image is \
                     sealed",
                ));
        }
    }
    Ok(())
}

fn find_plugins(key: &HiveKey<'_>, path: &str, depth: u32) -> CheckResult<Option<String>> {
    for below in key.read_keys()? {
        let path = format!(r"{path}\{}", below.name());
        if below.name().eq_ignore_ascii_case("Plugins") {
            return Ok(Some(path));
        }
        if depth > 0
            && let Some(found) = find_plugins(&below, &path, depth - 1)?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
