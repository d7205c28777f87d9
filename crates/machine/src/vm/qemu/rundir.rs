//! File names in the machine's private directory.
//!
//! Rejects paths too long for Unix sockets, with a clearer message than QEMU's. Does not create the
//! directory.

use std::path::{Path, PathBuf};

use winimg_base::error::{Error, Kind, Result};

/// Maximum bytes of a Unix socket's path without the final NUL (unix(7): `sun_path` has 108 on
/// Linux, 104 elsewhere).
const SOCKET_PATH_LIMIT: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// Names passed to swtpm, which runs in this directory.
pub const TPM_SOCKET: &str = "tpm.sock";
pub const TPM_STATE: &str = "tpm";

/// Absolute path of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir(PathBuf);

impl RunDir {
    /// Checks the length of `path`, which must exist with mode 0700.
    pub fn new(path: &Path) -> Result<Self> {
        let path = std::path::absolute(path).map_err(|e| Error::io("resolve", path, e))?;
        let dir = Self(path);
        let longest = dir.agent_socket();
        let length = longest.as_os_str().len();
        if length > SOCKET_PATH_LIMIT {
            return Err(Error::new(
                Kind::Host,
                "the path of the machine's directory is too long for a Unix socket",
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

    pub fn qmp_socket(&self) -> PathBuf {
        self.0.join("qmp.sock")
    }

    pub fn agent_socket(&self) -> PathBuf {
        self.0.join("agent.sock")
    }

    /// The last exchanges with the guest agent.
    pub fn agent_log(&self) -> PathBuf {
        self.0.join("agent.log")
    }

    /// Output of the guest on COM1; under UEFI also the firmware's console.
    pub fn serial_log(&self) -> PathBuf {
        self.0.join("serial.log")
    }

    /// Output of SeaBIOS on its debug port.
    pub fn bios_log(&self) -> PathBuf {
        self.0.join("seabios.log")
    }

    /// QEMU's stderr.
    pub fn qemu_log(&self) -> PathBuf {
        self.0.join("qemu.log")
    }

    /// swtpm's control channel.
    pub fn tpm_socket(&self) -> PathBuf {
        self.0.join(TPM_SOCKET)
    }

    /// State of the TPM; not a log, and never part of diagnostics.
    pub fn tpm_state(&self) -> PathBuf {
        self.0.join(TPM_STATE)
    }

    /// swtpm's stderr.
    pub fn tpm_log(&self) -> PathBuf {
        self.0.join("swtpm.log")
    }

    /// This machine's own UEFI variables.
    pub fn variables_file(&self) -> PathBuf {
        self.0.join(crate::vm::VARIABLES)
    }

    /// Temporary picture of the screen.
    pub fn screen_file(&self) -> PathBuf {
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
                "the path of the machine's directory is too long for a Unix socket\n  at: {deep}/agent.sock\n  \
                 expected: at most {SOCKET_PATH_LIMIT} bytes\n  found: 116 bytes\n  \
                 cure: set TMPDIR to a shorter path"
            )
        );
        assert!(RunDir::new(Path::new("/tmp/short")).is_ok());
    }
}
