//! A finished image: the Windows volume, its registry, and the EFI system partition.
//!
//! Read-only. A hive with changes that are only in its transaction logs is not read, so values are
//! never stale.

use std::io::Read as _;
use std::sync::OnceLock;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::FindingSeverity;
use winimg_formats::disk::gpt::{self, DiskPartition, PartitionStyle, PartitionTable};
use winimg_formats::disk::ntfs::{NtfsVolume, WindowsVolume};
use winimg_formats::disk::{Disk, DiskReader};
use winimg_formats::hive::{Hive, HiveKey, HiveValueData};
use winimg_recipe::RegistryKey;

use super::finding::{Verdict, VerifyFinding};

/// Folder of the hives.
const CONFIG_FOLDER: &str = r"C:\Windows\System32\config";
pub(super) const HIVES: [&str; 5] = ["SYSTEM", "SOFTWARE", "SAM", "SECURITY", "DEFAULT"];
/// Maximum size of a hive; all hives of a node image add up to about 200 MiB.
const HIVE_LIMIT: u64 = 1 << 30;

pub type CheckResult<T> = std::result::Result<T, Box<VerifyFinding>>;

/// An open image. Threads share it, so each hive is read only once.
pub struct InspectedImage<'d> {
    pub(crate) disk: &'d dyn Disk,
    pub(crate) table: PartitionTable,
    pub(crate) partition: DiskPartition,
    pub volume: NtfsVolume<'d>,
    hives: [OnceLock<HiveState>; 5],
}

enum HiveState {
    Ready(Box<Hive>),
    Missing,
    Dirty,
    Broken(Box<VerifyFinding>),
}

impl<'d> InspectedImage<'d> {
    /// Finds the volume that Windows boots from. Fails if there is none or it is unreadable.
    pub fn open(disk: &'d dyn Disk) -> Result<Self> {
        let table = gpt::read_table(disk)?;
        let WindowsVolume { partition, volume } = WindowsVolume::find(disk, &table)?;
        Ok(Self {
            disk,
            partition,
            table,
            volume,
            hives: Default::default(),
        })
    }

    /// Opens a key; `None` if it does not exist. Resolves `HKLM\SYSTEM\CurrentControlSet` to the
    /// current control set.
    pub fn open_key(&self, key: &RegistryKey) -> CheckResult<Option<HiveKey<'_>>> {
        let Some(hive) = find_hive(key) else {
            return Err(VerifyFinding::unknown(format!(
                "{key} is not in a hive that winimg reads"
            )));
        };
        let hive = self.read_hive(hive).map_err(|mut finding| {
            if finding.severity == FindingSeverity::Unknown {
                finding.problem = finding.problem.with_prefix(format_args!("{key}: "));
            }
            finding
        })?;
        match strip_prefix(key.subkey(), "CurrentControlSet") {
            None => Ok(hive.find_key(key.subkey())?),
            Some(rest) => {
                let set = find_control_set(hive)?;
                Ok(hive.find_key(&format!("{set}{rest}"))?)
            }
        }
    }

    /// Reads a value of a key; an empty name means the default value.
    pub fn read_value(&self, key: &RegistryKey, name: &str) -> CheckResult<Option<HiveValueData>> {
        match self.open_key(key)? {
            Some(key) => Ok(key.find_value(name)?),
            None => Ok(None),
        }
    }

    /// Reads a DWORD; `None` if it is missing or has another type.
    pub fn read_number(&self, key: &RegistryKey, name: &str) -> CheckResult<Option<u32>> {
        Ok(match self.read_value(key, name)? {
            Some(HiveValueData::Dword(n)) => Some(n),
            _ => None,
        })
    }

    /// Reads a string; `None` if it is missing or has another type.
    pub fn read_text(&self, key: &RegistryKey, name: &str) -> CheckResult<Option<String>> {
        Ok(match self.read_value(key, name)? {
            Some(HiveValueData::Sz(text) | HiveValueData::ExpandSz(text)) => Some(text),
            _ => None,
        })
    }

    /// Lists the names in a folder; empty if there is no such folder.
    pub fn list_names(&self, folder: &str) -> CheckResult<Vec<String>> {
        let entries = self.volume.list(folder)?.unwrap_or_default();
        Ok(entries.into_iter().map(|e| e.name).collect())
    }

    fn load_once(&self, name: &str) -> &HiveState {
        let index = HIVES.iter().position(|h| *h == name).unwrap_or_default();
        self.hives[index].get_or_init(|| self.load(name))
    }

    fn read_hive(&self, name: &str) -> CheckResult<&Hive> {
        match self.load_once(name) {
            HiveState::Ready(hive) => Ok(hive),
            HiveState::Missing => Err(VerifyFinding::unknown(format!(
                "the hive {name} is missing"
            ))),
            HiveState::Dirty => Err(VerifyFinding::unknown(format!(
                "the hive {name} has changes that are only in its transaction logs"
            ))),
            HiveState::Broken(finding) => Err(finding.clone()),
        }
    }

    fn load(&self, name: &str) -> HiveState {
        let path = format!(r"{CONFIG_FOLDER}\{name}");
        let bytes = match self.volume.read(&path, HIVE_LIMIT) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return HiveState::Missing,
            Err(error) => return HiveState::Broken(error.into()),
        };
        match Hive::parse(bytes) {
            Ok(hive) if hive.is_dirty() => HiveState::Dirty,
            Ok(hive) => HiveState::Ready(Box::new(hive)),
            Err(error) => HiveState::Broken(
                VerifyFinding::error(format!("{path} is damaged"))
                    .found(error.to_string().replace("\n  ", "; "))
                    .cure("build the image again"),
            ),
        }
    }

    /// Checks that a hive is readable.
    pub(super) fn check_hive(&self, name: &str) -> Verdict {
        let path = format!(r"{CONFIG_FOLDER}\{name}");
        match self.load_once(name) {
            HiveState::Ready(_) => Ok(()),
            HiveState::Missing => Err(VerifyFinding::error(format!("{path} is missing"))
                .cure("Windows does not boot without it: rebuild the image")),
            HiveState::Dirty => Err(
                VerifyFinding::error(format!("{path} was not closed cleanly"))
                    .expected("all changes in the hive")
                    .found("changes that are only in its logs")
                    .cure("shut Windows down cleanly before copying the disk"),
            ),
            HiveState::Broken(finding) => Err(finding.clone()),
        }
    }

    /// Returns the partition that UEFI boots from.
    pub(super) fn find_efi_partition(&self) -> Option<&DiskPartition> {
        let mut partitions = self.table.partitions.iter();
        partitions.find(|p| p.role == Some("EFI system"))
    }

    /// Returns the paths that do not exist in a FAT partition.
    pub(super) fn find_missing_in_fat<'p>(
        &self,
        partition: &DiskPartition,
        paths: &[&'p str],
    ) -> Result<Vec<&'p str>> {
        let reader = DiskReader::with_range(self.disk, partition.start, partition.len);
        let fat =
            fatfs::FileSystem::new(reader, fatfs::FsOptions::new()).map_err(report_fat_error)?;
        let root = fat.root_dir();
        let mut missing = Vec::new();
        for path in paths {
            let mut byte = [0];
            let read = root
                .open_file(path)
                .and_then(|mut file| file.read_exact(&mut byte));
            match read {
                Ok(()) => {}
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => missing.push(*path),
                Err(e) => return Err(report_fat_error(e)),
            }
        }
        Ok(missing)
    }

    pub(super) fn is_gpt(&self) -> bool {
        self.table.style == PartitionStyle::Gpt
    }
}

