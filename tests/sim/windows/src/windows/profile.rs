//! A user's profile, made at the first logon: `ProfileList\SID` and the folder below `C:\Users`.

use std::sync::Arc;

use super::error::Win32;
use super::registry::{Registry, expand_sz};
use super::volume::Cwd;
use super::{Machine, account, computer_name};

const LIST: &str = r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion\ProfileList";

/// The folder of a user who has a profile.
pub fn home(registry: &Registry, user: &str) -> Option<String> {
    let sid = account::sid(registry, user)?;
    registry.text(&format!(r"{LIST}\{sid}"), "ProfileImagePath")
}

/// Logs a user on once and loads the profile; the error is Windows' text.
pub fn log_on(machine: &Arc<Machine>, user: &str, password: &str) -> Result<(), String> {
    let mut registry = machine.registry();
    account::logon(&registry, user, password).map_err(Win32::text)?;
    if home(&registry, user).is_some() {
        return Ok(());
    }
    let sid = account::sid(&registry, user).ok_or_else(|| Win32(1332).text())?;
    let at = |path: &str| {
        machine
            .volumes()
            .file(&Cwd(r"C:\".into()), path)
            .map_err(Win32::text)
    };
    let mut path = format!(r"C:\Users\{user}");
    let mut found = at(&path)?;
    if found.meta.is_some() {
        // A folder of that name belongs to somebody else: Windows adds the computer's name.
        path = format!(r"C:\Users\{user}.{}", computer_name(&registry));
        found = at(&path)?;
    }
    std::fs::create_dir_all(&found.host).map_err(|e| e.to_string())?;
    let hive = at(r"C:\Users\Default\NTUSER.DAT")?;
    std::fs::copy(hive.host, found.host.join("NTUSER.DAT")).map_err(|e| e.to_string())?;
    registry.set(
        &format!(r"{LIST}\{sid}"),
        "ProfileImagePath",
        expand_sz(&path),
    )
}
