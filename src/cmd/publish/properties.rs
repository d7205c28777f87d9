//! What Nova has to know of an image, as properties in Glance: its firmware, the devices that it has drivers of, its clock.
//!
//! Pure. Says nothing of a device that the image's target does not name: Nova's own choice stands then. (openstack/glance:
//! etc/metadefs/compute-libvirt-image.json; OpenStack: useful image properties)

use std::collections::BTreeMap;

use crate::record::Manifest;
use winimg_recipe::plan::Check;
use winimg_recipe::recipe::target::{Controller, Form, Nic, Target};
use winimg_recipe::recipe::{Firmware, RegistryData, RegistryKey};

const CLOCK: RegistryKey =
    RegistryKey::known(r"HKLM\SYSTEM\CurrentControlSet\Control\TimeZoneInformation");

/// `targets`: all that are known.
pub fn of(manifest: &Manifest, targets: &[Target]) -> BTreeMap<String, String> {
    let mut all = vec![
        ("architecture", "x86_64".to_owned()),
        ("os_distro", "windows".to_owned()),
        ("winimg_build", manifest.windows.build.clone()),
    ];
    if !is_clock_utc(manifest) {
        // With it Nova gives the machine a clock in local time.
        all.push(("os_type", "windows".to_owned()));
    }
    if let Some(machine) = &manifest.machine {
        all.push(("hw_firmware_type", machine.firmware.word().to_owned()));
        if machine.firmware == Firmware::Uefi {
            all.push(("hw_machine_type", "q35".to_owned()));
        }
        if machine.secure_boot {
            all.push(("os_secure_boot", "optional".to_owned()));
        }
    }
    if let Some(target) = of_openstack(manifest, targets) {
        all.extend(disk(target.hardware.controller));
        all.extend(card(target.hardware.nic));
    }
    let owned = all
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    owned.collect()
}

/// The one of the image's targets whose machines are OpenStack's.
pub fn of_openstack<'t>(manifest: &Manifest, targets: &'t [Target]) -> Option<&'t Target> {
    let is_named = |target: &&Target| manifest.targets.contains(&target.name);
    let mut named = targets.iter().filter(is_named);
    named.find(|target| target.metadata.by == Form::OpenStack)
}

fn disk(controller: Controller) -> Vec<(&'static str, String)> {
    let bus = match controller {
        Controller::VirtioBlk => "virtio",
        Controller::Ahci => "sata",
        Controller::Ide => "ide",
        Controller::VirtioScsi => {
            let model = ("hw_scsi_model", "virtio-scsi".to_owned());
            return vec![("hw_disk_bus", "scsi".to_owned()), model];
        }
        Controller::LsiSas
        | Controller::Nvme
        | Controller::Pvscsi
        | Controller::VmbusNvme
        | Controller::VmbusScsi => {
            return Vec::new();
        }
    };
    vec![("hw_disk_bus", bus.to_owned())]
}

fn card(nic: Nic) -> Option<(&'static str, String)> {
    let model = match nic {
        Nic::Virtio => "virtio",
        Nic::E1000e => "e1000e",
        Nic::Vmxnet3 => "vmxnet3",
        Nic::Ena | Nic::Vmbus => return None,
    };
    Some(("hw_vif_model", model.to_owned()))
}

/// Whether a step of the recipe says that the hardware's clock is UTC. Of two that contradict each other the later one stands.
fn is_clock_utc(manifest: &Manifest) -> bool {
    let checks = manifest.steps.iter().flat_map(|step| &step.expects);
    let mut said = checks.filter_map(|check| match check {
        Check::Registry {
            key,
            value: Some(value),
            data,
        } if *key == CLOCK && value.eq_ignore_ascii_case("RealTimeIsUniversal") => Some(data),
        _ => None,
    });
    matches!(said.next_back(), Some(RegistryData::Dword(1)))
}
