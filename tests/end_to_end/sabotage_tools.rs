//! Changes a finished image behind winimg's back, so that `winimg verify` has something to find.
//!
//! The NTFS partition is taken out of the raw disk, changed with ntfs-3g's and libhivex's own programs, and what differs
//! is written back. Nothing is mounted, but for the removal of a file, which those programs can't do.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use winimg_formats::disk::gpt::read_table;
use winimg_formats::disk::{Disk, RawDisk};
use winimg_formats::hive::{Hive, HiveValueData};

use crate::end_to_end::program::output_of;
use support::ntfs::mounted;

const CHUNK: u64 = 1 << 20;

/// A value as a hive keeps it: name, type, bytes.
pub type Value = (String, u32, Vec<u8>);

/// The Windows partition of a raw disk, taken out to be changed. Paths are `/Windows/…`, in the guest's own spelling.
pub struct Sabotage {
    raw: PathBuf,
    start: u64,
    directory: PathBuf,
    volume: PathBuf,
}

impl Sabotage {
    /// `directory` takes the copy of the partition; only what holds data takes room.
    pub fn of(raw: &Path, directory: &Path) -> Self {
        let disk = RawDisk::open(raw).expect("the raw disk");
        let partitions = read_table(&disk).expect("a partition table");
        let windows = partitions
            .find_windows()
            .expect("a Windows partition")
            .clone();
        let part = disk
            .into_window(windows.start, windows.len)
            .expect("inside");
        let volume = directory.join("c.ntfs");
        let copy = fs::File::create(&volume).expect("the copy");
        copy.set_len(windows.len).expect("its length");
        in_pieces(&part, |at, bytes| {
            copy.write_all_at(bytes, at).expect("the copy is written")
        });
        Self {
            raw: raw.to_owned(),
            start: windows.start,
            directory: directory.to_owned(),
            volume,
        }
    }

    /// Writes what was changed into the raw disk.
    pub fn put_back(self) {
        let raw = fs::File::options().read(true).write(true).open(&self.raw);
        let raw = raw.expect("the raw disk");
        let copy = RawDisk::open(&self.volume).expect("the copy");
        let mut old = vec![0; CHUNK as usize];
        in_pieces(&copy, |at, bytes| {
            let old = &mut old[..bytes.len()];
            let at = self.start + at;
            raw.read_exact_at(old, at).expect("the raw disk is read");
            if old != bytes {
                raw.write_all_at(bytes, at)
                    .expect("the raw disk is written");
            }
        });
        raw.sync_all().expect("the raw disk is on disk");
    }

    pub fn volume(&self) -> &str {
        text(&self.volume)
    }