fn report_fat_error(error: std::io::Error) -> Error {
    let fact = "cannot read the EFI system partition's FAT file system";
    Error::new(Kind::Failed, fact).because(error)
}

/// Returns the hive that contains a key; `None` if winimg does not read it.
fn find_hive(key: &RegistryKey) -> Option<&'static str> {
    let name = match key.hive() {
        sid if sid.eq_ignore_ascii_case("S-1-5-18") => "DEFAULT",
        name => name.trim_start_matches('.'),
    };
    HIVES.into_iter().find(|h| h.eq_ignore_ascii_case(name))
}

/// Strips `start` from a path, ignoring case; the rest keeps its backslash.
fn strip_prefix<'p>(path: &'p str, start: &str) -> Option<&'p str> {
    let (head, rest) = path.split_at_checked(start.len())?;
    let is_whole = rest.is_empty() || rest.starts_with('\\');
    (is_whole && head.eq_ignore_ascii_case(start)).then_some(rest)
}

/// Returns for example `ControlSet001`: Windows creates the link `CurrentControlSet` at startup
/// from `Select\Current`.
fn find_control_set(hive: &Hive) -> CheckResult<String> {
    let select = hive.find_key("Select")?;
    let current = match select {
        Some(key) => key.find_value("Current")?,
        None => None,
    };
    match current {
        Some(HiveValueData::Dword(n)) => Ok(format!("ControlSet{n:03}")),
        _ => Err(
            VerifyFinding::error("the SYSTEM hive names no current control set")
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
        let hive = |key: &'static str| find_hive(&RegistryKey::from_static(key));
        assert_eq!(hive(r"HKLM\Software\Example"), Some("SOFTWARE"));
        assert_eq!(hive(r"HKU\.DEFAULT\x"), Some("DEFAULT"));
        assert_eq!(hive(r"HKU\S-1-5-18\x"), Some("DEFAULT"));
        assert_eq!(hive(r"HKU\S-1-5-19"), None);
        assert_eq!(
            strip_prefix(r"currentcontrolset\Services", "CurrentControlSet"),
            Some(r"\Services")
        );
        assert_eq!(
            strip_prefix("CurrentControlSetX", "CurrentControlSet"),
            None
        );
    }
}
