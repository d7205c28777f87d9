//! Boot canary: a guest of four instructions that tests an accelerator.
//!
//! `/dev/kvm`, `query-kvm` and plain ioctls look healthy on hosts whose KVM crashes or crawls with
//! a real guest. The same QEMU, machine and processor therefore boot a sector that writes to
//! `isa-debug-exit` (QEMU: hw/misc/debugexit.c: the process exits with 2 × value + 1). For UEFI the
//! firmware is started too, because some KVMs fail only there.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use qapi::qmp::{cont, query_status};

use super::args::{Acceleration, QemuArguments, escape_path};
use super::firmware::FirmwarePair;
use super::process::{ChildProcess, describe};
use super::program::QemuProgram;
use super::qmp::{PATIENCE, QmpClient};
use super::rundir::RunDir;
use winimg_base::error::{Error, Result};

/// Limit for an accelerator: a healthy one needs 0.2 s, a crawling one more than 3 s.
const HARDWARE_LIMIT: Duration = Duration::from_millis(1500);
/// Limit for emulation, which has no fallback and may run on a busy host.
const EMULATOR_LIMIT: Duration = Duration::from_secs(30);
/// Time for which the UEFI firmware must run.
const FIRMWARE_TIME: Duration = Duration::from_secs(1);

/// `mov al, 31h; out 0F4h, al; hlt; jmp -3`
const CODE: [u8; 7] = [0xb0, 0x31, 0xe6, 0xf4, 0xf4, 0xeb, 0xfd];
const EXIT_STATUS: i32 = 2 * 0x31 + 1;

/// Result of the canary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CanaryOutcome {
    Works,
    /// QEMU or the guest ended unexpectedly.
    Crashes {
        how: String,
        words: String,
    },
    /// It did not end in time.
    Crawls {
        limit: Duration,
    },
    /// QEMU did not start: bad processor flags, no permission, no such accelerator.
    Refused {
        words: String,
    },
    /// The guest works, but the UEFI firmware stops.
    FirmwareCrashes {
        how: String,
    },
}

impl CanaryOutcome {
    /// Returns the remark for the user; `None` if it works.
    pub fn describe(&self, accel: &str) -> Option<String> {
        let name = accel.to_uppercase();
        Some(match self {
            Self::Works => return None,
            Self::Crashes { how, words } => format!(
                "the kernel offers {name}, but a guest on it crashes: {how}{}",
                in_parentheses(words)
            ),
            Self::Crawls { limit } => format!(
                "the kernel offers {name}, but a guest on it crawls: \
                 four instructions took more than {} ms",
                limit.as_millis()
            ),
            Self::Refused { words } => {
                format!("QEMU does not start with {name}{}", in_parentheses(words))
            }
            Self::FirmwareCrashes { how } => {
                format!("the kernel offers {name}, but UEFI firmware on it crashes: {how}")
            }
        })
    }
}

/// Runs the canary. Fails only if it could not be run at all.
pub fn send(
    program: &QemuProgram,
    how: &Acceleration,
    uefi: Option<&FirmwarePair>,
) -> Result<CanaryOutcome> {
    let dir = private_folder()?;
    match boot_sector(program, how, dir.path())? {
        CanaryOutcome::Works => {}
        other => return Ok(other),
    }
    match uefi {
        // Emulation does not have this problem.
        Some(pair) if how.accel != "tcg" => send_firmware(program, how, pair),
        _ => Ok(CanaryOutcome::Works),
    }
}

/// Runs only the second half of the canary: the UEFI firmware must run for a second without
/// stopping the machine.
pub fn send_firmware(
    program: &QemuProgram,
    how: &Acceleration,
    uefi: &FirmwarePair,
) -> Result<CanaryOutcome> {
    let dir = private_folder()?;
    boot_firmware(program, how, uefi, dir.path())
}

/// Creates a folder with mode 0700, removed on drop.
fn private_folder() -> Result<tempfile::TempDir> {
    let folder = tempfile::Builder::new().prefix("winimg-").tempdir();
    folder.map_err(|e| Error::io("create a folder in", std::env::temp_dir(), e))
}

