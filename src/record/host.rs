//! The host of a build, in its manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use winimg_machine::vm::{HypervisorKind, HypervisorProbe};

/// The machine that the image was built on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Host")]
pub struct ManifestHost {
    /// The hypervisor that ran the steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<ManifestHypervisor>,
    /// `QEMU 7.2.22`; on Hyper-V the version of Hyper-V: `hypervisor` replaces it.
    pub qemu: String,
    /// `kvm`, `tcg` …
    pub accelerator: String,
    /// Reasons why a better accelerator was not used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// A hypervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Hypervisor")]
pub struct ManifestHypervisor {
    /// Name in `--hypervisor`: `qemu`, `hyperv`.
    pub name: String,
    /// `7.2.22`
    pub version: String,
}

impl ManifestHost {
    pub fn new(platform: HypervisorKind, probe: &HypervisorProbe) -> Self {
        Self {
            hypervisor: ManifestHypervisor::new(platform, probe),
            qemu: probe.version.clone(),
            accelerator: probe.accel.clone(),
            remarks: probe.remarks.clone(),
        }
    }
}

impl ManifestHypervisor {
    /// Returns the hypervisor; `None` if its version is unknown.
    fn new(platform: HypervisorKind, probe: &HypervisorProbe) -> Option<Self> {
        let version = &probe.version;
        // The probe's version begins with the name for messages: `Hyper-V 10.0.20348`.
        let number = version.strip_prefix(&format!("{platform} "));
        (!version.is_empty()).then(|| Self {
            name: platform.name().into(),
            version: number.unwrap_or(version).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hypervisor_is_named_and_the_old_key_stays() {
        for (platform, version, name, number) in [
            (HypervisorKind::Qemu, "QEMU 7.2.22", "qemu", "7.2.22"),
            (
                HypervisorKind::HyperV,
                "Hyper-V 10.0.20348",
                "hyperv",
                "10.0.20348",
            ),
        ] {
            let probe = HypervisorProbe {
                version: version.into(),
                ..HypervisorProbe::default()
            };
            let host = ManifestHost::new(platform, &probe);
            let found = host.hypervisor.as_ref().map(|h| (&*h.name, &*h.version));
            assert_eq!(found, Some((name, number)));
            assert_eq!(host.qemu, version);
        }
        let unknown = ManifestHost::new(HypervisorKind::Qemu, &HypervisorProbe::default());
        assert_eq!(unknown.hypervisor, None);
    }
}
