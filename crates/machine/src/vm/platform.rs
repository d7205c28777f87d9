//! The table of hypervisors. A row has everything that distinguishes a hypervisor from the others,
//! apart from its machines; it is in the hypervisor's own folder.
//!
//! Unsupported settings are reported all at once, each with its cure, before anything is fetched
//! or started.

use std::path::Path;

use super::{Accel, HostRequirements, Hypervisor, HypervisorKind};
use crate::host::{HostCheck, OperatingSystem};
use winimg_base::diag::{Diagnostic, Diagnostics};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;
use winimg_formats::disk::MachineDiskFormat;
use winimg_formats::iso::BootMedium;
use winimg_recipe::{Firmware, MachineSpec, Recipe};

/// Differences of a hypervisor, for everything that is not specific to it.
pub struct PlatformSpec {
    /// Name in `--hypervisor`, layer keys and manifests.
    pub name: &'static str,
    /// Name in messages.
    pub title: &'static str,
    /// Format of its machines' disks.
    pub disk_form: MachineDiskFormat,
    /// True if Windows lacks drivers for its machines, or an agent that it is reached by: both are
    /// on the virtio medium.
    pub needs_virtio: bool,
    /// Name of the Administrator's password in the store, if winimg logs on to its guests: machines
    /// that boot a layer need the one that the layer was built with.
    pub kept_password: Option<&'static str>,
    /// Why it cannot start clones, with the cure.
    pub clone_refusal: Option<Refusal>,
    /// Opens it. It may cache facts about this host in the folder.
    pub open: fn(cache: &Path) -> Result<Box<dyn Hypervisor>>,
    /// Checks this host for `winimg doctor`.
    pub inspect_host: fn(&HostInspection<'_>) -> Vec<HostCheck>,
    /// Finds the settings that it does not support.
    pub find_refusals: fn(&MachineSpec) -> Vec<Refusal>,
    /// Reports why winimg could not reach the installed Windows.
    pub find_missing_agent: fn(&Recipe) -> Option<Diagnostic>,
    /// Reports steps after which winimg could no longer reach Windows.
    pub find_lockouts: fn(&Recipe) -> Diagnostics,
    /// Makes the install medium bootable for this firmware, if possible without a key press. Writes
    /// only into the given folder.
    pub prepare_medium: fn(iso: &Path, firmware: Firmware, folder: &Path) -> Result<BootMedium>,
    pub wording: PlatformWording,
}

/// A fact that speaks against a build, and its cure.
pub type Refusal = (&'static str, &'static str);

/// Input of [`PlatformSpec::inspect_host`].
pub struct HostInspection<'a> {
    pub system: &'a OperatingSystem,
    pub accel: Accel,
    /// Requirements of a recipe, if one is given.
    pub needs: Option<HostRequirements>,
    pub cancel: &'a Cancel,
}

/// Facts and expectations in the supervisor's messages.
pub struct PlatformWording {
    /// The expected behaviour of a started Windows.
    pub expected: &'static str,
    /// A Windows that is stuck while it boots.
    pub stuck_boot: &'static str,
    /// A Windows that is stuck between two steps.
    pub stuck_steps: &'static str,
    /// A further cause of a Setup that keeps restarting.
    pub restart_cause: Option<&'static str>,
    /// Describes a guest that keeps restarting and was never reached.
    pub no_contact: Option<&'static str>,
}

impl HypervisorKind {
    /// Name in `--hypervisor`, layer keys and manifests.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// Finds a hypervisor by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the names of all hypervisors: `qemu or hyperv`.
    pub fn list_names() -> String {
        Self::ALL.map(Self::name).join(" or ")
    }

    /// Refuses settings that the hypervisor does not support.
    pub fn check(self, spec: &MachineSpec) -> Result<()> {
        match &(self.spec().find_refusals)(spec)[..] {
            [] => Ok(()),
            [(fact, cure)] => Err(Error::new(Kind::Recipe, *fact).at("[machine]").cure(*cure)),
            all => {
                let fact = format!(
                    "{self} does not support {} settings of this recipe",
                    all.len()
                );
                let lines = all.iter().map(|(fact, cure)| format!("{fact}: {cure}"));
                Err(Error::new(Kind::Recipe, fact).at("[machine]").lines(lines))
            }
        }
    }

    /// Refuses a hypervisor that cannot start clones.
    pub fn check_clones(self) -> Result<()> {
        match self.spec().clone_refusal {
            None => Ok(()),
            Some((fact, cure)) => Err(Error::new(Kind::Host, fact).cure(cure)),
        }
    }
}

impl std::fmt::Display for HypervisorKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.spec().title)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use winimg_recipe::DiskBus;

    fn spec(firmware: Firmware, extras: bool) -> MachineSpec {
        MachineSpec {
            firmware,
            secure_boot: extras,
            disk_bus: DiskBus::Nvme,
            disk_size: 64 << 30,
            cpus: 2,
            memory: 4 << 30,
            network: extras,
            tpm: extras,
        }
    }

    fn rendered(platform: HypervisorKind, spec: &MachineSpec) -> String {
        match platform.check(spec) {
            Ok(()) => "taken".into(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_a_hypervisor_can_not_give_is_refused_at_once() {
        assert_eq!(
            rendered(HypervisorKind::HyperV, &spec(Firmware::Uefi, true)),
            "winimg builds Hyper-V machines without a network\n  at: [machine]\n  \
             cure: set network = false: steps get their files from the payload disc"
        );
        assert_eq!(
            rendered(HypervisorKind::HyperV, &spec(Firmware::Bios, true)),
            "Hyper-V does not support 3 settings of this recipe\n  at: [machine]\n  \
             | winimg builds Hyper-V machines without a network: set network = false: steps get their files from the payload disc\n  \
             | Secure Boot needs a generation 2 machine: set firmware = \"uefi\", or secure_boot = false\n  \
             | a TPM needs a generation 2 machine: set firmware = \"uefi\", or tpm = false"
        );
    }

    #[test]
    fn what_each_has_is_taken() {
        for platform in [HypervisorKind::Qemu, HypervisorKind::HyperV] {
            for firmware in [Firmware::Uefi, Firmware::Bios] {
                assert_eq!(rendered(platform, &spec(firmware, false)), "taken");
            }
        }
        let tpm = MachineSpec {
            network: false,
            ..spec(Firmware::Uefi, true)
        };
        assert_eq!(rendered(HypervisorKind::HyperV, &tpm), "taken");
        let all = spec(Firmware::Uefi, true);
        assert_eq!(rendered(HypervisorKind::Qemu, &all), "taken");
    }
}
