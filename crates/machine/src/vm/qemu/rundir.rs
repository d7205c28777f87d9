//! The machine's private directory: which file lies where, and that its sockets' names fit.
//!
//! Refuses a directory too deep for Unix sockets before QEMU does so in worse words. Creates nothing.

use std::path::{Path, PathBuf};

use winimg_base::error::{Error, Kind, Result};

/// Bytes of a Unix socket's path without its final NUL (unix(7): `sun_path` has 108 on Linux, 104 elsewhere).
const SOCKET_PATH_LIMIT: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// Names in it that swtpm is given, which runs there.
pub const TPM_SOCKET: &str = "tpm.sock";
pub const TPM_STATE: &str = "tpm";

/// An absolute path with the names below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir(PathBuf);

impl RunDir {
    /// `path` exists and is 0700; here only its length is judged.
    pub fn new(path: &Path) -> Result<Self> {
        let path = std::path::absolute(path).map_err(|e| Error::io("resolve", path, e))?;
        let dir = Self(path);
        let longest = dir.agent();
        let length = longest.as_os_str().len();
        if length > SOCKET_PATH_LIMIT {
            return Err(Error::new(
                Kind::Host,
                "the machine's directory is too deep for a Unix socket",
            )
            .at(longest.display())
            .expected(format!("at most {SOCKET_PATH_LIMIT} bytes"))
            .found(format!("{length} bytes"))
            .cure("set TMPDIR to a shorter path"));
        }
        Ok(dir)
    }

    pub fn folder(&self) -> &Path {
        &self.0
    }

    pub fn qmp(&self) -> PathBuf {
        self.0.join("qmp.sock")
    }

    pub fn agent(&self) -> PathBuf {
        self.0.join("agent.sock")
    }

    /// The last exchanges with the guest agent.
    pub fn agent_log(&self) -> PathBuf {
        self.0.join("agent.log")
    }

    /// What the guest writes to COM1; under UEFI the firmware's console too.
    pub fn serial(&self) -> PathBuf {
        self.0.join("serial.log")
    }

    /// What SeaBIOS writes to its debug port.
    pub fn bios_log(&self) -> PathBuf {
        self.0.join("seabios.log")
    }

    /// QEMU's own complaints.
    pub fn stderr(&self) -> PathBuf {
        self.0.join("qemu.log")
    }

    /// swtpm's control channel.
    pub fn tpm(&self) -> PathBuf {
        self.0.join(TPM_SOCKET)
    }

    /// What the TPM keeps; no log, and in no evidence.
    pub fn tpm_state(&self) -> PathBuf {
        self.0.join(TPM_STATE)
    }

    /// swtpm's own complaints.
    pub fn tpm_log(&self) -> PathBuf {
        self.0.join("swtpm.log")
    }

    /// This machine's own UEFI variables.
    pub fn vars(&self) -> PathBuf {
        self.0.join(crate::vm::VARIABLES)
    }

    /// A picture of the screen, until it is read.
    pub fn screen(&self) -> PathBuf {
        self.0.join("screen.ppm")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_too_deep_for_sockets_is_named_with_its_length() {
        let deep = format!("/tmp/{}", "d".repeat(100));
        let error = RunDir::new(Path::new(&deep)).expect_err("116 bytes do not fit");
        assert_eq!(
            error.to_string(),
            format!(
                "the machine's directory is too deep for a Unix socket\n  at: {deep}/agent.sock\n  \
                 expected: at most {SOCKET_PATH_LIMIT} bytes\n  found: 116 bytes\n  \
                 cure: set TMPDIR to a shorter path"
            )
        );
        assert!(RunDir::new(Path::new("/tmp/short")).is_ok());
    }
}
