//! What Windows says of its own installation.

use std::fmt;
use std::time::Duration;

use winimg_base::error::Result;
use winimg_machine::guest::{Command, Guest};

/// `HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Setup\State`, value `ImageState`; empty when it is not there.
pub fn image_state(guest: &mut dyn Guest, slowness: u32) -> Result<String> {
    let said = said(guest, &ask_image_state(slowness))?;
    Ok(said
        .split_whitespace()
        .find(|word| word.starts_with("IMAGE_STATE_"))
        .unwrap_or_default()
        .to_string())
}

/// The command that [`image_state`] runs.
pub(super) fn ask_image_state(slowness: u32) -> Command {
    let key = r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Setup\State";
    query(&[key, "/v", "ImageState"], slowness)
}

/// Whether Setup's own programs still run: two numbers of `HKLM\SYSTEM\Setup`, both 0 when windeploy.exe has ended (follows
/// from what the numbers are for; `ImageState` and SetupComplete.cmd come before its end). `None`: no such number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    in_progress: Option<u32>,
    kind: Option<u32>,
}

impl Setup {
    pub fn has_ended(self) -> bool {
        let ended = Self {
            in_progress: Some(0),
            kind: Some(0),
        };
        self == ended
    }

    fn parse(said: &str) -> Self {
        let number = |name: &str| {
            let mut lines = said.lines().map(str::split_whitespace);
            lines.find_map(|mut words| {
                let is_it = words.next() == Some(name) && words.next() == Some("REG_DWORD");
                let hex = words.next().filter(|_| is_it)?.strip_prefix("0x")?;
                u32::from_str_radix(hex, 16).ok()
            })
        };
        Self {
            in_progress: number("SystemSetupInProgress"),
            kind: number("SetupType"),
        }
    }
}

/// `SystemSetupInProgress = 1, SetupType = 2`
impl fmt::Display for Setup {
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

pub fn setup(guest: &mut dyn Guest, slowness: u32) -> Result<Setup> {
    Ok(Setup::parse(&said(guest, &ask_setup(slowness))?))
}

/// The command that [`setup`] runs.
pub(super) fn ask_setup(slowness: u32) -> Command {
    query(&[r"HKLM\SYSTEM\Setup"], slowness)
}

fn query(arguments: &[&str], slowness: u32) -> Command {
    let arguments = ["query"].iter().chain(arguments);
    Command {
        program: r"C:\Windows\System32\reg.exe".into(),
        arguments: arguments.map(|a| (*a).to_owned()).collect(),
        timeout: Duration::from_secs(60) * slowness,
    }
}

fn said(guest: &mut dyn Guest, command: &Command) -> Result<String> {
    let mut said = Vec::new();
    guest.run(command, &mut |bytes| said.extend_from_slice(bytes))?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setup_has_ended_when_both_numbers_are_0() {
        let said = |in_progress: &str, kind: &str| {
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
            let setup = Setup::parse(&said(in_progress, kind));
            assert_eq!(
                (setup.has_ended(), setup.to_string().as_str()),
                (ended, shown)
            );
        }
        let silent = Setup::parse("");
        assert!(!silent.has_ended());
        assert_eq!(silent.to_string(), "no SystemSetupInProgress, no SetupType");
    }
}
