//! Reads the disk of a failed build without booting it: the state of Windows, and its logs.
//!
//! Best effort, never an error: the disk may be only partly partitioned, formatted or written.
//! Reads as much as possible and reports the rest. Writes only redacted text, and only below the
//! diagnostics folder.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_formats::disk::gpt::{self, DiskPartition};
use winimg_formats::disk::{Disk, DiskImage, ntfs};
use winimg_formats::hive::{Hive, HiveValueData};
use winimg_machine::vm::symptoms::LogFamily;

use super::diagnosis::{DiskState, PartitionTableState, SetupRegistry, VolumeState};
use super::files::{LOGS_OF_WINDOWS, TailWriter};
use super::logs::{self, ANSWER_FILES, KNOWN, OWN_FOLDER, WindowsLog};
use super::redact::{self, Redactor};

/// Maximum size kept of a log; only its end is kept.
const LOG_KEPT: usize = 2 << 20;
/// Maximum size of a log: reading a larger one would take minutes.
const MAX_LOG: u64 = 1 << 30;
const MAX_ANSWER_FILE: u64 = 1 << 20;
const MAX_HIVE: u64 = 512 << 20;
/// Maximum number of partitions to read.
const MAX_PARTITIONS: usize = 16;
/// Maximum number of files to read in winimg's own folder.
const MAX_OWN_FILES: usize = 40;
const CONFIG: &str = r"Windows\System32\config";

#[derive(Debug, Default)]
pub struct DiskFindings {
    pub state: DiskState,
    pub logs: Vec<WindowsLog>,
}

/// Reads the disk and copies its logs to `<folder>/logs-of-windows`.
pub fn read(
    disk: DiskImage<'_>,
    folder: &Path,
    redactor: &Redactor,
    cancel: &Cancel,
) -> DiskFindings {
    let mut found = DiskFindings::default();
    match disk.open(cancel) {
        Ok(opened) => DiskInspector {
            disk: opened.as_ref(),
            to: folder.join(LOGS_OF_WINDOWS),
            redactor,
            cancel,
            found: &mut found,
        }
        .read(),
        Err(error) => {
            found.state.table = PartitionTableState::Unreadable;
            found.state.written = 1;
            found.report_unreadable("the VM's disk can't be opened", &error);
        }
    }
    found
}

impl DiskFindings {
    fn report_unreadable(&mut self, what: &str, why: &Error) {
        let why = why.to_string().replace("\n  ", "; ");
        self.state.lacks.push(format!("{what}: {why}"));
    }
}

struct DiskInspector<'r> {
    disk: &'r dyn Disk,
    to: PathBuf,
    redactor: &'r Redactor,
    cancel: &'r Cancel,
    found: &'r mut DiskFindings,
}

