//! What Windows does once at a boot: pending renames and features, and the environment of services.

use super::process::Env;
use super::program;
use super::regf::{REG_EXPAND_SZ, REG_SZ};
use super::registry::{Registry, dword_value, multi_sz, sz, texts};
use super::volume::{Cwd, Volumes};
use super::{ACTIVE_NAME, COMPUTER_NAME, TCPIP, Windows};

const SESSION_MANAGER: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager";
pub const CBS: &str = r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing";
pub const UPDATE_REBOOT: &str =
    r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\WindowsUpdate\Auto Update\RebootRequired";

const SECURE_BOOT: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\SecureBoot\State";
const TPM: &str = r"HKLM\SYSTEM\CurrentControlSet\Enum\ACPI\MSFT0101";

pub fn pending(registry: &mut Registry, volumes: &Volumes) -> Result<(), String> {
    renames(registry, volumes);
    names(registry)?;
    registry.remove(&format!(r"{CBS}\RebootPending"));
    registry.remove(UPDATE_REBOOT);
    program::dism::finish_pending(registry)?;
    registry.flush()
}

impl Windows {
    /// Writes down what this start found of the computer. `secure_boot`: `None` without UEFI.
    pub fn find_hardware(&self, secure_boot: Option<bool>, tpm: bool) -> Result<(), String> {
        let mut registry = self.machine.registry();
        registry.remove(SECURE_BOOT);
        if let Some(is_on) = secure_boot {
            let value = dword_value(is_on.into());
            registry.set(SECURE_BOOT, "UEFISecureBootEnabled", value)?;
        }
        registry.remove(TPM);
        if tpm {
            let device = format!(r"{TPM}\1");
            let ids = [r"ACPI\VEN_MSFT&DEV_0101", r"ACPI\MSFT0101", "*MSFT0101"];
            registry.set(&device, "HardwareID", multi_sz(&ids))?;
            registry.set(&device, "Service", sz("TPM"))?;
        }
        registry.flush()
    }
}

/// A new computer name counts from a boot on.
fn names(registry: &mut Registry) -> Result<(), String> {
    for (from, of, to, name) in [
        (COMPUTER_NAME, "ComputerName", ACTIVE_NAME, "ComputerName"),
        (TCPIP, "NV Hostname", TCPIP, "Hostname"),
    ] {
        if let Some(new) = registry.text(from, of)
            && registry.text(to, name).as_ref() != Some(&new)
        {
            registry.set(to, name, sz(&new))?;
        }
    }
    Ok(())
}

/// `PendingFileRenameOperations`: pairs of `\??\from` and `\??\to`; an empty second name deletes the first.
fn renames(registry: &mut Registry, volumes: &Volumes) {
    let Some(value) = registry.get(SESSION_MANAGER, "PendingFileRenameOperations") else {
        return;
    };
    // Empty strings have a meaning here, so the list is cut by hand.
    let units: Vec<u16> = value
        .data
        .chunks_exact(2)
        .map(|b| u16::from_le_bytes([b[0], b[1]]))
        .collect();
    let names: Vec<String> = units
        .split(|&unit| unit == 0)
        .map(String::from_utf16_lossy)
        .collect();
    let root = Cwd(r"C:\".into());
    let host = |name: &str| {
        let path = name.trim_start_matches('!').strip_prefix(r"\??\")?;
        volumes
            .file(&root, path)
            .ok()
            .filter(|found| !found.read_only && !found.orphan)
            .map(|found| found.host)
    };
    for pair in names.chunks_exact(2) {
        let Some(from) = host(&pair[0]) else { continue };
        // As the session manager does, a rename that fails is passed over.
        let _ = match host(&pair[1]) {
            Some(to) => std::fs::rename(from, to),
            None => std::fs::remove_file(from),
        };
    }
    if let Some(key) = registry.key_mut(SESSION_MANAGER) {
        key.unset("PendingFileRenameOperations");
    }
}

/// Asks the next boot to delete a file.
pub fn delete_later(registry: &mut Registry, path: &str) -> Result<(), String> {
    let mut data = registry
        .get(SESSION_MANAGER, "PendingFileRenameOperations")
        .map(|v| v.data.clone())
        .unwrap_or_default();
    data.truncate(data.len().saturating_sub(2));
    let (kind, entry) = multi_sz(&[format!(r"\??\{path}")]);
    data.extend(entry);
    data.extend([0, 0]);
    registry.set(SESSION_MANAGER, "PendingFileRenameOperations", (kind, data))
}

/// Whether servicing or a package waits for a reboot.
pub fn reboot_pending(registry: &Registry) -> bool {
    registry.key(&format!(r"{CBS}\RebootPending")).is_some()
        || registry.key(&format!(r"{CBS}\PackagesPending")).is_some()
        || registry.key(UPDATE_REBOOT).is_some()
}

/// The environment that the service manager gives to services: the machine's, with the parts Windows computes.
pub fn environment(registry: &Registry) -> Env {
    let mut env = Env::default();
    for (name, value) in [
        ("SystemDrive", "C:"),
        ("SystemRoot", r"C:\Windows"),
        ("ALLUSERSPROFILE", r"C:\ProgramData"),
        ("ProgramData", r"C:\ProgramData"),
        ("ProgramFiles", r"C:\Program Files"),
        ("ProgramFiles(x86)", r"C:\Program Files (x86)"),
        ("ProgramW6432", r"C:\Program Files"),
        ("CommonProgramFiles", r"C:\Program Files\Common Files"),
        ("PUBLIC", r"C:\Users\Public"),
        ("USERPROFILE", r"C:\Windows\system32\config\systemprofile"),
    ] {
        env.set(name, value);
    }
    env.set("COMPUTERNAME", &super::computer_name(registry));
    let key = registry.key(&format!(r"{SESSION_MANAGER}\Environment"));
    let values = key.map(|key| key.values.as_slice()).unwrap_or_default();
    // Plain strings first, so that those to be expanded may name them.
    for kind in [REG_SZ, REG_EXPAND_SZ] {
        for value in values.iter().filter(|value| value.kind == kind) {
            let text = super::registry::text(&value.data);
            let text = if kind == REG_EXPAND_SZ {
                env.expand(&text)
            } else {
                text
            };
            env.set(&value.name, &text);
        }
    }
    env
}

/// The strings of a REG_MULTI_SZ value.
pub fn strings(registry: &Registry, key: &str, name: &str) -> Vec<String> {
    registry
        .get(key, name)
        .map(|value| texts(&value.data))
        .unwrap_or_default()
}
