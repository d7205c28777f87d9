//! What has to hold in the finished image.
//!
//! The plan makes a check, over entries of the payload disc ([`Planned`]); the engine resolves it once the inputs are there;
//! the manifest carries it, so that it needs neither the recipe nor its inputs; verify judges it. Holds digests, never bytes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::recipe::verb::Right;
use crate::recipe::{GuestPath, RegistryData, RegistryKey, Start};

/// The checks that one step asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub step: String,
    /// The recipe's file, line and column.
    pub place: String,
    pub checks: Vec<Check>,
}

/// A check before its inputs are there.
pub type Planned = Check<Payload, Packages, ImageName>;

/// One thing that has to hold. The parameters say what is known of a file, of a driver and of a container image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "check", rename_all = "kebab-case")]
#[schemars(rename = "Check")]
pub enum Check<F = Bytes, D = Inf, I = Manifest> {
    /// The file has these bytes.
    File {
        path: GuestPath,
        #[serde(flatten)]
        content: F,
    },
    /// A file or folder is there.
    Exists {
        path: GuestPath,
    },
    /// Neither a file nor a folder of this name is there.
    Missing {
        path: GuestPath,
    },
    /// A value of the registry; without a name, the key's default value.
    Registry {
        key: RegistryKey,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<String>,
        data: RegistryData,
    },
    Service(Service),
    /// The machine's `Path` lists the folder.
    PathFolder {
        folder: GuestPath,
    },
    Firewall(Firewall),
    /// An optional feature. Only running Windows knows.
    Feature {
        name: String,
        enabled: bool,
    },
    /// A feature on demand. Only running Windows knows.
    Capability {
        name: String,
        present: bool,
    },
    /// The driver store has this INF, byte for byte.
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
    Acl(Acl),
    /// A scheduled task `\Folder\Name`.
    Task {
        name: String,
        present: bool,
    },
    /// A package of this KB is installed.
    Update {
        kb: String,
    },
    /// Windows is of this build, with this update revision (UBR) or a later one.
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

/// A payload entry whose bytes a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// The entry is a file.
    File(u32),
    /// Every file of the entry lies below the path.
    Tree(u32),
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bytes {
    /// Bytes.
    pub size: u64,
    /// Lower-case hex.
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
    pub sha256: String,
}

/// Every INF of a payload entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packages {
    pub entry: u32,
    /// Glob patterns over the entry's paths; empty: all.
    pub only: Vec<String>,
}

/// A driver's INF.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Inf {
    /// `vioscsi.inf`
    pub inf: String,
    /// Lower-case hex.
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
    pub sha256: String,
}

/// One of the recipe's `[images]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageName(pub String);

/// A container image as containerd keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    pub reference: String,
    pub digest: String,
}

/// What was said about a service; what was not said is not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Service {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_line: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Milliseconds before each restart after a failure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restart_delays: Vec<u32>,
    /// Of a clone: that it failed to start is no fault.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_fail: bool,
}

/// A firewall rule as Windows keeps it under `FirewallPolicy\FirewallRules` (Microsoft: MS-GPFAS, firewall rule grammar).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Firewall {
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
    /// Whom the rule is for. Absent in a manifest that was written before it was looked at, and then not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<FirewallScope>,
}

/// Whom a firewall rule is for. The local addresses are always any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FirewallScope {
    /// Addresses, networks, ranges, or netsh's own words such as `LocalSubnet`. Empty: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remote: Vec<String>,
    /// The one program; absent: any.
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
pub struct Acl {
    pub path: GuestPath,
    /// Nothing is inherited from above.
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
    pub right: Right,
    pub deny: bool,
}

/// Whether a check of a file speaks of one file.
pub trait Files {
    /// Many files below a path, which are known later.
    fn is_tree(&self) -> bool;
}

impl Files for Payload {
    fn is_tree(&self) -> bool {
        matches!(self, Self::Tree(_))
    }
}

impl Files for Bytes {
    fn is_tree(&self) -> bool {
        false
    }
}

impl Planned {
    /// The same check, unless it speaks of an input.
    pub fn without_inputs(&self) -> Option<Check> {
        Some(match self.clone() {
            Self::File { .. } | Self::Driver { .. } | Self::ContainerImage { .. } => return None,
            Self::Exists { path } => Check::Exists { path },
            Self::Missing { path } => Check::Missing { path },
            Self::Registry { key, value, data } => Check::Registry { key, value, data },
            Self::Service(service) => Check::Service(service),
            Self::PathFolder { folder } => Check::PathFolder { folder },
            Self::Firewall(rule) => Check::Firewall(rule),
            Self::Feature { name, enabled } => Check::Feature { name, enabled },
            Self::Capability { name, present } => Check::Capability { name, present },
            Self::User {
                name,
                present,
                disabled,
            } => Check::User {
                name,
                present,
                disabled,
            },
            Self::Group {
                name,
                present,
                members,
            } => Check::Group {
                name,
                present,
                members,
            },
            Self::Acl(acl) => Check::Acl(acl),
            Self::Task { name, present } => Check::Task { name, present },
            Self::Update { kb } => Check::Update { kb },
            Self::Windows { build, revision } => Check::Windows { build, revision },
        })
    }
}
