//! What the guest does and where the machine fails, as TOML.
//!
//! Unknown keys are refused, and so is a fault whose moment can't carry it: a misspelt fault must not pass for a healthy machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use wildmatch::WildMatchPattern;

/// The environment's name for the script. Without it the machine is healthy, and knows no command.
pub const VARIABLE: &str = "FAKE_QEMU_SCRIPT";

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// The disk that Setup leaves behind, qcow2 and no larger than the machine's. Relative to the script, as all paths here.
    pub disk: Option<PathBuf>,
    /// What was asked of machine and guest is appended here, a line each.
    pub transcript: Option<PathBuf>,
    pub version: Option<String>,
    /// What `-accel help` lists; `tcg` alone unless given.
    pub accelerators: Vec<String>,
    /// What becomes of the boot canary, by accelerator; it works unless given.
    pub canary: BTreeMap<String, Canary>,
    pub install: Install,
    /// What the guest answers to programs; the first that fits counts, and what fits none ends with 9009.
    pub run: Vec<Run>,
    /// Files that Setup leaves on the disk.
    pub files: BTreeMap<String, String>,
    /// From the agent's restart, or its power-off, to the deed.
    pub restart_ms: u64,
    pub off_ms: u64,
    pub fault: Vec<Fault>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Canary {
    Works,
    Crashes,
    Crawls,
    Refused,
    /// The sector boots, the UEFI firmware stops with an internal error.
    FirmwareStops,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Install {
    /// Restarts from Setup's end on the disc to the agent's first opening; one at least.
    pub restarts: u32,
    /// How long each stretch between two restarts takes.
    pub stretch_ms: u64,
    /// How long a disc that asks for a key waits for it.
    pub prompt_ms: u64,
}

impl Default for Install {
    fn default() -> Self {
        Self {
            restarts: 2,
            stretch_ms: 60,
            prompt_ms: 5000,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
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
    /// The guest powers off by itself, so long after the program's end.
    pub off_ms: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub at: Moment,
    /// A pattern for what the moment is about: a command line, a path, the name of a QMP or agent command.
    #[serde(default = "anything")]
    pub is: String,
    /// The how-manieth such moment of a machine, from 1.
    #[serde(default = "first")]
    pub nth: u32,
    /// Only in the how-manieth machine of the script, from 1; otherwise in each.
    pub machine: Option<u32>,
    #[serde(rename = "do")]
    pub deed: Deed,
    /// How long, or after what time.
    #[serde(default)]
    pub ms: u64,
    /// Exit status, signal number, bytes of a piece, bug check code …
    #[serde(default)]
    pub number: u64,
    /// What QEMU says on stderr, or the agent in its refusal.
    #[serde(default)]
    pub words: String,
    /// A PPM that the screen shows from then on.
    pub picture: Option<PathBuf>,
}

fn anything() -> String {
    "*".into()
}

fn first() -> u32 {
    1
}

/// When a fault happens.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Moment {
    /// Arguments were read, nothing is opened yet.
    Start,
    /// The guest's first instruction.
    PowerOn,
    /// The firmware looks for something to boot, after every restart again.
    Boot,
    /// Setup runs from the disc and has written nothing.
    Setup,
    /// Setup has written the disk and has not restarted.
    Applied,
    /// The loader has read Windows from the disk, and nothing is drawn yet.
    Loaded,
    /// The guest opens the agent's port.
    Port,
    /// A QMP command has come.
    Qmp,
    /// A disc is put into a drive, or taken out.
    Disc,
    /// An agent command has come.
    Agent,
    /// A program was asked for.
    Command,
    /// A program's end was asked for.
    Status,
    /// Bytes for a file have come.
    Write,
    /// A restart was asked for.
    Restart,
    /// A power-off was asked for.
    Off,
}

impl Moment {
    /// Whether an agent's reply is due, which a fault of the wire can spoil.
    pub fn has_reply(self) -> bool {
        matches!(
            self,
            Self::Agent | Self::Command | Self::Status | Self::Write | Self::Restart | Self::Off
        )
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Deed {
    /// QEMU ends with status `number`.
    Exit,
    /// QEMU ends by signal `number`, or stands still by 19.
    Signal,
    /// Nothing goes wrong, but for `ms`.
    Waits,
    /// The monitor reads and answers no more.
    QmpSilent,
    /// The monitor closes its connection.
    QmpCloses,
    /// The monitor says something that is no JSON, then goes on.
    QmpGarbage,
    /// The agent answers nothing more in this session.
    AgentSilent,
    /// This one reply comes after `ms`; meanwhile the agent does nothing else.
    AgentLate,
    /// This one reply never comes.
    AgentDrops,
    /// Replies come in pieces of `number` bytes from here on.
    AgentSplits,
    /// A line that is no JSON comes before the reply.
    AgentGarbage,
    /// The reply to something else comes before the reply.
    AgentOldReply,
    /// Half of the reply comes, then the port closes; after `ms` the agent opens it again.
    PortCloses,
    /// The agent refuses, with `words`.
    Refuses,
    /// The agent says that it does not know the program.
    Forgets,
    /// The agent says that the program ended, and not how.
    NoCode,
    /// The guest restarts; the program is gone.
    Resets,
    /// The guest keeps restarting, every `ms`.
    ResetLoop,
    /// The guest restarts and its agent never comes back.
    StaysAway,
    /// The guest powers off.
    PowersOff,
    /// What was asked for is not done.
    Ignores,
    /// A write finds no room on the host; QEMU stops the machine until it gets `cont`.
    NoSpace,
    /// A write fails on the host; QEMU stops the machine.
    IoError,
    /// The accelerator fails; QEMU stops the machine.
    InternalError,
    /// Windows stops with bug check `number`; QEMU stops the machine.
    Panic,
    /// Everything stands: screen, drives, processor.
    StandsStill,
    /// The processor is busy for ever, and nothing else happens.
    Spins,
    /// The firmware opens its shell.
    Shell,
    /// The firmware finds nothing.
    NothingBoots,
}

impl Deed {
    fn is_of_the_wire(self) -> bool {
        matches!(
            self,
            Self::AgentLate
                | Self::AgentDrops
                | Self::AgentSplits
                | Self::AgentGarbage
                | Self::AgentOldReply
                | Self::PortCloses
                | Self::Refuses
                | Self::Forgets
                | Self::NoCode
        )
    }

    fn fits(self, moment: Moment) -> bool {
        match self {
            Self::Exit | Self::Signal | Self::Waits => true,
            _ if moment == Moment::Start => false,
            Self::Shell | Self::NothingBoots => moment == Moment::Boot,
            Self::Forgets | Self::NoCode => moment == Moment::Status,
            Self::Ignores => matches!(moment, Moment::Restart | Moment::Off | Moment::Disc),
            _ if self.is_of_the_wire() => moment.has_reply(),
            _ => true,
        }
    }
}

impl Script {
    /// The script of the environment. The error is a sentence.
    pub fn of_environment() -> Result<Self, String> {
        match std::env::var_os(VARIABLE) {
            Some(path) if !path.is_empty() => Self::read(Path::new(&path)),
            _ => Ok(Self::default()),
        }
    }

    fn read(file: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        let mut script: Self =
            toml::from_str(&text).map_err(|e| format!("{}: {e}", file.display()))?;
        for fault in &script.fault {
            if !fault.deed.fits(fault.at) || fault.nth == 0 {
                return Err(format!(
                    "{}: no {:?} at {:?}",
                    file.display(),
                    fault.deed,
                    fault.at
                ));
            }
        }
        let folder = file.parent().unwrap_or(Path::new("."));
        let pictures = script.fault.iter_mut().map(|f| &mut f.picture);
        let files = [&mut script.disk, &mut script.transcript];
        for path in pictures.chain(files).flatten() {
            *path = folder.join(&*path);
        }
        Ok(script)
    }
}

/// `*` stands for any text; case is ignored.
pub fn matches(pattern: &str, text: &str) -> bool {
    WildMatchPattern::<'*', '\0'>::new_case_insensitive(pattern).matches(text)
}
