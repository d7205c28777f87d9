//! The boot canary: a guest of four instructions that shows whether an accelerator runs guests at all.
//!
//! `/dev/kvm`, `query-kvm` and bare ioctls all look healthy on hosts whose KVM crashes or crawls under a real guest, so the same QEMU,
//! machine and processor boot a sector that writes to `isa-debug-exit` (QEMU: hw/misc/debugexit.c: the process ends with 2 × value + 1).
//! For UEFI the firmware itself is started too, since some KVMs fail only there.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use qapi::qmp::{cont, query_status};

use super::args::{Acceleration, Arguments, path};
use super::firmware::Pair;
use super::process::{Process, describe};
use super::program::Program;
use super::qmp::{PATIENCE, Qmp};
use super::rundir::RunDir;
use winimg_base::error::{Error, Result};

/// A healthy accelerator needs 0.2 s here, a crawling one more than 3 s.
const HARDWARE_LIMIT: Duration = Duration::from_millis(1500);
/// An emulator on a busy host gets longer: it has no rival to fall back to.
const EMULATOR_LIMIT: Duration = Duration::from_secs(30);
/// How long the UEFI firmware must run.
const FIRMWARE_TIME: Duration = Duration::from_secs(1);

/// `mov al, 31h; out 0F4h, al; hlt; jmp -3`
const CODE: [u8; 7] = [0xb0, 0x31, 0xe6, 0xf4, 0xf4, 0xeb, 0xfd];
const SUNG: i32 = 2 * 0x31 + 1;

/// What became of the canary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Works,
    /// QEMU or the guest ended otherwise than it should: how, and QEMU's last words.
    Crashes {
        how: String,
        words: String,
    },
    /// It did not end in time.
    Crawls {
        limit: Duration,
    },
    /// QEMU would not start: bad processor flags, no rights, no such accelerator.
    Refused {
        words: String,
    },
    /// Fine as such, but the UEFI firmware stops on it.
    FirmwareCrashes {
        how: String,
    },
}

impl Outcome {
    /// In words, for the remark that is shown loudly; `None` when it works.
    pub fn remark(&self, accel: &str) -> Option<String> {
        let name = accel.to_uppercase();
        let with = |words: &str| match words.is_empty() {
            true => String::new(),
            false => format!(" ({words})"),
        };
        Some(match self {
            Self::Works => return None,
            Self::Crashes { how, words } => format!(
                "the kernel offers {name}, but a guest on it crashes: {how}{}",
                with(words)
            ),
            Self::Crawls { limit } => format!(
                "the kernel offers {name}, but a guest on it crawls: four instructions took more than {} ms",
                limit.as_millis()
            ),
            Self::Refused { words } => format!("QEMU does not start with {name}{}", with(words)),
            Self::FirmwareCrashes { how } => {
                format!("the kernel offers {name}, but UEFI firmware on it crashes: {how}")
            }
        })
    }
}

/// Sends the canary. An error means that it could not be sent at all.
pub fn send(program: &Program, how: &Acceleration, uefi: Option<&Pair>) -> Result<Outcome> {
    let dir = private_folder()?;
    match boot_sector(program, how, dir.path())? {
        Outcome::Works => {}
        other => return Ok(other),
    }
    match uefi {
        // Emulation has no such fault, and the firmware's second would only cost time.
        Some(pair) if how.accel != "tcg" => send_firmware(program, how, pair),
        _ => Ok(Outcome::Works),
    }
}

/// Its second half alone: the UEFI firmware must run for a second without stopping the machine.
pub fn send_firmware(program: &Program, how: &Acceleration, uefi: &Pair) -> Result<Outcome> {
    let dir = private_folder()?;
    boot_firmware(program, how, uefi, dir.path())
}

/// Created 0700, removed on drop.
fn private_folder() -> Result<tempfile::TempDir> {
    let folder = tempfile::Builder::new().prefix("winimg-").tempdir();
    folder.map_err(|e| Error::io("create a folder in", std::env::temp_dir(), e))
}

