//! Decoded verbs about Windows itself: programs, features, updates, the firewall, accounts, access,
//! tasks, Defender. Only values; the plan turns them into commands.

use std::path::PathBuf;
use std::time::Duration;

use jiff::civil::Date;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ExitCodes, GuestPath, StepContent};
use winimg_base::text::{Located, Place};

/// `exe`: runs a program and checks its exit code.
#[derive(Clone, Debug)]
pub struct ExeSpec {
    pub program: ExeProgram,
    pub arguments: Vec<String>,
    /// The working directory.
    pub directory: Option<Located<GuestPath>>,
    /// Skips the program if this exists; it must exist afterwards.
    pub creates: Option<Located<GuestPath>>,
    pub exit_codes: ExitCodes,
}

#[derive(Clone, Debug)]
pub enum ExeProgram {
    /// Copied into the guest for this step and removed afterwards.
    Carried(StepContent),
    /// In the image already.
    InGuest(Located<GuestPath>),
}

/// `feature`: optional features by their DISM names.
#[derive(Clone, Debug)]
pub struct FeatureSpec {
    pub names: Vec<Located<String>>,
    pub enabled: bool,
    /// Includes the features that they need.
    pub all: bool,
    /// Parts of the enabled features to disable again before Windows restarts.
    pub without: Vec<Located<String>>,
    /// Source of the files of removed features.
    pub source: Option<StepContent>,
}

/// `capability`: a feature on demand.
#[derive(Clone, Debug)]
pub struct CapabilitySpec {
    /// `OpenSSH.Server~~~~0.0.1.0`
    pub name: Located<String>,
    pub present: bool,
    /// A folder of cabinets; without it Windows has the files or downloads them.
    pub source: Option<StepContent>,
}

/// `driver`: every INF of a folder goes into the driver store.
#[derive(Clone, Debug)]
pub struct DriverSpec {
    pub from: StepContent,
    /// Glob patterns over the folder's paths; empty: all.
    pub only: Vec<String>,
}

/// `update`
#[derive(Clone, Debug)]
pub enum UpdateSpec {
    /// `.msu` and `.cab` packages, in this order.
    Offline {
        packages: Vec<StepContent>,
        /// Publication date of the newest of them.
        date: Option<Located<Date>>,
    },
    /// From Windows Update, in rounds with a restart between them. Needs a network.
    Online {
        place: Place,
        /// Names of `CATEGORIES`; without categories and KBs the plan uses the default ones.
        categories: Vec<String>,
        /// `KB5012637`
        kbs: Vec<String>,
        rounds: u32,
    },
}

/// Classifications of Windows Update with their language-independent identifiers (Microsoft: WSUS
/// Classification GUIDs).
pub const CATEGORIES: &[(&str, &str)] = &[
    ("Application", "5c9376ab-8ce6-464a-b136-22113dd69801"),
    ("Connectors", "434de588-ed14-48f5-8eed-a15e09a991f6"),
    ("CriticalUpdates", "e6cf1350-c01b-414d-a61f-263d14d133b4"),
    ("DefinitionUpdates", "e0789628-ce08-4437-be74-2495b842f43b"),
    ("DeveloperKits", "e140075d-8433-45c3-ad87-e72345b36078"),
    ("Drivers", "ebfc1fc5-71a4-4f7b-9aca-3b9a503104a0"),
    ("FeaturePacks", "b54e7d24-7add-428f-8b75-90a396fa584f"),
    ("Guidance", "9511d615-35b2-47bb-927f-f73d8e9260bb"),
    ("SecurityUpdates", "0fa1201d-4330-4fa8-8ae9-b877473b6441"),
    ("ServicePacks", "68c5b0a3-d1a6-4553-ae49-01d3a7827828"),
    ("Tools", "b4832bd8-e735-4761-8daf-37f882276dab"),
    ("UpdateRollups", "28bc880e-0592-4cbf-8f95-c79b17911d5f"),
    ("Updates", "cd5ffd1e-e932-4e3a-bf74-18bf0b1bbd83"),
];

