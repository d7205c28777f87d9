//! The fake machine's script, as TOML (README.md describes it).
//!
//! Unknown keys are refused, so that a misspelt fault can't pass for a healthy machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use wildmatch::WildMatchPattern;

use winimg_base::error::{Error, Kind, Result};

/// A machine's whole life, written in advance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// Copied over the plan's disk when the machine powers off. Relative to the script.
    pub disk: Option<PathBuf>,
    /// Where everything asked is written, one line each. Relative to the script; the plan's `run_dir` unless given.
    pub transcript: Option<PathBuf>,
    /// The exit code of a command that no `[[run]]` matches; 9009, as `cmd` says for an unknown one, unless given.
    pub default_exit: Option<i64>,
    pub probe: Probe,
    pub install: Install,
    pub run: Vec<Run>,
    /// Files that are there from the start.
    pub files: BTreeMap<String, String>,
    pub reboot: Reboot,
    pub off: Off,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Probe {
    pub version: String,
    pub accel: String,
    pub remarks: Vec<String>,
    pub slowness: u32,
}

impl Default for Probe {
    fn default() -> Self {
        Self {
            version: "fake machine".into(),
            accel: "fake".into(),
            remarks: Vec::new(),
            slowness: 1,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Install {
    /// Texts of progress events before the first restart.
    pub progress: Vec<String>,
    pub restarts: u32,
    pub delay_ms: u64,
    pub outcome: InstallOutcome,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InstallOutcome {
    #[default]
    Ready,
    StandsStill,
    NothingBoots,
    RestartLoop,
    PowersOff,
    Crashes,
    /// Works on until the plan's `timeout` (or the cancel signal).
    Hangs,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The program and its arguments with blanks between, case ignored; `*` stands for any text.
    pub command: String,
    #[serde(default)]
    pub exit: i64,
    #[serde(default)]
    pub output: String,
    #[serde(default)]
    pub delay_ms: u64,
    /// Matches only so often; a later entry may then match. Unlimited unless given.
    pub times: Option<u32>,
    #[serde(default)]
    pub outcome: RunOutcome,
    /// Files that the command leaves behind.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunOutcome {
    #[default]
    Ends,
    /// The guest restarts under it.
    GuestGone,
    /// Ends well, and powers the machine off.
    PowersOff,
    /// Never ends: the command's timeout, or the cancel signal, ends the wait.
    Hangs,
    MachineCrashes,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reboot {
    pub delay_ms: u64,
    pub outcome: RebootOutcome,
    /// How often Windows restarts by itself while it has to stay up.
    pub again: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RebootOutcome {
    #[default]
    ComesBack,
    StaysAway,
    PowersOff,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Off {
    pub delay_ms: u64,
    pub outcome: OffOutcome,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OffOutcome {
    #[default]
    PowersOff,
    StaysOn,
    Crashes,
}

impl Script {
    /// Reads it and makes its paths whole.
    pub fn read(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file).map_err(|e| Error::io("read", file, e))?;
        let mut script: Self = toml::from_str(&text).map_err(|e| {
            Error::new(Kind::Recipe, "this is no script for the fake machine")
                .at(file.display())
                .lines(e.to_string().lines())
        })?;
        let folder = file.parent().unwrap_or(Path::new("."));
        for path in [&mut script.disk, &mut script.transcript]
            .into_iter()
            .flatten()
        {
            *path = folder.join(&*path);
        }
        Ok(script)
    }
}

/// `*` stands for any text; case is ignored.
pub fn matches(pattern: &str, text: &str) -> bool {
    WildMatchPattern::<'*', '\0'>::new_case_insensitive(pattern).matches(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let text = r"C:\Windows\System32\reg.exe add HKLM\SOFTWARE\X /f";
        for good in ["*", r"*\REG.EXE add *", r"c:\*reg.exe*/f", text, "*add*x*"] {
            assert!(matches(good, text), "{good}");
        }
        for bad in [
            "",
            "reg.exe*",
            "*add",
            "*delete*",
            r"C:\*\sc.exe *",
            "*/f*/f",
        ] {
            assert!(!matches(bad, text), "{bad}");
        }
    }

    #[test]
    fn a_misspelt_fault_is_refused() {
        let error =
            toml::from_str::<Script>("[install]\noutcom = \"crashes\"\n").expect_err("a typo");
        assert!(
            error.to_string().contains("unknown field `outcom`"),
            "{error}"
        );
    }
}
