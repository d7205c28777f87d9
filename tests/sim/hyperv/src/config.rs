//! What the stand-in's host and guests are, and where it fails: the TOML that `FAKE_HYPERV` names.
//!
//! Unknown keys are refused, and so is a fault whose call can't carry it: a misspelt fault must not pass for a healthy host.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::calls;

/// The environment's name for the file.
pub const VARIABLE: &str = "FAKE_HYPERV";

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The folder of virtual machines, disks in use and counters. It outlives the process. Relative to the file, as all paths here.
    pub state: PathBuf,
    /// Each call is appended here as PowerShell would be given it.
    pub trace: Option<PathBuf>,
    #[serde(default)]
    pub guest: Guest,
    #[serde(default)]
    pub host: Host,
    #[serde(default)]
    pub install: Install,
    /// What the scripted guest answers to programs; the first that fits counts, and what fits none ends with 9009.
    #[serde(default)]
    pub run: Vec<Run>,
    /// Files that Setup leaves on the scripted guest's disk.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    #[serde(default)]
    pub fault: Vec<Fault>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Guest {
    /// Follows `[install]`, `[[run]]` and `[files]`.
    #[default]
    Script,
    /// The stand-in installer in a QEMU.
    Qemu,
}

/// The Windows that Hyper-V runs on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    pub build: u32,
    pub elevated: bool,
    /// The Hyper-V module for Windows PowerShell is installed.
    pub module: bool,
    pub hypervisor: bool,
    /// Of `vmms`: `Running`, `Stopped`.
    pub service: String,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            build: 20348,
            elevated: true,
            module: true,
            hypervisor: true,
            service: "Running".into(),
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Install {
    /// The disk that Setup leaves behind: a dynamic VHDX no larger than the machine's.
    pub disk: Option<PathBuf>,
    /// How long each stretch between two restarts takes.
    pub stretch_ms: u64,
    /// Restarts from Setup's end on the disc to the end of OOBE; one at least.
    pub restarts: u32,
    /// Sessions that are refused after the last restart, before one opens.
    pub refused: u32,
    /// From the guest's restart, or its power-off, to the deed.
    pub restart_ms: u64,
    pub off_ms: u64,
    /// The Administrator's; any unless given.
    pub password: Option<String>,
}

impl Default for Install {
    fn default() -> Self {
        Self {
            disk: None,
            stretch_ms: 60,
            restarts: 2,
            refused: 1,
            restart_ms: 50,
            off_ms: 50,
            password: None,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Program and arguments with blanks between, case ignored; `*` stands for any text.
    pub command: String,
    #[serde(default)]
    pub exit: i64,
    #[serde(default)]
    pub output: String,
    #[serde(default)]
    pub delay_ms: u64,
    /// Only so often in one machine's life.
    pub times: Option<u32>,
    /// Only while this file is there.
    pub if_file: Option<String>,
    /// Only while a disc whose path ends so lies in a drive.
    pub if_disc: Option<String>,
    /// Files that the program leaves.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Files that it deletes: patterns.
    #[serde(default)]
    pub deletes: Vec<String>,
    /// The guest powers off by itself, so long after the program's end. It takes no password any more before that.
    #[serde(default)]
    pub off_ms: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub at: Moment,
    #[serde(rename = "do")]
    pub deed: Deed,
    /// What `error` says, its id, category and type, in place of those of the deed.
    #[serde(default)]
    pub words: String,
    #[serde(default)]
    pub id: String,
    /// How long, or how many bytes a piece has.
    #[serde(default)]
    pub number: u64,
    /// A PPM that the screen shows from then on.
    pub picture: Option<PathBuf>,
}

/// Which call.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moment {
    /// `Start-VM`, `script:screen`, or `guest:poll` for the guest's scripts.
    pub call: String,
    /// A pattern for the whole call as the trace has it; a job's polls carry its command line.
    #[serde(default = "anything")]
    pub is: String,
    /// The how-manieth such call on this host, from 1.
    #[serde(default = "first")]
    pub nth: u32,
    /// So many such calls in a row; 0 for all that follow.
    #[serde(default = "first")]
    pub times: u32,
}

fn anything() -> String {
    "*".into()
}

fn first() -> u32 {
    1
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Deed {
    /// The call is refused, with `words` and `id`.
    Refuses,
    /// The file that the call names is open elsewhere.
    Locked,
    NoMemory,
    CredentialInvalid,
    /// The session breaks, and so does this call.
    SessionEnds,
    /// `vmms` stops: this call and all after it fail.
    ServiceStops,
    /// The call goes well; meanwhile the machine …
    VmVanishes,
    DiskFull,
    Saved,
    PowersOff,
    /// The guest restarts by itself; its jobs are gone with their processes.
    Restarts,
    /// It shows `picture` and does nothing more.
    StandsStill,
    /// It shows `picture`, a box that waits for a person. Windows goes on behind it, what programs are doing does not.
    ShowsBox,
    /// The guest's time of day becomes another.
    ClockJumps,
    /// A checkpoint is made of it: its disk is a new `.avhdx`.
    Checkpoint,
    /// The guest's record of the job is lost.
    Forgets,
    /// The call goes well; the process …
    Dies,
    Hangs,
    Garbage,
    OtherId,
    /// Its replies come in pieces of `number` bytes from here on.
    Splits,
}

impl Deed {
    /// What an engine has to carry out.
    pub fn is_of_the_guest(self) -> bool {
        matches!(
            self,
            Self::Restarts | Self::StandsStill | Self::ShowsBox | Self::PowersOff | Self::Forgets
        )
    }
}

impl Config {
    /// The one of the environment. The error is a sentence.
    pub fn of_environment() -> Result<Self, String> {
        let path = std::env::var_os(VARIABLE).filter(|v| !v.is_empty());
        Self::read(Path::new(
            &path.ok_or("FAKE_HYPERV names no configuration")?,
        ))
    }

    pub fn read(file: &Path) -> Result<Self, String> {
        let wrong = |e: &dyn std::fmt::Display| format!("{}: {e}", file.display());
        let text = std::fs::read_to_string(file).map_err(|e| wrong(&e))?;
        let mut config: Self = toml::from_str(&text).map_err(|e| wrong(&e))?;
        for fault in &config.fault {
            if !calls::is_known(&fault.at.call) || fault.at.nth == 0 {
                return Err(wrong(&format!(
                    "no call {:?} number {} for a fault",
                    fault.at.call, fault.at.nth
                )));
            }
        }
        let folder = file.parent().unwrap_or(Path::new("."));
        config.state = folder.join(&config.state);
        let pictures = config.fault.iter_mut().map(|f| &mut f.picture);
        for path in pictures
            .chain([&mut config.trace, &mut config.install.disk])
            .flatten()
        {
            *path = folder.join(&*path);
        }
        Ok(config)
    }
}
