//! An image with its records in a folder, the command that publishes it, and servers from PyPI.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, Once, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use winimg::record::manifest::{BuildManifest, ManifestMachine};
use winimg_recipe::{Firmware, OutputFormat, Outputs};

use crate::export::fixture::{disk, ova_version, run as run_export};
use crate::export_record::manifest;
use support::killed::KilledChild;
use support::media::{run, text};
use support::unreliable::{Fate, Unreliable};
use support::{skip, tree};

/// What a build leaves: a disk larger than a part of an upload, its containerDisk, the manifest and two records.
pub struct Place {
    folder: TempDir,
}

impl Place {
    pub fn new() -> Self {
        static MADE: OnceLock<TempDir> = OnceLock::new();
        Self::of(&MADE, || {
            Outputs::from([OutputFormat::Vhd, OutputFormat::ContainerDisk])
        })
    }

    /// The same recipe's, of another disk.
    pub fn other() -> Self {
        static MADE: OnceLock<TempDir> = OnceLock::new();
        let vhd = || Outputs::from([OutputFormat::Vhd]);
        Self::copy(MADE.get_or_init(|| original(&vhd(), 35)).path())
    }

    /// With a raw disk and the request to import it as an AMI.
    pub fn ami() -> Self {
        static MADE: OnceLock<TempDir> = OnceLock::new();
        Self::of(&MADE, || {
            Outputs::from([OutputFormat::Raw, OutputFormat::Ami])
        })
    }

    /// With an OVA of this virtual hardware, 19 or 20.
    pub fn ova(hardware: u32) -> Self {
        static MADE: [OnceLock<TempDir>; 2] = [OnceLock::new(), OnceLock::new()];
        let made = &MADE[(hardware - 19) as usize];
        Self::of(made, || ova_version(Some(hardware)))
    }

    /// A copy of an image that is made once: an export takes seconds.
    fn of(made: &'static OnceLock<TempDir>, wanted: impl Fn() -> Outputs) -> Self {
        Self::copy(made.get_or_init(|| original(&wanted(), 67)).path())
    }

