//! swtpm: the TPM of QEMU's machines, a child beside each.
//!
//! It works in the machine's folder and by names alone, because its options know no way to write a path with a comma. It has no certificate
//! of a manufacturer, which only attestation asks for.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::process::{Process, describe};
use super::program;
use super::rundir::{RunDir, TPM_SOCKET, TPM_STATE};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_base::io;

pub const NAME: &str = "swtpm";

/// How long it may take to open its socket.
const START: Duration = Duration::from_secs(30);

/// A swtpm that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub path: PathBuf,
    /// `0.7.1`
    pub version: String,
}

/// `WINIMG_SWTPM`, else the first in `PATH`.
pub fn find() -> Result<Program> {
    let path = program::named("WINIMG_SWTPM", NAME).ok_or_else(|| {
        Error::new(Kind::Host, format!("{NAME} is not in PATH")).absent().cure(
            "install it (Debian, Ubuntu, Fedora: swtpm) or set WINIMG_SWTPM, or set tpm = false",
        )
    })?;
    // It is started in another folder.
    let path = std::path::absolute(&path).map_err(|e| Error::io("resolve", &path, e))?;
    let said = program::ask(&path, &["--version"])?;
    match parse_version(&said) {
        Some(version) => Ok(Program { path, version }),
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

/// Everything after the program's name. `--terminate`: it ends with QEMU's connection, where nothing else ends it.
pub fn arguments() -> Vec<String> {
    let state = format!("dir={TPM_STATE},mode=0600");
    let control = format!("type=unixio,path={TPM_SOCKET},mode=0600");
    let words = ["socket", "--tpm2", "--tpmstate", &state, "--ctrl", &control];
    words
        .into_iter()
        .chain(["--terminate"])
        .map(String::from)
        .collect()
}

/// A running swtpm; dropping it ends it.
pub struct Tpm {
    process: Process,
    log: PathBuf,
}

impl Tpm {
    /// Returns once QEMU can connect. Without `keeps_state` the TPM is a new one, which holds nothing.
    pub fn start(program: &Path, dir: &RunDir, keeps_state: bool, cancel: &Cancel) -> Result<Self> {
        let (socket, state, log) = (dir.tpm(), dir.tpm_state(), dir.tpm_log());
        io::remove_if_there(&socket)?;
        if !keeps_state {
            io::remove_folder_if_there(&state)?;
        }
        io::create_private_folders(&state)?;
        let process = Process::spawn_in(dir.folder(), program, &arguments(), &log)?;
        let began = Instant::now();
        while !socket.exists() {
            cancel.check()?;
            if let Some(status) = process.wait(Duration::from_millis(10)) {
                return Err(process.death("swtpm did not start: it", status));
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

    /// How it ended, when it has.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.process.ended()
    }

    /// QEMU is gone: it ends by itself, or is ended. Its socket's name is free afterwards.
    pub fn stop(&self) {
        self.process.end();
    }

    /// The error of one that ended before its machine: Windows goes on, but each of its questions to the TPM fails.
    pub fn died(&self, status: ExitStatus) -> Error {
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
            arguments().join(" "),
            "socket --tpm2 --tpmstate dir=tpm,mode=0600 --ctrl type=unixio,path=tpm.sock,mode=0600 --terminate"
        );
    }
}
