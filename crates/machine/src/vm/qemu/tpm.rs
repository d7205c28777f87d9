//! swtpm: the TPM of QEMU machines, a child process per machine.
//!
//! It runs in the machine's folder with relative names, because its options cannot escape a comma
//! in a path. It has no manufacturer certificate, which only attestation needs.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::process::{ChildProcess, describe};
use super::program;
use super::rundir::{RunDir, TPM_SOCKET, TPM_STATE};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io;

pub const NAME: &str = "swtpm";

/// Limit for opening its socket.
const START: Duration = Duration::from_secs(30);

/// Installed swtpm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwtpmProgram {
    pub path: PathBuf,
    /// For example `0.7.1`.
    pub version: String,
}

/// Finds `WINIMG_SWTPM`, or else the first in `PATH`.
pub fn find() -> Result<SwtpmProgram> {
    let path = program::find_program("WINIMG_SWTPM", NAME).ok_or_else(|| {
        Error::new(Kind::Host, format!("{NAME} is not in PATH")).mark_absent().cure(
            "install it (Debian, Ubuntu, Fedora: swtpm) or set WINIMG_SWTPM, or set tpm = false",
        )
    })?;
    // It is started in a different folder.
    let path = std::path::absolute(&path).map_err(|e| Error::io("resolve", &path, e))?;
    let said = program::ask(&path, &["--version"])?;
    match parse_version(&said) {
        Some(version) => Ok(SwtpmProgram { path, version }),
        None => Err(Error::new(Kind::Host, "this is not swtpm")
            .at(path.display())
            .expected("a version, such as \"TPM emulator version 0.7.1\"")
            .cure("check WINIMG_SWTPM")),
    }
}

fn parse_version(text: &str) -> Option<String> {
    let rest = text.strip_prefix("TPM emulator version ")?;
    let word = rest.split([',', ' ', '\n']).next()?;
    Some(word.to_string()).filter(|word| !word.is_empty())
}

/// Returns all arguments after the program's name. With `--terminate` it exits when QEMU
/// disconnects.
pub fn build_arguments() -> Vec<String> {
    let state = format!("dir={TPM_STATE},mode=0600");
    let control = format!("type=unixio,path={TPM_SOCKET},mode=0600");
    let words = ["socket", "--tpm2", "--tpmstate", &state, "--ctrl", &control];
    words
        .into_iter()
        .chain(["--terminate"])
        .map(String::from)
        .collect()
}

/// Running swtpm, stopped on drop.
pub struct SwtpmProcess {
    process: ChildProcess,
    log: PathBuf,
}

impl SwtpmProcess {
    /// Returns once QEMU can connect. Without `keeps_state` the TPM is new and empty.
    pub fn start(program: &Path, dir: &RunDir, keeps_state: bool, cancel: &Cancel) -> Result<Self> {
        let (socket, state, log) = (dir.tpm_socket(), dir.tpm_state(), dir.tpm_log());
        io::remove_if_exists(&socket)?;
        if !keeps_state {
            io::remove_folder_if_exists(&state)?;
        }
        io::create_private_folders(&state)?;
        let process = ChildProcess::spawn_in(dir.folder(), program, &build_arguments(), &log)?;
        let began = Instant::now();
        while !socket.exists() {
            cancel.check()?;
            if let Some(status) = process.wait(Duration::from_millis(10)) {
                return Err(process.describe_death("swtpm did not start: it", status));
            }
            if began.elapsed() > START {
                let seconds = START.as_secs();
                let fact = format!("swtpm did not open its socket within {seconds} s");
                return Err(Error::new(Kind::Machine, fact)
                    .at(log.display())
                    .lines(process.last_words()));
            }
        }
        Ok(Self { process, log })
    }

    /// Returns its exit status if it has ended.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.process.exit_status()
    }

    /// Called when QEMU has ended: waits for its end or kills it. The socket's name is free
    /// afterwards.
    pub fn stop(&self) {
        self.process.end();
    }

    /// Builds the error for a swtpm that ended before its machine: Windows keeps running, but its
    /// TPM requests fail.
    pub fn describe_death(&self, status: ExitStatus) -> Error {
        let fact = format!("swtpm, the machine's TPM, died: {}", describe(status));
        Error::new(Kind::Machine, fact)
            .at(self.log.display())
            .lines(self.process.last_words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_as_swtpm_prints_it() {
        let debian = "TPM emulator version 0.7.1, Copyright (c) 2014-2021 IBM Corp.\n";
        assert_eq!(parse_version(debian).as_deref(), Some("0.7.1"));
        assert_eq!(parse_version("TPM emulator version "), None);
        assert_eq!(parse_version("QEMU emulator version 7.2.22"), None);
    }

    #[test]
    fn its_command_line() {
        assert_eq!(
            build_arguments().join(" "),
            "socket --tpm2 --tpmstate dir=tpm,mode=0600 --ctrl type=unixio,path=tpm.sock,mode=0600 --terminate"
        );
    }
}
