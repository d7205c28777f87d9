//! Finds the QEMU program, its version and its accelerators.
//!
//! Checks only the version. Installs nothing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use winimg_base::error::{Error, Kind, Result};
use winimg_base::io::remove_secrets;

pub const NAME: &str = "qemu-system-x86_64";

/// Path on Red Hat's distributions, outside of `PATH`.
const RED_HAT: &str = "/usr/libexec/qemu-kvm";

/// Oldest version in which `screendump` writes PNG and `blockdev-change-medium` has `force` (QEMU:
/// qapi/ui.json, qapi/block.json, "Since").
const OLDEST: (u32, u32) = (7, 1);

/// Installed QEMU of a supported version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QemuProgram {
    pub path: PathBuf,
    /// For example `7.2.22`.
    pub version: String,
    /// Accelerators that it was built with (`tcg`, `kvm` …), not those that the host supports.
    pub accelerators: Vec<String>,
}

/// Finds `WINIMG_QEMU`, or else the first in `PATH`, or else that of RHEL and its derivatives.
pub fn find() -> Result<QemuProgram> {
    let path = find_program("WINIMG_QEMU", NAME)
        .or_else(|| outside_of_path(RED_HAT))
        .ok_or_else(|| {
            Error::new(Kind::Host, format!("{NAME} is not in PATH"))
                .mark_absent()
                .cure(
                    "install it (Debian, Ubuntu: qemu-system-x86; Fedora: qemu-system-x86-core; \
                     RHEL, Rocky, Alma: qemu-kvm), or set WINIMG_QEMU",
                )
        })?;
    let version = parse_version(&ask(&path, &["--version"])?);
    let version = version.ok_or_else(|| {
        Error::new(Kind::Host, "this is not QEMU")
            .at(path.display())
            .expected("a version, such as \"QEMU emulator version 7.2.0\"")
            .cure("check WINIMG_QEMU")
    })?;
    check_version(&path, &version)?;
    let accelerators = parse_accelerators(&ask(&path, &["-accel", "help"])?);
    Ok(QemuProgram {
        path,
        version,
        accelerators,
    })
}

/// Returns the path in the variable, or else the first program of this name in `PATH`.
pub(super) fn find_program(variable: &str, name: &str) -> Option<PathBuf> {
    match std::env::var_os(variable) {
        Some(path) if !path.is_empty() => Some(PathBuf::from(path)),
        _ => std::env::split_paths(&std::env::var_os("PATH")?)
            .map(|folder| folder.join(name))
            .find(|file| file.is_file()),
    }
}

fn outside_of_path(path: &str) -> Option<PathBuf> {
    let path = PathBuf::from(path);
    path.is_file().then_some(path)
}

/// Returns the output of a program.
pub(super) fn ask(path: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(path);
    remove_secrets(&mut command);
    let output = command
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| Error::io("start", path, e))?;
    if !output.status.success() {
        return Err(Error::new(
            Kind::Host,
            format!("{} {} failed", path.display(), arguments.join(" ")),
        )
        .lines(String::from_utf8_lossy(&output.stderr).lines()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn parse_version(text: &str) -> Option<String> {
    let rest = text.strip_prefix("QEMU emulator version ")?;
    let word = rest.split_whitespace().next()?;
    Some(word.to_string())
}

fn check_version(path: &Path, version: &str) -> Result<()> {
    let mut numbers = version.split('.').map_while(|n| n.parse::<u32>().ok());
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found >= OLDEST {
        return Ok(());
    }
    Err(Error::new(Kind::Host, "this QEMU is too old")
        .at(path.display())
        .expected(format!("{}.{} or later", OLDEST.0, OLDEST.1))
        .found(version)
        .cure("install a newer version, or set WINIMG_QEMU to one"))
}

fn parse_accelerators(text: &str) -> Vec<String> {
    let words = text.lines().skip(1).map(str::trim);
    words
        .filter(|w| !w.is_empty())
        .map(ToString::to_string)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qemu_outside_of_path_is_taken_where_there_is_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("qemu-kvm");
        let name = file.to_str().expect("a name");
        assert_eq!(outside_of_path(name), None);
        std::fs::write(&file, "").expect("a file");
        assert_eq!(outside_of_path(name), Some(file.clone()));
        let folder = folder.path().to_str().expect("a name");
        assert_eq!(outside_of_path(folder), None, "a folder");
    }

    #[test]
    fn versions_and_accelerators_as_qemu_prints_them() {
        let debian = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)\nCopyright (c) 2003-2022";
        assert_eq!(parse_version(debian).as_deref(), Some("7.2.22"));
        assert_eq!(parse_version("GNU bash, version 5"), None);
        let path = Path::new("/usr/bin/qemu-system-x86_64");
        for good in ["7.1.0", "7.2.22", "10.0.2", "9.2"] {
            assert!(check_version(path, good).is_ok(), "{good}");
        }
        let old = check_version(path, "6.2.0")
            .expect_err("too old")
            .to_string();
        assert_eq!(
            old,
            "this QEMU is too old\n  at: /usr/bin/qemu-system-x86_64\n  expected: 7.1 or later\n  found: 6.2.0\n  \
             cure: install a newer version, or set WINIMG_QEMU to one"
        );
        let help = "Accelerators supported in QEMU binary:\ntcg\nkvm\n";
        assert_eq!(parse_accelerators(help), ["tcg", "kvm"]);
    }
}
