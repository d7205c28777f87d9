//! Hyper-V's row in the table of hypervisors. Its machines need no further drivers and no agent:
//! Windows includes the drivers, and PowerShell Direct logs on (Microsoft: PowerShell Direct;
//! Generation 2 virtual machine security settings for Hyper-V).

use std::path::Path;

use super::{HyperVHypervisor, doctor};
use crate::vm::platform::{PlatformSpec, PlatformWording, Refusal};
use winimg_base::error::Result;
use winimg_base::io;
use winimg_formats::disk::MachineDiskFormat;
use winimg_formats::iso::{self, BootMedium, CdImage};
use winimg_recipe::plan;
use winimg_recipe::{Firmware, MachineSpec};

pub const PLATFORM: PlatformSpec = PlatformSpec {
    name: "hyperv",
    title: "Hyper-V",
    disk_form: MachineDiskFormat::Vhdx,
    needs_virtio: false,
    kept_password: Some("hyperv-password"),
    // It emulates no other platform's hardware and no isolated network with that platform's
    // addresses.
    clone_refusal: Some((
        "clones can only be started with QEMU, not with Hyper-V",
        "try the image on a host with QEMU",
    )),
    open: |_| Ok(Box::new(HyperVHypervisor::find()?)),
    inspect_host: doctor::inspect_host,
    find_refusals,
    find_missing_agent: |_| None,
    find_lockouts: plan::shut_out,
    prepare_medium,
    wording: PlatformWording {
        expected: "Windows to continue without input and to accept PowerShell Direct sessions",
        stuck_boot: "Windows does not start: it is stuck at a screen and accepts no session",
        stuck_steps: "Windows is stuck at a screen and no longer accepts sessions",
        restart_cause: None,
        no_contact: None,
    },
};

/// Copies the medium: Hyper-V accepts only plain ISOs, by file name extension.
fn prepare_medium(iso: &Path, firmware: Firmware, folder: &Path) -> Result<BootMedium> {
    let copy = folder.join("install.iso");
    match firmware {
        Firmware::Bios => {
            io::copy(iso, &copy)?;
            Ok(BootMedium {
                disc: CdImage::raw(&copy),
                remark: None,
            })
        }
        Firmware::Uefi => iso::copy_without_prompt(iso, &copy),
    }
}

fn find_refusals(spec: &MachineSpec) -> Vec<Refusal> {
    let bios = spec.firmware == Firmware::Bios;
    let rows = [
        (
            spec.network,
            "winimg builds Hyper-V machines without a network",
            "set network = false: steps get their files from the payload disc",
        ),
        (
            bios && spec.secure_boot,
            "Secure Boot needs a generation 2 machine",
            "set firmware = \"uefi\", or secure_boot = false",
        ),
        (
            bios && spec.tpm,
            "a TPM needs a generation 2 machine",
            "set firmware = \"uefi\", or tpm = false",
        ),
    ];
    let refused = rows.into_iter().filter(|(is_so, _, _)| *is_so);
    refused.map(|(_, fact, cure)| (fact, cure)).collect()
}
