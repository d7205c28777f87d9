//! The bootstrap: the batch files on the answer CD.
//!
//! Text only, and nothing here depends on a medium: `winimg plan` shows the same files that go onto
//! the CD.

use serde::Serialize;
use serde_json::json;

use super::render;
use winimg_base::error::Result;
use winimg_base::text::to_crlf;
use winimg_recipe::RegistryKey;
use winimg_recipe::plan::BUILD_SETTINGS;

/// The template's view of a [`winimg_recipe::plan::BuildSetting`].
#[derive(Serialize)]
struct StageSetting {
    why: &'static str,
    key: RegistryKey,
    /// Options of `reg.exe add`, followed by a space; empty for a key without a value.
    value: String,
}

/// Renders the files of `unattend/bootstrap` with the CR LF line ends that cmd.exe needs.
/// `drivers` are folders below `drv`.
pub fn render_bootstrap_files(drivers: &[String]) -> Result<Vec<(&'static str, String)>> {
    let settings = BUILD_SETTINGS.map(|setting| StageSetting {
        why: setting.why,
        key: setting.key,
        value: setting.value.map_or_else(String::new, |(name, data)| {
            format!("/v {name} /t REG_DWORD /d {data} ")
        }),
    });
    let stage = include_str!("../../unattend/bootstrap/stage.cmd");
    let complete = include_str!("../../unattend/bootstrap/SetupComplete.cmd");
    let files = [
        (
            "stage.cmd",
            render::fill(stage, &json!({ "settings": settings }))?,
        ),
        (
            "SetupComplete.cmd",
            render::fill(complete, &json!({ "drivers": drivers.join(" ") }))?,
        ),
        (
            "driver.cmd",
            include_str!("../../unattend/bootstrap/driver.cmd").into(),
        ),
        (
            "agent.cmd",
            include_str!("../../unattend/bootstrap/agent.cmd").into(),
        ),
        (
            "ErrorHandler.cmd",
            include_str!("../../unattend/bootstrap/ErrorHandler.cmd").into(),
        ),
        (
            "payload.cmd",
            include_str!("../../unattend/bootstrap/payload.cmd").into(),
        ),
    ];
    Ok(files.map(|(name, text)| (name, to_crlf(&text))).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_made_by_stage_cmd() {
        let files = render_bootstrap_files(&[]).expect("the files");
        let (_, stage) = &files[0];
        let made: Vec<&str> = stage.lines().filter(|l| l.contains("reg.exe")).collect();
        assert_eq!(made.len(), BUILD_SETTINGS.len());
        assert_eq!(
            made[0],
            r#"%SystemRoot%\System32\reg.exe add "HKLM\SYSTEM\CurrentControlSet\Control\Network\NewNetworkWindowOff" /f >>C:\winimg\stage.log 2>&1"#
        );
        assert_eq!(
            made[5],
            r#"%SystemRoot%\System32\reg.exe add "HKLM\SOFTWARE\Policies\Microsoft\Windows\WindowsUpdate\AU" /v NoAutoUpdate /t REG_DWORD /d 1 /f >>C:\winimg\stage.log 2>&1"#
        );
        assert!(stage.ends_with("exit /b 0\r\n"), "{stage}");
    }
}
