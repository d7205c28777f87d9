//! One export without a build around it, for `benches/export.sh`:
//! `export SOURCE DIRECTORY raw,vhd,vhd_dynamic,vhdx,vhdx_fixed,ova,vmdk,vmdk_flat,qcow2,vma [THREADS]`. Prints a line for each artifact and the peak memory.

use std::path::Path;
use std::process::ExitCode;

use winimg::export::{ExportJob, GuestFacts, export};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Event, Sink};
use winimg_formats::disk::DiskImage;
use winimg_formats::wim::WindowsRelease;
use winimg_recipe::{DiskBus, Firmware, OutputFormat, Outputs};

struct Quiet;

impl Sink for Quiet {
    fn emit(&self, _: &Event) {}
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [source, directory, formats, ..] = &arguments[..] else {
        return Err(Error::new(
            Kind::Recipe,
            "usage: export SOURCE DIRECTORY raw,vhd,vhd_dynamic,vhdx,vhdx_fixed,ova,vmdk,vmdk_flat,qcow2,vma",
        ));
    };
    let outputs: Outputs = formats
        .split(',')
        .filter_map(OutputFormat::from_name)
        .collect();
    let guest = GuestFacts {
        release: WindowsRelease::Server2022,
        edition: "ServerDatacenterCore".into(),
        build: "20348".into(),
    };
    let job = ExportJob {
        source: DiskImage::from_file(Path::new(source)),
        name: "bench",
        outputs: &outputs,
        directory: Path::new(directory),
        kept: &[],
        replaces_existing: true,
        firmware: Firmware::Uefi,
        secure_boot: false,
        disk_bus: DiskBus::Nvme,
        guest: &guest,
        cpus: 2,
        memory: 4 << 30,
        nested_virtualization: false,
        epoch: 1_700_000_000,
        threads: arguments.get(3).and_then(|n| n.parse().ok()).unwrap_or(0),
        properties: &[],
    };
    for artifact in export(&job, &Quiet, &Cancel::default())? {
        println!("{} {} {}", artifact.file, artifact.bytes, artifact.sha256);
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|l| l.starts_with("VmHWM"));
    println!("{}", peak.unwrap_or("VmHWM: unknown"));
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
