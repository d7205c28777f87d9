//! A small sealed disk with everything that an exporter can trip over, and the programs that judge what becomes of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use winimg::export::{ExportJob, ExportedArtifact, GuestFacts, export};
use winimg_base::event::{Cancel, Event, Sink};
use winimg_formats::disk::DiskImage;
use winimg_formats::wim::WindowsRelease;
use winimg_recipe::{DiskBus, Firmware, OutputFormat, OutputOptions, Outputs, OvaOptions};

pub const MIB: u64 = 1 << 20;
/// 2023-11-14 22:13:20 UTC
pub const EPOCH: i64 = 1_700_000_000;

/// Runs a program to its end and gives its standard output; a failure shows all it said.
pub fn sh(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .output()
        .unwrap_or_else(|e| panic!("{program}: {e}"));
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

pub fn path(p: &Path) -> &str {
    p.to_str().unwrap()
}

/// Bytes that no compressor makes smaller; the same for the same seed.
pub fn dense(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// A qcow2 of `mib` MiB: text at its beginning, dense runs, holes, single bytes in otherwise empty MiBs, clusters that
/// are allocated but hold zeros, and data up to the very last byte.
pub fn disk(directory: &Path, mib: u64) -> PathBuf {
    let raw = directory.join("made.raw");
    let mut bytes = vec![0u8; (mib * MIB) as usize];
    let text = include_str!("fixture.rs").as_bytes();
    let end = bytes.len();
    for (at, part) in [
        (0, text.repeat(40)),
        (2 * MIB as usize + 4096, dense(1, 3 * MIB as usize)),
        (7 * MIB as usize + 65_535, vec![7]),
        (9 * MIB as usize + 12_345, text.repeat(7)),
        (end / 2 + 4096 * 3, dense(2, 300_000)),
        (end - 100_001, dense(3, 100_001)),
    ] {
        bytes[at..at + part.len()].copy_from_slice(&part);
    }
    fs::write(&raw, bytes).unwrap();
    let qcow2 = directory.join("sealed.qcow2");
    sh(
        "qemu-img",
        &["convert", "-O", "qcow2", path(&raw), path(&qcow2)],
    );
    sh(
        "qemu-io",
        &["-f", "qcow2", "-c", "write -P 0 12M 512k", path(&qcow2)],
    );
    fs::remove_file(raw).unwrap();
    qcow2
}

/// Keeps what was said.
#[derive(Default)]
pub struct Heard(pub std::sync::Mutex<Vec<Event>>);

impl Sink for Heard {
    fn emit(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl Heard {
    pub fn warnings(&self) -> Vec<String> {
        let events = self.0.lock().unwrap();
        let text = |e: &Event| match e {
            Event::Warning { text } => Some(text.clone()),
            _ => None,
        };
        events.iter().filter_map(text).collect()
    }
}

pub fn guest() -> GuestFacts {
    GuestFacts {
        release: WindowsRelease::Server2022,
        edition: "ServerDatacenterCore".into(),
        build: "20348.2113".into(),
    }
}

pub fn everything() -> Outputs {
    let made_from_others = [
        OutputFormat::BoxHyperv,
        OutputFormat::BoxLibvirt,
        OutputFormat::BoxVirtualbox,
        OutputFormat::ContainerDisk,
    ];
    let formats = OutputFormat::ALL.into_iter();
    formats
        .filter(|format| !made_from_others.contains(format))
        .collect()
}

pub fn without_qcow2() -> Outputs {
    let formats = everything();
    let formats = formats.formats();
    formats
        .filter(|format| *format != OutputFormat::Qcow2)
        .collect()
}

/// An OVA of this virtual hardware, `vmx-NN`.
pub fn ova_version(hardware_version: Option<u32>) -> Outputs {
    let mut outputs = Outputs::default();
    let options = OvaOptions { hardware_version };
    outputs.insert(OutputFormat::Ova, OutputOptions::Ova(options));
    outputs
}

pub fn job<'a>(
    source: &'a Path,
    directory: &'a Path,
    outputs: &'a Outputs,
    guest: &'a GuestFacts,
) -> ExportJob<'a> {
    ExportJob {
        source: DiskImage::from_file(source),
        name: "demo",
        outputs,
        directory,
        replaces_existing: true,
        kept: &[],
        firmware: Firmware::Uefi,
        secure_boot: false,
        disk_bus: DiskBus::Nvme,
        guest,
        cpus: 2,
        memory: 4096 * MIB,
        nested_virtualization: false,
        epoch: EPOCH,
        threads: 2,
        properties: &[],
    }
}

/// Exports with the defaults above.
pub fn run(source: &Path, directory: &Path, outputs: &Outputs) -> Vec<ExportedArtifact> {
    let guest = guest();
    let job = job(source, directory, outputs, &guest);
    export(&job, &Heard::default(), &Cancel::default()).unwrap()
}

/// What the artifacts are, in their order.
pub fn kinds(artifacts: &[ExportedArtifact]) -> Vec<&str> {
    artifacts.iter().map(|a| a.kind).collect()
}

/// Every file below a directory, sorted, with slashes.
pub fn files(directory: &Path) -> Vec<String> {
    fn below(directory: &Path, prefix: &str, found: &mut Vec<String>) {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.file_type().unwrap().is_dir() {
                below(&entry.path(), &format!("{name}/"), found)
            } else {
                found.push(name)
            }
        }
    }
    let mut found = Vec::new();
    below(directory, "", &mut found);
    found.sort();
    found
}

/// SHA-256 by openssl.
pub fn openssl(file: &Path) -> String {
    let line = sh("openssl", &["dgst", "-sha256", "-r", path(file)]);
    line.split(' ').next().unwrap().to_string()
}

pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}
