//! What must not travel in an image: secrets, keys and states of the machine that it was built on.
//!
//! Sources: Microsoft, "Configure Windows to automate logon"; OpenSSH: sshd(8), host keys; Microsoft, "Installation and
//! configuration for Windows Remote Management"; cloudbase-init: the registry key of its plugins' states.

use winimg_formats::hive::{Data, Key};
use winimg_recipe::recipe::{GUEST_DIR, RegistryKey};

use super::finding::{Finding, Verdict};
use super::image::{Answer, Image};

const WINLOGON: RegistryKey =
    RegistryKey::known(r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion\Winlogon");
const SSH: &str = r"C:\ProgramData\ssh";
const WSMAN: RegistryKey =
    RegistryKey::known(r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\WSMAN");
/// Setup's own scripts: the bootstrap put its files there.
const SCRIPTS: &str = r"C:\Windows\Setup\Scripts";
const SCRIPT_LIMIT: u64 = 1 << 20;

pub const CHECKS: &[fn(&Image<'_>) -> Verdict] = &[
    |image| own_script(image, "SetupComplete.cmd"),
    |image| own_script(image, "ErrorHandler.cmd"),
    automatic_logon,
    logon_password,
    ssh_host_keys,
    // A server's Windows has a listener by itself; what it takes is the point.
    |image| {
        let fact = "the WinRM service takes unencrypted requests";
        let cure = r#"winrm set winrm/config/service @{AllowUnencrypted="false"} before the image is sealed"#;
        winrm(image, "allow_unencrypted", Finding::error(fact).cure(cure))
    },
    // With encryption it is only as good as the passwords.
    |image| {
        let fact = "the WinRM service takes passwords as they are (Basic)";
        let cure =
            r#"winrm set winrm/config/service/auth @{Basic="false"} before the image is sealed"#;
        winrm(image, "auth_basic", Finding::warning(fact).cure(cure))
    },
    winrm_certificate,
    cloudbase_state,
];

/// Of these what may not be on a clone either.
pub const CHECKS_OF_CLONES: &[fn(&Image<'_>) -> Verdict] = &[
    own_folder,
    |image| own_script(image, "SetupComplete.cmd"),
    |image| own_script(image, "ErrorHandler.cmd"),
    automatic_logon,
    logon_password,
];

pub fn own_folder(image: &Image<'_>) -> Verdict {
    match image.volume.exists(GUEST_DIR)? {
        false => Ok(()),
        true => Err(Finding::error(format!(
            "{GUEST_DIR} is still there: it holds the build's own files"
        ))
        .cure("see whether a program held a file there open when the image was sealed")),
    }
}

fn own_script(image: &Image<'_>, name: &str) -> Verdict {
    let path = format!(r"{SCRIPTS}\{name}");
    let Some(bytes) = image.volume.read(&path, SCRIPT_LIMIT)? else {
        return Ok(());
    };
    let text = String::from_utf8_lossy(&bytes).to_lowercase();
    match text.contains(&GUEST_DIR.to_lowercase()) {
        false => Ok(()),
        true => Err(Finding::error(format!("{path} is still the build's own"))
            .found(format!("a line with {GUEST_DIR}"))
            .cure("every clone would run it: build the image again")),
    }
}

fn automatic_logon(image: &Image<'_>) -> Verdict {
    let on = match image.value(&WINLOGON, "AutoAdminLogon")? {
        Some(Data::Sz(text) | Data::ExpandSz(text)) => text == "1",
        Some(Data::Dword(n)) => n == 1,
        _ => false,
    };
    match on {
        false => Ok(()),
        true => Err(Finding::error("Windows logs on by itself")
            .found(format!("{WINLOGON}, AutoAdminLogon = 1"))
            .cure("remove the value in a step before the image is sealed")),
    }
}

/// The value itself is never shown.
fn logon_password(image: &Image<'_>) -> Verdict {
    match image.text(&WINLOGON, "DefaultPassword")? {
        None => Ok(()),
        Some(text) if text.is_empty() => Ok(()),
        Some(_) => Err(Finding::error("a password stands in the registry")
            .found(format!("{WINLOGON}, DefaultPassword"))
            .cure("remove the value in a step before the image is sealed; the password is known now, so change it elsewhere")),
    }
}

fn ssh_host_keys(image: &Image<'_>) -> Verdict {
    let mut keys = image.names(SSH)?;
    keys.retain(|name| name.to_lowercase().starts_with("ssh_host_"));
    keys.sort();
    match keys.is_empty() {
        true => Ok(()),
        false => Err(Finding::error("every clone would have the same SSH host keys")
            .found(format!(r"{SSH}\{}", keys.join(", ")))
            .cure("stop sshd and remove them before the image is sealed; sshd makes new ones when it starts")),
    }
}

/// A switch of the WinRM service that has to be off.
fn winrm(image: &Image<'_>, value: &str, finding: Box<Finding>) -> Verdict {
    let key = WSMAN.join("Service");
    match image.number(&key, value)? {
        None | Some(0) => Ok(()),
        Some(n) => Err(finding.found(format!("{key}, {value} = {n}"))),
    }
}

fn winrm_certificate(image: &Image<'_>) -> Verdict {
    let listeners = match image.key(&WSMAN.join("Listener"))? {
        Some(key) => key.keys()?,
        None => Vec::new(),
    };
    let encrypted = |key: &Key<'_>| key.name().to_uppercase().ends_with("+HTTPS");
    match listeners.iter().find(|key| encrypted(key)) {
        None => Ok(()),
        Some(key) => Err(Finding::warning(
            "a WinRM listener has a certificate, which every clone would share",
        )
        .found(format!(r"{WSMAN}\Listener\{}", key.name()))
        .cure("make it on the clone; remove it before the image is sealed")),
    }
}

/// Once plugins have run here, clones pass them over.
fn cloudbase_state(image: &Image<'_>) -> Verdict {
    for root in [
        r"HKLM\SOFTWARE\Cloudbase Solutions",
        r"HKLM\SOFTWARE\WOW6432Node\Cloudbase Solutions",
    ] {
        if let Some(key) = image.key(&RegistryKey::known(root))?
            && let Some(found) = plugins(&key, root, 4)?
        {
            return Err(Finding::error("cloudbase-init has run in the build")
                .found(found)
                .cure("let its service start by hand only, and remove this key before the image is sealed"));
        }
    }
    Ok(())
}

fn plugins(key: &Key<'_>, path: &str, depth: u32) -> Answer<Option<String>> {
    for below in key.keys()? {
        let path = format!(r"{path}\{}", below.name());
        if below.name().eq_ignore_ascii_case("Plugins") {
            return Ok(Some(path));
        }
        if depth > 0
            && let Some(found) = plugins(&below, &path, depth - 1)?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