/// `cleanup`: removes files that an image does not need.
#[derive(Clone, Debug, Default)]
pub struct CleanupSpec {
    pub component_store: bool,
    /// Superseded components cannot be restored.
    pub reset_base: bool,
    pub temp: bool,
    pub update_cache: bool,
    pub event_logs: bool,
    pub setup_logs: bool,
    /// Files, or folders whose content is removed.
    pub paths: Vec<Located<GuestPath>>,
}

/// `firewall`: one rule.
#[derive(Clone, Debug)]
pub struct FirewallRule {
    pub name: Located<String>,
    pub present: bool,
    pub inbound: bool,
    pub allow: bool,
    pub protocol: FirewallProtocol,
    /// Local ports or ranges; empty: any.
    pub ports: Vec<String>,
    pub remote_ports: Vec<String>,
    /// Addresses, networks, ranges, or keywords of netsh such as `LocalSubnet`; empty: any.
    pub remote: Vec<String>,
    pub program: Option<Located<GuestPath>>,
    /// Empty: any.
    pub profiles: Vec<FirewallProfile>,
    /// Edge traversal.
    pub edge: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirewallProtocol {
    Any,
    Tcp,
    Udp,
    IcmpV4,
    IcmpV6,
    /// IANA number.
    Number(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FirewallProfile {
    Domain,
    Private,
    Public,
}

/// `user`: a local account.
#[derive(Clone, Debug)]
pub struct UserSpec {
    pub name: Located<String>,
    pub state: UserState,
    pub password: UserPassword,
    pub full_name: Option<String>,
    pub description: Option<String>,
    pub groups: Vec<Located<String>>,
    /// The password expires.
    pub expires: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UserState {
    Present,
    Absent,
    /// Exists, but cannot log on.
    Disabled,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserPassword {
    /// Generated in the guest and never shown.
    Random,
    /// Publicly known, such as Vagrant's: not a secret, and shown.
    Published(String),
}

/// `group`: a local group.
#[derive(Clone, Debug)]
pub struct GroupSpec {
    pub name: Located<String>,
    pub present: bool,
    pub description: Option<String>,
    pub members: Vec<Located<String>>,
}

/// `acl`: the exact permissions of a file or folder.
#[derive(Clone, Debug)]
pub struct AclSpec {
    pub path: Located<GuestPath>,
    /// Also inherits the entries of parent folders.
    pub inherit: bool,
    pub owner: Option<Located<String>>,
    /// In the order of the recipe.
    pub entries: Vec<AccessRule>,
    /// Everything below keeps only its inherited entries.
    pub recursive: bool,
}

#[derive(Clone, Debug)]
pub struct AccessRule {
    pub principal: Located<String>,
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

/// `task`: a scheduled task.
#[derive(Clone, Debug)]
pub struct TaskSpec {
    /// `\Folder\Name`
    pub name: Located<String>,
    pub action: TaskAction,
}

#[derive(Clone, Debug)]
pub enum TaskAction {
    Absent,
    /// A task definition in XML.
    Xml(Located<PathBuf>),
    Run {
        command: Located<GuestPath>,
        arguments: Vec<String>,
        trigger: TaskTrigger,
        user: TaskUser,
        highest: bool,
        delay: Option<Duration>,
        time_limit: Option<Duration>,
        description: Option<String>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskTrigger {
    None,
    Startup,
    Logon,
    Daily { hour: u8, minute: u8 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum TaskUser {
    #[serde(rename = "SYSTEM")]
    System,
    LocalService,
    NetworkService,
}

/// `defender`: exclusions of Microsoft Defender, if it is installed.
#[derive(Clone, Debug, Default)]
pub struct DefenderSpec {
    pub exclude_processes: Vec<Located<GuestPath>>,
    pub exclude_paths: Vec<Located<GuestPath>>,
    /// Without the dot.
    pub exclude_extensions: Vec<String>,
    pub real_time: Option<bool>,
}

/// `image`: a container image, imported into containerd's store.
#[derive(Clone, Debug)]
pub struct ImageImport {
    /// One of `[images]`.
    pub image: Located<String>,
    pub ctr: Located<GuestPath>,
    /// containerd's `root`.
    pub root: Located<GuestPath>,
    pub namespace: String,
}
