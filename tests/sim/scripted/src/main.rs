//! winimg with one more hypervisor: `--hypervisor fake:FILE` plays the script in the file.

use std::path::Path;
use std::process::ExitCode;

use winimg::cli;
use winimg::cmd;

fn main() -> ExitCode {
    cmd::run_with(cli::parse(), |name| {
        let file = name.strip_prefix("fake:")?;
        Some(winimg_scripted::open(Path::new(file)))
    })
}
