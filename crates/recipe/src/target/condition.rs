//! Conditions in rules of a target, about a recipe and its plan.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ops::check::ServiceStartMode;
use crate::quantity::{format_size, size};
use crate::{DiskBus, Firmware, GuestPath, OutputFormat, RegistryKey};
use winimg_formats::wim::WindowsRelease;

/// One condition. One item of a list is enough, unless noted otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TargetCondition {
    /// An optional feature or role is enabled in the finished image. DISM names.
    Feature(Vec<String>),
    Firmware(Vec<Firmware>),
    SecureBoot(bool),
    DiskBus(Vec<DiskBus>),
    /// The disk is larger than this.
    DiskAbove(DiskSize),
    /// The disk size is a multiple of this.
    DiskMultiple(DiskSize),
    /// Another partition follows the Windows partition.
    PartitionBehindWindows(bool),
    /// One of these outputs is built.
    Output(Vec<OutputFormat>),
    /// The OVA's `vmx-NN` is at least this.
    HardwareVersion(u32),
    /// Release of Windows Server, by year.
    Windows(Vec<ServerRelease>),
    Channel(Vec<MediaChannel>),
    /// The licensor of Windows, by the AMI's `license_type`.
    LicenseType(Vec<String>),
    /// sysprep is given an answer file.
    AnswerFile(bool),
    /// A command in the answer file for sysprep contains this text.
    Command(Vec<String>),
    /// State of the built-in Administrator account (RID 500) on a clone after Setup.
    Administrator(AdministratorState),
    /// All of these local accounts exist and are enabled.
    User(Vec<String>),
    /// Firewall rules of the recipe allow inbound TCP on all of these ports.
    Port(Vec<u16>),
    Registry(RegistryCondition),
    Service(ServiceCondition),
    /// The recipe writes this path or something below it.
    File(Vec<GuestPath>),
    Setting(FileSetting),
    /// `[setup] drivers` lists all of these.
    Driver(Vec<String>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AdministratorState {
    Disabled,
    /// In the default state of Windows, or enabled.
    Enabled,
}

/// Kind of the installation medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Channel")]
pub enum MediaChannel {
    Evaluation,
    /// Volume or retail.
    Licensed,
}

/// A value of the registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Value")]
pub struct RegistryCondition {
    pub key: RegistryKey,
    pub name: String,
    pub data: RegistryConditionData,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Data")]
pub enum RegistryConditionData {
    Number(u32),
    Text(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Service")]
pub struct ServiceCondition {
    pub name: String,
    pub start: ServiceStartMode,
}

/// A line `key=value` of a text file that the recipe writes. Unknown if the recipe writes no such
/// file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Setting")]
pub struct FileSetting {
    pub file: GuestPath,
    pub key: String,
    /// The value contains one of these, ignoring case.
    pub has: Vec<String>,
}

/// Bytes, written `"8 TiB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct DiskSize(pub u64);

impl TryFrom<String> for DiskSize {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        size(&text).map(Self)
    }
}

impl From<DiskSize> for String {
    fn from(size: DiskSize) -> Self {
        format_size(size.0)
    }
}

/// A release of Windows Server, written `"2022"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct ServerRelease(pub WindowsRelease);

impl TryFrom<String> for ServerRelease {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        WindowsRelease::ALL
            .into_iter()
            .find(|release| release.year() == text)
            .map(Self)
            .ok_or_else(|| {
                let known = WindowsRelease::ALL.map(WindowsRelease::year).join(", ");
                format!("`{text}` is not a release of Windows Server: {known}")
            })
    }
}

impl From<ServerRelease> for String {
    fn from(windows: ServerRelease) -> Self {
        windows.0.year().to_owned()
    }
}
