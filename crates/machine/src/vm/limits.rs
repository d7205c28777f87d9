//! What the machines of each hypervisor cannot have, checked before anything is fetched or started.
//!
//! Pure. Everything that is refused is reported at once, each with its cure. (Microsoft: Generation 2 virtual machine security settings for Hyper-V.)

use super::Platform;
use winimg_base::diag::Diagnostic;
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::recipe::{Firmware, MachineSpec, Recipe};

/// The driver of the port that QEMU's guest agent speaks through, as virtio-win calls its folder.
const AGENTS_DRIVER: &str = "vioserial";

/// What is refused, and what helps.
type Refusal = (&'static str, &'static str);

impl Platform {
    /// Refuses what its machines cannot have.
    pub fn check(self, spec: &MachineSpec) -> Result<()> {
        let refused = match self {
            Self::Qemu => Vec::new(),
            Self::HyperV => hyperv(spec),
        };
        match &refused[..] {
            [] => Ok(()),
            [(fact, cure)] => Err(Error::new(Kind::Recipe, *fact).at("[machine]").cure(*cure)),
            all => {
                let fact = format!(
                    "this recipe asks for {} things that {self} can't give",
                    all.len()
                );
                let lines = all.iter().map(|(fact, cure)| format!("{fact}: {cure}"));
                Err(Error::new(Kind::Recipe, fact).at("[machine]").lines(lines))
            }
        }
    }

    /// Refuses what starts no clones of an image: Hyper-V's machines have no hardware but its own, and no network that holds a platform's
    /// addresses alone.
    pub fn check_clones(self) -> Result<()> {
        match self {
            Self::Qemu => Ok(()),
            Self::HyperV => Err(Error::new(
                Kind::Host,
                "clones are started by QEMU, not by Hyper-V",
            )
            .cure("try the image on a host with QEMU")),
        }
    }
}

/// Why no guest agent would answer in a machine of QEMU, which is reached by nothing else. An answer file of the team's own
/// may bring an agent and its driver; Hyper-V's machines need none.
pub fn lacks_agent(recipe: &Recipe) -> Option<Diagnostic> {
    if recipe.setup.answer_file.is_some() {
        return None;
    }
    let Some(virtio) = &recipe.media.virtio else {
        let place = &recipe.media.iso.url.place;
        return Some(
            Diagnostic::error("the QEMU machine would have no guest agent: winimg could not reach the installed Windows")
                .at(place, "the recipe names no other medium")
                .help("include packs/virtio.toml, or name the virtio-win ISO under `[media.virtio]`: it has the agent and its driver")
                .help("Hyper-V's machines need none: --hypervisor hyperv"),
        );
    };
    let setup = &recipe.setup;
    let is_there = setup.own_drivers.is_some() || setup.drivers.iter().any(|d| d == AGENTS_DRIVER);
    (!is_there).then(|| {
        let said = recipe.effective.iter().find(|e| e.path == "setup.drivers");
        let said = said.map_or_else(String::new, |e| format!(": {}", e.origin));
        let fact = format!(
            "`setup.drivers` leaves out {AGENTS_DRIVER}: QEMU's guest agent speaks through its port"
        );
        Diagnostic::error(fact)
            .at(&virtio.url.place, "the medium that has it")
            .help(format!(
                "write \"{AGENTS_DRIVER}\" into `drivers` under `[setup]`, too{said}"
            ))
    })
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Qemu => "QEMU",
            Self::HyperV => "Hyper-V",
        })
    }
}

fn hyperv(spec: &MachineSpec) -> Vec<Refusal> {
    let bios = spec.firmware == Firmware::Bios;
    let rows = [
        (
            spec.network,
            "machines of Hyper-V are built without a network",
            "set network = false: what steps need comes on the payload disc",
        ),
        (
            bios && spec.secure_boot,
            "Secure Boot needs a machine of generation 2",
            "set firmware = \"uefi\", or secure_boot = false",
        ),
        (
            bios && spec.tpm,
            "a TPM needs a machine of generation 2",
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

    fn rendered(platform: Platform, spec: &MachineSpec) -> String {
        match platform.check(spec) {
            Ok(()) => "taken".into(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_a_hypervisor_can_not_give_is_refused_at_once() {
        assert_eq!(
            rendered(Platform::HyperV, &spec(Firmware::Uefi, true)),
            "machines of Hyper-V are built without a network\n  at: [machine]\n  \
             cure: set network = false: what steps need comes on the payload disc"
        );
        assert_eq!(
            rendered(Platform::HyperV, &spec(Firmware::Bios, true)),
            "this recipe asks for 3 things that Hyper-V can't give\n  at: [machine]\n  \
             | machines of Hyper-V are built without a network: set network = false: what steps need comes on the payload disc\n  \
             | Secure Boot needs a machine of generation 2: set firmware = \"uefi\", or secure_boot = false\n  \
             | a TPM needs a machine of generation 2: set firmware = \"uefi\", or tpm = false"
        );
    }

    #[test]
    fn what_each_has_is_taken() {
        for platform in [Platform::Qemu, Platform::HyperV] {
            for firmware in [Firmware::Uefi, Firmware::Bios] {
                assert_eq!(rendered(platform, &spec(firmware, false)), "taken");
            }
        }
        let tpm = MachineSpec {
            network: false,
            ..spec(Firmware::Uefi, true)
        };
        assert_eq!(rendered(Platform::HyperV, &tpm), "taken");
        let all = spec(Firmware::Uefi, true);
        assert_eq!(rendered(Platform::Qemu, &all), "taken");
    }
}
