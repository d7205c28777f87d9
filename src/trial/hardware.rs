//! A target's hardware as QEMU has it.
//!
//! Pure. What QEMU or its firmware lacks is replaced by what every Windows starts from without a driver, and that is said: such a
//! trial shows nothing of the device that it stands for.

use winimg_base::error::{Error, Kind, Result};
use winimg_machine::vm;
use winimg_recipe::recipe::Firmware;
use winimg_recipe::recipe::target::{self, Controller, Nic, Presence, Target};

/// The machine that a clone is tried on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hardware {
    pub firmware: Firmware,
    pub secure_boot: bool,
    pub tpm: bool,
    pub controller: Controller,
    pub nic: Nic,
    /// What it has not, or has another of, than the target's machines.
    pub remarks: Vec<String>,
}

/// What a machine may have or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    pub secure_boot: bool,
    pub tpm: bool,
}

/// For an image that starts from this firmware. `built`: what the machine had that it was built on, where that is known: a clone has it too
/// where the target's machines may.
pub fn on_qemu(target: &Target, firmware: Firmware, built: Extras) -> Result<Hardware> {
    let wanted = &target.hardware;
    if !wanted.firmware.contains(&firmware) {
        let all: Vec<&str> = wanted.firmware.iter().map(|f| f.word()).collect();
        let fact = format!("the image does not start on a machine of `{}`", target.name);
        return Err(Error::new(Kind::Trial, fact)
            .expected(format!("an image for the firmware {}", all.join(" or ")))
            .found(format!("an image for {}", firmware.word()))
            .cure("build it with the target's `firmware` under `[machine]`"));
    }
    let mut remarks = Vec::new();
    let starts = |c: vm::Controller| c.starts_under(firmware);
    let controller = match controller(wanted.controller).is_some_and(starts) {
        true => wanted.controller,
        false => {
            let wanted = target::word(&wanted.controller);
            remarks.push(format!(
                "QEMU does not start from {wanted}: the clone's disk was on AHCI"
            ));
            Controller::Ahci
        }
    };
    let nic = match nic(wanted.nic) {
        Some(_) => wanted.nic,
        None => {
            let wanted = target::word(&wanted.nic);
            remarks.push(format!(
                "QEMU has no network card {wanted}: the clone's was e1000e"
            ));
            Nic::E1000e
        }
    };
    let mut has = |what: &str, wanted: Presence, built: bool| {
        match (wanted, firmware) {
            (Presence::Required, Firmware::Uefi) => return true,
            (Presence::Optional, Firmware::Uefi) if built => return true,
            (Presence::Required, Firmware::Bios) => {
                remarks.push(format!("the clone had no {what}"));
            }
            (Presence::Optional, Firmware::Uefi) => remarks.push(format!(
                "the clone had no {what}, which machines of `{}` may have",
                target.name
            )),
            (Presence::Optional, Firmware::Bios) | (Presence::None, _) => {}
        }
        false
    };
    let tpm = has("TPM", wanted.tpm, built.tpm);
    let secure_boot = has("Secure Boot", wanted.secure_boot, built.secure_boot);
    Ok(Hardware {
        firmware,
        secure_boot,
        tpm,
        controller,
        nic,
        remarks,
    })
}

impl Hardware {
    pub fn machine_controller(&self) -> vm::Controller {
        controller(self.controller).unwrap_or(vm::Controller::Ahci)
    }

    pub fn machine_nic(&self) -> vm::Nic {
        nic(self.nic).unwrap_or(vm::Nic::E1000e)
    }
}

fn controller(wanted: Controller) -> Option<vm::Controller> {
    Some(match wanted {
        Controller::Ahci => vm::Controller::Ahci,
        Controller::Ide => vm::Controller::Ide,
        Controller::LsiSas => vm::Controller::LsiSas,
        Controller::Nvme => vm::Controller::Nvme,
        Controller::Pvscsi => vm::Controller::Pvscsi,
        Controller::VirtioBlk => vm::Controller::VirtioBlk,
        Controller::VirtioScsi => vm::Controller::VirtioScsi,
        Controller::VmbusNvme | Controller::VmbusScsi => return None,
    })
}

fn nic(wanted: Nic) -> Option<vm::Nic> {
    Some(match wanted {
        Nic::E1000e => vm::Nic::E1000e,
        Nic::Virtio => vm::Nic::Virtio,
        Nic::Vmxnet3 => vm::Nic::Vmxnet3,
        Nic::Ena | Nic::Vmbus => return None,
    })
}