impl DiskInspector<'_> {
    fn read(mut self) {
        match self.disk.data() {
            Ok(ranges) => {
                self.found.state.written = ranges.iter().map(|r| r.end - r.start).sum();
            }
            Err(error) => {
                self.found.state.written = 1;
                self.found
                    .report_unreadable("cannot determine the size of the written data", &error);
            }
        }
        let table = match gpt::read_table(self.disk) {
            Ok(table) => table,
            Err(error) => {
                self.found.state.table = PartitionTableState::Unreadable;
                self.found
                    .report_unreadable("cannot read the partition table", &error);
                return;
            }
        };
        self.found.state.table = if table.partitions.is_empty() {
            PartitionTableState::None
        } else {
            PartitionTableState::Partitions(
                table.partitions.iter().map(describe_partition).collect(),
            )
        };
        for partition in table.partitions.iter().take(MAX_PARTITIONS) {
            if self.cancel.is_cancelled() {
                return;
            }
            self.read_partition(partition);
        }
    }

    fn read_partition(&mut self, partition: &DiskPartition) {
        // Skip other file systems and unformatted partitions.
        if !self.says_ntfs(partition) {
            return;
        }
        let volume = match ntfs::NtfsVolume::open(self.disk, partition) {
            Ok(volume) => volume,
            Err(error) => {
                let what = format!("cannot read NTFS on partition {}", partition.number);
                self.found.report_unreadable(&what, &error);
                return;
            }
        };
        let read = VolumeState {
            partition: partition.number,
            windows: has_file(&volume, "Windows"),
            panther: has_file(&volume, r"Windows\Panther"),
            setup: has_file(&volume, "$WINDOWS.~BT"),
            dirty: volume.is_dirty().unwrap_or(false),
        };
        // The files of a second volume go to a separate folder.
        let first = self.found.logs.is_empty();
        let to = if first {
            self.to.clone()
        } else {
            self.to.join(format!("partition-{}", partition.number))
        };
        self.read_logs(&volume, &to);
        self.answer_files(&volume, &to);
        if read.windows && self.found.state.registry == SetupRegistry::default() {
            self.read_registry(&volume);
            let tag = r"Windows\System32\Sysprep\Sysprep_succeeded.tag";
            self.found.state.sysprep_tag |= has_file(&volume, tag);
        }
        self.found.state.volumes.push(read);
    }

    /// Returns true if the boot sector names NTFS.
    fn says_ntfs(&self, partition: &DiskPartition) -> bool {
        let mut sector = [0; 512];
        let end = partition.start.checked_add(512);
        end.is_some_and(|end| end <= self.disk.len())
            && self.disk.read_at(partition.start, &mut sector).is_ok()
            && &sector[3..11] == b"NTFS    "
    }

    fn read_logs(&mut self, volume: &ntfs::NtfsVolume<'_>, to: &Path) {
        for (folder, names, family, phase) in KNOWN {
            for name in *names {
                self.log(volume, to, &format!(r"{folder}\{name}"), *family, phase);
            }
        }
        let Ok(Some(entries)) = volume.list(OWN_FOLDER) else {
            return;
        };
        let own = entries
            .iter()
            .filter(|e| !e.is_directory && is_own(&e.name));
        for entry in own.take(MAX_OWN_FILES) {
            let path = format!(r"{OWN_FOLDER}\{}", entry.name);
            self.log(
                volume,
                to,
                &path,
                LogFamily::Bootstrap,
                "winimg's bootstrap",
            );
        }
    }

    fn log(
        &mut self,
        volume: &ntfs::NtfsVolume<'_>,
        to: &Path,
        path: &str,
        family: LogFamily,
        phase: &str,
    ) {
        if self.cancel.is_cancelled() {
            return;
        }
        let (bytes, cut) = match self.read_end(volume, path) {
            Ok(Some(end)) => end,
            Ok(None) => return,
            Err(error) => return self.found.report_unreadable(path, &error),
        };
        let text = logs::decode(&self.redactor.redact_bytes(&bytes));
        let text = self.redactor.redact_guest_text(&text);
        self.keep(to, path, &text);
        self.found.logs.push(WindowsLog {
            path: path.into(),
            family,
            phase: phase.into(),
            text,
            cut,
        });
    }

    /// Returns the last bytes of a file, and true if there were more. `None` if there is no such
    /// file.
    fn read_end(
        &self,
        volume: &ntfs::NtfsVolume<'_>,
        path: &str,
    ) -> Result<Option<(Vec<u8>, bool)>> {
        let Some(facts) = volume
            .read_file_info(path)?
            .filter(|facts| !facts.is_directory)
        else {
            return Ok(None);
        };
        if facts.size > MAX_LOG {
            let fact = format!("{} MiB is too large to read", facts.size >> 20);
            return Err(Error::new(Kind::Failed, fact));
        }
        let mut end = CancellableTail {
            tail: TailWriter::new(LOG_KEPT),
            cancel: self.cancel,
        };
        volume.copy(path, &mut end)?;
        Ok(Some(end.tail.end(self.redactor.longest_len())))
    }

    fn answer_files(&mut self, volume: &ntfs::NtfsVolume<'_>, to: &Path) {
        for path in ANSWER_FILES {
            match volume.read(path, MAX_ANSWER_FILE) {
                Ok(None) => {}
                Ok(Some(bytes)) => {
                    let text = logs::decode(&self.redactor.redact_bytes(&bytes));
                    match redact::answer_file(&text) {
                        Some(text) => self.keep(to, path, &self.redactor.redact_guest_text(&text)),
                        None => self.found.state.lacks.push(format!(
                            "{path} is not XML, so its secrets cannot be redacted: it is not saved"
                        )),
                    }
                }
                Err(error) => self.found.report_unreadable(path, &error),
            }
        }
    }

    fn keep(&self, to: &Path, path: &str, text: &str) {
        let to = path.split('\\').fold(to.to_owned(), |to, n| to.join(n));
        let made = to.parent().map_or(Ok(()), fs::create_dir_all);
        // A write error must not hide the build's error; the report quotes the relevant lines.
        let _ = made.and_then(|()| fs::write(&to, text));
    }

    fn read_registry(&mut self, volume: &ntfs::NtfsVolume<'_>) {
        let software = self.open_hive(volume, "SOFTWARE");
        let system = self.open_hive(volume, "SYSTEM");
        let registry = &mut self.found.state.registry;
        let all = [&software, &system];
        registry.stale = all.into_iter().flatten().any(Hive::is_dirty);
        if let Some(hive) = &software {
            let key = r"Microsoft\Windows\CurrentVersion\Setup\State";
            registry.image_state = read_text(hive, key, "ImageState");
        }
        if let Some(hive) = &system {
            registry.setup_type = read_number(hive, "Setup", "SetupType");
            registry.command = read_text(hive, "Setup", "CmdLine")
                .filter(|c| !c.is_empty())
                .map(|c| self.redactor.redact_guest_text(&c));
            registry.child = read_number(hive, r"Setup\Status\ChildCompletion", "setup.exe");
            let key = r"Setup\Status\SysprepStatus";
            registry.generalization = read_number(hive, key, "GeneralizationState");
        }
    }

    fn open_hive(&mut self, volume: &ntfs::NtfsVolume<'_>, name: &str) -> Option<Hive> {
        let path = format!(r"{CONFIG}\{name}");
        let parsed = match volume.read(&path, MAX_HIVE) {
            Ok(None) => {
                self.found
                    .state
                    .lacks
                    .push(format!("{path} does not exist"));
                return None;
            }
            Ok(Some(bytes)) => Hive::parse(bytes),
            Err(error) => Err(error),
        };
        match parsed {
            Ok(hive) => Some(hive),
            Err(error) => {
                self.found.report_unreadable(&path, &error);
                None
            }
        }
    }
}

