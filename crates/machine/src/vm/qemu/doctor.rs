//! Checks of a host for builds with QEMU: starts a VM with each firmware, and finds Secure Boot
//! firmware, swtpm and qemu-img.

use std::process::Command;

use crate::host::{CheckState, CheckTopic, HostCheck, HostProblem, HostProgram, OperatingSystem};
use crate::vm::{HostInspection, HostRequirements, HypervisorProbe};
use winimg_base::io::remove_secrets;

/// QEMU on a host, and the programs beside it.
#[derive(Clone, Debug)]
pub struct QemuHost {
    /// The problem if there is no QEMU, or it cannot be used.
    pub qemu: Result<QemuFacts, HostProblem>,
    /// First line of its version output.
    pub qemu_img: Option<String>,
}

/// Facts about a usable QEMU.
#[derive(Clone, Debug)]
pub struct QemuFacts {
    /// Each firmware with the result of booting a VM with it.
    pub firmware: Vec<(&'static str, Result<HypervisorProbe, HostProblem>)>,
    pub kvm: KvmAccess,
    /// Path of the firmware.
    pub secure_boot: Result<String, HostProblem>,
    /// Its version.
    pub swtpm: Result<String, HostProblem>,
}

/// Hardware acceleration on Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvmAccess {
    Usable,
    /// There is no `/dev/kvm`.
    Absent,
    /// It exists, but this user may not open it.
    Denied,
    /// Not Linux.
    Elsewhere,
}

pub fn inspect_host(wanted: &HostInspection<'_>) -> Vec<HostCheck> {
    let host = QemuHost {
        qemu: probe(wanted),
        qemu_img: probe_qemu_img(),
    };
    host.check(wanted.system, wanted.needs)
}

fn probe_qemu_img() -> Option<String> {
    let mut tool = Command::new("qemu-img");
    remove_secrets(&mut tool);
    let output = tool.arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(str::to_owned)
}

#[cfg(not(unix))]
fn probe(_: &HostInspection<'_>) -> Result<QemuFacts, HostProblem> {
    let problem = winimg_base::problem::Problem::new("winimg does not support it on Windows hosts");
    Err(HostProblem {
        problem: Box::new(problem.cure("omit --hypervisor to use Hyper-V")),
        is_absent: false,
    })
}

#[cfg(unix)]
fn probe(wanted: &HostInspection<'_>) -> Result<QemuFacts, HostProblem> {
    use super::{QemuHypervisor, firmware, tpm};
    use crate::vm::Hypervisor as _;
    use winimg_recipe::Firmware;

    let qemu = QemuHypervisor::find().map_err(|error| HostProblem::from(&error))?;
    let secure_boot = firmware::find(&firmware::FirmwarePaths::from_system(), true);
    Ok(QemuFacts {
        firmware: [("UEFI", Firmware::Uefi), ("BIOS", Firmware::Bios)]
            .into_iter()
            .map(|(name, firmware)| {
                let started = qemu
                    .probe(wanted.accel, firmware, wanted.cancel)
                    .map_err(|error| HostProblem::from(&error));
                (name, started)
            })
            .collect(),
        kvm: probe_kvm(wanted.accel),
        secure_boot: secure_boot
            .map(|pair| pair.code.display().to_string())
            .map_err(|error| HostProblem::from(&error)),
        swtpm: tpm::find()
            .map(|program| format!("swtpm {}", program.version))
            .map_err(|error| HostProblem::from(&error)),
    })
}

#[cfg(unix)]
fn probe_kvm(accel: crate::vm::Accel) -> KvmAccess {
    use crate::vm::Accel;

    if !cfg!(target_os = "linux") || !matches!(accel, Accel::Auto | Accel::Kvm) {
        return KvmAccess::Elsewhere;
    }
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/kvm");
    match opened.map_err(|e| e.kind()) {
        Ok(_) => KvmAccess::Usable,
        Err(std::io::ErrorKind::PermissionDenied) => KvmAccess::Denied,
        Err(_) => KvmAccess::Absent,
    }
}