    fn copy(original: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        copied(original, folder.path());
        Self { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn publish(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let output = self.command(arguments, variables).output();
        output.expect("winimg")
    }

    /// Returns the error output of a run that fails.
    pub fn refused(&self, arguments: &[&str], variables: &[(&str, &str)]) -> String {
        let output = self.publish(arguments, variables);
        assert!(!output.status.success());
        complained(&output)
    }

    pub fn command(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_winimg"));
        command.args(["publish", "."]).args(arguments);
        command.current_dir(self.folder.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
            .env("HOME", self.folder.path())
            .env("WINIMG_CONFIG", "none");
        command.envs(variables.iter().copied());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn published(&self) -> Value {
        let bytes = fs::read(self.path("published.json")).expect("a record");
        serde_json::from_slice(&bytes).expect("JSON")
    }
}

fn copied(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("the image").flatten() {
        let there = to.join(entry.file_name());
        if entry.path().is_dir() {
            fs::create_dir(&there).expect("a folder");
            copied(&entry.path(), &there);
        } else {
            fs::copy(entry.path(), there).expect("a copy");
        }
    }
}

/// With a disk of so many MiB.
fn original(outputs: &Outputs, mib: u64) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let source = tempfile::tempdir().expect("a folder");
    let image = disk(source.path(), mib);
    let artifacts = run_export(&image, folder.path(), outputs);
    let manifest = BuildManifest {
        artifacts: artifacts.iter().map(Into::into).collect(),
        machine: Some(ManifestMachine {
            firmware: Firmware::Uefi,
            secure_boot: true,
            tpm: false,
            disk_bus: None,
            cpus: None,
            memory: None,
        }),
        ..manifest()
    };
    fs::write(folder.path().join("manifest.json"), manifest.to_json()).expect("a manifest");
    for name in ["sbom.spdx.json", "provenance.intoto.json"] {
        let text = format!("{{\"name\": \"{name}\"}}\n");
        fs::write(folder.path().join(name), text).expect("a record");
    }
    folder
}

/// Standard output, of a run that ended well.
pub fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", complained(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Without what differs from run to run: ports, identifiers, digests.
pub fn lasting(text: &str) -> String {
    let mut text = text.to_owned();
    for (pattern, word) in [
        ("127\\.0\\.0\\.1:[0-9]+", "127.0.0.1:…"),
        ("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}", "…-…"),
        ("[0-9a-f]{64}", "…"),
        ("[0-9a-f]{32}", "…"),
    ] {
        let pattern = regex::Regex::new(pattern).expect("a pattern");
        text = pattern.replace_all(&text, word).into_owned();
    }
    text
}

pub fn complained(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A program that listens on this machine, killed when it is dropped.
pub struct Server {
    _child: KilledChild,
    pub port: u16,
}

impl Server {
    /// Of this machine, which nobody listens on.
    pub fn free_port() -> u16 {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        free.local_addr().expect("an address").port()
    }

    /// `command` is given the port that it shall listen on. What it complains of goes to `log` in the folder.
    pub fn start(name: &str, folder: &Path, command: impl Fn(u16) -> Command) -> Self {
        let port = Self::free_port();
        let log = fs::File::create(folder.join("log")).expect("a log");
        let child = command(port)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let this = Self {
            _child: KilledChild(child),
            port,
        };
        let end = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
            assert!(Instant::now() < end, "{name} does not listen:\n{log}");
            thread::sleep(Duration::from_millis(50));
        }
        this
    }
}

/// A program of the tests' Go that listens on this machine, with a folder of its own.
pub struct GoServer {
    _child: KilledChild,
    pub folder: TempDir,
    /// The lines that it writes when it listens.
    pub started: Vec<String>,
}

impl GoServer {
    /// Builds the package `./package` in `tests/module` once and starts it. Returns `None`, with a
    /// message, if there is no Go to build it.
    pub fn start(once: &Once, (module, package): (&str, &str), more: &[&str]) -> Option<Self> {
        if Command::new("go").arg("version").output().is_err() {
            skip::skipped(format!("no Go, which builds tests/{module}/{package}"));
            return None;
        }
        let program = Self::program(package);
        once.call_once(|| {
            let built = Command::new("go")
                .args(["build", "-o"])
                .arg(&program)
                .arg(format!("./{package}"))
                .current_dir(tree::root().join("tests").join(module))
                .status();
            assert!(built.expect("go").success());
        });
        let folder = tempfile::tempdir().expect("a folder");
        let child = Command::new(program)
            .arg("serve")
            .arg(folder.path())
            .args(more)
            // vcsim keeps its datastores there.
            .env("TMPDIR", folder.path())
            .stderr(fs::File::create(folder.path().join("log")).expect("a log"))
            .spawn()
            .expect(package);
        let end = Instant::now() + Duration::from_secs(60);
        let started = loop {
            match fs::read_to_string(folder.path().join("started")) {
                Ok(text) => break text,
                Err(_) => assert!(Instant::now() < end, "{package} does not listen"),
            }
            thread::sleep(Duration::from_millis(50));
        };
        Some(Self {
            _child: KilledChild(child),
            folder,
            started: started.lines().map(str::to_owned).collect(),
        })
    }

    /// Path of the program that Go built from the package.
    pub fn program(package: &str) -> PathBuf {
        tree::root().join(format!("target/go-{package}"))
    }

    /// The requests that it received.
    pub fn requests(&self) -> String {
        fs::read_to_string(self.folder.path().join("requests")).expect("requests")
    }
}

/// A connection on which one request gets no answer, and the receiver that is notified of it.
pub struct StuckLine {
    pub line: Unreliable,
    told: mpsc::Receiver<()>,
}

impl StuckLine {
    /// To this port; requests pass unless `is_stuck` accepts them.
    pub fn start(port: u16, is_stuck: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        let (tell, told) = mpsc::channel();
        let tell = Mutex::new(tell);
        let line = Unreliable::start(port, move |_, request| {
            if !is_stuck(request) {
                return Fate::Pass;
            }
            let _ = tell.lock().unwrap_or_else(PoisonError::into_inner).send(());
            Fate::Hang
        });
        Self { line, told }
    }

    /// Runs winimg until it is stuck, and kills it there.
    pub fn kill(&self, mut winimg: Command) {
        let mut child = winimg.spawn().expect("winimg");
        let told = self.told.recv_timeout(Duration::from_secs(120));
        told.expect("a request that gets no answer");
        child.kill().expect("a kill");
        child.wait().expect("an end");
    }
}

/// A server of the tests' Python.
pub struct Python {
    _server: Server,
    pub port: u16,
}

impl Python {
    /// `arguments` of the program, given the port that it shall listen on.
    pub fn start(program: &str, folder: &Path, arguments: impl Fn(u16) -> Vec<String>) -> Self {
        run(text(&tree::root().join("tests/record/venv.sh")), &[]);
        let path = tree::root().join("target/record-venv/bin").join(program);
        let server = Server::start(program, folder, |port| {
            let mut command = Command::new(&path);
            command.args(arguments(port));
            command
        });
        Self {
            port: server.port,
            _server: server,
        }
    }
}
