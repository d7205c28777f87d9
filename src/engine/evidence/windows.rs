//! The disk of a build that failed, read without booting it: how far Windows got, and what its logs say.
//!
//! Best effort and never an error: the disk may be half divided, half formatted, half written. What is there is taken, what
//! is lacking is said. Writes below the evidence only, and nothing that was not redacted.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_formats::disk::gpt::{self, Partition};
use winimg_formats::disk::{Disk, Image, ntfs};
use winimg_formats::hive::{Data, Hive};

use super::files::{LOGS_OF_WINDOWS, Tail};
use super::logs::{self, ANSWER_FILES, Family, KNOWN, Log, OWN_FOLDER};
use super::reading::{DiskState, Registry, Table, Volume};
use super::redact::{self, Redactor};

/// Of each log the end.
const LOG_KEPT: usize = 2 << 20;
/// A log beyond this is not looked at: reading all of it would take minutes.
const LOG_LONGEST: u64 = 1 << 30;
const ANSWER_FILE_LONGEST: u64 = 1 << 20;
const HIVE_LONGEST: u64 = 512 << 20;
/// Partitions that are looked at, and files of winimg's own folder.
const MOST_PARTITIONS: usize = 16;
const MOST_OWN_FILES: usize = 40;
const CONFIG: &str = r"Windows\System32\config";

#[derive(Debug, Default)]
pub struct Found {
    pub state: DiskState,
    pub logs: Vec<Log>,
}

/// Reads the disk and copies its logs to `<folder>/logs-of-windows`.
pub fn read(disk: Image<'_>, folder: &Path, redactor: &Redactor, cancel: &Cancel) -> Found {
    let mut found = Found::default();
    match disk.open(cancel) {
        Ok(opened) => Reader {
            disk: opened.as_ref(),
            to: folder.join(LOGS_OF_WINDOWS),
            redactor,
            cancel,
            found: &mut found,
        }
        .read(),
        Err(error) => {
            found.state.table = Table::Unreadable;
            found.state.written = 1;
            found.lacks("the machine's disk can't be opened", &error);
        }
    }
    found
}

impl Found {
    fn lacks(&mut self, what: &str, why: &Error) {
        let why = why.to_string().replace("\n  ", "; ");
        self.state.lacks.push(format!("{what}: {why}"));
    }
}

struct Reader<'r> {
    disk: &'r dyn Disk,
    to: PathBuf,
    redactor: &'r Redactor,
    cancel: &'r Cancel,
    found: &'r mut Found,
}

