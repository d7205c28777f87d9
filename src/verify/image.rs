//! A finished image as the checks see it: the Windows volume, its registry, and the partition that the firmware starts.
//!
//! Reads only, and reads no stale value: a hive whose last changes stand in its logs answers no question.

use std::io::Read as _;
use std::sync::OnceLock;

use winimg_base::error::{Error, Kind, Result};
use winimg_formats::disk::gpt::{self, Partition, Style, Table};
use winimg_formats::disk::ntfs::{Volume, Windows};
use winimg_formats::disk::{Disk, DiskReader};
use winimg_formats::hive::{Data, Hive, Key};

use super::finding::{Finding, Verdict};
use winimg_base::event::Severity;
use winimg_recipe::recipe::RegistryKey;

/// Where the hives lie, and which part of the registry each of them is.
const CONFIG: &str = r"C:\Windows\System32\config";
pub(super) const HIVES: [&str; 5] = ["SYSTEM", "SOFTWARE", "SAM", "SECURITY", "DEFAULT"];
/// Of a node image all hives together have some 200 MiB.
const HIVE_LIMIT: u64 = 1 << 30;

pub type Answer<T> = std::result::Result<T, Box<Finding>>;

/// Threads share it: what was read once is there for all.
pub struct Image<'d> {
    pub(crate) disk: &'d dyn Disk,
    pub(crate) table: Table,
    pub(crate) partition: Partition,
    pub volume: Volume<'d>,
    hives: [OnceLock<Loaded>; 5],
}

enum Loaded {
    Ready(Box<Hive>),
    Missing,
    Dirty,
    Broken(Box<Finding>),
}

impl<'d> Image<'d> {
    /// Finds the volume that Windows starts from. None, or one that can't be read, is an error: there is nothing to check.
    pub fn open(disk: &'d dyn Disk) -> Result<Self> {
        let table = gpt::table(disk)?;
        let Windows { partition, volume } = Windows::find(disk, &table)?;
        Ok(Self {
            disk,
            partition,
            table,
            volume,
            hives: Default::default(),
        })
    }