fn boot_sector(program: &QemuProgram, how: &Acceleration, dir: &Path) -> Result<CanaryOutcome> {
    let image = dir.join("canary.img");
    let mut sector = vec![0; 1 << 20];
    sector[..CODE.len()].copy_from_slice(&CODE);
    sector[510..512].copy_from_slice(&[0x55, 0xaa]);
    std::fs::write(&image, sector).map_err(|e| Error::io("write", &image, e))?;
    let mut args = build_bare_arguments(how, false);
    args.add("-device", "isa-debug-exit,iobase=0xf4,iosize=1");
    args.add(
        "-drive",
        format!(
            "if=none,id=canary,format=raw,snapshot=on,file={}",
            escape_path(&image)
        ),
    );
    args.add("-device", "virtio-blk-pci,drive=canary,bootindex=1");
    let limit = match how.accel.as_str() {
        "tcg" => EMULATOR_LIMIT,
        _ => HARDWARE_LIMIT,
    };
    let process = ChildProcess::spawn(&program.path, &args.0, &dir.join("canary.log"))?;
    let Some(status) = process.wait(limit) else {
        return Ok(CanaryOutcome::Crawls { limit });
    };
    let words = process.last_words().pop().unwrap_or_default();
    Ok(match status.code() {
        Some(EXIT_STATUS) => CanaryOutcome::Works,
        Some(1) => CanaryOutcome::Refused { words },
        _ => CanaryOutcome::Crashes {
            how: format!("QEMU ended with {}", describe(status)),
            words,
        },
    })
}

fn boot_firmware(
    program: &QemuProgram,
    how: &Acceleration,
    pair: &FirmwarePair,
    dir: &Path,
) -> Result<CanaryOutcome> {
    let dir = RunDir::new(dir)?;
    std::fs::copy(&pair.vars, dir.variables_file())
        .map_err(|e| Error::io("copy", &pair.vars, e))?;
    let mut args = build_bare_arguments(how, pair.smm);
    args.add_flash(pair, &dir);
    args.add_monitor(&dir);
    args.flag("-S");
    let process = ChildProcess::spawn(&program.path, &args.0, &dir.qemu_log())?;
    let connected = QmpClient::connect(
        &dir.qmp_socket(),
        PATIENCE,
        &|| match process.exit_status() {
            Some(status) => Err(process.describe_death("the firmware's canary", status)),
            None => Ok(()),
        },
        Arc::default(),
    );
    let qmp = match connected {
        Ok(qmp) => qmp,
        Err(_) if process.exit_status().is_some() => return Ok(firmware_died(&process)),
        Err(e) => return Err(e),
    };
    let started = qmp.order(&cont {}, PATIENCE);
    let deadline = Instant::now() + FIRMWARE_TIME;
    while Instant::now() < deadline {
        if process.exit_status().is_some() || started.is_err() {
            return Ok(firmware_died(&process));
        }
        if qmp.events().stopped {
            let how = qmp.query(&query_status {}, PATIENCE)?.status;
            return Ok(CanaryOutcome::FirmwareCrashes { how });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(CanaryOutcome::Works)
}

fn firmware_died(process: &ChildProcess) -> CanaryOutcome {
    let how = match process.wait(Duration::from_secs(1)) {
        Some(status) => format!("QEMU ended with {}", describe(status)),
        None => "QEMU does not answer".to_string(),
    };
    CanaryOutcome::FirmwareCrashes { how }
}

/// Builds the arguments of a machine like the real one, without its devices.
fn build_bare_arguments(how: &Acceleration, smm: bool) -> QemuArguments {
    let smm = if smm { "on" } else { "off" };
    let mut args = QemuArguments::default();
    args.add("-machine", format!("q35,smm={smm}"));
    args.add("-accel", how.to_argument());
    args.add("-cpu", &how.cpu);
    args.add("-m", "256M");
    args.add_nothing_else();
    args.add("-nic", "none");
    args
}

fn in_parentheses(words: &str) -> String {
    if words.is_empty() {
        String::new()
    } else {
        format!(" ({words})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_its_sentence() {
        let crash = CanaryOutcome::Crashes {
            how: "QEMU ended with signal 6 (SIGABRT)".into(),
            words: "error: failed to set MSR 0x10a to 0x69".into(),
        };
        let crawl = CanaryOutcome::Crawls {
            limit: HARDWARE_LIMIT,
        };
        let refused = CanaryOutcome::Refused {
            words: "failed to initialize kvm: Permission denied".into(),
        };
        let firmware = CanaryOutcome::FirmwareCrashes {
            how: "internal-error".into(),
        };
        let remarks: Vec<_> = [CanaryOutcome::Works, crash, crawl, refused, firmware]
            .iter()
            .map(|o| o.describe("kvm").unwrap_or_default())
            .collect();
        assert_eq!(
            remarks,
            [
                "",
                "the kernel offers KVM, but a guest on it crashes: QEMU ended with signal 6 (SIGABRT) (error: failed to set MSR 0x10a to 0x69)",
                "the kernel offers KVM, but a guest on it crawls: four instructions took more than 1500 ms",
                "QEMU does not start with KVM (failed to initialize kvm: Permission denied)",
                "the kernel offers KVM, but UEFI firmware on it crashes: internal-error",
            ]
        );
    }
}
