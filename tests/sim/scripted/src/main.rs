//! winimg with one more hypervisor: `--hypervisor fake:FILE` plays the script in the file.

use std::path::Path;
use std::process::ExitCode;

use winimg::cli;
use winimg::cmd::{self, ExternalHypervisor};
use winimg_machine::vm::HypervisorKind;

fn main() -> ExitCode {
    cmd::run_with(cli::parse(), |name| {
        let file = name.strip_prefix("fake:")?.to_owned();
        Some(ExternalHypervisor {
            platform: HypervisorKind::Qemu,
            open: Box::new(move || winimg_scripted::open(Path::new(&file))),
        })
    })
}
