//! What `winimg doctor` makes of a host: the facts, what is lacking of them, and the line that mends it on that system.
//!
//! Pure: `cmd::doctor` looks at the host. Refuses nothing by itself; what a build cannot do without is `missing`.

mod judge;
mod system;

use schemars::JsonSchema;
use serde::Serialize;

use winimg_base::error::Error;
use winimg_base::problem::Problem;

pub use judge::{FIRST_BUILD, HOST, judge};
pub use system::{Program, System};

/// What was found on a host.
#[derive(Clone, Debug)]
pub struct Facts {
    pub system: System,
    pub machines: Machines,
    /// Its first line about itself.
    pub qemu_img: Option<String>,
    pub tesseract: Option<String>,
    /// Bytes.
    pub memory: Option<u64>,
    pub processors: usize,
    pub rooms: Vec<Room>,
    /// Of the recipe that was given.
    pub needs: Option<Needs>,
    /// `https addresses: http://proxy.example.com:3128 (https_proxy)`, without passwords.
    pub proxies: Vec<String>,
    /// Those that cannot be used, in a sentence.
    pub broken_proxies: Vec<String>,
    pub clock: Clock,
}

/// What runs machines here.
#[derive(Clone, Debug)]
pub enum Machines {
    Qemu {
        /// Each firmware with what was found when a machine was started with it.
        firmware: Vec<(&'static str, Result<Started, Trouble>)>,
        kvm: Kvm,
        /// The file.
        secure_boot: Result<String, Trouble>,
        /// The version.
        swtpm: Result<String, Trouble>,
    },
    /// There is no QEMU, or it cannot be used.
    NoQemu(Trouble),
    HyperV {
        host: String,
        has: Vec<String>,
        /// What is lacking, and its cure.
        lacks: Vec<(String, String)>,
        remarks: Vec<String>,
    },
    NoHyperV(Trouble),
}

#[derive(Clone, Debug)]
pub struct Started {
    /// `QEMU 7.2.22`
    pub version: String,
    pub accel: String,
    pub remarks: Vec<String>,
}

/// Why something of the host cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub problem: Box<Problem>,
    /// It is not installed: its package mends it.
    pub is_absent: bool,
}

impl From<&Error> for Trouble {
    fn from(error: &Error) -> Self {
        Self {
            problem: Box::new(error.problem().clone()),
            is_absent: error.is_absent(),
        }
    }
}

/// Hardware acceleration of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kvm {
    Usable,
    /// There is no `/dev/kvm`.
    Absent,
    /// It is there, and this user may not open it.
    Denied,
    /// Another system.
    Elsewhere,
}

/// A folder that a build writes to.
#[derive(Clone, Debug)]
pub struct Room {
    pub what: Place,
    pub folder: String,
    /// Bytes.
    pub free: u64,
    /// Folders of one volume share what is free.
    pub volume: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Cache,
    Output,
    Temporary,
}

/// What a recipe asks of a host. Bytes.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    pub memory: u64,
    pub processors: usize,
    pub secure_boot: bool,
    pub tpm: bool,
    /// In the cache: layers, and inputs that are not there yet as far as the lock says how long they are.
    pub cache: u64,
    /// In the output folder, at most.
    pub output: u64,
}

/// Seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    pub now: i64,
    /// Of a file that was written before, such as this program's.
    pub newest_file: i64,
    /// Whether something keeps the clock right, where that is known.
    pub is_kept: Option<bool>,
}

/// What `winimg doctor --json` prints.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "winimg doctor")]
pub struct Report {
    #[schemars(range(min = 1, max = 1))]
    pub schema: u32,
    /// This program's version.
    pub winimg: String,
    /// As the system names itself.
    pub system: String,
    pub configuration: Configuration,
    pub checks: Vec<Check>,
}

/// The configuration files of the host.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Configuration {
    /// Those that were read; of two that say the same the later one wins.
    pub files: Vec<String>,
    pub settings: Vec<Setting>,
}

/// One value of them.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Setting {
    /// `cache.dir`
    pub key: String,
    /// As JSON, without secrets.
    pub value: String,
    /// File, line and column.
    pub from: String,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Check {
    pub about: About,
    pub state: State,
    /// One line for people.
    pub found: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// What mends it on this system, where that is known: mostly a line to type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum About {
    Qemu,
    QemuImg,
    HyperV,
    Kvm,
    SecureBoot,
    Tpm,
    Tesseract,
    Memory,
    Processors,
    Room,
    Proxy,
    Clock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    Good,
    /// A build goes on without it, slower or with less to say.
    Advice,
    /// A build cannot do without it.
    Missing,
}

impl Report {
    pub fn missing(&self) -> usize {
        let missing = self
            .checks
            .iter()
            .filter(|check| check.state == State::Missing);
        missing.count()
    }

    /// A line for each check, for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for file in &self.configuration.files {
            text += &format!("configuration: {file}\n");
        }
        for Setting { key, value, from } in &self.configuration.settings {
            text += &format!("  {key} = {value}  ({from})\n");
        }
        for check in &self.checks {
            let state = match check.state {
                State::Good => "",
                State::Advice => "advice: ",
                State::Missing => "missing: ",
            };
            let cure = check.cure.as_ref().map(|cure| format!("; {cure}"));
            text += &format!("{state}{}{}\n", check.found, cure.unwrap_or_default());
            for remark in &check.remarks {
                text += &format!("  {remark}\n");
            }
        }
        text
    }
}

/// The JSON Schema, as `schemas/doctor-1.json` holds it.
pub fn schema() -> String {
    format!("{:#}\n", schemars::schema_for!(Report).as_value())
}