impl Reader<'_> {
    fn read(mut self) {
        match self.disk.data() {
            Ok(ranges) => {
                self.found.state.written = ranges.iter().map(|r| r.end - r.start).sum();
            }
            Err(error) => {
                self.found.state.written = 1;
                self.found
                    .lacks("what was written can't be counted", &error);
            }
        }
        let table = match gpt::table(self.disk) {
            Ok(table) => table,
            Err(error) => {
                self.found.state.table = Table::Unreadable;
                self.found.lacks("the partition table", &error);
                return;
            }
        };
        self.found.state.table = match table.partitions.is_empty() {
            true => Table::None,
            false => Table::Partitions(table.partitions.iter().map(rendered).collect()),
        };
        for partition in table.partitions.iter().take(MOST_PARTITIONS) {
            if self.cancel.is_cancelled() {
                return;
            }
            self.partition(partition);
        }
    }

    fn partition(&mut self, partition: &Partition) {
        // A FAT, or one that was never formatted: what holds no NTFS says nothing.
        if !self.says_ntfs(partition) {
            return;
        }
        let volume = match ntfs::Volume::open(self.disk, partition) {
            Ok(volume) => volume,
            Err(error) => {
                let what = format!("partition {} says NTFS, but", partition.number);
                self.found.lacks(&what, &error);
                return;
            }
        };
        let exists = |path: &str| volume.exists(path).unwrap_or(false);
        let read = Volume {
            partition: partition.number,
            windows: exists("Windows"),
            panther: exists(r"Windows\Panther"),
            setup: exists("$WINDOWS.~BT"),
            dirty: volume.is_dirty().unwrap_or(false),
        };
        // A second volume's files stand apart from the first one's.
        let first = self.found.logs.is_empty();
        let to = match first {
            true => self.to.clone(),
            false => self.to.join(format!("partition-{}", partition.number)),
        };
        self.logs(&volume, &to);
        self.answer_files(&volume, &to);
        if read.windows && self.found.state.registry == Registry::default() {
            self.registry(&volume);
            let tag = r"Windows\System32\Sysprep\Sysprep_succeeded.tag";
            self.found.state.sysprep_tag |= exists(tag);
        }
        self.found.state.volumes.push(read);
    }

    /// The name in the volume's boot sector.
    fn says_ntfs(&self, partition: &Partition) -> bool {
        let mut sector = [0; 512];
        let end = partition.start.checked_add(512);
        end.is_some_and(|end| end <= self.disk.len())
            && self.disk.read_at(partition.start, &mut sector).is_ok()
            && &sector[3..11] == b"NTFS    "
    }

    fn logs(&mut self, volume: &ntfs::Volume<'_>, to: &Path) {
        for (folder, names, family, phase) in KNOWN {
            for name in *names {
                self.log(volume, to, &format!(r"{folder}\{name}"), *family, phase);
            }
        }
        let Ok(Some(entries)) = volume.list(OWN_FOLDER) else {
            return;
        };
        let own = entries.iter().filter(|e| !e.directory && is_own(&e.name));
        for entry in own.take(MOST_OWN_FILES) {
            let path = format!(r"{OWN_FOLDER}\{}", entry.name);
            self.log(volume, to, &path, Family::Bootstrap, "winimg's bootstrap");
        }
    }

    fn log(
        &mut self,
        volume: &ntfs::Volume<'_>,
        to: &Path,
        path: &str,
        family: Family,
        phase: &str,
    ) {
        if self.cancel.is_cancelled() {
            return;
        }
        let (bytes, cut) = match self.end_of(volume, path) {
            Ok(Some(end)) => end,
            Ok(None) => return,
            Err(error) => return self.found.lacks(path, &error),
        };
        let text = logs::decode(&self.redactor.bytes(&bytes));
        let text = self.redactor.foreign(&text);
        self.keep(to, path, &text);
        self.found.logs.push(Log {
            path: path.into(),
            family,
            phase: phase.into(),
            text,
            cut,
        });
    }

    /// The last bytes of a file and whether there were more. `None`: no such file.
    fn end_of(&self, volume: &ntfs::Volume<'_>, path: &str) -> Result<Option<(Vec<u8>, bool)>> {
        let Some(facts) = volume.facts(path)?.filter(|facts| !facts.directory) else {
            return Ok(None);
        };
        if facts.size > LOG_LONGEST {
            let fact = format!("it has {} MiB, which is too much to read", facts.size >> 20);
            return Err(Error::new(Kind::Failed, fact));
        }
        let mut end = Watched {
            tail: Tail::new(LOG_KEPT),
            cancel: self.cancel,
        };
        volume.copy(path, &mut end)?;
        Ok(Some(end.tail.end(self.redactor.longest())))
    }

    fn answer_files(&mut self, volume: &ntfs::Volume<'_>, to: &Path) {
        for path in ANSWER_FILES {
            match volume.read(path, ANSWER_FILE_LONGEST) {
                Ok(None) => {}
                Ok(Some(bytes)) => {
                    let text = logs::decode(&self.redactor.bytes(&bytes));
                    match redact::answer_file(&text) {
                        Some(text) => self.keep(to, path, &self.redactor.foreign(&text)),
                        None => self.found.state.lacks.push(format!(
                            "{path} is no XML, so it is not shown: nobody knows what in it is secret"
                        )),
                    }
                }
                Err(error) => self.found.lacks(path, &error),
            }
        }
    }

    fn keep(&self, to: &Path, path: &str, text: &str) {
        let to = path.split('\\').fold(to.to_owned(), |to, n| to.join(n));
        let made = to.parent().map_or(Ok(()), fs::create_dir_all);
        // Evidence that can't be written must not hide the error; the page has the lines that matter.
        let _ = made.and_then(|()| fs::write(&to, text));
    }

    fn registry(&mut self, volume: &ntfs::Volume<'_>) {
        let software = self.hive(volume, "SOFTWARE");
        let system = self.hive(volume, "SYSTEM");
        let registry = &mut self.found.state.registry;
        let all = [&software, &system];
        registry.stale = all.into_iter().flatten().any(Hive::is_dirty);
        if let Some(hive) = &software {
            let key = r"Microsoft\Windows\CurrentVersion\Setup\State";
            registry.image_state = text(hive, key, "ImageState");
        }
        if let Some(hive) = &system {
            registry.setup_type = number(hive, "Setup", "SetupType");
            registry.command = text(hive, "Setup", "CmdLine")
                .filter(|c| !c.is_empty())
                .map(|c| self.redactor.foreign(&c));
            registry.child = number(hive, r"Setup\Status\ChildCompletion", "setup.exe");
            let key = r"Setup\Status\SysprepStatus";
            registry.generalization = number(hive, key, "GeneralizationState");
        }
    }

    fn hive(&mut self, volume: &ntfs::Volume<'_>, name: &str) -> Option<Hive> {
        let path = format!(r"{CONFIG}\{name}");
        let parsed = match volume.read(&path, HIVE_LONGEST) {
            Ok(None) => {
                self.found.state.lacks.push(format!("{path} is not there"));
                return None;
            }
            Ok(Some(bytes)) => Hive::parse(bytes),
            Err(error) => Err(error),
        };
        match parsed {
            Ok(hive) => Some(hive),
            Err(error) => {
                self.found.lacks(&path, &error);
                None
            }
        }
    }
}

/// `1 EFI system, 100 MiB`
fn rendered(partition: &Partition) -> String {
    format!(
        "{} {}, {} MiB",
        partition.number,
        partition.role.unwrap_or("unknown"),
        partition.len >> 20
    )
}

/// A file of the guest whose name is also a plain name here.
fn is_own(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (lower.ends_with(".log") || lower == "bootstrap.done")
        && name.chars().all(plain)
        && !name.starts_with('.')
}

fn text(hive: &Hive, key: &str, name: &str) -> Option<String> {
    match value(hive, key, name)? {
        // What a guest wrote is shown in one line.
        Data::Sz(text) | Data::ExpandSz(text) => Some(text.chars().take(200).collect()),
        _ => None,
    }
}

fn number(hive: &Hive, key: &str, name: &str) -> Option<u32> {
    match value(hive, key, name)? {
        Data::Dword(n) => Some(n),
        _ => None,
    }
}

fn value(hive: &Hive, key: &str, name: &str) -> Option<Data> {
    hive.key(key).ok()??.value(name).ok()?
}

/// Gives up when the user does.
struct Watched<'w> {
    tail: Tail,
    cancel: &'w Cancel,
}

impl Write for Watched<'_> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.cancel.check().map_err(io::Error::other)?;
        self.tail.write(part)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
