//! What a clone became, as its disk says once it was powered off.
//!
//! Holds only what is judged or shown. What could not be read is unknown, with the reason, and never taken to hold.

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

pub use known::Known;
pub use read::read;

/// One clone. The disk may be that of a clone that stopped half-way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CloneState {
    pub setup: Known<Setup>,
    /// The ends of Setup's logs, in the order in which Windows writes them.
    pub setup_logs: Known<Vec<LogEnd>>,
    pub host_name: Known<HostName>,
    /// `S-1-5-21-…`
    pub machine_sid: Known<String>,
    /// Of `HKLM\SOFTWARE\Microsoft\Cryptography`; null: there is none.
    pub machine_guid: Known<Option<String>>,
    /// Local users, by their numbers.
    pub accounts: Known<Vec<Account>>,
    /// Null: the image has no sshd that has started or starts with Windows.
    pub sshd: Known<Option<Sshd>>,
    /// SHA-1 thumbprints of the certificates in the machine's own store (`MY`), in capitals, sorted.
    pub certificates: Known<Vec<String>>,
    pub disk: Known<DiskRoom>,
    /// Null: there is no such program in the image.
    pub cloudbase_init: Known<Option<CloudbaseInit>>,
    pub hardware: Known<FoundHardware>,
    /// Failures that the Service Control Manager wrote into the System log, oldest first.
    pub failed_services: Known<Vec<ServiceFailure>>,
}

/// What Windows found of the machine at its last start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundHardware {
    /// Null: Windows does not say, as under BIOS.
    pub secure_boot: Option<bool>,
    /// A TPM 2.0.
    pub tpm: bool,
}

/// `HKLM\SYSTEM\Setup` and `ImageState`. Null: there is no such value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Setup {
    pub image_state: Option<String>,
    pub system_setup_in_progress: Option<u32>,
    pub setup_type: Option<u32>,
    pub command_line: Option<String>,
    pub oobe_in_progress: Option<u32>,
    /// 7: sysprep's own work on the clone is done.
    pub generalization_state: Option<u32>,
}

/// The ends of one log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogEnd {
    /// Below C:.
    pub path: String,
    /// The last lines that are errors.
    pub errors: Vec<String>,
    /// The last lines.
    pub last: Vec<String>,
}

/// Names count from a start on: the one that Windows has, and those that it takes at its next start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostName {
    /// `Tcpip\Parameters`, `Hostname`
    pub name: String,
    /// `Tcpip\Parameters`, `NV Hostname`
    pub next: String,
    /// `ComputerName`: of NetBIOS, 15 characters at most, in capitals.
    pub computer: String,
}

/// A local user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Account {
    pub name: String,
    /// 500 is the built-in administrator, whatever it is called.
    pub rid: u32,
    pub disabled: bool,
    /// The next logon has to choose another password.
    pub must_change_password: bool,
    /// A member of the group S-1-5-32-544.
    pub administrator: bool,
    /// Lines of `.ssh\authorized_keys` in the profile; none where there is no profile.
    pub authorized_keys: Vec<String>,
}

/// OpenSSH's server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sshd {
    /// Type and key of each `ssh_host_*_key.pub`, sorted, without its comment.
    pub host_keys: Vec<String>,
    /// The file that the keys of administrators are read from.
    pub administrators: KeysFile,
    /// Lines of `administrators_authorized_keys`.
    pub administrators_keys: Vec<String>,
}

/// Where sshd looks for an administrator's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeysFile {
    /// `C:\ProgramData\ssh\administrators_authorized_keys`, as Windows has it by default.
    Machine,
    /// `.ssh\authorized_keys` in the profile.
    Profile,
}

/// Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskRoom {
    pub disk: u64,
    /// The partition of Windows.
    pub partition: u64,
    /// The NTFS volume in it.
    pub volume: u64,
    /// From the end of the partition of Windows to the next one, or to the end of the disk.
    pub behind: u64,
    /// Partitions behind that of Windows.
    pub partitions_behind: u32,
}

/// What cloudbase-init left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CloudbaseInit {
    /// The user that its configuration has it make where the metadata names none; null: it makes no user.
    pub user: Option<String>,
    /// Whether its configuration has it take the host name from the metadata.
    pub sets_host_name: bool,
    /// Whether its configuration has it write the metadata's keys into the user's profile.
    pub writes_keys: bool,
    /// Whether its configuration has it use the user data.
    #[serde(default)]
    pub runs_user_data: bool,
    /// What `cloudbase-init-unattend.conf` logs: Setup's specialize pass starts it. Null: no such log.
    pub first_pass: Option<AgentLog>,
    /// What `cloudbase-init.conf` logs: the service starts it. Null: no such log.
    pub service: Option<AgentLog>,
    /// By instance and name.
    pub plugins: Vec<PluginState>,
}

/// A log of cloudbase-init.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentLog {
    pub path: String,
    /// In their order.
    pub runs: Vec<AgentRun>,
    /// The last lines.
    pub last: Vec<String>,
}

/// One run of cloudbase-init, as its log shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentRun {
    pub end: RunEnd,
    /// The metadata service that it took.
    pub metadata: Option<String>,
    /// What its lines of level ERROR say; of a traceback its last line alone.
    pub errors: Vec<String>,
    #[serde(default)]
    pub user_data: UserDataRun,
}

/// What became of the user data in one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UserDataRun {
    /// In their order; the commands of a cloud-config are one script.
    pub scripts: Vec<ScriptEnd>,
    /// Of what could not be run, a line each.
    pub refused: Vec<String>,
}

/// A script that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScriptEnd {
    pub code: i64,
    /// The last lines of its output and of its error output, where the log has them. What the user data have is `***`.
    pub said: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunEnd {
    /// All plugins had their turn.
    Done,
    /// It asked for a restart.
    Restart,
    /// The log ends before.
    #[default]
    Open,
}

/// Whether a plugin has done its work for an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginState {
    pub instance: String,
    pub plugin: String,
    /// Otherwise it runs again at the next start.
    pub done: bool,
}

/// An event of the Service Control Manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceFailure {
    /// 7000, 7001, 7009, 7023, 7024, 7031, 7034, 7038 or 7041.
    pub event: u32,
    /// As the event names it, which is the name that people see.
    pub service: String,
    /// The key of a service of that name; null: none, or many.
    pub key: Option<String>,
    /// What starts it; null where the service is not known.
    pub starts: Option<Starts>,
    /// Otherwise Windows was started once more since.
    pub since_last_start: bool,
    /// What else the event says.
    pub details: Vec<String>,
}

/// When Windows starts a service (Microsoft: CreateService, start types).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Starts {
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

impl Setup {
    /// Nothing of Setup is left to do: neither a pass, nor windeploy.exe, nor the out-of-box experience.
    pub fn has_ended(&self) -> bool {
        self.image_state.as_deref() == Some(COMPLETE)
            && self.system_setup_in_progress == Some(0)
            && self.setup_type == Some(0)
            && self.oobe_in_progress.unwrap_or(0) == 0
    }

    /// The clone has not come to its first pass.
    pub fn has_not_begun(&self) -> bool {
        self.image_state.as_deref() == Some(SEALED)
    }
}
