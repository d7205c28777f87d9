//! Calls that create a machine from a plan, in order.
//!
//! Pure. Creates no disk and starts nothing. (Microsoft: Hyper-V module for Windows PowerShell.)

use std::path::Path;

use super::call::{CallArgument, CmdletCall};
use crate::vm::{MachinePlan, StartMode};
use winimg_recipe::Firmware;

/// Prefix of our machines' names.
pub const NAME: &str = "winimg-";
/// Prefix of our machines' notes, before the run directory.
pub const NOTES: &str = "winimg: ";
/// Names of kept objects.
pub const VM: &str = "vm";
pub const DISK: &str = "disk";
pub const INSTALL: &str = "install";
pub const PAYLOAD: &str = "payload";

/// Properties that are selected from an added drive.
pub const DRIVE: [&str; 2] = ["ControllerNumber", "ControllerLocation"];

/// Returns the call that creates the machine. Later calls refer to its `Id`.
pub fn create(plan: &MachinePlan, name: &str) -> CmdletCall {
    CmdletCall::new(r"Hyper-V\New-VM")
        .with_text("Name", name)
        .with_text("Path", to_text(&plan.run_dir))
        .with_number("MemoryStartupBytes", plan.memory)
        .with_number("Generation", choose_generation(plan))
        .with_text("VHDPath", to_text(&plan.disk))
        .select(&["Id"])
        .keep(VM)
}

/// Returns the calls that configure the hardware, except drives. `checkpoints` is true if the host
/// would create checkpoints automatically.
pub fn configure_hardware(plan: &MachinePlan, name: &str, checkpoints: bool) -> Vec<CmdletCall> {
    let notes = format!("{NOTES}{}", to_text(&plan.run_dir));
    let set = on_vm(r"Hyper-V\Set-VM").with_text("Notes", notes);
    let set = if checkpoints {
        set.flag("AutomaticCheckpointsEnabled", false)
    } else {
        set
    };
    let mut calls = vec![
        set.with_text("CheckpointType", "Disabled")
            .with_text("AutomaticStartAction", "Nothing")
            .with_text("AutomaticStopAction", "TurnOff")
            .with_switch("StaticMemory"),
        on_vm(r"Hyper-V\Set-VMProcessor").with_number("Count", u64::from(plan.cpus)),
        on_vm(r"Hyper-V\Set-VMMemory").flag("DynamicMemoryEnabled", false),
        on_vm(r"Hyper-V\Remove-VMNetworkAdapter"),
    ];
    if plan.firmware == Firmware::Uefi {
        let firmware = on_vm(r"Hyper-V\Set-VMFirmware");
        calls.push(if plan.secure_boot {
            firmware
                .with_text("EnableSecureBoot", "On")
                .with_text("SecureBootTemplate", "MicrosoftWindows")
        } else {
            firmware.with_text("EnableSecureBoot", "Off")
        });
    }
    if plan.tpm {
        // In this order: the protector's key encrypts the TPM's state (Microsoft:
        // Set-VMKeyProtector, Enable-VMTPM).
        calls.push(on_vm(r"Hyper-V\Set-VMKeyProtector").with_switch("NewLocalKeyProtector"));
        calls.push(on_vm(r"Hyper-V\Enable-VMTPM"));
    }
    calls.push(
        on_vm(r"Hyper-V\Set-VMComPort")
            .with_number("Number", 1)
            .with_text("Path", format!(r"\\.\pipe\{name}")),
    );
    calls
}

/// Starts a call on the machine.
fn on_vm(cmdlet: &'static str) -> CmdletCall {
    CmdletCall::new(cmdlet).with_kept("VM", VM)
}

/// Returns the call that adds a drive with this disc, or an empty one.
pub fn add_drive(disc: Option<&Path>, keep: &'static str) -> CmdletCall {
    let call = CmdletCall::new(r"Hyper-V\Add-VMDvdDrive").with_kept("VM", VM);
    let call = match disc {
        Some(disc) => call.with_text("Path", to_text(disc)),
        None => call,
    };
    call.with_switch("Passthru").select(&DRIVE).keep(keep)
}

/// Returns the call that changes a drive's disc, or empties it.
pub fn change_disc(drive: &'static str, disc: Option<&Path>) -> CmdletCall {
    let value = disc.map_or(CallArgument::Null, |disc| CallArgument::Text(to_text(disc)));
    CmdletCall::new(r"Hyper-V\Set-VMDvdDrive")
        .with_kept("VMDvdDrive", drive)
        .with("Path", value)
}

/// Returns the calls that set the boot order. The disk comes first: it is blank, so the first boot
/// falls through to the disc, and later ones never show its prompt.
pub fn boot_order(plan: &MachinePlan) -> Vec<CmdletCall> {
    let drives = match plan.start {
        StartMode::Install { .. } => vec![DISK, INSTALL],
        StartMode::Boot | StartMode::Clone { .. } => vec![DISK],
    };
    match plan.firmware {
        Firmware::Uefi => vec![
            CmdletCall::new(r"Hyper-V\Set-VMFirmware")
                .with_kept("VM", VM)
                .with("BootOrder", CallArgument::AllKept(drives)),
        ],
        Firmware::Bios => {
            let order = ["IDE", "CD", "LegacyNetworkAdapter", "Floppy"];
            let order = order.map(|device| serde_json::json!(device));
            vec![
                CmdletCall::new(r"Hyper-V\Set-VMBios")
                    .with_kept("VM", VM)
                    .with("StartupOrder", CallArgument::List(order.to_vec())),
            ]
        }
    }
}

pub fn choose_generation(plan: &MachinePlan) -> u64 {
    match plan.firmware {
        Firmware::Uefi => 2,
        Firmware::Bios => 1,
    }
}

/// Converts a path, which is absolute and UTF-8: `HyperVHypervisor::start` checks that.
pub fn to_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::{Accel, CdImage, NetworkAccess, StorageController};
    use std::time::Duration;
    use winimg_base::text::Secret;

    fn plan(firmware: Firmware, secure_boot: bool) -> MachinePlan {
        MachinePlan {
            name: "demo".into(),
            firmware,
            secure_boot,
            controller: StorageController::VirtioBlk,
            disk: "/w/disk.vhdx".into(),
            room: 0,
            cpus: 2,
            memory: 4 << 30,
            network: NetworkAccess::None,
            tpm: false,
            password: Secret::new("Open-Sesame-42!"),
            start: StartMode::Install {
                install_disc: CdImage::raw(Path::new("/w/install.iso")),
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
        calls.extend(configure_hardware(plan, "winimg-1", true));
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
