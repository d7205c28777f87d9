//! Decoded `[[steps]]`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::verb;
use super::{GuestPath, RegistryKey};
use winimg_base::text::{Located, Place};

/// `[[steps]]`
#[derive(Clone, Debug)]
pub struct RecipeStep {
    pub name: String,
    /// The step's header in the TOML, for errors in the guest.
    pub place: Place,
    /// The `when` that turned it off, as written.
    pub skipped: Option<String>,
    pub timeout: Option<Duration>,
    pub verb: Verb,
}

/// The action of a step. One variant per verb key.
#[derive(Clone, Debug)]
pub enum Verb {
    /// Unknown until the step's variables are set.
    Undecided {
        /// The verb key in the TOML.
        verb: &'static str,
        /// Their names.
        variables: Vec<String>,
    },
    Copy {
        from: StepContent,
        to: Located<GuestPath>,
    },
    Extract {
        component: Located<String>,
        to: Located<GuestPath>,
        /// Leading path segments to drop.
        strip: usize,
        /// Glob patterns over the paths that remain; empty: all.
        only: Vec<String>,
    },
    File {
        path: Located<GuestPath>,
        content: String,
        encoding: Encoding,
    },
    Directory {
        path: Located<GuestPath>,
    },
    Remove {
        path: Located<GuestPath>,
        recursive: bool,
    },
    Cmd {
        /// Batch text of several lines, after variable substitution.
        script: String,
        exit_codes: ExitCodes,
    },
    Powershell {
        script: String,
        exit_codes: ExitCodes,
    },
    Service(ServiceSpec),
    Registry {
        key: Located<RegistryKey>,
        /// The default value when `None`.
        value: Option<String>,
        data: RegistryValueData,
    },
    Environment {
        name: Located<String>,
        /// Removed when `None`.
        value: Option<String>,
    },
    /// Adds folders to the machine's `Path`.
    Path {
        add: Vec<Located<GuestPath>>,
    },
    Msi {
        from: StepContent,
        properties: BTreeMap<String, String>,
        exit_codes: ExitCodes,
    },
    Exe(verb::ExeSpec),
    Feature(verb::FeatureSpec),
    Capability(verb::CapabilitySpec),
    Driver(verb::DriverSpec),
    Update(verb::UpdateSpec),
    Checkpoint,
    Cleanup(verb::CleanupSpec),
    Firewall(verb::FirewallRule),
    User(verb::UserSpec),
    Group(verb::GroupSpec),
    Acl(verb::AclSpec),
    Task(verb::TaskSpec),
    Defender(verb::DefenderSpec),
    Image(verb::ImageImport),
    Reboot,
    /// Waits until Windows is idle, before the `before_seal` steps. Has no key in the TOML.
    Settle,
    Assert(Assertion),
    Generalize {
        answer_file: SealAnswer,
        mode_vm: bool,
    },
}

/// The answer file for sysprep, which clones use.
#[derive(Clone, Debug)]
pub enum SealAnswer {
    BuiltIn,
    /// A template beside the recipe.
    Own(Located<PathBuf>),
    /// No answer file; leftovers are removed, so that clones use the one from their platform.
    None,
}

/// Source of a step's bytes.
#[derive(Clone, Debug)]
pub enum StepContent {
    Component(Located<String>),
    /// A local file or folder, relative to the file that names it.
    Local(Located<PathBuf>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    #[serde(alias = "utf-8")]
    Utf8,
    #[serde(alias = "utf-8-bom")]
    Utf8Bom,
    #[serde(alias = "utf-16")]
    Utf16,
}

/// `exit_codes = { ok = [0], reboot = [3010, 1641] }`; `None` keeps the verb's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExitCodes {
    pub ok: Option<Vec<i64>>,
    pub reboot: Option<Vec<i64>>,
}

#[derive(Clone, Debug)]
pub struct ServiceSpec {
    pub name: Located<String>,
    pub display_name: Option<String>,
    pub description: Option<String>,
    /// The unquoted program; `None` to change an existing service.
    pub program: Option<Located<GuestPath>>,
    pub arguments: Vec<String>,
    pub start: Option<ServiceStartMode>,
    pub depends: Vec<String>,
    pub account: Option<String>,
    /// Delays before each restart after a failure, in milliseconds.
    pub restart_delays: Vec<u32>,
    /// Time without a failure that resets the failure count, in seconds.
    pub failure_reset: u32,
    pub state: Option<ServiceState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Start")]
pub enum ServiceStartMode {
    Auto,
    DelayedAuto,
    Demand,
    Disabled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServiceState {
    Running,
    Stopped,
    Absent,
}

/// Data of the registry by its type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "data", rename_all = "kebab-case")]
#[schemars(rename = "Data")]
pub enum RegistryValueData {
    Sz(String),
    ExpandSz(String),
    MultiSz(Vec<String>),
    Dword(u32),
    Qword(u64),
    /// Lower-case hex.
    Binary(
        #[serde(with = "as_hex")]
        #[schemars(with = "String")]
        Vec<u8>,
    ),
    /// The value, or the key when no value is named, is not there.
    Absent,
}

/// Serializes bytes as hex.
mod as_hex {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&hex::encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        hex::decode(text).map_err(serde::de::Error::custom)
    }
}

/// `assert = { … }`: checked in the guest when the step runs.
#[derive(Clone, Debug)]
pub enum Assertion {
    Exists(Located<GuestPath>),
    Missing(Located<GuestPath>),
    ServiceRunning(Located<String>),
    RegistryValue {
        key: Located<RegistryKey>,
        value: String,
        data: RegistryValueData,
    },
    /// Windows has this build, with this update revision (UBR) or a later one.
    Windows {
        build: u32,
        revision: u32,
    },
    /// A batch command that must exit with 0.
    Cmd(Located<String>),
}
