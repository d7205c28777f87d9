//! Glance image properties for Nova: firmware, devices that the image has drivers for, clock.
//!
//! Omits devices that the image's target does not specify: Nova chooses them.
//! (openstack/glance: etc/metadefs/compute-libvirt-image.json; OpenStack: useful image properties)

use std::collections::BTreeMap;

use super::super::{CommandContext, target_specs};
use crate::record::BuildManifest;
use winimg_base::error::Result;
use winimg_recipe::plan::ImageCheck;
use winimg_recipe::target::{MetadataForm, TargetController, TargetNic, TargetSpec};
use winimg_recipe::{Firmware, RegistryKey, RegistryValueData};

const CLOCK: RegistryKey =
    RegistryKey::from_static(r"HKLM\SYSTEM\CurrentControlSet\Control\TimeZoneInformation");

/// Returns the properties of an image, with a warning if no target names its devices.
pub fn read(
    manifest: &BuildManifest,
    context: &CommandContext,
) -> Result<BTreeMap<String, String>> {
    let targets = target_specs::read_targets(context)?;
    if find_openstack_target(manifest, &targets).is_none() {
        context.sink.warn(
            "the recipe names no OpenStack target: \
             the image is published without properties for disk bus and network adapter",
        );
    }
    Ok(collect(manifest, &targets))
}

/// Returns the properties. `targets` are all known targets.
fn collect(manifest: &BuildManifest, targets: &[TargetSpec]) -> BTreeMap<String, String> {
    let mut all = vec![
        ("architecture", "x86_64".to_owned()),
        ("os_distro", "windows".to_owned()),
        ("winimg_build", manifest.windows.build.clone()),
    ];
    if !is_clock_utc(manifest) {
        // Makes Nova set the VM's clock to local time.
        all.push(("os_type", "windows".to_owned()));
    }
    if let Some(machine) = &manifest.machine {
        all.push(("hw_firmware_type", machine.firmware.as_str().to_owned()));
        if machine.firmware == Firmware::Uefi {
            all.push(("hw_machine_type", "q35".to_owned()));
        }
        if machine.secure_boot {
            all.push(("os_secure_boot", "optional".to_owned()));
        }
    }
    if let Some(target) = find_openstack_target(manifest, targets) {
        all.extend(map_disk(target.hardware.controller));
        all.extend(map_card(target.hardware.nic));
    }
    all.into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Finds the image's OpenStack target.
fn find_openstack_target<'t>(
    manifest: &BuildManifest,
    targets: &'t [TargetSpec],
) -> Option<&'t TargetSpec> {
    targets
        .iter()
        .filter(|target| manifest.targets.contains(&target.name))
        .find(|target| target.metadata.by == MetadataForm::OpenStack)
}

fn map_disk(controller: TargetController) -> Vec<(&'static str, String)> {
    let bus = match controller {
        TargetController::VirtioBlk => "virtio",
        TargetController::Ahci => "sata",
        TargetController::Ide => "ide",
        TargetController::VirtioScsi => {
            let model = ("hw_scsi_model", "virtio-scsi".to_owned());
            return vec![("hw_disk_bus", "scsi".to_owned()), model];
        }
        TargetController::LsiSas
        | TargetController::Nvme
        | TargetController::Pvscsi
        | TargetController::VmbusNvme
        | TargetController::VmbusScsi => {
            return Vec::new();
        }
    };
    vec![("hw_disk_bus", bus.to_owned())]
}

fn map_card(nic: TargetNic) -> Option<(&'static str, String)> {
    let model = match nic {
        TargetNic::Virtio => "virtio",
        TargetNic::E1000e => "e1000e",
        TargetNic::Vmxnet3 => "vmxnet3",
        TargetNic::Ena | TargetNic::Vmbus => return None,
    };
    Some(("hw_vif_model", model.to_owned()))
}

/// Checks if the recipe's steps set the hardware clock to UTC. The last step that sets it decides.
fn is_clock_utc(manifest: &BuildManifest) -> bool {
    let last = manifest
        .steps
        .iter()
        .flat_map(|step| &step.expects)
        .filter_map(|check| match check {
            ImageCheck::Registry {
                key,
                value: Some(value),
                data,
            } if *key == CLOCK && value.eq_ignore_ascii_case("RealTimeIsUniversal") => Some(data),
            _ => None,
        })
        .next_back();
    matches!(last, Some(RegistryValueData::Dword(1)))
}
