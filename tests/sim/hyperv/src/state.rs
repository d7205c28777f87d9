//! The host's virtual machines, in one file under a lock: they outlive this process as they outlive PowerShell on Windows.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::engine::Power;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    pub vms: BTreeMap<String, Vm>,
    /// Virtual disks attached to the host, each with whether it is read-only.
    pub mounts: BTreeMap<PathBuf, bool>,
    /// How often each fault's call was met.
    pub met: Vec<u32>,
    pub service_stopped: bool,
    /// The guests' time of day is another than it was.
    #[serde(default)]
    pub clock_jumped: bool,
    /// Command lines of the guests' jobs, so that a fault can wait for a poll of one.
    #[serde(default)]
    pub jobs: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vm {
    pub id: String,
    pub name: String,
    /// `-Path` of New-VM.
    pub path: PathBuf,
    pub generation: u32,
    pub memory: u64,
    pub cpus: u32,
    pub notes: String,
    /// Of Set-VM, Set-VMProcessor and Set-VMMemory, as given.
    pub settings: BTreeMap<String, String>,
    pub disk: Option<PathBuf>,
    pub dvds: Vec<Dvd>,
    pub adapters: u32,
    pub com1: Option<String>,
    pub secure_boot: bool,
    pub template: String,
    /// Of the firmware; empty until it was set.
    pub boot: Vec<Device>,
    /// Seconds since 1970.
    pub created: u64,
    /// Start-VM was called and the machine was not turned off since.
    pub started: bool,
    /// What a fault made of it.
    pub forced: Option<Power>,
    pub key_protector: bool,
    pub tpm: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dvd {
    pub number: u32,
    pub location: u32,
    pub path: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Device {
    Disk,
    Dvd { number: u32, location: u32 },
    Adapter,
}

impl Vm {
    /// `SCSI` of generation 2, `IDE` of generation 1.
    pub fn controller(&self) -> &'static str {
        if self.generation == 2 { "SCSI" } else { "IDE" }
    }

    /// The first free place of a controller after the disk's, which is the first.
    pub fn free_place(&self, number: Option<u32>) -> Option<(u32, u32)> {
        let (controllers, places) = if self.generation == 2 {
            (1, 64)
        } else {
            (2, 2)
        };
        let taken = |n: u32, l: u32| {
            (self.disk.is_some() && (n, l) == (0, 0))
                || self.dvds.iter().any(|d| (d.number, d.location) == (n, l))
        };
        (0..controllers)
            .filter(|n| number.is_none_or(|wanted| wanted == *n))
            .flat_map(|n| (0..places).map(move |l| (n, l)))
            .find(|(n, l)| !taken(*n, *l))
    }

    pub fn has_place(&self, number: u32, location: u32) -> bool {
        let (controllers, places) = if self.generation == 2 {
            (1, 64)
        } else {
            (2, 2)
        };
        number < controllers && location < places
    }
}

/// The state, read and held; other processes wait until it is dropped.
pub struct Held {
    folder: PathBuf,
    _lock: File,
    pub state: State,
}

impl Held {
    pub fn take(folder: &Path) -> Result<Self, String> {
        let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
        std::fs::create_dir_all(folder).map_err(failed)?;
        let lock = File::options()
            .create(true)
            .append(true)
            .open(folder.join("lock"))
            .map_err(failed)?;
        lock.lock().map_err(failed)?;
        let state = match std::fs::read(folder.join("host.json")) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| format!("host.json: {e}"))?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => State::default(),
            Err(e) => return Err(failed(e)),
        };
        Ok(Self {
            folder: folder.to_path_buf(),
            _lock: lock,
            state,
        })
    }

    /// The engine's folder of one machine.
    pub fn folder(&self, id: &str) -> PathBuf {
        self.folder.join("vms").join(id)
    }

    pub fn save(&self) -> Result<(), String> {
        write(&self.folder.join("host.json"), &self.state)
    }
}

/// Beside, then renamed.
pub fn write<T: Serialize>(path: &Path, what: &T) -> Result<(), String> {
    let text = serde_json::to_vec_pretty(what).map_err(|e| e.to_string())?;
    let beside = path.with_extension("new");
    std::fs::write(&beside, text)
        .and_then(|()| std::fs::rename(&beside, path))
        .map_err(|e| format!("{}: {e}", path.display()))
}
