//! A target's machine as QEMU has it: what of it a clone gets, and what is said of the rest.

use winimg::trial::hardware::{self, MachineExtras, TrialHardware};
use winimg_recipe::target::{self, Presence, TargetSpec};
use winimg_recipe::{Firmware, ReadOptions};

const BOTH: MachineExtras = MachineExtras {
    secure_boot: true,
    tpm: true,
};

fn proxmox() -> TargetSpec {
    let (targets, problems) = target::load_all(&ReadOptions {
        search: vec![support::tree::root().join("recipes")],
        ..ReadOptions::default()
    });
    assert!(problems.0.is_empty(), "{problems:?}");
    let found = targets.into_iter().find(|t| t.name == "proxmox");
    found.expect("one of winimg's own")
}

/// With this TPM and this Secure Boot.
fn on(
    tpm: Presence,
    secure_boot: Presence,
    firmware: Firmware,
    built: MachineExtras,
) -> TrialHardware {
    let mut target = proxmox();
    target.hardware.tpm = tpm;
    target.hardware.secure_boot = secure_boot;
    target.hardware.firmware = vec![Firmware::Uefi, Firmware::Bios];
    hardware::on_qemu(&target, firmware, built).expect("a machine")
}

#[test]
fn a_clone_has_what_its_target_requires_and_of_the_optional_what_the_build_had() {
    use Presence::{None, Optional, Required};
    let nothing = MachineExtras::default();
    let tpm = "the clone had no TPM, which machines of `proxmox` may have";
    let secure_boot = "the clone had no Secure Boot, which machines of `proxmox` may have";
    for (wanted, built, has, remarks) in [
        (Required, nothing, true, vec![]),
        (Required, BOTH, true, vec![]),
        (Optional, nothing, false, vec![tpm, secure_boot]),
        (Optional, BOTH, true, vec![]),
        (None, nothing, false, vec![]),
        (None, BOTH, false, vec![]),
    ] {
        let found = on(wanted, wanted, Firmware::Uefi, built);
        let shown = (found.tpm, found.secure_boot, found.remarks);
        let remarks = remarks.into_iter().map(String::from).collect();
        assert_eq!(shown, (has, has, remarks), "{wanted:?}, {built:?}");
    }
    let tpm_alone = MachineExtras {
        tpm: true,
        ..nothing
    };
    let found = on(Optional, Optional, Firmware::Uefi, tpm_alone);
    assert_eq!((found.tpm, found.secure_boot), (true, false));
    assert_eq!(found.remarks, [secure_boot]);
}

#[test]
fn bios_has_neither() {
    use Presence::{Optional, Required};
    let found = on(Required, Optional, Firmware::Bios, BOTH);
    assert_eq!((found.tpm, found.secure_boot), (false, false));
    assert_eq!(found.remarks, ["the clone had no TPM"]);
}