    /// `HKLM\SYSTEM\CurrentControlSet` is that of the set in use. `None`: there is no such key.
    pub fn key(&self, key: &RegistryKey) -> Answer<Option<Key<'_>>> {
        let Some(hive) = located(key) else {
            return Err(Finding::unknown(format!(
                "{key} is in no hive that is read"
            )));
        };
        let hive = self.hive(hive).map_err(|mut finding| {
            if finding.severity == Severity::Unknown {
                finding.problem = finding.problem.prefixed(format_args!("{key}: "));
            }
            finding
        })?;
        match after(key.subkey(), "CurrentControlSet") {
            None => Ok(hive.key(key.subkey())?),
            Some(rest) => {
                let set = current_set(hive)?;
                Ok(hive.key(&format!("{set}{rest}"))?)
            }
        }
    }

    /// A value of a key; the default value's name is empty.
    pub fn value(&self, key: &RegistryKey, name: &str) -> Answer<Option<Data>> {
        match self.key(key)? {
            Some(key) => Ok(key.value(name)?),
            None => Ok(None),
        }
    }

    /// A value that is a number.
    pub fn number(&self, key: &RegistryKey, name: &str) -> Answer<Option<u32>> {
        Ok(match self.value(key, name)? {
            Some(Data::Dword(n)) => Some(n),
            _ => None,
        })
    }

    /// A value that is text.
    pub fn text(&self, key: &RegistryKey, name: &str) -> Answer<Option<String>> {
        Ok(match self.value(key, name)? {
            Some(Data::Sz(text) | Data::ExpandSz(text)) => Some(text),
            _ => None,
        })
    }

    /// The names in a folder; none when there is no such folder.
    pub fn names(&self, folder: &str) -> Answer<Vec<String>> {
        let entries = self.volume.list(folder)?.unwrap_or_default();
        Ok(entries.into_iter().map(|e| e.name).collect())
    }

    fn loaded(&self, name: &str) -> &Loaded {
        let number = HIVES.iter().position(|h| *h == name).unwrap_or_default();
        self.hives[number].get_or_init(|| self.load(name))
    }

    fn hive(&self, name: &str) -> Answer<&Hive> {
        match self.loaded(name) {
            Loaded::Ready(hive) => Ok(hive),
            Loaded::Missing => Err(Finding::unknown(format!("the hive {name} is missing"))),
            Loaded::Dirty => Err(Finding::unknown(format!(
                "the newest values of the hive {name} are in its logs"
            ))),
            Loaded::Broken(finding) => Err(finding.clone()),
        }
    }

    fn load(&self, name: &str) -> Loaded {
        let path = format!(r"{CONFIG}\{name}");
        let bytes = match self.volume.read(&path, HIVE_LIMIT) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Loaded::Missing,
            Err(error) => return Loaded::Broken(error.into()),
        };
        match Hive::parse(bytes) {
            Ok(hive) if hive.is_dirty() => Loaded::Dirty,
            Ok(hive) => Loaded::Ready(Box::new(hive)),
            Err(error) => Loaded::Broken(
                Finding::error(format!("{path} is damaged"))
                    .found(error.to_string().replace("\n  ", "; "))
                    .cure("build the image again"),
            ),
        }
    }

    /// Whether a hive can be read, as a check of its own.
    pub(super) fn hive_is_sound(&self, name: &str) -> Verdict {
        let path = format!(r"{CONFIG}\{name}");
        match self.loaded(name) {
            Loaded::Ready(_) => Ok(()),
            Loaded::Missing => Err(Finding::error(format!("{path} is missing"))
                .cure("Windows does not start without it: build the image again")),
            Loaded::Dirty => Err(Finding::error(format!("{path} was not closed in order"))
                .expected("all changes in the hive")
                .found("changes that are only in its logs")
                .cure("let Windows shut down by itself before the disk is taken")),
            Loaded::Broken(finding) => Err(finding.clone()),
        }
    }

    /// The partition that UEFI starts from.
    pub(super) fn efi(&self) -> Option<&Partition> {
        let efi = |p: &&Partition| p.role == Some("EFI system");
        self.table.partitions.iter().find(efi)
    }

    /// Of the files in a FAT partition, those that are not there.
    pub(super) fn missing_in_fat<'p>(
        &self,
        partition: &Partition,
        paths: &[&'p str],
    ) -> Result<Vec<&'p str>> {
        let reader = DiskReader::part(self.disk, partition.start, partition.len);
        let bad = |e: std::io::Error| {
            Error::new(Kind::Failed, "the EFI system partition's FAT can't be read").because(e)
        };
        let fat = fatfs::FileSystem::new(reader, fatfs::FsOptions::new()).map_err(bad)?;
        let root = fat.root_dir();
        let mut missing = Vec::new();
        for path in paths {
            let mut one = [0];
            let read = root
                .open_file(path)
                .and_then(|mut file| file.read_exact(&mut one));
            match read {
                Ok(()) => {}
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => missing.push(*path),
                Err(e) => return Err(bad(e)),
            }
        }
        Ok(missing)
    }

    pub(super) fn is_gpt(&self) -> bool {
        self.table.style == Style::Gpt
    }
}

/// The hive that lies in a file of its own.
fn located(key: &RegistryKey) -> Option<&'static str> {
    let name = match key.hive() {
        own if own.eq_ignore_ascii_case("S-1-5-18") => "DEFAULT",
        name => name.trim_start_matches('.'),
    };
    HIVES.into_iter().find(|h| h.eq_ignore_ascii_case(name))
}

/// What follows `start` in a path, with its backslash. The case of names does not matter.
fn after<'p>(path: &'p str, start: &str) -> Option<&'p str> {
    let (head, rest) = path.split_at_checked(start.len())?;
    let is_whole = rest.is_empty() || rest.starts_with('\\');
    (is_whole && head.eq_ignore_ascii_case(start)).then_some(rest)
}

/// `ControlSet001`: `CurrentControlSet` is a link that Windows makes when it starts, from `Select\Current`.
fn current_set(hive: &Hive) -> Answer<String> {
    let select = hive.key("Select")?;
    let current = match select {
        Some(key) => key.value("Current")?,
        None => None,
    };
    match current {
        Some(Data::Dword(n)) => Ok(format!("ControlSet{n:03}")),
        _ => Err(
            Finding::error("the SYSTEM hive names no current control set")
                .expected(r"Select\Current, a DWORD")
                .cure("build the image again"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_their_hives() {
        let hive = |key: &'static str| located(&RegistryKey::known(key));
        assert_eq!(hive(r"HKLM\Software\Example"), Some("SOFTWARE"));
        assert_eq!(hive(r"HKU\.DEFAULT\x"), Some("DEFAULT"));
        assert_eq!(hive(r"HKU\S-1-5-18\x"), Some("DEFAULT"));
        assert_eq!(hive(r"HKU\S-1-5-19"), None);
        assert_eq!(
            after(r"currentcontrolset\Services", "CurrentControlSet"),
            Some(r"\Services")
        );
        assert_eq!(after("CurrentControlSetX", "CurrentControlSet"), None);
    }
}