fn has_file(volume: &ntfs::NtfsVolume<'_>, path: &str) -> bool {
    volume.exists(path).unwrap_or(false)
}

/// `1 EFI system, 100 MiB`
fn describe_partition(partition: &DiskPartition) -> String {
    format!(
        "{} {}, {} MiB",
        partition.number,
        partition.role.unwrap_or("unknown"),
        partition.len >> 20
    )
}

/// Returns true for a log of winimg whose name is also safe on the host.
fn is_own(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    (lower.ends_with(".log") || lower == "bootstrap.done")
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && !name.starts_with('.')
}

fn read_text(hive: &Hive, key: &str, name: &str) -> Option<String> {
    match read_value(hive, key, name)? {
        // Limited, because the report shows the guest's text in one line.
        HiveValueData::Sz(text) | HiveValueData::ExpandSz(text) => {
            Some(text.chars().take(200).collect())
        }
        _ => None,
    }
}

fn read_number(hive: &Hive, key: &str, name: &str) -> Option<u32> {
    match read_value(hive, key, name)? {
        HiveValueData::Dword(n) => Some(n),
        _ => None,
    }
}

fn read_value(hive: &Hive, key: &str, name: &str) -> Option<HiveValueData> {
    hive.find_key(key).ok()??.find_value(name).ok()?
}

/// A writer that fails once the build is cancelled.
struct CancellableTail<'w> {
    tail: TailWriter,
    cancel: &'w Cancel,
}

impl Write for CancellableTail<'_> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.cancel.check().map_err(io::Error::other)?;
        self.tail.write(part)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
