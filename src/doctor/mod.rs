//! Evaluates a host for `winimg doctor`: the facts, missing requirements, and the command that
//! fixes each on that system.
//!
//! Pure: `cmd::doctor` inspects the host. Fails nothing by itself; a requirement of every build is
//! `missing`.

mod checks;

use schemars::JsonSchema;
use serde::Serialize;

pub use checks::{FIRST_BUILD, HOST, check_host};
pub use winimg_machine::host::{CheckState, CheckTopic, HostCheck, HostProblem, OperatingSystem};

/// Facts about a host.
#[derive(Clone, Debug)]
pub struct DoctorFacts {
    pub system: OperatingSystem,
    /// Checks of the hypervisor.
    pub machines: Vec<HostCheck>,
    /// First line of its version output.
    pub tesseract: Option<String>,
    /// Bytes.
    pub memory: Option<u64>,
    pub processors: usize,
    pub rooms: Vec<FolderSpace>,
    /// Requirements of the given recipe.
    pub needs: Option<RecipeNeeds>,
    /// `https addresses: http://proxy.example.com:3128 (https_proxy)`, without passwords.
    pub proxies: Vec<String>,
    /// Unusable proxies, a sentence each.
    pub broken_proxies: Vec<String>,
    pub clock: HostClock,
}

/// A folder that a build writes to.
#[derive(Clone, Debug)]
pub struct FolderSpace {
    pub what: BuildFolder,
    pub folder: String,
    /// Bytes.
    pub free: u64,
    /// Folders on the same volume share its free space.
    pub volume: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildFolder {
    Cache,
    Output,
    Temporary,
}

/// Requirements of a recipe. Sizes are bytes.
#[derive(Clone, Copy, Debug)]
pub struct RecipeNeeds {
    pub memory: u64,
    pub processors: usize,
    /// Bytes in the cache: layers, and missing inputs whose size the lock gives.
    pub cache: u64,
    /// Maximum bytes in the output folder.
    pub output: u64,
}

/// Seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct HostClock {
    pub now: i64,
    /// Time of a file written earlier, such as this program's.
    pub newest_file: i64,
    /// True if the clock is synchronized, `None` if unknown.
    pub is_kept: Option<bool>,
}

/// Output of `winimg doctor --json`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "winimg doctor")]
pub struct DoctorReport {
    #[schemars(range(min = 1, max = 1))]
    pub schema: u32,
    /// This program's version.
    pub winimg: String,
    /// Name of the operating system.
    pub system: String,
    pub configuration: DoctorConfiguration,
    pub checks: Vec<HostCheck>,
}

/// The configuration files of the host.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct DoctorConfiguration {
    /// Files that were read; later ones override earlier ones.
    pub files: Vec<String>,
    pub settings: Vec<DoctorSetting>,
}

/// A value from the configuration files.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DoctorSetting {
    /// `cache.dir`
    pub key: String,
    /// JSON, without secrets.
    pub value: String,
    /// File, line and column.
    pub from: String,
}

impl DoctorReport {
    pub fn count_missing(&self) -> usize {
        self.checks
            .iter()
            .filter(|check| check.state == CheckState::Missing)
            .count()
    }

    /// Renders a line for each check.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for file in &self.configuration.files {
            text += &format!("configuration: {file}\n");
        }
        for DoctorSetting { key, value, from } in &self.configuration.settings {
            text += &format!("  {key} = {value}  ({from})\n");
        }
        for check in &self.checks {
            let state = match check.state {
                CheckState::Good => "",
                CheckState::Advice => "advice: ",
                CheckState::Missing => "missing: ",
            };
            let cure = check.cure.as_ref().map(|cure| format!("; {cure}"));
            text += &format!("{state}{}{}\n", check.found, cure.unwrap_or_default());
            for remark in &check.remarks {
                text += &format!("  {remark}\n");
            }
        }
        text
    }
}

/// Returns the JSON Schema that `schemas/doctor-1.json` contains.
pub fn generate_schema() -> String {
    format!("{:#}\n", schemars::schema_for!(DoctorReport).as_value())
}
