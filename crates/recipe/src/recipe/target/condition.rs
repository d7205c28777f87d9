//! What a rule of a target can speak of: each is something that a recipe and its plan decide.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::quantity::{show_size, size};
use super::super::{DiskBus, Firmware, GuestPath, RegistryKey, Start};
use super::Output;
use winimg_formats::wim::Release;

/// One condition. Of a list one is enough, unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// An optional feature or a role is enabled in the end, by DISM's names.
    Feature(Vec<String>),
    Firmware(Vec<Firmware>),
    SecureBoot(bool),
    DiskBus(Vec<DiskBus>),
    /// The disk is larger than this.
    DiskAbove(Size),
    /// The disk is a whole number of these.
    DiskMultiple(Size),
    /// A partition is behind the one of Windows.
    PartitionBehindWindows(bool),
    /// It is among the files that are made.
    Output(Vec<Output>),
    /// The OVA's `vmx-NN` is at least this.
    HardwareVersion(u32),
    /// The release, as its year.
    Windows(Vec<Windows>),
    Channel(Vec<Channel>),
    /// Who licenses Windows, by the AMI's `license_type`.
    LicenseType(Vec<String>),
    /// sysprep is given an answer file.
    AnswerFile(bool),
    /// A command of that answer file contains it.
    Command(Vec<String>),
    /// The built-in account of that RID 500, as a clone has it after Setup.
    Administrator(Administrator),
    /// All of these local accounts are there and enabled.
    User(Vec<String>),
    /// Windows' firewall lets TCP in at all of these ports, by rules of the recipe.
    Port(Vec<u16>),
    Registry(Value),
    Service(Service),
    /// The recipe puts something there, or below it.
    File(Vec<GuestPath>),
    Setting(Setting),
    /// `[setup] drivers` has all of these.
    Driver(Vec<String>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Administrator {
    Disabled,
    /// As Windows leaves it, or switched on.
    Enabled,
}

/// What kind of medium Windows comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Channel {
    Evaluation,
    /// Volume or retail.
    Licensed,
}

/// A value of the registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Value {
    pub key: RegistryKey,
    pub name: String,
    pub data: Data,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Data {
    Number(u32),
    Text(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Service {
    pub name: String,
    pub start: Start,
}

/// A line `key=value` of a text file that the recipe writes. Where it writes no such file, nothing is said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    pub file: GuestPath,
    pub key: String,
    /// The value contains one of these, upper and lower case alike.
    pub has: Vec<String>,
}

/// Bytes, written `"8 TiB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Size(pub u64);

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        size(&text).map(Self)
    }
}

impl From<Size> for String {
    fn from(size: Size) -> Self {
        show_size(size.0)
    }
}

/// A release of Windows Server, written `"2022"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Windows(pub Release);

impl TryFrom<String> for Windows {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut all = Release::ALL.into_iter();
        let found = all.find(|release| release.year() == text);
        let known = Release::ALL.map(Release::year).join(", ");
        let unknown = || format!("`{text}` is no release of Windows Server: {known}");
        found.map(Self).ok_or_else(unknown)
    }
}

impl From<Windows> for String {
    fn from(windows: Windows) -> Self {
        windows.0.year().to_owned()
    }
}
