//! The calls that make a machine, in their order, from a plan.
//!
//! Pure. Makes no disk and starts nothing. (Microsoft: Hyper-V module for Windows PowerShell.)

use std::path::Path;

use super::call::{Arg, Call};
use crate::vm::{MachinePlan, Start};
use winimg_recipe::recipe::Firmware;

/// What our machines' names begin with.
pub const NAME: &str = "winimg-";
/// What our machines' notes begin with; their run directory follows.
pub const NOTES: &str = "winimg: ";
/// Names of kept objects.
pub const VM: &str = "vm";
pub const DISK: &str = "disk";
pub const INSTALL: &str = "install";
pub const PAYLOAD: &str = "payload";

/// What is asked of a drive that was added.
pub const DRIVE: [&str; 2] = ["ControllerNumber", "ControllerLocation"];

/// The call that makes it. Its `Id` is what everything after it goes by.
pub fn create(plan: &MachinePlan, name: &str) -> Call {
    Call::new(r"Hyper-V\New-VM")
        .text("Name", name)
        .text("Path", path(&plan.run_dir))
        .number("MemoryStartupBytes", plan.memory)
        .number("Generation", generation(plan))
        .text("VHDPath", path(&plan.disk))
        .select(&["Id"])
        .keep(VM)
}

/// What its hardware is, but for drives. `checkpoints`: the host would make some by itself.
pub fn hardware(plan: &MachinePlan, name: &str, checkpoints: bool) -> Vec<Call> {
    let vm = |cmdlet| Call::new(cmdlet).kept("VM", VM);
    let notes = format!("{NOTES}{}", path(&plan.run_dir));
    let set = vm(r"Hyper-V\Set-VM").text("Notes", notes);
    let set = match checkpoints {
        true => set.flag("AutomaticCheckpointsEnabled", false),
        false => set,
    };
    let mut calls = vec![
        set.text("CheckpointType", "Disabled")
            .text("AutomaticStartAction", "Nothing")
            .text("AutomaticStopAction", "TurnOff")
            .on("StaticMemory"),
        vm(r"Hyper-V\Set-VMProcessor").number("Count", u64::from(plan.cpus)),
        vm(r"Hyper-V\Set-VMMemory").flag("DynamicMemoryEnabled", false),
        vm(r"Hyper-V\Remove-VMNetworkAdapter"),
    ];
    if plan.firmware == Firmware::Uefi {
        let firmware = vm(r"Hyper-V\Set-VMFirmware");
        calls.push(match plan.secure_boot {
            true => firmware
                .text("EnableSecureBoot", "On")
                .text("SecureBootTemplate", "MicrosoftWindows"),
            false => firmware.text("EnableSecureBoot", "Off"),
        });
    }
    if plan.tpm {
        // In this order: a TPM's state is kept by the protector's key (Microsoft: Set-VMKeyProtector, Enable-VMTPM).
        calls.push(vm(r"Hyper-V\Set-VMKeyProtector").on("NewLocalKeyProtector"));
        calls.push(vm(r"Hyper-V\Enable-VMTPM"));
    }
    calls.push(
        vm(r"Hyper-V\Set-VMComPort")
            .number("Number", 1)
            .text("Path", format!(r"\\.\pipe\{name}")),
    );
    calls
}

/// A new drive with this disc in it, or none.
pub fn add_drive(disc: Option<&Path>, keep: &'static str) -> Call {
    let call = Call::new(r"Hyper-V\Add-VMDvdDrive").kept("VM", VM);
    let call = match disc {
        Some(disc) => call.text("Path", path(disc)),
        None => call,
    };
    call.on("Passthru").select(&DRIVE).keep(keep)
}

/// Another disc for a drive, or none.
pub fn change_disc(drive: &'static str, disc: Option<&Path>) -> Call {
    let value = disc.map_or(Arg::Null, |disc| Arg::Text(path(disc)));
    Call::new(r"Hyper-V\Set-VMDvdDrive")
        .kept("VMDvdDrive", drive)
        .with("Path", value)
}