impl QemuHost {
    /// Returns all checks in display order. `needs` are those of a recipe.
    pub fn check(
        &self,
        system: &OperatingSystem,
        needs: Option<HostRequirements>,
    ) -> Vec<HostCheck> {
        let mut checks = match &self.qemu {
            Ok(facts) => facts.check(system, needs),
            Err(problem) => vec![report_missing("QEMU", problem, system, HostProgram::Qemu)],
        };
        let topic = CheckTopic::QemuImg;
        checks.push(match &self.qemu_img {
            Some(version) => HostCheck::good(topic, version),
            None => HostCheck::new(topic, CheckState::Missing, "qemu-img is not in PATH")
                .with_cure(system.install(HostProgram::QemuImg)),
        });
        checks
    }
}

impl QemuFacts {
    fn check(&self, system: &OperatingSystem, needs: Option<HostRequirements>) -> Vec<HostCheck> {
        let mut checks: Vec<HostCheck> = self
            .firmware
            .iter()
            .map(|(name, found)| check_started(name, found, system))
            .collect();
        checks.extend(check_acceleration(self.kvm, system));
        checks.push(check_extra(
            CheckTopic::SecureBoot,
            "Secure Boot",
            &self.secure_boot,
            needs.is_some_and(|n| n.secure_boot),
            system.install(HostProgram::Ovmf),
        ));
        checks.push(check_extra(
            CheckTopic::Tpm,
            "TPM",
            &self.swtpm,
            needs.is_some_and(|n| n.tpm),
            system.install(HostProgram::Swtpm),
        ));
        checks
    }
}

/// Returns a missing requirement. An absent program is fixed by installing its package, anything
/// else by the error's own cure.
fn report_missing(
    name: &str,
    problem: &HostProblem,
    system: &OperatingSystem,
    program: HostProgram,
) -> HostCheck {
    let check = problem.to_check(CheckTopic::Qemu, CheckState::Missing, name);
    if problem.is_absent {
        check.with_cure(system.install(program))
    } else {
        check
    }
}

fn check_started(
    name: &str,
    found: &Result<HypervisorProbe, HostProblem>,
    system: &OperatingSystem,
) -> HostCheck {
    match found {
        Ok(started) => HostCheck::good(
            CheckTopic::Qemu,
            format!("{name}: {} with {}", started.version, started.accel),
        )
        .with_remarks(started.remarks.clone()),
        Err(problem) => report_missing(name, problem, system, HostProgram::Ovmf),
    }
}

fn check_acceleration(kvm: KvmAccess, system: &OperatingSystem) -> Option<HostCheck> {
    let (found, cure) = match kvm {
        KvmAccess::Usable => {
            return Some(HostCheck::good(
                CheckTopic::Kvm,
                "KVM: /dev/kvm can be opened",
            ));
        }
        KvmAccess::Elsewhere => return None,
        KvmAccess::Denied => (
            "KVM: this user may not open /dev/kvm, so builds are many times slower",
            "sudo usermod -aG kvm $USER, and log in again",
        ),
        KvmAccess::Absent if system.is_windows() => return None,
        KvmAccess::Absent => (
            "KVM: there is no /dev/kvm, so builds are many times slower",
            "enable virtualization in the firmware (in a VM: nested virtualization), \
             then sudo modprobe -a kvm_intel kvm_amd",
        ),
    };
    Some(HostCheck::new(CheckTopic::Kvm, CheckState::Advice, found).with_cure(cure))
}

/// Checks a feature that only some recipes need.
fn check_extra(
    about: CheckTopic,
    name: &str,
    found: &Result<String, HostProblem>,
    is_needed: bool,
    cure: String,
) -> HostCheck {
    let state = if is_needed {
        CheckState::Missing
    } else {
        CheckState::Advice
    };
    match found {
        Ok(found) => HostCheck::good(about, format!("{name}: {found}")),
        Err(problem) => problem.to_check(about, state, name).with_cure(cure),
    }
}
