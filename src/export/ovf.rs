//! The OVF descriptor: pure text from the job (DMTF: DSP0243; VMware's names: vmware/govmomi, ovf package).
//!
//! No `vmw:ExtraConfig` (a warning at import) and no `vmw:BootOrderSection` (vCenter then shows an EFI machine as BIOS:
//! kubernetes-sigs/image-builder issue 619). VirtualBox ignores the firmware setting; it is not told apart here.

use serde::Serialize;
use serde_json::json;

use super::{Job, fill};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Sink;
use winimg_base::markup::escape_xml;
use winimg_formats::wim::Release;
use winimg_recipe::recipe::{DiskBus, Firmware, OvaSpec};

/// The virtual hardware that the image can start on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// `vmx-NN`
    pub version: u32,
    pub controller: Controller,
}

/// In the descriptor's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Controller {
    description: &'static str,
    name: &'static str,
    subtype: &'static str,
}

const NVME: Controller = Controller {
    description: "NVMe controller",
    name: "NVMe controller 0",
    subtype: "vmware.nvme.controller",
};
const SATA: Controller = Controller {
    description: "SATA controller",
    name: "SATA controller 0",
    subtype: "vmware.sata.ahci",
};

impl Hardware {
    /// With the controller that VirtualBox and VMware both have.
    pub fn sata(job: &Job<'_>, spec: &OvaSpec) -> Self {
        Self {
            version: spec.version(job.guest.release),
            controller: SATA,
        }
    }

    /// The controller whose driver Windows started from while it was built, as far as VMware has it.
    pub fn choose(job: &Job<'_>, spec: &OvaSpec, sink: &dyn Sink) -> Self {
        let version = spec.version(job.guest.release);
        let controller = match (job.disk_bus, job.firmware) {
            (DiskBus::Nvme, Firmware::Uefi) => NVME,
            (DiskBus::Ahci, _) => SATA,
            (DiskBus::Nvme, Firmware::Bios) => {
                sink.warn(
                    "the OVA names a SATA controller: VMware's BIOS does not boot from NVMe, \
                     and whether this image's Windows starts from SATA is not known",
                );
                SATA
            }
            (DiskBus::Virtio, _) => {
                sink.warn(
                    "the OVA names a SATA controller: VMware has no virtio disk, and whether \
                     this image's Windows starts from SATA is not known; build with disk_bus = \"nvme\" or \"ahci\"",
                );
                SATA
            }
        };
        Self {
            version,
            controller,
        }
    }
}

/// VMware names a release by the one before it, on purpose.
fn os_type(release: Release) -> &'static str {
    match release {
        Release::Server2019 => "windows2019srv_64Guest",
        Release::Server2022 => "windows2019srvNext_64Guest",
        Release::Server2025 => "windows2022srvNext_64Guest",
    }
}

/// What the descriptor says of the disk. All numbers are bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Disc {
    pub file: String,
    pub file_bytes: u64,
    pub capacity: u64,
    pub populated: u64,
}

pub fn render(job: &Job<'_>, hardware: &Hardware, disc: &Disc) -> Result<String> {
    let uefi = job.firmware == Firmware::Uefi;
    let values = json!({
        "name": job.name,
        "disc": disc,
        "os": format!("{} {}", job.guest.release, job.guest.edition),
        "os_type": os_type(job.guest.release),
        "build": job.guest.build,
        "hardware_version": hardware.version,
        "cpus": job.cpus,
        "memory_mib": job.memory >> 20,
        "controller": hardware.controller,
        "firmware": if uefi { "efi" } else { "bios" },
        "uefi": uefi,
        "secure_boot": job.secure_boot,
        "nested": job.nested_virtualization,
        "properties": properties(job),
    });
    fill(include_str!("ovf.xml"), escape_xml, &values)
}

/// image-builder's build keys, then the recipe's.
fn properties(job: &Job<'_>) -> Vec<(String, String)> {
    let date = jiff::Timestamp::from_second(job.epoch)
        .map(|t| t.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
        .unwrap_or_default();
    let mut all = vec![
        ("BUILD_DATE".to_string(), date),
        ("BUILD_TIMESTAMP".to_string(), job.epoch.to_string()),
    ];
    all.extend(job.properties.iter().cloned());
    all
}

/// File bytes, capacity and populated bytes as a descriptor says them, read with an XML parser.
pub fn sizes(ovf: &str) -> Result<(u64, u64, u64)> {
    const OVF: &str = "http://schemas.dmtf.org/ovf/envelope/1";
    let bad = |what: &str| Error::new(Kind::Export, format!("the OVA's descriptor has no {what}"));
    let xml = roxmltree::Document::parse(ovf)
        .map_err(|e| Error::new(Kind::Export, "the OVA's descriptor is not XML").because(e))?;
    let number = |element: &str, attribute: &str| {
        xml.descendants()
            .find(|n| n.has_tag_name((OVF, element)))
            .and_then(|n| n.attribute((OVF, attribute)))
            .and_then(|v| v.parse().ok())
            .ok_or_else(|| bad(attribute))
    };
    Ok((
        number("File", "size")?,
        number("Disk", "capacity")?,
        number("Disk", "populatedSize")?,
    ))
}
