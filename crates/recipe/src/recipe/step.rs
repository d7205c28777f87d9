//! `[[steps]]` as decided: what a step does, whole and typed. How it is written in TOML is `verb`'s and `raw`'s business.

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
pub struct Step {
    pub name: String,
    /// The step's header in the TOML; errors in the guest point here.
    pub place: Place,
    /// The `when` that turned it off, as written.
    pub skipped: Option<String>,
    pub timeout: Option<Duration>,
    pub verb: Verb,
}

/// What a step does. One variant a verb key.
#[derive(Clone, Debug)]
pub enum Verb {
    /// Not known before variables are set that the step names.
    Undecided {
        /// The key that the step has in the TOML.
        verb: &'static str,
        /// Their names.
        variables: Vec<String>,
    },
    Copy {
        from: Content,
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
        /// Batch text, several lines; variables were filled in.
        script: String,
        exit_codes: ExitCodes,
    },
    Powershell {
        script: String,
        exit_codes: ExitCodes,
    },
    Service(Service),
    Registry {
        key: Located<RegistryKey>,
        /// The default value when `None`.
        value: Option<String>,
        data: RegistryData,
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
        from: Content,
        properties: BTreeMap<String, String>,
        exit_codes: ExitCodes,
    },
    Exe(verb::Exe),
    Feature(verb::Feature),
    Capability(verb::Capability),
    Driver(verb::Driver),
    Update(verb::Update),
    Checkpoint,
    Cleanup(verb::Cleanup),
    Firewall(verb::FirewallRule),
    User(verb::User),
    Group(verb::Group),
    Acl(verb::Acl),
    Task(verb::Task),
    Defender(verb::Defender),
    Image(verb::ImageImport),
    Reboot,
    /// Windows comes to rest, before the steps that stand right before the seal. No key of the TOML.
    Settle,
    Assert(Assertion),
    Generalize {
        answer_file: SealAnswer,
        mode_vm: bool,
    },
}

/// The answer file that sysprep is given, and that a clone takes its settings from.
#[derive(Clone, Debug)]
pub enum SealAnswer {
    BuiltIn,
    /// A template beside the recipe.
    Own(Located<PathBuf>),
    /// None, and none that was left stands in the way of the one that the platform brings for its clones.
    None,
}

/// Where the bytes of a step come from.
#[derive(Clone, Debug)]
pub enum Content {
    Component(Located<String>),
    /// A file or folder beside the recipe, resolved against the file that says it.
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

/// `exit_codes = { ok = [0], reboot = [3010, 1641] }`; `None` keeps the verb's own rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExitCodes {
    pub ok: Option<Vec<i64>>,
    pub reboot: Option<Vec<i64>>,
}

#[derive(Clone, Debug)]
pub struct Service {
    pub name: Located<String>,
    pub display_name: Option<String>,
    pub description: Option<String>,
    /// The program, unquoted. Absent: the service exists and is only changed.
    pub program: Option<Located<GuestPath>>,
    pub arguments: Vec<String>,
    pub start: Option<Start>,
    pub depends: Vec<String>,
    pub account: Option<String>,
    /// Milliseconds before each restart after a failure.
    pub restart_delays: Vec<u32>,
    /// Seconds without a failure after which the count of failures begins anew.
    pub failure_reset: u32,
    pub state: Option<ServiceState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
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
pub enum RegistryData {
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

/// Bytes in JSON.
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

/// `assert = { … }`: checked in the guest, now.
#[derive(Clone, Debug)]
pub enum Assertion {
    Exists(Located<GuestPath>),
    Missing(Located<GuestPath>),
    ServiceRunning(Located<String>),
    RegistryValue {
        key: Located<RegistryKey>,
        value: String,
        data: RegistryData,
    },
    /// Windows is of this build, with this update revision (UBR) or a later one.
    Windows {
        build: u32,
        revision: u32,
    },
    /// A batch command that must exit 0.
    Cmd(Located<String>),
}