    pub fn read(&self, file: &str) -> Vec<u8> {
        let out = Command::new("ntfscat")
            .arg("-f")
            .arg(&self.volume)
            .arg(file)
            .output();
        let out = out.expect("ntfscat (package ntfs-3g)");
        assert!(
            out.status.success(),
            "{file}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
        out.stdout
    }

    /// Overwrites a file, or makes one in a directory that is there.
    pub fn write(&self, file: &str, bytes: &[u8]) {
        let source = self.directory.join("content");
        fs::write(&source, bytes).expect("the new content");
        output_of(
            "ntfscp",
            &["-f", "-q", text(&self.volume), text(&source), file],
        );
    }

    /// Changes one bit of a file; its length stays.
    pub fn flip_byte(&self, file: &str, at: usize) {
        let mut bytes = self.read(file);
        bytes[at] ^= 1;
        self.write(file, &bytes);
    }

    /// Through a mount. `false`: this machine can't mount (needs root and /dev/fuse), and nothing was done.
    pub fn remove(&self, file: &str) -> bool {
        let root = output_of("id", &["-u"]).trim() == "0";
        if !root || !Path::new("/dev/fuse").exists() {
            return false;
        }
        let removed = mounted(&self.volume, &[], |root| {
            fs::remove_file(root.join(file.trim_start_matches('/')))
        });
        removed.unwrap_or_else(|e| panic!("{file}: {e}"));
        true
    }

    /// Gives a file or directory this self-relative security descriptor.
    pub fn set_security(&self, kind: &str, file: &str, descriptor: &[u8]) {
        // The form of `ntfssecaudit -b`, without the hash, which is then not compared.
        let mut lines = format!("{kind} {file}\n");
        for (i, row) in descriptor.chunks(16).enumerate() {
            let words: Vec<String> = row.chunks(4).map(hex::encode).collect();
            lines += &format!("        {:06x}  {}\n", i * 16, words.join(" "));
        }
        let attributes = if kind == "Directory" { "0x10" } else { "0x20" };
        lines += &format!("Windows attrib : {attributes}\n");
        let backup = self.directory.join("security");
        fs::write(&backup, lines).expect("the descriptor");
        let rendered = output_of("ntfssecaudit", &["-se", text(&self.volume), text(&backup)]);
        assert!(
            rendered.contains("1 ACLs have been applied"),
            "{file}: {rendered}"
        );
    }

    /// Administrators own it, and everybody may do everything: `D:(A;OICI;0x1f01ff;;;S-1-1-0)`.
    pub fn let_everybody_in(&self, kind: &str, file: &str) {
        let administrators = "01020000000000052000000020020000";
        let everybody = "010100000000000100000000";
        let head = "0100048030000000400000000000000014000000";
        let list = format!("02001c000100000000031400ff011f00{everybody}");
        let descriptor = format!("{head}{list}{administrators}{administrators}");
        let descriptor = hex::decode(descriptor).expect("hexadecimal");
        self.set_security(kind, file, &descriptor);
    }

    /// Changes the values of a key. libhivex sets all values of a key at once, so all are written anew.
    pub fn edit_key(&self, hive: &str, key: &str, change: impl FnOnce(&mut Vec<Value>)) {
        let file = self.directory.join("hive");
        fs::write(&file, self.read(hive)).expect("the hive");
        let parsed = Hive::parse(fs::read(&file).expect("the hive")).expect("a hive");
        let found = parsed.find_key(key).expect("a sound hive");
        let found = found.unwrap_or_else(|| panic!("{hive} has no {key}"));
        let values = found.read_values().expect("sound values").into_iter();
        let mut values: Vec<Value> = values.map(|(name, data)| stored(name, data)).collect();
        change(&mut values);
        let mut script = format!("cd \\{key}\nsetval {}\n", values.len());
        for (name, kind, bytes) in &values {
            let bytes: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
            let name = if name.is_empty() { "@" } else { name };
            script += &format!("{name}\nhex:{kind}:{}\n", bytes.join(","));
        }
        script += "commit\nexit\n";
        let commands = self.directory.join("commands");
        fs::write(&commands, script).expect("the commands");
        output_of("hivexsh", &["-w", "-f", text(&commands), text(&file)]);
        self.write(hive, &fs::read(&file).expect("the hive"));
    }

    /// libhivex's own commands on a hive, as `add Name` or `del` after a `cd`.
    pub fn edit_hive(&self, hive: &str, commands: &[&str]) {
        let file = self.directory.join("hive");
        fs::write(&file, self.read(hive)).expect("the hive");
        let script = self.directory.join("commands");
        fs::write(&script, format!("{}\ncommit\nexit\n", commands.join("\n")))
            .expect("the commands");
        output_of("hivexsh", &["-w", "-f", text(&script), text(&file)]);
        self.write(hive, &fs::read(&file).expect("the hive"));
    }

    /// Makes keys, each below the one before, the first below `at`. None of them may be there.
    pub fn add_keys(&self, hive: &str, at: &str, below: &[&str]) {
        let mut commands = vec![format!("cd \\{at}")];
        for name in below {
            commands.push(format!("add {name}"));
            commands.push(format!("cd {name}"));
        }
        let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
        self.edit_hive(hive, &commands);
    }

    pub fn delete_key(&self, hive: &str, key: &str) {
        self.edit_hive(hive, &[&format!("cd \\{key}"), "del"]);
    }

    /// Replaces a word in the texts among a key's values; some value must have it.
    pub fn reword(&self, hive: &str, key: &str, from: &str, to: &str) {
        let units =
            |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
        let (from_bytes, to_bytes) = (units(from), units(to));
        self.edit_key(hive, key, |values| {
            let mut found = 0;
            for (_, _, bytes) in values.iter_mut() {
                let at = bytes
                    .windows(from_bytes.len())
                    .position(|w| w == from_bytes);
                if let Some(at) = at {
                    bytes.splice(at..at + from_bytes.len(), to_bytes.iter().copied());
                    found += 1;
                }
            }
            assert_eq!(found, 1, "{key}: values with {from}");
        });
    }

    /// NTFS's dirty flag, as a Windows that lost its power leaves it: in the third file's `$VOLUME_INFORMATION`.
    pub fn set_dirty(&self) {
        const VOLUME_INFORMATION: u32 = 0x70;
        let volume = fs::File::options()
            .read(true)
            .write(true)
            .open(&self.volume);
        let volume = volume.expect("the copy");
        let mut boot = [0; 512];
        volume.read_exact_at(&mut boot, 0).expect("its boot sector");
        let cluster = u64::from(u16::from_le_bytes([boot[11], boot[12]])) * u64::from(boot[13]);
        let table = u64::from_le_bytes(boot[48..56].try_into().expect("8 bytes")) * cluster;
        // A record has 1 KiB; the flag is nowhere near a sector's end, whose bytes are kept elsewhere.
        let at = table + 3 * 1024;
        let mut record = [0; 1024];
        volume.read_exact_at(&mut record, at).expect("a record");
        assert!(record.starts_with(b"FILE"), "no record of $Volume");
        let word = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().expect("4 bytes"));
        let mut attribute = usize::from(u16::from_le_bytes([record[20], record[21]]));
        while word(attribute) != VOLUME_INFORMATION {
            attribute += word(attribute + 4) as usize;
        }
        let value = attribute
            + usize::from(u16::from_le_bytes([
                record[attribute + 20],
                record[attribute + 21],
            ]));
        let flags = record[value + 10] | 1;
        volume
            .write_all_at(&[flags], at + value as u64 + 10)
            .expect("the flag");
    }

