//! `[machine]`: the VM that the image is built on.

use crate::fields::TableReader;
use crate::quantity::format_size;
use crate::{DiskBus, Firmware, MachineSpec, MediaSpec};
use winimg_base::diag::Diagnostic;
use winimg_base::text::Located;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Reads the machine; every key has a default.
pub fn read_machine(top: &TableReader<'_>, media: Option<&MediaSpec>) -> Option<MachineSpec> {
    let empty = Default::default();
    let fields = top.table_or("machine", &empty)?;
    let firmware = fields.read_choice("firmware");
    let secure_boot = fields.read_bool("secure_boot");
    let disk_bus = if fields.has("disk_bus") {
        fields.read_choice("disk_bus")
    } else {
        Some(usual_bus(&fields, media))
    };
    let disk_size = fields.size("disk_size");
    let cpus = fields.read_integer("cpus");
    let memory = fields.size("memory");
    let network = fields.read_bool("network");
    let tpm = fields.read_bool("tpm");
    check_bus(&fields, disk_bus.as_ref(), top, media);
    let firmware_is = firmware
        .as_ref()
        .map_or(Firmware::Uefi, |f: &Located<_>| f.value);
    let wants_uefi = [
        (
            "secure_boot",
            &secure_boot,
            "Secure Boot needs UEFI firmware",
        ),
        ("tpm", &tpm, "a virtual TPM needs UEFI firmware"),
    ];
    for (key, given, fact) in wants_uefi {
        if let Some(on) = given.as_ref().filter(|on| on.value)
            && firmware_is == Firmware::Bios
        {
            let help = format!("write `firmware = \"uefi\"`, or omit `{key}`");
            fields.cx.error(fact, &on.place, "", &help);
        }
    }
    let sized = check_sizes(&fields, disk_size.as_ref(), memory.as_ref(), firmware_is);
    let spec = MachineSpec {
        firmware: firmware?.value,
        secure_boot: secure_boot?.value,
        disk_bus: disk_bus?.value,
        disk_size: disk_size?.value,
        cpus: cpus?.value as u32,
        memory: memory?.value,
        network: network?.value,
        tpm: tpm?.value,
    };
    (fields.is_whole() && sized).then_some(spec)
}

fn usual_bus(fields: &TableReader<'_>, media: Option<&MediaSpec>) -> Located<DiskBus> {
    let (bus, shown) = if media.is_some_and(|m| m.virtio.is_some()) {
        (DiskBus::Virtio, "\"virtio\"")
    } else {
        (DiskBus::Nvme, "\"nvme\"")
    };
    fields.cx.default("machine.disk_bus", shown);
    Located::new(bus, fields.place.clone())
}

/// Complains about a virtio disk without the virtio media: Windows has no virtio driver of its own.
fn check_bus(
    fields: &TableReader<'_>,
    bus: Option<&Located<DiskBus>>,
    top: &TableReader<'_>,
    media: Option<&MediaSpec>,
) {
    let Some(bus) = bus.filter(|b| b.value == DiskBus::Virtio) else {
        return;
    };
    let tree = top.table.get("media").and_then(|m| m.as_table());
    let named = tree.is_some_and(|m| m.contains("virtio")) || tree.is_none();
    if media.is_none_or(|m| m.virtio.is_none()) && !named {
        let fact = "Windows Setup cannot use a virtio disk without its driver";
        let help = "add the virtio-win ISO under `[media.virtio]`, or write `disk_bus = \"nvme\"`";
        fields.cx.report_missing(fact, &bus.place, help);
    }
}

fn check_sizes(
    fields: &TableReader<'_>,
    disk: Option<&Located<u64>>,
    memory: Option<&Located<u64>>,
    firmware: Firmware,
) -> bool {
    let mut is_valid = true;
    for (key, size) in [("disk_size", disk), ("memory", memory)] {
        if let Some(size) = size
            && (size.value == 0 || !size.value.is_multiple_of(MIB))
        {
            let fact = format!("`{key}` is not a whole number of MiB");
            let help = "write it in MiB or GiB";
            fields.cx.error(fact, &size.place, "", help);
            is_valid = false;
        }
    }
    if let Some(disk) = disk {
        if firmware == Firmware::Bios && disk.value > 2048 * GIB {
            let fact = "BIOS firmware needs an MBR disk of at most 2 TiB";
            let help = "write `firmware = \"uefi\"`, or use a smaller disk";
            fields.cx.error(fact, &disk.place, "", help);
            is_valid = false;
        } else if disk.value < 32 * GIB {
            warn(
                fields,
                disk,
                "Windows Server needs a disk of 32 GiB or more",
            );
        }
    }
    if let Some(memory) = memory.filter(|m| m.value < 2 * GIB) {
        warn(
            fields,
            memory,
            "Windows Setup needs 2 GiB of memory or more",
        );
    }
    is_valid
}

fn warn(fields: &TableReader<'_>, size: &Located<u64>, fact: &str) {
    let label = format!("{} here", format_size(size.value));
    fields
        .cx
        .report(Diagnostic::warning(fact).at(&size.place, label));
}
