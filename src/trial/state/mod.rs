//! The state of a clone, read from its powered-off disk.
//!
//! Contains only facts that are judged or shown. A fact that could not be read is unknown, with the
//! reason, and never counts as passed.

mod agent;
mod known;
mod line;
mod read;
mod services;
mod sshd;
mod user_data;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use winimg_recipe::plan::SEALED;

pub use known::KnownFact;
pub use read::read;

/// The state of one clone, which may have stopped early.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CloneState {
    pub setup: KnownFact<CloneSetup>,
    /// The ends of Setup's logs, in the order in which Windows writes them.
    pub setup_logs: KnownFact<Vec<CloneLogEnd>>,
    pub host_name: KnownFact<CloneHostName>,
    /// `S-1-5-21-…`
    pub machine_sid: KnownFact<String>,
    /// `MachineGuid` in `HKLM\SOFTWARE\Microsoft\Cryptography`; null if there is none.
    pub machine_guid: KnownFact<Option<String>>,
    /// Local users, by RID.
    pub accounts: KnownFact<Vec<CloneAccount>>,
    /// Null if the image has no sshd that has started or starts with Windows.
    pub sshd: KnownFact<Option<SshdState>>,
    /// SHA-1 thumbprints of the certificates in the machine's own store (`MY`), in capitals,
    /// sorted.
    pub certificates: KnownFact<Vec<String>>,
    pub disk: KnownFact<DiskRoom>,
    /// Null if the image has no cloudbase-init.
    pub cloudbase_init: KnownFact<Option<CloudbaseInitState>>,
    pub hardware: KnownFact<DetectedHardware>,
    /// Failures that the Service Control Manager wrote into the System log, oldest first.
    pub failed_services: KnownFact<Vec<ServiceFailure>>,
}

/// Hardware that Windows detected at its last boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DetectedHardware {
    /// Null if Windows does not report it, as under BIOS.
    pub secure_boot: Option<bool>,
    /// A TPM 2.0.
    pub tpm: bool,
}

/// `HKLM\SYSTEM\Setup` and `ImageState`. Missing values are null.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CloneSetup {
    pub image_state: Option<String>,
    pub system_setup_in_progress: Option<u32>,
    pub setup_type: Option<u32>,
    pub command_line: Option<String>,
    pub oobe_in_progress: Option<u32>,
    /// 7 once sysprep has finished on the clone.
    pub generalization_state: Option<u32>,
}

/// The end of one log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CloneLogEnd {
    /// Path below C:.
    pub path: String,
    /// The last error lines.
    pub errors: Vec<String>,
    /// The last lines.
    pub last: Vec<String>,
}

/// Host names: the current one, and those that take effect at the next boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CloneHostName {
    /// `Tcpip\Parameters`, `Hostname`
    pub name: String,
    /// `Tcpip\Parameters`, `NV Hostname`
    pub next: String,
    /// `ComputerName`, the NetBIOS name: at most 15 characters, in capitals.
    pub computer: String,
}

/// A local user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CloneAccount {
    pub name: String,
    /// 500 is the built-in administrator, regardless of its name.
    pub rid: u32,
    pub disabled: bool,
    /// The password must be changed at the next logon.
    pub must_change_password: bool,
    /// A member of the group S-1-5-32-544.
    pub administrator: bool,
    /// Lines of `.ssh\authorized_keys` in the profile; none without a profile.
    pub authorized_keys: Vec<String>,
}

/// OpenSSH's server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SshdState {
    /// Type and key of each `ssh_host_*_key.pub`, sorted, without its comment.
    pub host_keys: Vec<String>,
    /// The file with the keys of administrators.
    pub administrators: AdministratorKeysFile,
    /// Lines of `administrators_authorized_keys`.
    pub administrators_keys: Vec<String>,
}

/// The file in which sshd looks for an administrator's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AdministratorKeysFile {
    /// `C:\ProgramData\ssh\administrators_authorized_keys`, the default on Windows.
    Machine,
    /// `.ssh\authorized_keys` in the profile.
    Profile,
}

