//! Machine settings that a hypervisor does not support, checked before anything is fetched or
//! started.
//!
//! Pure. Reports all unsupported settings at once, each with its cure. (Microsoft: Generation 2
//! virtual machine security settings for Hyper-V.)

use super::HypervisorKind;
use winimg_base::diag::Diagnostic;
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::recipe::{Firmware, MachineSpec, Recipe};

/// Driver of the guest agent's port under QEMU, by the name of its folder in virtio-win.
const AGENTS_DRIVER: &str = "vioserial";

/// An unsupported setting and its cure.
type Refusal = (&'static str, &'static str);

impl HypervisorKind {
    /// Refuses settings that the hypervisor does not support.
    pub fn check(self, spec: &MachineSpec) -> Result<()> {
        let refused = match self {
            Self::Qemu => Vec::new(),
            Self::HyperV => find_hyperv_refusals(spec),
        };
        match &refused[..] {
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

    /// Refuses a hypervisor that cannot start clones: Hyper-V emulates no other platform's hardware
    /// and no isolated network with that platform's addresses.
    pub fn check_clones(self) -> Result<()> {
        match self {
            Self::Qemu => Ok(()),
            Self::HyperV => Err(Error::new(
                Kind::Host,
                "clones can only be started with QEMU, not with Hyper-V",
            )
            .cure("try the image on a host with QEMU")),
        }
    }
}

/// Reports why no guest agent would answer in a QEMU machine, which has no other channel. A custom
/// answer file may bring its own agent and driver; machines of Hyper-V need none.
pub fn lacks_agent(recipe: &Recipe) -> Option<Diagnostic> {
    if recipe.setup.answer_file.is_some() {
        return None;
    }
    let Some(virtio) = &recipe.media.virtio else {
        let place = &recipe.media.iso.url.place;
        return Some(
            Diagnostic::error(
                "the QEMU machine would have no guest agent: \
                 winimg could not reach the installed Windows",
            )
            .at(place, "the recipe names no other medium")
            .help(
                "include packs/virtio.toml, or name the virtio-win ISO under `[media.virtio]`: \
                 it has the agent and its driver",
            )
            .help("or use Hyper-V, which needs no agent: --hypervisor hyperv"),
        );
    };
    let setup = &recipe.setup;
    let is_there = setup.own_drivers.is_some() || setup.drivers.iter().any(|d| d == AGENTS_DRIVER);
    (!is_there).then(|| {
        let said = recipe.effective.iter().find(|e| e.path == "setup.drivers");
        let said = said.map_or_else(String::new, |e| format!(": {}", e.origin));
        let fact = format!("`setup.drivers` omits {AGENTS_DRIVER}, which QEMU's guest agent needs");
        Diagnostic::error(fact)
            .at(&virtio.url.place, "this medium contains it")
            .help(format!(
                "add \"{AGENTS_DRIVER}\" to `drivers` under `[setup]`{said}"
            ))
    })
}

impl std::fmt::Display for HypervisorKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Qemu => "QEMU",
            Self::HyperV => "Hyper-V",
        })
    }
}

fn find_hyperv_refusals(spec: &MachineSpec) -> Vec<Refusal> {
    let bios = spec.firmware == Firmware::Bios;
    let rows = [
        (
            spec.network,
            "winimg builds Hyper-V machines without a network",
            "set network = false: steps get their files from the payload disc",
        ),
        (
            bios && spec.secure_boot,
            "Secure Boot needs a generation 2 machine",
            "set firmware = \"uefi\", or secure_boot = false",
        ),
        (
            bios && spec.tpm,
            "a TPM needs a generation 2 machine",
            "set firmware = \"uefi\", or tpm = false",
        ),
    ];
    let refused = rows.into_iter().filter(|(is_so, _, _)| *is_so);
    refused.map(|(_, fact, cure)| (fact, cure)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use winimg_recipe::recipe::DiskBus;

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