/// The disk first: it is blank, so the first boot falls through to the disc, and later ones never see its prompt.
pub fn boot_order(plan: &MachinePlan) -> Vec<Call> {
    let drives = match plan.start {
        Start::Install { .. } => vec![DISK, INSTALL],
        Start::Boot | Start::Clone { .. } => vec![DISK],
    };
    match plan.firmware {
        Firmware::Uefi => vec![
            Call::new(r"Hyper-V\Set-VMFirmware")
                .kept("VM", VM)
                .with("BootOrder", Arg::AllKept(drives)),
        ],
        Firmware::Bios => {
            let order = ["IDE", "CD", "LegacyNetworkAdapter", "Floppy"];
            let order = order.map(|device| serde_json::json!(device));
            vec![
                Call::new(r"Hyper-V\Set-VMBios")
                    .kept("VM", VM)
                    .with("StartupOrder", Arg::List(order.to_vec())),
            ]
        }
    }
}

pub fn generation(plan: &MachinePlan) -> u64 {
    match plan.firmware {
        Firmware::Uefi => 2,
        Firmware::Bios => 1,
    }
}

/// Paths are absolute and UTF-8: `HyperV::start` has seen to it.
pub fn path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::{Accel, Controller, Disc, Network};
    use std::time::Duration;
    use winimg_base::text::Secret;

    fn plan(firmware: Firmware, secure_boot: bool) -> MachinePlan {
        MachinePlan {
            name: "demo".into(),
            firmware,
            secure_boot,
            controller: Controller::VirtioBlk,
            disk: "/w/disk.vhdx".into(),
            room: 0,
            cpus: 2,
            memory: 4 << 30,
            network: Network::None,
            tpm: false,
            password: Secret::new("Open-Sesame-42!"),
            start: Start::Install {
                install_disc: Disc::raw(Path::new("/w/install.iso")),
                answer_disc: "/w/answer.iso".into(),
            },
            run_dir: "/w/run".into(),
            accel: Accel::Auto,
            timeout: Duration::from_secs(60),
            still_limit: Duration::from_secs(60),
        }
    }

    fn lines(plan: &MachinePlan) -> Vec<String> {
        let mut calls = vec![create(plan, "winimg-1")];
        calls.extend(hardware(plan, "winimg-1", true));
        calls.extend(boot_order(plan));
        calls.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_generation_2_machine_is_made_in_this_order() {
        assert_eq!(
            lines(&plan(Firmware::Uefi, true)),
            [
                r"Hyper-V\New-VM -Name winimg-1 -Path /w/run -MemoryStartupBytes 4294967296 -Generation 2 -VHDPath /w/disk.vhdx",
                r"Hyper-V\Set-VM -VM $vm -Notes 'winimg: /w/run' -AutomaticCheckpointsEnabled:$false -CheckpointType Disabled -AutomaticStartAction Nothing -AutomaticStopAction TurnOff -StaticMemory",
                r"Hyper-V\Set-VMProcessor -VM $vm -Count 2",
                r"Hyper-V\Set-VMMemory -VM $vm -DynamicMemoryEnabled:$false",
                r"Hyper-V\Remove-VMNetworkAdapter -VM $vm",
                r"Hyper-V\Set-VMFirmware -VM $vm -EnableSecureBoot On -SecureBootTemplate MicrosoftWindows",
                r"Hyper-V\Set-VMComPort -VM $vm -Number 1 -Path \\.\pipe\winimg-1",
                r"Hyper-V\Set-VMFirmware -VM $vm -BootOrder $disk,$install",
            ]
        );
    }

    #[test]
    fn a_generation_1_machine_has_a_bios_and_no_firmware() {
        let lines = lines(&plan(Firmware::Bios, false));
        assert!(lines.iter().all(|l| !l.contains("Firmware")), "{lines:#?}");
        assert_eq!(
            lines.last().map(String::as_str),
            Some(r"Hyper-V\Set-VMBios -VM $vm -StartupOrder @(IDE,CD,LegacyNetworkAdapter,Floppy)")
        );
    }

    #[test]
    fn a_tpm_has_its_key_before_it_is_there() {
        let plain = plan(Firmware::Uefi, true);
        let with = MachinePlan {
            tpm: true,
            ..plain.clone()
        };
        let (plain, with) = (lines(&plain), lines(&with));
        let added: Vec<&String> = with.iter().filter(|l| !plain.contains(l)).collect();
        assert_eq!(
            added,
            [
                r"Hyper-V\Set-VMKeyProtector -VM $vm -NewLocalKeyProtector",
                r"Hyper-V\Enable-VMTPM -VM $vm",
            ]
        );
        assert_eq!(with.len(), plain.len() + 2);
    }
}