/// Sizes on the disk in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskRoom {
    pub disk: u64,
    /// The Windows partition.
    pub partition: u64,
    /// The NTFS volume in it.
    pub volume: u64,
    /// The space between the Windows partition and the next one, or the end of the disk.
    pub behind: u64,
    /// Number of partitions after the Windows partition.
    pub partitions_behind: u32,
}

/// Configuration, logs and state of cloudbase-init.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CloudbaseInitState {
    /// The configured user, created if the metadata names none; null if it creates no user.
    pub user: Option<String>,
    /// It is configured to set the host name from the metadata.
    pub sets_host_name: bool,
    /// It is configured to write the metadata's keys into the user's profile.
    pub writes_keys: bool,
    /// It is configured to use the user data.
    #[serde(default)]
    pub runs_user_data: bool,
    /// The log of `cloudbase-init-unattend.conf`, which runs in Setup's specialize pass. Null if
    /// there is none.
    pub first_pass: Option<AgentLog>,
    /// The log of `cloudbase-init.conf`, which the service uses. Null if there is none.
    pub service: Option<AgentLog>,
    /// The plugins, by instance and name.
    pub plugins: Vec<PluginState>,
}

/// A log of cloudbase-init.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentLog {
    pub path: String,
    /// The runs, in order.
    pub runs: Vec<AgentRun>,
    /// The last lines.
    pub last: Vec<String>,
}

/// One run of cloudbase-init, from its log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentRun {
    pub end: RunEnd,
    /// The metadata service that it used.
    pub metadata: Option<String>,
    /// Messages of level ERROR; only the last line of a traceback.
    pub errors: Vec<String>,
    #[serde(default)]
    pub user_data: UserDataRun,
}

/// The user data in one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UserDataRun {
    /// The scripts, in order; the commands of a cloud-config are one script.
    pub scripts: Vec<ScriptEnd>,
    /// A line for each part that could not be run.
    pub refused: Vec<String>,
}

/// A finished script.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScriptEnd {
    pub code: i64,
    /// The last lines of its output and its error output, if the log has them. Text of the user
    /// data is `***`.
    pub said: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunEnd {
    /// All plugins ran.
    Done,
    /// It requested a restart.
    Restart,
    /// The log ends early.
    #[default]
    Open,
}

/// The state of a plugin for an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginState {
    pub instance: String,
    pub plugin: String,
    /// False if it runs again at the next boot.
    pub done: bool,
}

/// An event of the Service Control Manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceFailure {
    /// 7000, 7001, 7009, 7023, 7024, 7031, 7034, 7038 or 7041.
    pub event: u32,
    /// The name in the event, usually the display name.
    pub service: String,
    /// The registry key of the only service with that name; null if there is none, or several.
    pub key: Option<String>,
    /// The start type; null if the service is unknown.
    pub starts: Option<ServiceStartType>,
    /// False if Windows was booted again since.
    pub since_last_start: bool,
    /// The other data of the event.
    pub details: Vec<String>,
}

/// When Windows starts a service (Microsoft: CreateService, start types).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceStartType {
    Boot,
    System,
    Auto,
    DelayedAuto,
    Demand,
    Disabled,
}

pub const COMPLETE: &str = "IMAGE_STATE_COMPLETE";
/// `GeneralizationState` of an image that has not been started since sysprep.
pub const GENERALIZED: u32 = 3;

impl CloneSetup {
    /// Returns true if Setup is complete, including windeploy.exe and the out-of-box experience.
    pub fn has_ended(&self) -> bool {
        self.image_state.as_deref() == Some(COMPLETE)
            && self.system_setup_in_progress == Some(0)
            && self.setup_type == Some(0)
            && self.oobe_in_progress.unwrap_or(0) == 0
    }

    /// Returns true if Setup has not started its first pass.
    pub fn has_not_started(&self) -> bool {
        self.image_state.as_deref() == Some(SEALED)
    }
}
