//! A prefix of Wine as a test's own Windows: a copy of the template that `prefix.sh` made, its server, its `C:`.
//!
//! Nothing of the host is seen but the root folder as `Z:`, which Wine needs to start programs from outside.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use support::tree;

use tempfile::TempDir;

use crate::wine::registry::Registry;

/// Where `make wine` puts what the tests need.
pub fn made() -> PathBuf {
    tree::root().join("target/wine")
}

/// `service.exe`, `agent.msi` …
pub fn program(name: &str) -> PathBuf {
    made().join("programs").join(name)
}

pub struct Prefix {
    folder: TempDir,
    overrides: String,
    files: AtomicU32,
    runs: AtomicBool,
}

impl Prefix {
    /// A fresh Windows that runs.
    pub fn new() -> Self {
        let template = made().join("template");
        assert!(
            template.join("system.reg").exists(),
            "no Wine prefix: run `make wine`"
        );
        let folder = tempfile::Builder::new()
            .prefix("run-")
            .tempdir_in(made())
            .expect("a folder");
        // Hard links for what nobody writes to: 0.1 s in place of 2 s and 700 MB.
        copy(&["-al"], &template.join("drive_c"), folder.path());
        for own in [
            "system.reg",
            "user.reg",
            "userdef.reg",
            "dosdevices",
            ".update-timestamp",
        ] {
            copy(&["-a"], &template.join(own), folder.path());
        }
        let stubs = include_str!("stubs.txt")
            .lines()
            .filter(|l| !l.starts_with('#'));
        let native: Vec<&str> = stubs
            .chain(["cmd.exe", "sc.exe"])
            .filter_map(|p| p.rsplit('/').next())
            .collect();
        let overrides = format!(
            "mscoree=;mshtml=;winemenubuilder.exe=d;{}=n",
            native.join(",")
        );
        let prefix = Self {
            folder,
            overrides,
            files: AtomicU32::new(0),
            runs: AtomicBool::new(false),
        };
        prefix.boot();
        prefix
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// `C:\a\b` on the host, whatever the case of what is there already.
    pub fn host(&self, guest: &str) -> PathBuf {
        let (drive, rest) = guest.split_at(2);
        let mut path = self.path().join("dosdevices").join(drive.to_lowercase());
        for part in rest.split(['\\', '/']).filter(|p| !p.is_empty()) {
            let same = |name: &str| name.to_lowercase() == part.to_lowercase();
            let found = fs::read_dir(&path).ok().and_then(|entries| {
                entries
                    .flatten()
                    .map(|e| e.file_name().to_string_lossy().into_owned())
                    .find(|n| same(n))
            });
            path.push(found.as_deref().unwrap_or(part));
        }
        path
    }

    pub fn read(&self, guest: &str) -> Option<String> {
        fs::read(self.host(guest))
            .ok()
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A new file name outside of `C:`, for requests and answers of the runner.
    pub fn scratch(&self, name: &str) -> PathBuf {
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        self.path().join(format!("{number}.{name}"))
    }

    /// Without address randomization, as `prefix.sh` says.
    pub fn wine(&self, program: &Path) -> Command {
        let mut command = self.tool("setarch");
        command.args(["--addr-no-randomize", "wine"]).arg(program);
        command
    }

    fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path())
            .env("LANG", "C.UTF-8")
            .env("WINEPREFIX", self.path())
            .env("WINEARCH", "win64")
            .env("WINEDEBUG", "-all")
            .env("WINEDLLOVERRIDES", &self.overrides)
            .current_dir(self.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Services that start by themselves, RunOnce, files to be renamed.
    pub fn boot(&self) {
        let server = self.tool("wineserver").arg("-p").process_group(0).status();
        assert!(server.is_ok_and(|s| s.success()), "no wineserver");
        // The first program of all makes Wine boot; a wineboot of our own would be the second, with a second services.exe.
        let first = self
            .wine(&program("runner.exe"))
            .arg("/environment")
            .arg(self.environment())
            .status();
        assert!(first.is_ok_and(|s| s.success()), "no environment");
        self.runs.store(true, Ordering::SeqCst);
    }

    /// Boots what was stopped to be looked at.
    pub fn wake(&self) {
        if !self.runs.load(Ordering::SeqCst) {
            self.boot();
        }
    }

    /// What a service that was started at boot has; the agent's programs get it from the agent.
    pub fn environment(&self) -> PathBuf {
        self.path().join("environment")
    }

    /// Every program ends, the registry is written.
    pub fn stop(&self) {
        self.runs.store(false, Ordering::SeqCst);
        let _ = self.tool("wineserver").arg("-k").status();
        let _ = self.tool("wineserver").arg("-w").status();
    }

    /// `D:` as a drive with this disc in it, or without one. Files of a CD are read-only.
    pub fn insert(&self, iso: Option<&Path>) {
        let link = self.path().join("dosdevices/d:");
        let _ = fs::remove_file(&link);
        let Some(iso) = iso else { return };
        let folder = self.scratch("disc");
        let unpacked = Command::new("7z")
            .arg("x")
            .arg("-y")
            .arg(format!("-o{}", folder.display()))
            .arg(iso)
            .output();
        assert!(
            unpacked.is_ok_and(|o| o.status.success()),
            "7z cannot read {}",
            iso.display()
        );
        let readonly = Command::new("chmod")
            .args(["-R", "a-w"])
            .arg(&folder)
            .status();
        assert!(readonly.is_ok_and(|s| s.success()));
        symlink(folder, link).expect("a drive");
    }

    /// All that the recorders wrote.
    pub fn trace(&self) -> String {
        self.read(r"C:\recorder\trace.txt").unwrap_or_default()
    }

    /// What the recorders answer: lines "NAME CODE WORDS".
    pub fn script(&self, lines: &str) {
        let bytes: Vec<u8> = lines.encode_utf16().flat_map(u16::to_le_bytes).collect();
        fs::write(self.host(r"C:\recorder\codes.txt"), bytes).expect("a script");
    }

    /// The registry and all files as they are on the disk. Everything is stopped for it; the next program boots again.
    pub fn look(&self) -> Look {
        self.stop();
        look(self.path())
    }

    /// As every prefix is at first.
    pub fn untouched() -> Look {
        look(&made().join("template"))
    }

    /// The agent's thread may hold it longer than the process lives, so nobody waits for the last owner.
    pub fn end(&self) {
        self.stop();
        let _ = fs::remove_dir_all(self.path());
    }
}

fn look(prefix: &Path) -> Look {
    let mut files = BTreeMap::new();
    list(&prefix.join("drive_c"), "C:", &mut files);
    Look {
        registry: Registry::read(prefix),
        files,
    }
}

fn copy(how: &[&str], from: &Path, to: &Path) {
    let status = Command::new("cp").args(how).arg(from).arg(to).status();
    assert!(status.is_ok_and(|s| s.success()), "cp {}", from.display());
}

/// A prefix as it was at one moment.
pub struct Look {
    pub registry: Registry,
    /// A file's text if it is small, else what it is; folders end with a backslash.
    pub files: BTreeMap<String, String>,
}

/// What Windows' own programs write of their own accord, what winimg takes away again, and what the tests add.
const OWN: [&str; 9] = [
    r"C:\windows\Installer",
    r"C:\windows\system32",
    r"C:\windows\syswow64",
    r"C:\windows\temp",
    r"C:\windows\Microsoft.NET",
    r"C:\users",
    r"C:\recorder",
    r"C:\services",
    r"C:\ProgramData\Microsoft",
];

fn list(folder: &Path, name: &str, into: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = format!(r"{name}\{}", entry.file_name().to_string_lossy());
        if OWN.iter().any(|own| own.eq_ignore_ascii_case(&name)) {
            continue;
        }
        let path = entry.path();
        if path.is_dir() {
            into.insert(format!("{name}\\"), String::new());
            list(&path, &name, into);
        } else {
            let bytes = fs::read(&path).unwrap_or_default();
            into.insert(name, shown(&path, &bytes));
        }
    }
}

fn shown(path: &Path, bytes: &[u8]) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::metadata(path).map_or(0, |m| m.permissions().mode());
    let readonly = if mode & 0o222 == 0 { " read-only" } else { "" };
    match std::str::from_utf8(bytes) {
        _ if bytes.starts_with(b"MZ") => format!("is {}{readonly}", which(bytes)),
        Ok(text) if bytes.len() < 400 && !text.contains('\0') => format!("{text:?}{readonly}"),
        _ => format!("{} bytes{readonly}", bytes.len()),
    }
}

/// A program's size depends on the compiler that made it.
fn which(bytes: &[u8]) -> String {
    let made = fs::read_dir(made().join("programs"))
        .into_iter()
        .flatten()
        .flatten();
    let same = made
        .filter(|e| fs::read(e.path()).is_ok_and(|b| b == bytes))
        .map(|e| e.file_name());
    same.map(|name| name.to_string_lossy().into_owned())
        .next()
        .unwrap_or_else(|| "no program of ours".into())
}

impl Look {
    /// The differences, one a line: what came (`+`), what went (`-`).
    pub fn since(&self, earlier: &Look) -> String {
        let mut out = String::new();
        for (path, now) in &self.files {
            if earlier.files.get(path) != Some(now) {
                out.push_str(format!("+ {path}  {now}").trim_end());
                out.push('\n');
            }
        }
        for path in earlier
            .files
            .keys()
            .filter(|p| !self.files.contains_key(*p))
        {
            out.push_str(&format!("- {path}\n"));
        }
        out.push_str(&self.registry.since(&earlier.registry));
        out
    }
}