    pub fn set_value(&self, hive: &str, key: &str, value: Value) {
        self.edit_key(hive, key, |values| {
            match values.iter_mut().find(|v| v.0 == value.0) {
                Some(old) => *old = value,
                None => values.push(value),
            }
        });
    }

    pub fn delete_value(&self, hive: &str, key: &str, name: &str) {
        self.edit_key(hive, key, |values| {
            let before = values.len();
            values.retain(|v| v.0 != name);
            assert_ne!(values.len(), before, "{key} has no value {name}");
        });
    }

    pub fn rename_value(&self, hive: &str, key: &str, name: &str, to: &str) {
        self.edit_key(hive, key, |values| {
            let value = values.iter_mut().find(|v| v.0 == name);
            value
                .unwrap_or_else(|| panic!("{key} has no value {name}"))
                .0 = to.into();
        });
    }
}

/// The bytes of `REG_SZ`.
pub fn sz(text: &str) -> Vec<u8> {
    let units = text.encode_utf16().chain([0]);
    units.flat_map(u16::to_le_bytes).collect()
}

fn stored(name: String, data: HiveValueData) -> Value {
    let (kind, bytes) = match data {
        HiveValueData::None(bytes) => (0, bytes),
        HiveValueData::Sz(text) => (1, sz(&text)),
        HiveValueData::ExpandSz(text) => (2, sz(&text)),
        HiveValueData::Binary(bytes) => (3, bytes),
        HiveValueData::Dword(n) => (4, n.to_le_bytes().to_vec()),
        HiveValueData::DwordBigEndian(n) => (5, n.to_be_bytes().to_vec()),
        HiveValueData::Link(text) => (6, text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
        HiveValueData::MultiSz(texts) => (
            7,
            [texts.iter().flat_map(|t| sz(t)).collect(), vec![0; 2]].concat(),
        ),
        HiveValueData::Qword(n) => (11, n.to_le_bytes().to_vec()),
        HiveValueData::Other { kind, bytes } => (kind, bytes),
    };
    (name, kind, bytes)
}

/// All that is not a hole, with its offset.
fn in_pieces(disk: &RawDisk, mut take: impl FnMut(u64, &[u8])) {
    let mut buffer = vec![0; CHUNK as usize];
    for range in disk.data().expect("the holes") {
        let mut at = range.start;
        while at < range.end {
            let part = &mut buffer[..CHUNK.min(range.end - at) as usize];
            disk.read_at(at, part).expect("it is read");
            take(at, part);
            at += part.len() as u64;
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}
