//! Renders the OVF descriptor from the job (DMTF: DSP0243; VMware's names: vmware/govmomi, ovf
//! package).
//!
//! No `vmw:ExtraConfig` (a warning at import) and no `vmw:BootOrderSection` (vCenter then shows an
//! EFI machine as BIOS: kubernetes-sigs/image-builder issue 619). VirtualBox ignores the firmware
//! setting, which is written for it all the same.

use serde::Serialize;
use serde_json::json;

use super::{ExportJob, fill};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Sink;
use winimg_base::markup::escape_xml;
use winimg_formats::wim::WindowsRelease;
use winimg_recipe::{DiskBus, Firmware, OvaOptions};

/// The virtual hardware that the image can boot on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OvfHardware {
    /// `vmx-NN`
    pub version: u32,
    pub controller: OvfController,
}

/// A disk controller in the descriptor's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OvfController {
    description: &'static str,
    name: &'static str,
    subtype: &'static str,
}

const NVME: OvfController = OvfController {
    description: "NVMe controller",
    name: "NVMe controller 0",
    subtype: "vmware.nvme.controller",
};
const SATA: OvfController = OvfController {
    description: "SATA controller",
    name: "SATA controller 0",
    subtype: "vmware.sata.ahci",
};

impl OvfHardware {
    /// Creates hardware with SATA, the controller that both VirtualBox and VMware have.
    pub fn with_sata(job: &ExportJob<'_>, spec: &OvaOptions) -> Self {
        Self {
            version: spec.resolve_version(job.guest.release),
            controller: SATA,
        }
    }

    /// Chooses the controller that Windows booted from during the build, if VMware has it.
    pub fn choose(job: &ExportJob<'_>, spec: &OvaOptions, sink: &dyn Sink) -> Self {
        let version = spec.resolve_version(job.guest.release);
        let controller = match (job.disk_bus, job.firmware) {
            (DiskBus::Nvme, Firmware::Uefi) => NVME,
            (DiskBus::Ahci, _) => SATA,
            (DiskBus::Nvme, Firmware::Bios) => {
                sink.warn(
                    "the OVA names a SATA controller: VMware's BIOS does not boot from NVMe, \
                     and this image's Windows may not boot from SATA",
                );
                SATA
            }
            (DiskBus::Virtio, _) => {
                sink.warn(
                    "the OVA names a SATA controller: VMware has no virtio disk, and this image's \
                     Windows may not boot from SATA; build with disk_bus = \"nvme\" or \"ahci\"",
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

/// Returns VMware's guest OS type, which by design names the previous release.
fn os_type(release: WindowsRelease) -> &'static str {
    match release {
        WindowsRelease::Server2019 => "windows2019srv_64Guest",
        WindowsRelease::Server2022 => "windows2019srvNext_64Guest",
        WindowsRelease::Server2025 => "windows2022srvNext_64Guest",
    }
}

/// The disk in the descriptor. All numbers are bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OvfDiskInfo {
    pub file: String,
    pub file_bytes: u64,
    pub capacity: u64,
    pub populated: u64,
}

pub fn render(job: &ExportJob<'_>, hardware: &OvfHardware, disc: &OvfDiskInfo) -> Result<String> {
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
        "properties": list_properties(job),
    });
    fill(include_str!("ovf.xml"), escape_xml, &values)
}

/// Returns image-builder's build keys, then the recipe's properties.
fn list_properties(job: &ExportJob<'_>) -> Vec<(String, String)> {
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

/// Parses the file size, capacity and populated size from a descriptor.
pub fn parse_sizes(ovf: &str) -> Result<(u64, u64, u64)> {
    let xml = roxmltree::Document::parse(ovf)
        .map_err(|e| Error::new(Kind::Export, "the OVA's descriptor is not XML").because(e))?;
    Ok((
        parse_number(&xml, "File", "size")?,
        parse_number(&xml, "Disk", "capacity")?,
        parse_number(&xml, "Disk", "populatedSize")?,
    ))
}

fn parse_number(xml: &roxmltree::Document<'_>, element: &str, attribute: &str) -> Result<u64> {
    const OVF: &str = "http://schemas.dmtf.org/ovf/envelope/1";
    xml.descendants()
        .find(|n| n.has_tag_name((OVF, element)))
        .and_then(|n| n.attribute((OVF, attribute)))
        .and_then(|v| v.parse().ok())
        .ok_or_else(|| {
            let fact = format!("the OVA's descriptor has no {attribute}");
            Error::new(Kind::Export, fact)
        })
}
