//! The registry of the running stand-in: hives mounted under `HKLM` and `HKU`, kept in memory, committed by `flush`.
//!
//! `CurrentControlSet` is the control set that `Select\Current` names, HKCU is LocalSystem's (`HKU\.DEFAULT`), HKCR is
//! `HKLM\SOFTWARE\Classes`. Volatile parts (`HKLM\HARDWARE`, `HKCC`) do not exist and are refused as missing keys.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::regf::{self, Key, REG_DWORD, REG_EXPAND_SZ, REG_MULTI_SZ, REG_SZ, Value, utf16};

/// Mount point and file (from `Windows\System32\config`) of each hive that Windows loads at boot.
pub const HIVES: [(&str, &str); 5] = [
    (r"HKLM\SYSTEM", "SYSTEM"),
    (r"HKLM\SOFTWARE", "SOFTWARE"),
    (r"HKLM\SAM", "SAM"),
    (r"HKLM\SECURITY", "SECURITY"),
    (r"HKU\.DEFAULT", "DEFAULT"),
];

struct Hive {
    /// Root and mount name, e.g. `("HKLM", "SYSTEM")`.
    at: (String, String),
    file: PathBuf,
    root: Key,
    sequence: u32,
    dirty: bool,
}

#[derive(Default)]
pub struct Registry {
    hives: Vec<Hive>,
}

/// Why a path names no key: it is not a path at all, or there is no such hive.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    Syntax,
    Missing,
}

impl Registry {
    pub fn open(config: &Path) -> Result<Registry, String> {
        let mut registry = Registry::default();
        for (at, name) in HIVES {
            registry.load(at, &config.join(name))?;
        }
        Ok(registry)
    }

    /// Mounts the hive `file` at `HKLM\NAME` or `HKU\NAME`.
    pub fn load(&mut self, at: &str, file: &Path) -> Result<(), String> {
        let bytes =
            std::fs::read(file).map_err(|e| format!("can't read hive {}: {e}", file.display()))?;
        let (root, sequence) =
            regf::parse(&bytes).map_err(|e| format!("{}: {e}", file.display()))?;
        let (top, name) = at
            .split_once('\\')
            .ok_or("a hive is mounted at HKLM\\NAME or HKU\\NAME")?;
        if self
            .hives
            .iter()
            .any(|hive| regf::same(&hive.at.0, top) && regf::same(&hive.at.1, name))
        {
            return Err(format!("{at} is in use"));
        }
        self.hives.push(Hive {
            at: (top.into(), name.into()),
            file: file.into(),
            root,
            sequence,
            dirty: false,
        });
        Ok(())
    }

