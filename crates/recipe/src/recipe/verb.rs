//! What the verbs about Windows itself mean once every value is decided: programs, features, updates, the firewall,
//! accounts, access, tasks, Defender. Only values; what they become in the guest is the plan's affair.

use std::path::PathBuf;
use std::time::Duration;

use jiff::civil::Date;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Content, ExitCodes, GuestPath};
use winimg_base::text::{Located, Place};

/// `exe`: a program that is run, good by its exit code.
#[derive(Clone, Debug)]
pub struct Exe {
    pub program: Program,
    pub arguments: Vec<String>,
    /// The working directory.
    pub directory: Option<Located<GuestPath>>,
    /// Not run when this is there already; must be there afterwards.
    pub creates: Option<Located<GuestPath>>,
    pub exit_codes: ExitCodes,
}

#[derive(Clone, Debug)]
pub enum Program {
    /// Carried into the guest for this step and gone from the image afterwards.
    Carried(Content),
    /// In the image already.
    InGuest(Located<GuestPath>),
}

/// `feature`: optional features by their DISM names.
#[derive(Clone, Debug)]
pub struct Feature {
    pub names: Vec<Located<String>>,
    pub enabled: bool,
    /// With the features that they need.
    pub all: bool,
    /// Disabled again before Windows restarts: parts of the features that are enabled.
    pub without: Vec<Located<String>>,
    /// Where the files of removed features are taken from.
    pub source: Option<Content>,
}

/// `capability`: a feature on demand.
#[derive(Clone, Debug)]
pub struct Capability {
    /// `OpenSSH.Server~~~~0.0.1.0`
    pub name: Located<String>,
    pub present: bool,
    /// A folder of cabinets; without it Windows has the files, or asks the network.
    pub source: Option<Content>,
}

/// `driver`: every INF of a folder goes into the driver store.
#[derive(Clone, Debug)]
pub struct Driver {
    pub from: Content,
    /// Glob patterns over the folder's paths; empty: all.
    pub only: Vec<String>,
}

/// `update`
#[derive(Clone, Debug)]
pub enum Update {
    /// `.msu` and `.cab` packages, in this order.
    Offline {
        packages: Vec<Content>,
        /// When the newest of them was published.
        date: Option<Located<Date>>,
    },
    /// From Windows Update, in rounds with a restart between them. Needs a network.
    Online {
        place: Place,
        /// Names of `CATEGORIES`; with neither categories nor KBs the plan takes the usual ones.
        categories: Vec<String>,
        /// `KB5012637`
        kbs: Vec<String>,
        rounds: u32,
    },
}

/// What Windows Update calls its classifications, and their identifiers, which no language changes (Microsoft: WSUS
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

/// `cleanup`: what an image need not carry.
#[derive(Clone, Debug, Default)]
pub struct Cleanup {
    pub component_store: bool,
    /// Superseded components cannot be brought back.
    pub reset_base: bool,
    pub temp: bool,
    pub update_cache: bool,
    pub event_logs: bool,
    pub setup_logs: bool,
    /// Files, or folders whose content goes.
    pub paths: Vec<Located<GuestPath>>,
}

/// `firewall`: one rule.
#[derive(Clone, Debug)]
pub struct FirewallRule {
    pub name: Located<String>,
    pub present: bool,
    pub inbound: bool,
    pub allow: bool,
    pub protocol: Protocol,
    /// Of this machine: ports or ranges; empty: any.
    pub ports: Vec<String>,
    pub remote_ports: Vec<String>,
    /// Addresses, networks, ranges, or netsh's own words such as `LocalSubnet`; empty: any.
    pub remote: Vec<String>,
    pub program: Option<Located<GuestPath>>,
    /// Empty: any.
    pub profiles: Vec<Profile>,
    /// Edge traversal.
    pub edge: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Any,
    Tcp,
    Udp,
    IcmpV4,
    IcmpV6,
    /// IANA's number.
    Number(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    Domain,
    Private,
    Public,
}

/// `user`: a local account.
#[derive(Clone, Debug)]
pub struct User {
    pub name: Located<String>,
    pub state: UserState,
    pub password: Password,
    pub full_name: Option<String>,
    pub description: Option<String>,
    pub groups: Vec<Located<String>>,
    /// Whether the password expires.
    pub expires: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UserState {
    Present,
    Absent,
    /// There, but nobody can log on with it.
    Disabled,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Password {
    /// Made in the guest and known to nobody.
    Random,
    /// One that everybody knows, such as Vagrant's: not a secret, and shown.
    Published(String),
}

/// `group`: a local group.
#[derive(Clone, Debug)]
pub struct Group {
    pub name: Located<String>,
    pub present: bool,
    pub description: Option<String>,
    pub members: Vec<Located<String>>,
}

/// `acl`: who may do what with a file or folder; the list is exact.
#[derive(Clone, Debug)]
pub struct Acl {
    pub path: Located<GuestPath>,
    /// Entries of the folders above hold too.
    pub inherit: bool,
    pub owner: Option<Located<String>>,
    /// In the order of the recipe.
    pub entries: Vec<Access>,
    /// What lies below keeps only what it inherits.
    pub recursive: bool,
}

#[derive(Clone, Debug)]
pub struct Access {
    pub principal: Located<String>,
    pub right: Right,
    pub deny: bool,
}

/// icacls' simple rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Right {
    Full,
    Modify,
    ReadExecute,
    Read,
    Write,
}

/// `task`: a scheduled task.
#[derive(Clone, Debug)]
pub struct Task {
    /// `\Folder\Name`
    pub name: Located<String>,
    pub action: TaskAction,
}

#[derive(Clone, Debug)]
pub enum TaskAction {
    Absent,
    /// A definition of the team's own.
    Xml(Located<PathBuf>),
    Run {
        command: Located<GuestPath>,
        arguments: Vec<String>,
        trigger: Trigger,
        user: TaskUser,
        highest: bool,
        delay: Option<Duration>,
        time_limit: Option<Duration>,
        description: Option<String>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
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

/// `defender`: what Microsoft Defender leaves alone, where it is installed.
#[derive(Clone, Debug, Default)]
pub struct Defender {
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
