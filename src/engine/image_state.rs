//! Queries the installation state that Windows keeps in its registry.

use std::fmt;
use std::time::Duration;

use winimg_base::error::Result;
use winimg_machine::guest::{Guest, GuestCommand};

/// Reads `ImageState` in `HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Setup\State`. Empty if it
/// does not exist.
pub fn image_state(guest: &mut dyn Guest, slowness: u32) -> Result<String> {
    let output = run_query(guest, &ask_image_state(slowness))?;
    Ok(output
        .split_whitespace()
        .find(|word| word.starts_with("IMAGE_STATE_"))
        .unwrap_or_default()
        .to_string())
}

/// The command that queries `ImageState`.
pub(super) fn ask_image_state(slowness: u32) -> GuestCommand {
    let key = r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Setup\State";
    query(&[key, "/v", "ImageState"], slowness)
}

/// Two numbers of `HKLM\SYSTEM\Setup` that show if Setup's own programs are still running. Both are
/// 0 once windeploy.exe has ended, which is later than `ImageState` and SetupComplete.cmd (inferred
/// from the purpose of the numbers). `None`: no such number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetupStatus {
    in_progress: Option<u32>,
    kind: Option<u32>,
}

impl SetupStatus {
    pub fn has_ended(self) -> bool {
        let ended = Self {
            in_progress: Some(0),
            kind: Some(0),
        };
        self == ended
    }

    fn parse(output: &str) -> Self {
        Self {
            in_progress: parse_dword(output, "SystemSetupInProgress"),
            kind: parse_dword(output, "SetupType"),
        }
    }
}

/// Parses a DWORD value in the output of `reg query`.
fn parse_dword(output: &str, name: &str) -> Option<u32> {
    output.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        if words.next() != Some(name) || words.next() != Some("REG_DWORD") {
            return None;
        }
        u32::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()
    })
}

/// `SystemSetupInProgress = 1, SetupType = 2`
impl fmt::Display for SetupStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (start, name, number) in [
            ("", "SystemSetupInProgress", self.in_progress),
            (", ", "SetupType", self.kind),
        ] {
            match number {
                Some(number) => write!(f, "{start}{name} = {number}")?,
                None => write!(f, "{start}no {name}")?,
            }
        }
        Ok(())
    }
}

pub fn setup(guest: &mut dyn Guest, slowness: u32) -> Result<SetupStatus> {
    Ok(SetupStatus::parse(&run_query(guest, &ask_setup(slowness))?))
}

/// The command that queries Setup's registry key.
pub(super) fn ask_setup(slowness: u32) -> GuestCommand {
    query(&[r"HKLM\SYSTEM\Setup"], slowness)
}

fn query(arguments: &[&str], slowness: u32) -> GuestCommand {
    let arguments = ["query"].iter().chain(arguments);
    GuestCommand {
        program: r"C:\Windows\System32\reg.exe".into(),
        arguments: arguments.map(|a| (*a).to_owned()).collect(),
        timeout: Duration::from_secs(60) * slowness,
    }
}

fn run_query(guest: &mut dyn Guest, command: &GuestCommand) -> Result<String> {
    let mut output = Vec::new();
    guest.run(command, &mut |bytes| output.extend_from_slice(bytes))?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setup_has_ended_when_both_numbers_are_0() {
        let output = |in_progress: &str, kind: &str| {
            format!(
                "\r\nHKEY_LOCAL_MACHINE\\SYSTEM\\Setup\r\n    SystemSetupInProgress    {in_progress}\r\n    \
                 SetupType    {kind}\r\n    CmdLine    REG_SZ    \r\n    OOBEInProgress    REG_DWORD    0x1\r\n\r\n\
                 HKEY_LOCAL_MACHINE\\SYSTEM\\Setup\\Status\r\n"
            )
        };
        for (in_progress, kind, ended, shown) in [
            (
                "REG_DWORD    0x0",
                "REG_DWORD    0x0",
                true,
                "SystemSetupInProgress = 0, SetupType = 0",
            ),
            (
                "REG_DWORD    0x1",
                "REG_DWORD    0x2",
                false,
                "SystemSetupInProgress = 1, SetupType = 2",
            ),
            (
                "REG_DWORD    0x0",
                "REG_DWORD    0x2",
                false,
                "SystemSetupInProgress = 0, SetupType = 2",
            ),
            (
                "REG_DWORD    0x1",
                "REG_DWORD    0x0",
                false,
                "SystemSetupInProgress = 1, SetupType = 0",
            ),
            (
                "REG_SZ    0",
                "REG_DWORD    0x0",
                false,
                "no SystemSetupInProgress, SetupType = 0",
            ),
        ] {
            let setup = SetupStatus::parse(&output(in_progress, kind));
            assert_eq!(
                (setup.has_ended(), setup.to_string().as_str()),
                (ended, shown)
            );
        }
        let silent = SetupStatus::parse("");
        assert!(!silent.has_ended());
        assert_eq!(silent.to_string(), "no SystemSetupInProgress, no SetupType");
    }
}