    /// Commits and forgets a hive mounted by `load`; whether there was one (the boot hives can't be unloaded).
    pub fn unload(&mut self, at: &str) -> Result<bool, String> {
        let boot = HIVES.iter().any(|(boot, _)| regf::same(boot, at));
        let found = self
            .hives
            .iter()
            .position(|hive| regf::same(&format!("{}\\{}", hive.at.0, hive.at.1), at));
        match found {
            Some(i) if !boot => {
                self.hives[i].commit()?;
                self.hives.remove(i);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    pub fn flush(&mut self) -> Result<(), String> {
        self.hives.iter_mut().try_for_each(Hive::commit)
    }

    /// The key trees of all hives, for `restore`.
    pub fn snapshot(&self) -> Vec<Key> {
        self.hives.iter().map(|hive| hive.root.clone()).collect()
    }

    /// Puts back what `snapshot` gave.
    pub fn restore(&mut self, roots: Vec<Key>) {
        for (hive, root) in self.hives.iter_mut().zip(roots) {
            hive.dirty |= hive.root != root;
            hive.root = root;
        }
    }

    /// The hive and the names below its root that `path` means.
    fn locate(&self, path: &str) -> Result<(usize, Vec<String>), Fault> {
        let mut names: Vec<&str> = path.split('\\').collect();
        if names.len() > 1 && names.last() == Some(&"") {
            names.pop();
        }
        if names
            .iter()
            .any(|name| name.is_empty() || name.chars().count() > 255)
        {
            return Err(Fault::Syntax);
        }
        let top = match names[0].to_ascii_uppercase().as_str() {
            "HKLM" | "HKEY_LOCAL_MACHINE" => "HKLM",
            "HKU" | "HKEY_USERS" => "HKU",
            "HKCU" | "HKEY_CURRENT_USER" => {
                names.splice(0..1, ["HKU", ".DEFAULT"]);
                "HKU"
            }
            "HKCR" | "HKEY_CLASSES_ROOT" => {
                names.splice(0..1, ["HKLM", "SOFTWARE", "Classes"]);
                "HKLM"
            }
            "HKCC" | "HKEY_CURRENT_CONFIG" => return Err(Fault::Missing),
            _ => return Err(Fault::Syntax),
        };
        if top == "HKU"
            && names
                .get(1)
                .is_some_and(|name| regf::same(name, "S-1-5-18"))
        {
            names[1] = ".DEFAULT";
        }
        let mount = *names.get(1).ok_or(Fault::Missing)?;
        let hive = self
            .hives
            .iter()
            .position(|hive| hive.at.0 == top && regf::same(&hive.at.1, mount));
        let hive = hive.ok_or(Fault::Missing)?;
        let mut below: Vec<String> = names[2..].iter().map(|name| (*name).to_owned()).collect();
        if regf::same(mount, "SYSTEM")
            && below
                .first()
                .is_some_and(|name| regf::same(name, "CurrentControlSet"))
        {
            below[0] = format!("ControlSet{:03}", self.hives[hive].current_set());
        }
        Ok((hive, below))
    }

    pub fn key(&self, path: &str) -> Option<&Key> {
        let (hive, names) = self.locate(path).ok()?;
        self.hives[hive]
            .root
            .find(&names.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Whether `path` is well formed and lies in a hive.
    pub fn check(&self, path: &str) -> Result<(), Fault> {
        self.locate(path).map(|_| ())
    }

    /// The key at `path`, made when absent, to be changed.
    pub fn make(&mut self, path: &str) -> Result<&mut Key, Fault> {
        let (hive, names) = self.locate(path)?;
        self.hives[hive].dirty = true;
        Ok(self.hives[hive]
            .root
            .make(&names.iter().map(String::as_str).collect::<Vec<_>>()))
    }

    pub fn key_mut(&mut self, path: &str) -> Option<&mut Key> {
        let (hive, names) = self.locate(path).ok()?;
        self.hives[hive].dirty = true;
        self.hives[hive]
            .root
            .find_mut(&names.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Removes a key and all below it; whether it was there. The root of a hive stays.
    pub fn remove(&mut self, path: &str) -> bool {
        let Some((last, above)) = self
            .locate(path)
            .ok()
            .and_then(|(hive, mut names)| names.pop().map(|last| ((hive, last), names)))
        else {
            return false;
        };
        let hive = &mut self.hives[last.0];
        let parent = hive
            .root
            .find_mut(&above.iter().map(String::as_str).collect::<Vec<_>>());
        let gone =
            parent.is_some_and(|parent| parent.subkeys.remove(&last.1.to_uppercase()).is_some());
        hive.dirty |= gone;
        gone
    }

    pub fn get(&self, path: &str, name: &str) -> Option<&Value> {
        self.key(path)?.value(name)
    }

    pub fn text(&self, path: &str, name: &str) -> Option<String> {
        self.get(path, name)
            .filter(|value| matches!(value.kind, REG_SZ | REG_EXPAND_SZ))
            .map(|v| text(&v.data))
    }

    pub fn dword(&self, path: &str, name: &str) -> Option<u32> {
        self.get(path, name)
            .filter(|value| value.kind == REG_DWORD)
            .and_then(|value| dword(&value.data))
    }

    /// Sets a value of a key in a boot hive; a path that is none is a fault of the stand-in's own code.
    pub fn set(
        &mut self,
        path: &str,
        name: &str,
        (kind, data): (u32, Vec<u8>),
    ) -> Result<(), String> {
        let key = self
            .make(path)
            .map_err(|fault| format!("{path}: {fault:?}"))?;
        key.set(name, kind, data);
        Ok(())
    }
}

impl Hive {
    fn current_set(&self) -> u32 {
        let current = self
            .root
            .find(&["Select"])
            .and_then(|key| key.value("Current"));
        current.and_then(|value| dword(&value.data)).unwrap_or(1)
    }

    fn commit(&mut self) -> Result<(), String> {
        if self.dirty {
            self.sequence = self.sequence.wrapping_add(1);
            regf::replace(
                &self.file,
                &image(&self.root, &self.file, self.sequence, SystemTime::now()),
            )?;
            self.dirty = false;
        }
        Ok(())
    }
}

fn image(root: &Key, file: &Path, sequence: u32, time: SystemTime) -> Vec<u8> {
    let name = file
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    regf::serialize(
        root,
        &format!(r"\SystemRoot\System32\Config\{name}"),
        sequence,
        filetime(time),
    )
}

/// Writes a new hive file, made at SOURCE_DATE_EPOCH when that is set: equal facts then give equal files.
pub fn create(root: &Key, file: &Path) -> Result<(), String> {
    let epoch = std::env::var("SOURCE_DATE_EPOCH")
        .ok()
        .and_then(|text| text.parse().ok());
    let time = epoch.map_or_else(SystemTime::now, |secs| {
        UNIX_EPOCH + Duration::from_secs(secs)
    });
    regf::replace(file, &image(root, file, 1, time))
}

/// 100 ns units since 1601.
pub fn filetime(time: SystemTime) -> u64 {
    let unix = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    (unix.as_secs() + 11_644_473_600) * 10_000_000 + u64::from(unix.subsec_nanos() / 100)
}

pub fn sz(text: &str) -> (u32, Vec<u8>) {
    (REG_SZ, terminated(text))
}

pub fn expand_sz(text: &str) -> (u32, Vec<u8>) {
    (REG_EXPAND_SZ, terminated(text))
}

pub fn dword_value(number: u32) -> (u32, Vec<u8>) {
    (REG_DWORD, number.to_le_bytes().to_vec())
}

pub fn multi_sz<S: AsRef<str>>(items: &[S]) -> (u32, Vec<u8>) {
    let mut data: Vec<u8> = items
        .iter()
        .flat_map(|item| terminated(item.as_ref()))
        .collect();
    data.extend([0, 0]);
    (REG_MULTI_SZ, data)
}

fn terminated(text: &str) -> Vec<u8> {
    let mut data = utf16(text);
    data.extend([0, 0]);
    data
}

/// A string value's text, up to its first NUL.
pub fn text(data: &[u8]) -> String {
    let units = data
        .chunks_exact(2)
        .map(|b| u16::from_le_bytes([b[0], b[1]]))
        .take_while(|&unit| unit != 0);
    String::from_utf16_lossy(&units.collect::<Vec<_>>())
}

/// The strings of a REG_MULTI_SZ.
pub fn texts(data: &[u8]) -> Vec<String> {
    let units: Vec<u16> = data
        .chunks_exact(2)
        .map(|b| u16::from_le_bytes([b[0], b[1]]))
        .collect();
    units
        .split(|&unit| unit == 0)
        .take_while(|item| !item.is_empty())
        .map(String::from_utf16_lossy)
        .collect()
}

pub fn dword(data: &[u8]) -> Option<u32> {
    data.try_into().ok().map(u32::from_le_bytes)
}
