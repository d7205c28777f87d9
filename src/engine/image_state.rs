//! What Windows says of its own installation.

use std::time::Duration;

use winimg_base::error::Result;
use winimg_machine::guest::{Command, Guest};

/// `HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Setup\State`, value `ImageState`; empty when it is not there.
pub fn image_state(guest: &mut dyn Guest, slowness: u32) -> Result<String> {
    let command = ask_image_state(slowness);
    let mut said = Vec::new();
    guest.run(&command, &mut |bytes| said.extend_from_slice(bytes))?;
    let said = String::from_utf8_lossy(&said);
    Ok(said
        .split_whitespace()
        .find(|word| word.starts_with("IMAGE_STATE_"))
        .unwrap_or_default()
        .to_string())
}

/// The command that [`image_state`] runs.
pub(super) fn ask_image_state(slowness: u32) -> Command {
    Command {
        program: r"C:\Windows\System32\reg.exe".into(),
        arguments: [
            "query",
            r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Setup\State",
            "/v",
            "ImageState",
        ]
        .map(String::from)
        .to_vec(),
        timeout: Duration::from_secs(60) * slowness,
    }
}