fn boot_sector(program: &Program, how: &Acceleration, dir: &Path) -> Result<Outcome> {
    let image = dir.join("canary.img");
    let mut sector = vec![0; 1 << 20];
    sector[..CODE.len()].copy_from_slice(&CODE);
    sector[510..512].copy_from_slice(&[0x55, 0xaa]);
    std::fs::write(&image, sector).map_err(|e| Error::io("write", &image, e))?;
    let mut args = bare(how, false);
    args.add("-device", "isa-debug-exit,iobase=0xf4,iosize=1");
    args.add(
        "-drive",
        format!(
            "if=none,id=canary,format=raw,snapshot=on,file={}",
            path(&image)
        ),
    );
    args.add("-device", "virtio-blk-pci,drive=canary,bootindex=1");
    let limit = match how.accel.as_str() {
        "tcg" => EMULATOR_LIMIT,
        _ => HARDWARE_LIMIT,
    };
    let process = Process::spawn(&program.path, &args.0, &dir.join("canary.log"))?;
    let Some(status) = process.wait(limit) else {
        return Ok(Outcome::Crawls { limit });
    };
    let words = process.last_words().pop().unwrap_or_default();
    Ok(match status.code() {
        Some(SUNG) => Outcome::Works,
        Some(1) => Outcome::Refused { words },
        _ => Outcome::Crashes {
            how: format!("QEMU ended with {}", describe(status)),
            words,
        },
    })
}

fn boot_firmware(
    program: &Program,
    how: &Acceleration,
    pair: &Pair,
    dir: &Path,
) -> Result<Outcome> {
    let dir = RunDir::new(dir)?;
    std::fs::copy(&pair.vars, dir.vars()).map_err(|e| Error::io("copy", &pair.vars, e))?;
    let mut args = bare(how, pair.smm);
    args.add_flash(pair, &dir);
    args.add_monitor(&dir);
    args.flag("-S");
    let process = Process::spawn(&program.path, &args.0, &dir.stderr())?;
    let ended = || match process.ended() {
        Some(status) => Err(process.death("the firmware's canary", status)),
        None => Ok(()),
    };
    let qmp = match Qmp::connect(&dir.qmp(), PATIENCE, &ended, Arc::default()) {
        Ok(qmp) => qmp,
        Err(_) if process.ended().is_some() => return Ok(firmware_died(&process)),
        Err(e) => return Err(e),
    };
    let asked = qmp.order(&cont {}, PATIENCE);
    let deadline = Instant::now() + FIRMWARE_TIME;
    while Instant::now() < deadline {
        if process.ended().is_some() || asked.is_err() {
            return Ok(firmware_died(&process));
        }
        if qmp.seen().stopped {
            let how = qmp.query(&query_status {}, PATIENCE)?.status;
            return Ok(Outcome::FirmwareCrashes { how });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(Outcome::Works)
}

fn firmware_died(process: &Process) -> Outcome {
    let how = match process.wait(Duration::from_secs(1)) {
        Some(status) => format!("QEMU ended with {}", describe(status)),
        None => "QEMU does not answer".to_string(),
    };
    Outcome::FirmwareCrashes { how }
}

/// A machine like the real one, without its devices.
fn bare(how: &Acceleration, smm: bool) -> Arguments {
    let smm = if smm { "on" } else { "off" };
    let mut args = Arguments::default();
    args.add("-machine", format!("q35,smm={smm}"));
    args.add("-accel", how.argument());
    args.add("-cpu", &how.cpu);
    args.add("-m", "256M");
    args.add_nothing_else();
    args.add("-nic", "none");
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_its_sentence() {
        let crash = Outcome::Crashes {
            how: "QEMU ended with signal 6 (SIGABRT)".into(),
            words: "error: failed to set MSR 0x10a to 0x69".into(),
        };
        let crawl = Outcome::Crawls {
            limit: HARDWARE_LIMIT,
        };
        let refused = Outcome::Refused {
            words: "failed to initialize kvm: Permission denied".into(),
        };
        let firmware = Outcome::FirmwareCrashes {
            how: "internal-error".into(),
        };
        let remarks: Vec<_> = [Outcome::Works, crash, crawl, refused, firmware]
            .iter()
            .map(|o| o.remark("kvm").unwrap_or_default())
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
