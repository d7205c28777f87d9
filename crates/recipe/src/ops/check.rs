//! Checks of the finished image.
//!
//! The plan makes a check that refers to entries of the payload disc ([`Planned`]). The engine
//! resolves it once the inputs are present. The manifest stores it, so that neither the recipe nor
//! its inputs are needed; verify evaluates it. A check contains digests, never file content.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{GuestPath, RegistryKey, RegistryValueData};

/// The checks of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepChecks {
    pub step: String,
    /// The recipe's file, line and column.
    pub place: String,
    pub checks: Vec<ImageCheck>,
}

/// A check whose inputs are not resolved yet.
pub type PlannedCheck = ImageCheck<ExpectedPayload, ExpectedDrivers, ContainerImageName>;

/// A check. The parameters are the known facts about a file, a driver and a container image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "check", rename_all = "kebab-case")]
#[schemars(rename = "Check")]
pub enum ImageCheck<F = FileDigest, D = DriverInf, I = ContainerImageManifest> {
    /// The file has this content.
    File {
        path: GuestPath,
        #[serde(flatten)]
        content: F,
    },
    /// The file or folder exists.
    Exists {
        path: GuestPath,
    },
    /// Neither a file nor a folder with this name exists.
    Missing {
        path: GuestPath,
    },
    /// A registry value; without a name, the key's default value.
    Registry {
        key: RegistryKey,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<String>,
        data: RegistryValueData,
    },
    Service(ServiceCheck),
    /// The machine's `Path` lists the folder.
    PathFolder {
        folder: GuestPath,
    },
    Firewall(FirewallCheck),
    /// An optional feature. Only a running Windows can tell.
    Feature {
        name: String,
        enabled: bool,
    },
    /// A feature on demand. Only a running Windows can tell.
    Capability {
        name: String,
        present: bool,
    },
    /// The driver store has exactly this INF.
    Driver {
        #[serde(flatten)]
        driver: D,
    },
    User {
        name: String,
        present: bool,
        disabled: bool,
    },
    /// A local group with at least these members.
    Group {
        name: String,
        present: bool,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        members: Vec<String>,
    },
    Acl(AclCheck),
    /// A scheduled task `\Folder\Name`.
    Task {
        name: String,
        present: bool,
    },
    /// A package with this KB number is installed.
    Update {
        kb: String,
    },
    /// Windows has this build, with this update revision (UBR) or a later one.
    Windows {
        build: u32,
        revision: u32,
    },
    /// containerd's content store below `root` has the image's manifest.
    ContainerImage {
        #[serde(flatten)]
        image: I,
        root: GuestPath,
    },
}

/// The payload entry that a file or folder comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedPayload {
    /// The entry is a file.
    File(u32),
    /// Every file of the entry is below the path.
    Tree(u32),
}

/// Size and digest of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Bytes")]
pub struct FileDigest {
    /// Size in bytes.
    pub size: u64,
    /// Lower-case hex.
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
    pub sha256: String,
}

/// Every INF of a payload entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedDrivers {
    pub entry: u32,
    /// Glob patterns over the entry's paths; empty: all.
    pub only: Vec<String>,
}

/// A driver's INF.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Inf")]
pub struct DriverInf {
    /// `vioscsi.inf`
    pub inf: String,
    /// Lower-case hex.
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
    pub sha256: String,
}

/// One of the recipe's `[images]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerImageName(pub String);

/// A container image as containerd keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Manifest")]
pub struct ContainerImageManifest {
    pub reference: String,
    pub digest: String,
}

/// Expected settings of a service; settings that are absent are not checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Service")]
pub struct ServiceCheck {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_line: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<ServiceStartMode>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Milliseconds before each restart after a failure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restart_delays: Vec<u32>,
    /// On a clone: a failed start is not an error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_fail: bool,
}

/// A firewall rule as stored in `FirewallPolicy\FirewallRules` (Microsoft: MS-GPFAS).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Firewall")]
pub struct FirewallCheck {
    pub name: String,
    pub present: bool,
    pub inbound: bool,
    pub allow: bool,
    /// IANA's number; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    /// Ports and ranges, sorted; empty: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
    /// Empty: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remote_ports: Vec<String>,
    /// Scope of the rule. Absent in manifests of older versions, and then not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<FirewallScope>,
}

/// Scope of a firewall rule. The local addresses are always any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FirewallScope {
    /// Addresses, networks, ranges, or netsh keywords such as `LocalSubnet`. Empty: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remote: Vec<String>,
    /// The only allowed program; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<GuestPath>,
    /// `domain`, `private`, `public`. Empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<String>,
    /// Edge traversal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edge: bool,
}

/// The discretionary access list of a file or folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Acl")]
pub struct AclCheck {
    pub path: GuestPath,
    /// Nothing is inherited from the parent.
    pub protected: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// All explicit entries, in any order.
    pub entries: Vec<AclEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AclEntry {
    /// A SID, or the name of a local account or group.
    pub principal: String,
    pub right: AccessRight,
    pub deny: bool,
}

/// icacls' simple rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Right")]
pub enum AccessRight {
    Full,
    Modify,
    ReadExecute,
    Read,
    Write,
}

/// How a service starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Start")]
pub enum ServiceStartMode {
    Auto,
    DelayedAuto,
    Demand,
    Disabled,
}

impl ServiceStartMode {
    /// Returns the name that sc.exe takes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::DelayedAuto => "delayed-auto",
            Self::Demand => "demand",
            Self::Disabled => "disabled",
        }
    }
}

/// Returns the registry key of a service.
pub(crate) fn service_key(name: &str) -> RegistryKey {
    RegistryKey::from_static(r"HKLM\SYSTEM\CurrentControlSet\Services").join(name)
}

/// Content of a file check, which may cover one file or many.
pub trait CheckedContent {
    /// Returns true for files below a path that are resolved later.
    fn is_tree(&self) -> bool;
}

impl CheckedContent for ExpectedPayload {
    fn is_tree(&self) -> bool {
        matches!(self, Self::Tree(_))
    }
}

impl CheckedContent for FileDigest {
    fn is_tree(&self) -> bool {
        false
    }
}

impl PlannedCheck {
    /// Returns the same check, unless it refers to an input.
    pub fn without_inputs(&self) -> Option<ImageCheck> {
        Some(match self.clone() {
            Self::File { .. } | Self::Driver { .. } | Self::ContainerImage { .. } => return None,
            Self::Exists { path } => ImageCheck::Exists { path },
            Self::Missing { path } => ImageCheck::Missing { path },
            Self::Registry { key, value, data } => ImageCheck::Registry { key, value, data },
            Self::Service(service) => ImageCheck::Service(service),
            Self::PathFolder { folder } => ImageCheck::PathFolder { folder },
            Self::Firewall(rule) => ImageCheck::Firewall(rule),
            Self::Feature { name, enabled } => ImageCheck::Feature { name, enabled },
            Self::Capability { name, present } => ImageCheck::Capability { name, present },
            Self::User {
                name,
                present,
                disabled,
            } => ImageCheck::User {
                name,
                present,
                disabled,
            },
            Self::Group {
                name,
                present,
                members,
            } => ImageCheck::Group {
                name,
                present,
                members,
            },
            Self::Acl(acl) => ImageCheck::Acl(acl),
            Self::Task { name, present } => ImageCheck::Task { name, present },
            Self::Update { kb } => ImageCheck::Update { kb },
            Self::Windows { build, revision } => ImageCheck::Windows { build, revision },
        })
    }
}
