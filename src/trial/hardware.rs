//! Maps a target's hardware to QEMU.
//!
//! Pure. A device that QEMU cannot emulate or boot from is replaced by one that every Windows
//! supports without a driver. `remarks` says so, because such a trial does not test the original
//! device.

use winimg_base::error::{Error, Kind, Result};
use winimg_machine::vm;
use winimg_recipe::Firmware;
use winimg_recipe::target::{self, Presence, TargetController, TargetNic, TargetSpec};

/// The VM of a clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialHardware {
    pub firmware: Firmware,
    pub secure_boot: bool,
    pub tpm: bool,
    pub controller: TargetController,
    pub nic: TargetNic,
    /// Sentences about the differences between the VM and the target's machines.
    pub remarks: Vec<String>,
}

/// Optional features of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineExtras {
    pub secure_boot: bool,
    pub tpm: bool,
}

/// Chooses the hardware for an image with this firmware. `built`: the extras of the build VM
/// (default: none). The clone gets them too if the target allows it.
pub fn on_qemu(
    target: &TargetSpec,
    firmware: Firmware,
    built: MachineExtras,
) -> Result<TrialHardware> {
    let wanted = &target.hardware;
    if !wanted.firmware.contains(&firmware) {
        let all: Vec<&str> = wanted.firmware.iter().map(|f| f.as_str()).collect();
        let fact = format!(
            "machines of `{}` do not boot this image's firmware type",
            target.name
        );
        return Err(Error::new(Kind::Trial, fact)
            .expected(format!("an image for the firmware {}", all.join(" or ")))
            .found(format!("an image for {}", firmware.as_str()))
            .cure("build it with the target's `firmware` under `[machine]`"));
    }
    let mut remarks = Vec::new();
    let boots = map_controller(wanted.controller).is_some_and(|c| c.starts_under(firmware));
    let controller = if boots {
        wanted.controller
    } else {
        let wanted = target::serialized_name(&wanted.controller);
        remarks.push(format!(
            "QEMU cannot boot from {wanted}; the trial used AHCI instead"
        ));
        TargetController::Ahci
    };
    let nic = match map_nic(wanted.nic) {
        Some(_) => wanted.nic,
        None => {
            let wanted = target::serialized_name(&wanted.nic);
            remarks.push(format!(
                "QEMU does not emulate the NIC {wanted}; the trial used e1000e instead"
            ));
            TargetNic::E1000e
        }
    };
    let mut tpm = false;
    let mut secure_boot = false;
    for (feature, presence, in_build, enabled) in [
        ("TPM", wanted.tpm, built.tpm, &mut tpm),
        (
            "Secure Boot",
            wanted.secure_boot,
            built.secure_boot,
            &mut secure_boot,
        ),
    ] {
        match (presence, firmware) {
            (Presence::Required, Firmware::Uefi) => *enabled = true,
            (Presence::Optional, Firmware::Uefi) if in_build => *enabled = true,
            (Presence::Required, Firmware::Bios) => {
                remarks.push(format!("the clone had no {feature}"));
            }
            (Presence::Optional, Firmware::Uefi) => remarks.push(format!(
                "the clone had no {feature}, which machines of `{}` may have",
                target.name
            )),
            (Presence::Optional, Firmware::Bios) | (Presence::None, _) => {}
        }
    }
    Ok(TrialHardware {
        firmware,
        secure_boot,
        tpm,
        controller,
        nic,
        remarks,
    })
}

impl TrialHardware {
    pub fn machine_controller(&self) -> vm::StorageController {
        map_controller(self.controller).unwrap_or(vm::StorageController::Ahci)
    }

    pub fn machine_nic(&self) -> vm::NicModel {
        map_nic(self.nic).unwrap_or(vm::NicModel::E1000e)
    }
}

fn map_controller(wanted: TargetController) -> Option<vm::StorageController> {
    Some(match wanted {
        TargetController::Ahci => vm::StorageController::Ahci,
        TargetController::Ide => vm::StorageController::Ide,
        TargetController::LsiSas => vm::StorageController::LsiSas,
        TargetController::Nvme => vm::StorageController::Nvme,
        TargetController::Pvscsi => vm::StorageController::Pvscsi,
        TargetController::VirtioBlk => vm::StorageController::VirtioBlk,
        TargetController::VirtioScsi => vm::StorageController::VirtioScsi,
        TargetController::VmbusNvme | TargetController::VmbusScsi => return None,
    })
}

fn map_nic(wanted: TargetNic) -> Option<vm::NicModel> {
    Some(match wanted {
        TargetNic::E1000e => vm::NicModel::E1000e,
        TargetNic::Virtio => vm::NicModel::Virtio,
        TargetNic::Vmxnet3 => vm::NicModel::Vmxnet3,
        TargetNic::Ena | TargetNic::Vmbus => return None,
    })
}
